//! Counters that many threads count in.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::{Counts, DecidedBy, Decision};

/// How the calls of a site fared.
///
/// Each thread counts in a stripe of its own, as long as there are enough, so that threads do not wait for each other's
/// cache line.
pub(crate) struct Counters {
    stripes: [Stripe; STRIPES],
}

#[repr(align(64))]
struct Stripe {
    passed: AtomicU64,
    rejected: AtomicU64,
    waited: AtomicU64,
    degraded: AtomicU64,
}

const STRIPES: usize = 8;

impl Counters {
    pub(crate) const fn new() -> Self {
        Self {
            stripes: [const {
                Stripe {
                    passed: AtomicU64::new(0),
                    rejected: AtomicU64::new(0),
                    waited: AtomicU64::new(0),
                    degraded: AtomicU64::new(0),
                }
            }; STRIPES],
        }
    }

    /// Counts a call that went at once.
    #[inline]
    pub(crate) fn count_passed(&self) {
        self.stripe().passed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, decision: &Decision) {
        let stripe = self.stripe();
        let outcome = if decision.is_allowed() { &stripe.passed } else { &stripe.rejected };
        outcome.fetch_add(1, Ordering::Relaxed);
        if !decision.delay().is_zero() {
            stripe.waited.fetch_add(1, Ordering::Relaxed);
        }
        if decision.decided_by() == DecidedBy::Degraded {
            stripe.degraded.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_to(&self, counts: Counts) -> Counts {
        let sum = |so_far: u64, counter: fn(&Stripe) -> &AtomicU64| {
            so_far + self.stripes.iter().map(|stripe| counter(stripe).load(Ordering::Relaxed)).sum::<u64>()
        };
        Counts {
            passed: sum(counts.passed, |stripe| &stripe.passed),
            rejected: sum(counts.rejected, |stripe| &stripe.rejected),
            waited: sum(counts.waited, |stripe| &stripe.waited),
            degraded: sum(counts.degraded, |stripe| &stripe.degraded),
        }
    }

    #[inline]
    fn stripe(&self) -> &Stripe {
        &self.stripes[own_stripe() % STRIPES]
    }
}

/// Threads take turns in getting a number.
#[inline]
fn own_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // While a thread ends, any stripe will do.
    OWN.try_with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        own.get()
    })
    .unwrap_or(0)
}
