//! What the annotation expands to calls of. Not part of the public interface.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use std::result::Result::{Err, Ok};
pub use std::{boxed::Box, concat, convert::identity, module_path, unreachable};

pub use inventory::submit;

use crate::installed::{self, Current};
use crate::limiter::Answer;
use crate::rule::least_capacity;
use crate::site;
pub use crate::site::Registered;
use crate::site::{Mode, Options, Store};
pub use crate::{
    Call, Cost, Decision, FromRejected, Key, LimitKey, OnError, Quota, Rejected, Rule, Site, Strategy,
};

/// Permits per window, of which the annotation knows the milliseconds.
#[track_caller]
pub const fn quota(permits: u64, window_millis: u64) -> Quota {
    Quota::new(permits, Duration::from_millis(window_millis))
}

/// A number of permits that is a constant: from 1 to `most`, or one of two texts says what is wrong.
#[track_caller]
pub const fn positive(number: i128, most: u64, zero: &str, large: &str) -> u64 {
    assert!(number > 0, "{}", zero);
    assert!(number <= most as i128, "{}", large);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 1 to a u64")]
    return number as u64;
}

/// The cost of a call where it is a constant: no call may cost more than there ever is.
#[track_caller]
pub const fn affordable(quotas: &[Quota], cost: i128) -> u64 {
    assert!(
        0 <= cost && cost <= least_capacity(quotas) as i128,
        "\"cost\" is above the permits that ever exist; raise \"qps\" or lower \"cost\""
    );
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to a u64")]
    return cost as u64;
}

/// Asks whether this call of an async function may go. The key is read at once, and not held.
pub fn enter<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: impl Cost) -> Entering {
    site::sites();
    let limiter = installed::current();
    let Options { longest_wait, store, on_error, .. } = *site.options();
    let (rule, key, cost) = (site.rule(), &Key::of(key), cost.permits());
    let answer = match store {
        Store::Local => Answer::now(limiter.local().decide_sync(rule, key, cost, longest_wait)),
        Store::Installed => limiter.decide(Call { rule, key, cost, longest_wait, on_error }),
    };
    match answer.known() {
        Ok(decision) if decision.delay().is_zero() => Entering::Now(Some(site.settle(decision))),
        Ok(decision) => Entering::Later(Box::pin(wait(site, limiter, Answer::now(decision)))),
        Err(answer) => Entering::Later(Box::pin(wait(site, limiter, answer))),
    }
}

async fn wait(site: &'static Site, limiter: Current, answer: Answer<Decision>) -> Result<Decision, Rejected> {
    let decision = answer.await;
    let settled = site.settle(decision);
    if !decision.delay().is_zero() && site.options().mode == Mode::Enforce {
        match site.options().store {
            Store::Installed => limiter.turn(&decision).await,
            Store::Local => crate::Limiter::turn(limiter.local(), &decision).await,
        }
    }
    settled
}

/// Asks whether this call of a function that is not async may go.
pub fn enter_sync<K: LimitKey + ?Sized>(
    site: &'static Site,
    key: &K,
    cost: impl Cost,
) -> Result<Decision, Rejected> {
    site::sites();
    let limiter = installed::current();
    let decision = limiter.local().decide_sync(site.rule(), &Key::of(key), cost.permits(), Duration::ZERO);
    site.settle(decision)
}

/// A call of an async function on its way to a decision; it allocates only where it has to wait.
pub enum Entering {
    Now(Option<Result<Decision, Rejected>>),
    Later(Pin<Box<dyn Future<Output = Result<Decision, Rejected>> + Send>>),
}

impl Future for Entering {
    type Output = Result<Decision, Rejected>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(settled) => Poll::Ready(settled.take().expect("a call is settled once")),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// The return type's own answer to a rejected call.
pub fn from_rejected<T: FromRejected>(rejected: Rejected) -> T {
    T::from_rejected(rejected)
}

/// What a fallback returned: the answer, or a future of it. The compiler finds out which.
///
/// `(&answered).kind()` is [`FutureAnswer`]'s where the value is a future, since that needs no further reference, and
/// else [`ValueAnswer`]'s.
pub struct Answered<T>(pub T);

/// The fallback is async.
pub trait FutureAnswer {
    fn kind(&self) -> IsFuture {
        IsFuture
    }
}

impl<F: Future> FutureAnswer for Answered<F> {}

/// The fallback is not async.
pub trait ValueAnswer {
    fn kind(&self) -> IsValue {
        IsValue
    }
}

impl<T> ValueAnswer for &Answered<T> {}

pub struct IsFuture;

impl IsFuture {
    pub fn resolve<F: Future>(self, answered: Answered<F>) -> F {
        answered.0
    }
}

pub struct IsValue;

impl IsValue {
    pub fn resolve<T>(self, answered: Answered<T>) -> Ready<T> {
        ready(answered.0)
    }
}
