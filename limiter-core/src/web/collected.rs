//! The limits that one request meets, wherever in its task it meets them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::futures::TaskLocalFuture;

use super::fields::Met;
use crate::{Decision, Rule};

/// Stays false in a program that shows no fields, and spares its calls the look at the task.
static COLLECTING: AtomicBool = AtomicBool::new(false);

pub(crate) type Collection = RefCell<Vec<Met>>;

tokio::task_local! {
    static COLLECTION: Collection;
}

/// Makes [`RateLimitFields`](super::RateLimitFields) show a limit that was checked without the annotation.
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{Limiter, LocalLimiter, Rejected, Rule};
///
/// async fn within(limiter: &LocalLimiter, plan: &Rule, user: &str) -> Result<(), Rejected> {
///     let decision = limiter.check(plan, user, 1).await;
///     limiter::web::met(plan, &decision);
///     decision.into_result(plan).map(|_| ())
/// }
/// ```
pub fn met(rule: &Rule, decision: &Decision) {
    if is_collecting() {
        note(|| Met::new(rule, decision));
    }
}

/// Remembers a limit for the response of the request that this task answers, if somebody collects them.
pub(crate) fn note(limit: impl FnOnce() -> Met) {
    let _ = COLLECTION.try_with(|collection| {
        let (limit, mut collection) = (limit(), collection.borrow_mut());
        if !collection.iter_mut().any(|known| known.absorb(&limit)) {
            collection.push(limit);
        }
    });
}

/// A future whose limits are collected.
pub(crate) fn collect<F: Future>(future: F) -> TaskLocalFuture<Collection, F> {
    COLLECTING.store(true, Ordering::Relaxed);
    COLLECTION.scope(Collection::default(), future)
}

/// The limits that a future met, which those around it hear of as well.
pub(crate) fn finish(collection: Option<Collection>) -> Vec<Met> {
    let met = collection.map(RefCell::into_inner).unwrap_or_default();
    for limit in &met {
        note(|| limit.clone());
    }
    met
}

/// Whether somebody collects the limits that this task meets.
#[inline]
pub(crate) fn is_collecting() -> bool {
    // Whoever collects has set it in the very task that looks here.
    COLLECTING.load(Ordering::Relaxed) && COLLECTION.try_with(|_| ()).is_ok()
}
