//! What the annotation expands to calls of. Not part of the public interface.

use std::future::Pending;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use std::option::Option::Some;
pub use std::primitive::{bool, i128, u32, u64};
pub use std::result::Result::{Err, Ok};
pub use std::{boxed::Box, concat, convert::identity, module_path, unreachable};

/// For the guide, whose examples have no axum of their own.
#[cfg(feature = "axum")]
pub use axum;
pub use inventory::submit;

pub use crate::entry::{Entry, Told};
use crate::entry::{Verdict, wait};
use crate::installed;
use crate::limiter::Answer;
use crate::observe::Observed;
use crate::rule::least_capacity;
use crate::site;
pub use crate::site::Registered;
use crate::site::{Options, Store};
use crate::stored_key::StoredKey;
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
#[inline]
pub fn enter<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: impl Cost) -> Entering {
    match ask(site, &Key::of(key), cost.permits(), identity) {
        Ok(settled) => Entering::Now(Some(settled)),
        Err(waiting) => Entering::Later(waiting),
    }
}

/// [`enter`] for a function that does not look at the decision: it is large, and most calls can do without. What does not fit in
/// an entry is `told`.
#[inline]
pub fn pass<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: impl Cost, told: &mut Told) -> Entry {
    let (cost, stored) = (cost.permits(), key.stored());
    let verdict = match site.door() {
        Some(door) if Site::decides_here() => door.pass(stored, cost, told),
        _ => pass_elsewhere(site, key, cost, told),
    };
    verdict.at_cost(cost)
}

/// Where a scope is open, or a limiter is installed, or somebody wants to see every decision; and the first call.
#[cold]
fn pass_elsewhere<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: u64, told: &mut Told) -> Verdict {
    if Site::decides_here() {
        return pass_first(site, key, cost, told);
    }
    match ask(site, &Key::of(key), cost, Result::err) {
        Ok(settled) => told.settle(settled.err()),
        Err(waiting) => told.wait(waiting),
    }
}

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What becomes of a call, if that is known at once, or else what it waits for, as the caller wants it told.
fn ask<T: 'static>(
    site: &'static Site,
    key: &Key,
    cost: u64,
    tell: fn(Result<Decision, Rejected>) -> T,
) -> Result<Result<Decision, Rejected>, Waiting<T>> {
    site::sites();
    let limiter = installed::current();
    let Options { longest_wait, store, on_error, .. } = *site.options();
    let rule = site.rule();
    let observed = Observed::new(key);
    let answer = match store {
        Store::Local => {
            Answer::now(limiter.local().decide_sync(rule, StoredKey::new(key), cost, longest_wait))
        }
        Store::Installed => limiter.decide(Call { rule, key, cost, longest_wait, on_error }),
    };
    let answer = match answer.known() {
        Ok(decision) if !decision.waits() => {
            observed.settled(site, &limiter, &decision);
            return Ok(site.settle(&decision).map_or(Ok(decision), Err));
        }
        Ok(decision) => Answer::now(decision),
        Err(answer) => answer,
    };
    Err(Box::pin(async move { tell(wait(site, limiter, observed, answer).await) }))
}

/// Asks whether this call of a function that is not async may go.
#[inline]
pub fn enter_sync<K: LimitKey + ?Sized>(
    site: &'static Site,
    key: &K,
    cost: impl Cost,
) -> Result<Decision, Rejected> {
    ask_sync(site, &Key::of(key), cost.permits())
}

/// [`enter_sync`] for a function that does not look at the decision. It may be async, if it says `store = "local"` and does not
/// wait.
#[inline]
pub fn pass_sync<K: LimitKey + ?Sized>(
    site: &'static Site,
    key: &K,
    cost: impl Cost,
    told: &mut Told,
) -> Entry {
    let (cost, stored) = (cost.permits(), key.stored());
    let verdict = match site.door() {
        Some(door) if Site::decides_local_calls_here() => door.pass(stored, cost, told),
        _ => pass_elsewhere_sync(site, key, cost, told),
    };
    verdict.at_cost(cost)
}

#[cold]
fn pass_elsewhere_sync<K: LimitKey + ?Sized>(
    site: &'static Site,
    key: &K,
    cost: u64,
    told: &mut Told,
) -> Verdict {
    if Site::decides_local_calls_here() {
        return pass_first(site, key, cost, told);
    }
    told.settle(ask_sync(site, &Key::of(key), cost).err())
}

fn pass_first<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: u64, told: &mut Told) -> Verdict {
    let stored = key.stored();
    // A key may be one that is stored as nothing, and another call's not.
    let has_keys = stored != StoredKey::NONE || size_of_val(key) > 0;
    site.first_door(has_keys).pass(stored, cost, told)
}

fn ask_sync(site: &'static Site, key: &Key, cost: u64) -> Result<Decision, Rejected> {
    site::sites();
    let limiter = installed::current();
    let decision = limiter.local().decide_sync(site.rule(), StoredKey::new(key), cost, Duration::ZERO);
    Observed::new(key).settled(site, &limiter, &decision);
    site.settle(&decision).map_or(Ok(decision), Err)
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
#[inline]
pub fn from_rejected<T: FromRejected>(rejected: Rejected) -> T {
    T::from_rejected(rejected)
}

/// What a fallback returned: the answer, or a future of it. The compiler finds out which.
///
/// `answered.__limiter_resolve()` is [`FutureAnswer`]'s where the value is a future, since that needs no reference, and
/// else [`ValueAnswer`]'s. The name is one that no trait of the user's has.
pub struct Answered<T>(Option<T>);

impl<T> Answered<T> {
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }
}

/// The fallback is async: its future is to be waited for.
pub trait FutureAnswer<F> {
    /// There is no answer yet, and so it is one of any type: a future of the wrong one is one mistake, not two.
    fn __limiter_resolve<T>(self) -> Result<T, F>;
}

impl<F: Future> FutureAnswer<F> for Answered<F> {
    fn __limiter_resolve<T>(self) -> Result<T, F> {
        Err(self.0.expect("a fallback answers once"))
    }
}

/// The fallback is not async: its answer is there, and need not be `Send` as a future would.
pub trait ValueAnswer<T> {
    fn __limiter_resolve<U>(self) -> Result<T, Pending<U>>;
}

impl<T> ValueAnswer<T> for &mut Answered<T> {
    fn __limiter_resolve<U>(self) -> Result<T, Pending<U>> {
        Ok(self.0.take().expect("a fallback answers once"))
    }
}
