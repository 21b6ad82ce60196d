//! A decision that said no, as the fallback and the error type see it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::strategy::Standing;
use crate::strategy::token_bucket::whole::Room as Bucket;
use crate::{DecidedBy, Decision, Quota, Reason, Rule};

/// A call that was rejected: what a fallback gets as its last argument, and an error one can return.
///
/// Its text tells the rule and when to come back, never the key.
///
/// ```
/// # extern crate limiter_core as limiter;
/// # use limiter::{Limiter, LocalLimiter, Quota, Rule, Strategy};
/// # use std::time::Duration;
/// # const RULE: Rule = Rule::new("orders", Strategy::SlidingLog, Quota::new(1, Duration::from_secs(4)));
/// # let limiter = LocalLimiter::builder().clock(limiter::ManualClock::new()).build();
/// # limiter.check_sync(&RULE, "alice", 1).into_result(&RULE).unwrap();
/// let rejected = limiter.check_sync(&RULE, "alice", 1).into_result(&RULE).unwrap_err();
/// assert_eq!(rejected.to_string(), r#"the limit "orders" of 1 per 4s is reached; try again in 4s"#);
/// ```
#[derive(Clone)]
pub struct Rejected {
    rule: KnownRule,
    /// Which of the rule's quotas had the last word.
    quota: u8,
    reason: Reason,
    decided_by: DecidedBy,
    stood: Stood,
    /// In nanoseconds, so that an error stays as small as errors should be. Says nothing for other reasons than `Exceeded`.
    retry_after: u64,
}

/// How the key stood: known, or as follows from what the call cost, which few ask for.
#[derive(Clone, Copy)]
enum Stood {
    As(Standing),
    ShortOf(u64),
}

/// The rule of an annotated function, or another.
#[derive(Clone)]
struct KnownRule {
    annotated: Option<&'static Rule>,
    other: Option<Box<Rule>>,
}

impl Deref for KnownRule {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        self.annotated.or(self.other.as_deref()).expect("it is one of the two")
    }
}

/// Who drops a rejected call that was annotated has nothing to do, and sees that without a detour.
impl Drop for KnownRule {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn give_back(rule: Box<Rule>) {
            drop(rule);
        }
        if let Some(rule) = self.other.take() {
            give_back(rule);
        }
    }
}

impl Rejected {
    pub(crate) fn new(rule: &Rule, decision: &Decision) -> Self {
        Self::under(KnownRule { annotated: None, other: Some(Box::new(rule.clone())) }, decision)
    }

    /// Without an allocation.
    #[inline]
    pub(crate) fn by_static(rule: &'static Rule, decision: &Decision) -> Self {
        Self::under(KnownRule { annotated: Some(rule), other: None }, decision)
    }

    /// For a quota that stands so.
    #[inline]
    pub(crate) fn standing_at(rule: &'static Rule, standing: Standing, retry_after: u64) -> Self {
        Self::refused(rule, Stood::As(standing), retry_after)
    }

    /// For a call of this cost, in a room where the [wait says all](crate::strategy::Room::WAIT_SAYS_ALL).
    #[inline]
    pub(crate) fn short_of(rule: &'static Rule, cost: u64, retry_after: u64) -> Self {
        Self::refused(rule, Stood::ShortOf(cost), retry_after)
    }

    /// By the only quota of a rule, in this process.
    #[inline]
    fn refused(rule: &'static Rule, stood: Stood, retry_after: u64) -> Self {
        let rule = KnownRule { annotated: Some(rule), other: None };
        Self { rule, quota: 0, reason: Reason::Exceeded, decided_by: DecidedBy::Local, stood, retry_after }
    }

    #[inline]
    fn under(rule: KnownRule, decision: &Decision) -> Self {
        Self {
            rule,
            quota: decision.quota(),
            reason: decision.reason(),
            decided_by: decision.decided_by(),
            stood: Stood::As(decision.standing()),
            retry_after: decision.retry_after_nanos(),
        }
    }

    /// The name of the rule.
    pub fn rule(&self) -> &str {
        self.rule.name()
    }

    /// The permits of the quota that had the last word.
    pub fn limit(&self) -> u64 {
        self.last_word().permits()
    }

    /// The window of the quota that had the last word.
    pub fn window(&self) -> Duration {
        self.last_word().window()
    }

    /// How many permits are left: fewer than the call costs.
    pub fn remaining(&self) -> u64 {
        self.standing().remaining()
    }

    /// After how long the same call could go at once, exactly, if nobody else calls; one that may wait is admitted that
    /// much earlier. Nothing where waiting would not help, or nobody knows.
    pub fn retry_after(&self) -> Option<Duration> {
        (self.reason == Reason::Exceeded).then(|| Duration::from_nanos(self.retry_after))
    }

    /// After how long all permits are back, if nobody else calls.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.standing().reset_after())
    }

    /// Why the call was rejected.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Who decided.
    pub fn decided_by(&self) -> DecidedBy {
        self.decided_by
    }

    fn standing(&self) -> Standing {
        match self.stood {
            Stood::As(standing) => standing,
            Stood::ShortOf(cost) => Bucket::standing_when_refused(self.last_word(), cost, self.retry_after),
        }
    }

    pub(crate) fn last_word(&self) -> Quota {
        // Of another rule than the one that was asked about, it may have fewer.
        let quotas = self.rule.quotas();
        *quotas.get(usize::from(self.quota)).unwrap_or(&quotas[0])
    }

    #[cfg(feature = "web")]
    pub(crate) fn whole_rule(&self) -> &Rule {
        &self.rule
    }

    #[cfg(feature = "web")]
    pub(crate) fn quota(&self) -> usize {
        self.quota.into()
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, limit, window) = (self.rule(), self.limit(), self.window());
        match self.reason {
            Reason::Exceeded => write!(f, "the limit {rule:?} of {limit} per {window:?} is reached")?,
            Reason::TooCostly => {
                let capacity = self.last_word().capacity();
                write!(
                    f,
                    "the call costs more than the {capacity} permits that the limit {rule:?} ever has"
                )?;
            }
            Reason::Unavailable => write!(f, "the limit {rule:?} cannot be checked right now")?,
        }
        match self.retry_after() {
            Some(time) => write!(f, "; try again in {:?}", readable(time)),
            None => Ok(()),
        }
    }
}

/// Rounded up to whole milliseconds, so that whoever comes back then is admitted.
fn readable(time: Duration) -> Duration {
    let millis = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(time, Duration::from_millis)
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("rule", &self.rule())
            .field("reason", &self.reason)
            .field("quota", &self.last_word())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("decided_by", &self.decided_by)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Rejected {}

/// A return type that can say by itself that the call was rejected, so that no fallback is needed.
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{FromRejected, Rejected};
///
/// enum Reply { Order(String), Busy }
///
/// impl FromRejected for Reply {
///     fn from_rejected(_: Rejected) -> Self {
///         Reply::Busy
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a call that returns `{Self}` cannot say that it was rejected",
    label = "cannot say that a call was rejected",
    note = "name a `fallback`, or return `Option<T>`, `Result<T, Rejected>` or `Result<T, E>` with `impl From<Rejected> for E`",
    note = "for a type of your own, implement `FromRejected`"
)]
pub trait FromRejected {
    /// The answer to a rejected call.
    fn from_rejected(rejected: Rejected) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Rejected>> FromRejected for Result<T, E> {
    #[inline]
    fn from_rejected(rejected: Rejected) -> Self {
        Err(rejected.into())
    }
}

impl<T> FromRejected for Option<T> {
    #[inline]
    fn from_rejected(_: Rejected) -> Self {
        None
    }
}
