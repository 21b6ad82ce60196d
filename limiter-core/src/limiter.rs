//! Who answers a call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{Cost, Decision, Key, LimitKey, LocalLimiter, Rule};

/// One question: this rule, this key, this cost, this longest wait.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The rule that the call is under.
    pub rule: &'a Rule,
    /// Whose limit it is.
    pub key: &'a Key,
    /// How many permits the call takes.
    pub cost: u64,
    /// How long the call may wait for its turn.
    pub longest_wait: Duration,
    /// Who answers when the shared limiter cannot, if the call says so.
    pub on_error: Option<OnError>,
}

impl<'a> Call<'a> {
    /// A call that leaves it to the limiter who answers where it cannot.
    pub fn new(rule: &'a Rule, key: &'a Key, cost: impl Cost, longest_wait: Duration) -> Self {
        Self { rule, key, cost: cost.permits(), longest_wait, on_error: None }
    }
}

/// Who answers when the shared limiter cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// The same rule, in this process.
    #[default]
    Local,
    /// Every call passes.
    Allow,
    /// Every call is rejected.
    Deny,
}

/// Who answers calls: [`LocalLimiter`], or one that a fleet shares.
///
/// Its methods are what the annotation does, without the annotation:
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{Limiter, LocalLimiter, Quota, Rule, Strategy};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let rule = Rule::new("mails", Strategy::TokenBucket, Quota::new(3, Duration::from_secs(4)));
/// let limiter = LocalLimiter::new();
///
/// let decision = limiter.check(&rule, "alice", 2).await;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 1);
///
/// let decision = limiter.check(&rule, "alice", 2).await;
/// assert!(!decision.is_allowed());
/// println!("try again in {:?}", decision.retry_after());
/// # }
/// ```
pub trait Limiter: Send + Sync {
    /// Answers `call` at once, without waiting for its turn: an allowed call has a [`Decision::delay`].
    fn decide(&self, call: Call<'_>) -> Answer<Decision>;

    /// How a call of cost 1 would fare. It takes nothing.
    fn look(&self, rule: &Rule, key: &Key) -> Answer<Decision>;

    /// Gives `key` all its permits back.
    fn forget(&self, rule: &Rule, key: &Key) -> Answer<()>;

    /// Ends when the turn of a call has come that this limiter allowed.
    fn turn(&self, decision: &Decision) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let delay = decision.delay();
        Box::pin(tokio::time::sleep(delay))
    }

    /// Who answers for functions that say `store = "local"`.
    fn local(&self) -> &LocalLimiter {
        crate::installed::process_wide()
    }

    /// Takes `cost` permits of `key`, or none. A [`LocalLimiter`] decides when this is called, a shared one is asked when
    /// the answer is first awaited.
    fn check<K>(&self, rule: &Rule, key: &K, cost: impl Cost) -> Answer<Decision>
    where
        K: LimitKey + ?Sized,
        Self: Sized,
    {
        self.decide(Call::new(rule, &Key::of(key), cost, Duration::ZERO))
    }

    /// Takes `cost` permits of `key` and waits for its turn, up to `longest_wait`; rejects at once what would wait
    /// longer. Calls get their turns in the order in which this is called. A permit stays spent if the future is
    /// dropped.
    fn acquire<K>(
        &self,
        rule: &Rule,
        key: &K,
        cost: impl Cost,
        longest_wait: Duration,
    ) -> impl Future<Output = Decision> + Send
    where
        K: LimitKey + ?Sized,
        Self: Sized,
    {
        let answer = self.decide(Call::new(rule, &Key::of(key), cost, longest_wait));
        async move {
            let decision = answer.await;
            if decision.waits() {
                self.turn(&decision).await;
            }
            decision
        }
    }

    /// How a call of cost 1 would fare. It takes nothing.
    fn peek<K>(&self, rule: &Rule, key: &K) -> Answer<Decision>
    where
        K: LimitKey + ?Sized,
        Self: Sized,
    {
        self.look(rule, &Key::of(key))
    }

    /// Gives `key` all its permits back. Calls that wait for their turn still get it. In a [`LocalLimiter`] whose table
    /// is full, a key that shares its state with others has none of its own to be given back.
    fn reset<K>(&self, rule: &Rule, key: &K) -> Answer<()>
    where
        K: LimitKey + ?Sized,
        Self: Sized,
    {
        self.forget(rule, &Key::of(key))
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<L: Limiter + ?Sized> Limiter for $pointer {
            fn decide(&self, call: Call<'_>) -> Answer<Decision> {
                (**self).decide(call)
            }

            fn look(&self, rule: &Rule, key: &Key) -> Answer<Decision> {
                (**self).look(rule, key)
            }

            fn forget(&self, rule: &Rule, key: &Key) -> Answer<()> {
                (**self).forget(rule, key)
            }

            fn turn(&self, decision: &Decision) -> Pin<Box<dyn Future<Output = ()> + Send>> {
                (**self).turn(decision)
            }

            fn local(&self) -> &LocalLimiter {
                (**self).local()
            }
        }
    )*};
}
pointers!(&L, Box<L>, Arc<L>);

/// What a limiter gives back: known now, or on its way.
///
/// It is a future either way; one that is known costs no allocation.
#[must_use = "a call is only limited by an answer that somebody awaits"]
pub struct Answer<T>(State<T>);

enum State<T> {
    Now(Option<T>),
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Answer<T> {
    /// An answer that is known.
    pub fn now(value: T) -> Self {
        Self(State::Now(Some(value)))
    }

    /// An answer that is on its way.
    pub fn later(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(State::Later(Box::pin(future)))
    }

    /// The value where it is known, or the answer back.
    pub(crate) fn known(self) -> Result<T, Self> {
        match self.0 {
            State::Now(Some(value)) => Ok(value),
            other => Err(Self(other)),
        }
    }
}

impl<T: Unpin> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.get_mut().0 {
            State::Now(value) => Poll::Ready(value.take().expect("an answer is given once")),
            State::Later(future) => future.as_mut().poll(context),
        }
    }
}
