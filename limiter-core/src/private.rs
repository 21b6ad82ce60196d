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

use crate::installed::{self, Current};
use crate::limiter::Answer;
use crate::local::{AnyTable, Known};
use crate::observe::{self, Observed};
use crate::rule::least_capacity;
use crate::site;
pub use crate::site::Registered;
use crate::site::{Mode, Options, Own, Store};
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
    ask(site, &Key::of(key), cost.permits())
}

/// [`enter`] for a function that does not look at the decision. Says nothing where the call goes now: an answer is large,
/// and most calls can do without.
#[inline]
pub fn pass<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: impl Cost) -> Option<Stopped> {
    let Some(own) = site.own() else { return pass_elsewhere(site, key, cost.permits()) };
    let (key, cost) = (key.stored(), cost.permits());
    if key == StoredKey::NONE {
        return match own.table.table {
            Known::Buckets(table) => pass_keyless(site, own, table, cost),
            Known::Windows(table) => pass_keyless(site, own, table, cost),
            Known::Other(table) => pass_keyless(site, own, table, cost),
        };
    }
    match own.table.table {
        Known::Buckets(table) => pass_keyed(site, own, table, key, cost),
        Known::Windows(table) => pass_keyed(site, own, table, key, cost),
        Known::Other(table) => pass_keyed(site, own, table, key, cost),
    }
}

/// Where a scope is open, or a limiter is installed, or somebody wants to see every decision.
#[cold]
fn pass_elsewhere<K: LimitKey + ?Sized>(site: &'static Site, key: &K, cost: u64) -> Option<Stopped> {
    stopped(ask(site, &Key::of(key), cost))
}

/// All that most calls do, in one piece for each kind of table.
#[inline(never)]
fn pass_keyed<T: AnyTable + ?Sized>(
    site: &'static Site,
    own: &Own,
    table: &T,
    key: StoredKey,
    cost: u64,
) -> Option<Stopped> {
    match own.table.pass(table, key, cost) {
        None => own.count_passed(),
        Some(decision) => return stop(site, &decision),
    }
    None
}

#[inline(never)]
fn pass_keyless<T: AnyTable + ?Sized>(
    site: &'static Site,
    own: &Own,
    table: &T,
    cost: u64,
) -> Option<Stopped> {
    match own.table.pass_keyless(table, cost) {
        None => own.count_passed(),
        Some(decision) => return stop(site, &decision),
    }
    None
}

/// What becomes of a call that does not go now, or of which that is not known yet.
#[inline(never)]
fn stop(site: &'static Site, decision: &Decision) -> Option<Stopped> {
    if decision.waits() {
        return Some(stop_for_a_while(site, *decision));
    }
    Observed::unseen().settled(site, &installed::own(), decision);
    site.settle(decision).map(|rejected| Stopped::Rejected(Some(rejected)))
}

#[cold]
fn stop_for_a_while(site: &'static Site, decision: Decision) -> Stopped {
    Stopped::Later(Box::pin(wait(site, installed::own(), Observed::unseen(), Answer::now(decision))))
}

#[inline]
fn stopped(entering: Entering) -> Option<Stopped> {
    match entering {
        Entering::Now(settled) => settled?.err().map(|rejected| Stopped::Rejected(Some(rejected))),
        Entering::Later(future) => Some(Stopped::Later(future)),
    }
}

fn ask(site: &'static Site, key: &Key, cost: u64) -> Entering {
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
    match answer.known() {
        Ok(decision) => settle(site, limiter, observed, decision),
        Err(answer) => Entering::Later(Box::pin(wait(site, limiter, observed, answer))),
    }
}

/// What becomes of a call that is decided.
#[inline]
fn settle(site: &'static Site, limiter: Current, observed: Observed, decision: Decision) -> Entering {
    if decision.waits() {
        return Entering::Later(Box::pin(wait(site, limiter, observed, Answer::now(decision))));
    }
    observed.settled(site, &limiter, &decision);
    Entering::Now(Some(site.settle(&decision).map_or(Ok(decision), Err)))
}

async fn wait(
    site: &'static Site,
    limiter: Current,
    observed: Observed,
    answer: Answer<Decision>,
) -> Result<Decision, Rejected> {
    let decision = observe::answer(site, answer).await;
    observed.settled(site, &limiter, &decision);
    let rejected = site.settle(&decision);
    if decision.waits() && site.options().mode == Mode::Enforce {
        let turn = match site.options().store {
            Store::Installed => limiter.turn(&decision),
            Store::Local => crate::Limiter::turn(limiter.local(), &decision),
        };
        observe::turn(site, &decision, turn).await;
    }
    rejected.map_or(Ok(decision), Err)
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

/// [`enter_sync`] for a function that does not look at the decision.
#[inline]
pub fn pass_sync<K: LimitKey + ?Sized>(
    site: &'static Site,
    key: &K,
    cost: impl Cost,
) -> Result<(), Rejected> {
    let Some(own) = site.own() else { return pass_elsewhere_sync(site, key, cost.permits()) };
    match pass_own_sync(own, key.stored(), cost.permits()) {
        None => Ok(()),
        Some(decision) => stop_sync(site, &decision),
    }
}

#[cold]
fn pass_elsewhere_sync<K: LimitKey + ?Sized>(
    site: &'static Site,
    key: &K,
    cost: u64,
) -> Result<(), Rejected> {
    ask_sync(site, &Key::of(key), cost).map(drop)
}

fn pass_own_sync(own: &Own, key: StoredKey, cost: u64) -> Option<Decision> {
    let stopped = match own.table.table {
        Known::Buckets(table) if key == StoredKey::NONE => own.table.pass_keyless(table, cost),
        Known::Windows(table) if key == StoredKey::NONE => own.table.pass_keyless(table, cost),
        Known::Other(table) if key == StoredKey::NONE => own.table.pass_keyless(table, cost),
        Known::Buckets(table) => own.table.pass(table, key, cost),
        Known::Windows(table) => own.table.pass(table, key, cost),
        Known::Other(table) => own.table.pass(table, key, cost),
    };
    if stopped.is_none() {
        own.count_passed();
    }
    stopped
}

#[inline(never)]
fn stop_sync(site: &'static Site, decision: &Decision) -> Result<(), Rejected> {
    Observed::unseen().settled(site, &installed::own(), decision);
    site.settle(decision).map_or(Ok(()), Err)
}

fn ask_sync(site: &'static Site, key: &Key, cost: u64) -> Result<Decision, Rejected> {
    site::sites();
    let limiter = installed::current();
    let decision = limiter.local().decide_sync(site.rule(), StoredKey::new(key), cost, Duration::ZERO);
    Observed::new(key).settled(site, &limiter, &decision);
    site.settle(&decision).map_or(Ok(decision), Err)
}

/// A call that does not go now: it is rejected, or not yet decided, or waits for its turn.
pub enum Stopped {
    Rejected(Option<Rejected>),
    Later(Pin<Box<dyn Future<Output = Result<Decision, Rejected>> + Send>>),
}

impl Future for Stopped {
    type Output = Result<(), Rejected>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Rejected(rejected) => Poll::Ready(Err(rejected.take().expect("a call is rejected once"))),
            Self::Later(future) => future.as_mut().poll(context).map_ok(drop),
        }
    }
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
