//! What those who run a service see of the annotated calls: fields of responses, events, measures. Each is a feature, and
//! without any of them nothing of this is left.

#[cfg(feature = "tracing")]
mod events;
#[cfg(feature = "metrics")]
mod measures;

use std::pin::Pin;

#[cfg(feature = "tracing")]
pub use events::trace_keys;
#[cfg(feature = "metrics")]
pub(crate) use measures::Measures;
#[cfg(feature = "metrics")]
pub use measures::describe_metrics;

use crate::installed::Current;
use crate::limiter::Answer;
use crate::{Decision, Key, Site};

/// Whether somebody wants to hear of the calls that go at once, too, or of keys as they were written.
#[inline]
pub(crate) fn sees_all_calls() -> bool {
    #[cfg(feature = "web")]
    if crate::web::collected::is_collecting() {
        return true;
    }
    #[cfg(feature = "tracing")]
    if events::keys_are_shown() {
        return true;
    }
    cfg!(feature = "metrics")
}

/// Whether somebody may want to hear of rejected calls.
pub(crate) const HEARS_OF_REJECTIONS: bool =
    cfg!(any(feature = "metrics", feature = "tracing", feature = "web"));

/// One annotated call.
pub(crate) struct Observed {
    /// The key as text, where somebody asked to see it.
    #[cfg(feature = "tracing")]
    key: Option<String>,
}

#[cfg_attr(
    not(feature = "tracing"),
    expect(clippy::unused_self, reason = "a call without events has nothing to tell")
)]
#[cfg_attr(
    not(all(feature = "metrics", feature = "tracing")),
    expect(unused_variables, reason = "what is not observed is not looked at")
)]
impl Observed {
    pub(crate) fn new(key: &Key) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            key: events::shown(key),
        }
    }

    /// Whose key nobody asked to see.
    pub(crate) fn unseen() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            key: None,
        }
    }

    /// The call has its decision.
    pub(crate) fn settled(&self, site: &'static Site, limiter: &Current, decision: &Decision) {
        #[cfg(feature = "web")]
        if site.options().mode == crate::site::Mode::Enforce {
            crate::web::met(site.rule(), decision);
        }
        #[cfg(feature = "tracing")]
        if !decision.is_allowed() {
            events::rejected(site, decision, self.key.as_deref());
        }
        #[cfg(feature = "metrics")]
        site.measures.settled(site.rule(), limiter, decision);
    }
}

/// The answer of a limiter that is not known at once.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "nobody measures"))]
pub(crate) async fn answer(site: &'static Site, answer: Answer<Decision>) -> Decision {
    #[cfg(feature = "metrics")]
    let asked = std::time::Instant::now();
    let decision = answer.await;
    #[cfg(feature = "metrics")]
    site.measures.answered(site.rule(), &decision, asked.elapsed());
    decision
}

/// The turn of a call that waits.
#[cfg_attr(
    not(any(feature = "metrics", feature = "tracing")),
    expect(unused_variables, reason = "nobody watches")
)]
pub(crate) async fn turn(
    site: &'static Site,
    decision: &Decision,
    turn: Pin<Box<dyn Future<Output = ()> + Send>>,
) {
    #[cfg(feature = "metrics")]
    site.measures.waits(site.rule(), decision.delay());
    #[cfg(feature = "tracing")]
    let turn = tracing::Instrument::instrument(turn, events::waiting(site, decision));
    turn.await;
}
