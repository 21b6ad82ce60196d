//! What the annotation expands to calls of. Not part of the public interface.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// For the guide, whose examples have no axum of their own.
#[cfg(feature = "axum")]
pub use axum;
pub use inventory::submit;

use crate::installed::{self, Current};
use crate::limiter::Answer;
use crate::observe::{self, Observed};
use crate::site;
pub use crate::site::{Mode, Options, Place, Registered, Store};
pub use crate::{
    Call, Cost, Decision, FromRejected, Key, LimitKey, OnError, Quota, Rejected, Rule, Site, Strategy,
};

/// Asks whether this call of an async function may go. The key is read at once, and not held.
pub fn enter<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: impl Cost) -> Entering {
    site::sites();
    let limiter = installed::current();
    let Options { longest_wait, store, on_error, .. } = *site.options();
    let (rule, key, cost) = (site.rule(), &Key::of(key), cost.permits());
    let observed = Observed::new(key);
    let answer = match store {
        Store::Local => Answer::now(limiter.local().decide_sync(rule, key, cost, longest_wait)),
        Store::Installed => limiter.decide(Call { rule, key, cost, longest_wait, on_error }),
    };
    match answer.known() {
        Ok(decision) if decision.delay().is_zero() => {
            observed.settled(site, &limiter, &decision);
            Entering::Now(Some(site.settle(decision)))
        }
        Ok(decision) => Entering::Later(Box::pin(wait(site, limiter, observed, Answer::now(decision)))),
        Err(answer) => Entering::Later(Box::pin(wait(site, limiter, observed, answer))),
    }
}

async fn wait(
    site: &'static Site,
    limiter: Current,
    observed: Observed,
    answer: Answer<Decision>,
) -> Result<Decision, Rejected> {
    let decision = observe::answer(site, answer).await;
    observed.settled(site, &limiter, &decision);
    let settled = site.settle(decision);
    if !decision.delay().is_zero() && site.options().mode == Mode::Enforce {
        let turn = match site.options().store {
            Store::Installed => limiter.turn(&decision),
            Store::Local => crate::Limiter::turn(limiter.local(), &decision),
        };
        observe::turn(site, &decision, turn).await;
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
    let key = &Key::of(key);
    let decision = limiter.local().decide_sync(site.rule(), key, cost.permits(), Duration::ZERO);
    Observed::new(key).settled(site, &limiter, &decision);
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
