//! Whether a server answers, and what happens while it does not.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How a server has been lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It answers.
    Up,
    /// A connection is being made for the first time since the last one broke; calls wait for it, up to their time.
    Connecting,
    /// It does not answer: calls are answered by their `on_error` at once, until a probe in the background succeeds.
    Down,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Connecting => "connecting",
            Self::Down => "down",
        })
    }
}

/// After so many calls in a row that ran out of time, a server counts as down.
const MOST_LATE: u32 = 5;

/// What callers and the task that talks to a server know of it together: the breaker.
#[derive(Clone)]
pub(super) struct Breaker {
    shared: Arc<Shared>,
}

struct Shared {
    health: AtomicU8,
    /// Calls in a row that ran out of time.
    late: AtomicU32,
    place: String,
}

impl Breaker {
    pub(super) fn new(place: String) -> Self {
        let (health, late) = (AtomicU8::new(Health::Connecting as u8), AtomicU32::new(0));
        Self { shared: Arc::new(Shared { health, late, place }) }
    }

    pub(super) fn health(&self) -> Health {
        match self.shared.health.load(Ordering::Acquire) {
            up if up == Health::Up as u8 => Health::Up,
            connecting if connecting == Health::Connecting as u8 => Health::Connecting,
            _ => Health::Down,
        }
    }

    /// Where the server is, or how it is found.
    pub(super) fn place(&self) -> &str {
        &self.shared.place
    }

    /// It does not answer, and this is why.
    pub(super) fn down(&self, why: &dyn fmt::Display) {
        if self.shared.health.swap(Health::Down as u8, Ordering::AcqRel) != Health::Down as u8 {
            self.report_down(why);
        }
    }

    /// It answers, or a first attempt is made to connect to it again.
    pub(super) fn set(&self, health: Health) {
        let was_down = self.shared.health.swap(health as u8, Ordering::AcqRel) == Health::Down as u8;
        if health == Health::Up {
            // One that was down has to show that it answers calls, and not only probes.
            let late = if was_down { MOST_LATE - 1 } else { 0 };
            self.shared.late.store(late, Ordering::Relaxed);
            // A connection that broke and is made anew at once is nothing to speak of.
            if was_down {
                self.report_up();
            }
        }
    }

    /// A call was answered in time.
    pub(super) fn in_time(&self) {
        // Nothing is written where nothing was late, so that callers do not share a cache line for nothing.
        if self.shared.late.load(Ordering::Relaxed) > 0 {
            self.shared.late.store(0, Ordering::Relaxed);
        }
    }

    /// A call ran out of time. Returns whether that was one too many.
    pub(super) fn too_late(&self) -> bool {
        self.shared.late.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_LATE && self.health() != Health::Down
    }

    #[cfg(feature = "tracing")]
    fn report_down(&self, why: &dyn fmt::Display) {
        let server = self.place();
        tracing::warn!(target: "limiter", server, %why, "the shared limiter does not answer; calls go by their on_error");
    }

    #[cfg(feature = "tracing")]
    fn report_up(&self) {
        tracing::info!(target: "limiter", server = self.place(), "the shared limiter answers again");
    }

    #[cfg(not(feature = "tracing"))]
    #[expect(clippy::unused_self, reason = "there is nobody to tell")]
    fn report_down(&self, _: &dyn fmt::Display) {}

    #[cfg(not(feature = "tracing"))]
    #[expect(clippy::unused_self, reason = "there is nobody to tell")]
    fn report_up(&self) {}
}
