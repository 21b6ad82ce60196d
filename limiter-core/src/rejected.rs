//! A decision that said no, as the fallback and the error type see it.

use std::fmt;
use std::time::Duration;

use once_cell::sync::Lazy;

use crate::rule_map::RuleMap;
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
// Words without gaps, and nothing to drop: it is copied through a function and its callers, and gaps are copied byte by byte.
#[derive(Clone)]
pub struct Rejected {
    rule: &'static Rule,
    how: How,
    /// What remains; or what the call costs, where `reset_after` is [`FOLLOWS`].
    permits: u64,
    /// In nanoseconds.
    reset_after: u64,
    /// In nanoseconds. Says nothing for other reasons than `Exceeded`.
    retry_after: u64,
}

/// Instead of a time, which is never so long: how the key stood follows from the cost of the call and the time to retry after.
/// Few ask for it.
const FOLLOWS: u64 = u64::MAX;

/// Who decided, why, and which of the rule's quotas had the last word, in one word.
///
/// | bits | what |
/// | --- | --- |
/// | 0 to 7 | who, by its place in [`DecidedBy::ALL`] |
/// | 8 to 15 | why, by its place in [`Reason::ALL`] |
/// | 16 to 23 | which quota |
#[derive(Clone, Copy)]
struct How(u64);

impl How {
    /// By the only quota of a rule, which is exceeded in this process.
    const PLAIN: Self = Self::new(DecidedBy::Local, Reason::Exceeded, 0);

    const fn new(decided_by: DecidedBy, reason: Reason, quota: u8) -> Self {
        Self(decided_by as u64 | (reason as u64) << 8 | (quota as u64) << 16)
    }

    fn decided_by(self) -> DecidedBy {
        let [who, ..] = self.0.to_le_bytes();
        DecidedBy::ALL[usize::from(who)]
    }

    fn reason(self) -> Reason {
        let [_, why, ..] = self.0.to_le_bytes();
        Reason::ALL[usize::from(why)]
    }

    fn quota(self) -> usize {
        let [_, _, quota, ..] = self.0.to_le_bytes();
        quota.into()
    }
}

impl Rejected {
    pub(crate) fn new(rule: &Rule, decision: &Decision) -> Self {
        /// The rules whose calls were rejected by hand. There are few rules, and a limiter remembers them as well.
        static MET: Lazy<RuleMap<()>> = Lazy::new(RuleMap::new);
        Self::by_static(MET.rule(rule), decision)
    }

    #[inline]
    pub(crate) fn by_static(rule: &'static Rule, decision: &Decision) -> Self {
        let standing = decision.standing();
        Self {
            rule,
            how: How::new(decision.decided_by(), decision.reason(), decision.quota()),
            permits: standing.remaining(),
            reset_after: standing.reset_after(),
            retry_after: decision.retry_after_nanos(),
        }
    }

    /// By the only quota of a rule, in this process.
    #[inline]
    pub(crate) fn plain(rule: &'static Rule, remaining: u64, reset_after: u64, retry_after: u64) -> Self {
        Self { rule, how: How::PLAIN, permits: remaining, reset_after, retry_after }
    }

    /// The same for a call of this cost, in a room where the [wait says all](crate::strategy::Room::WAIT_SAYS_ALL).
    #[inline]
    pub(crate) fn short_of(rule: &'static Rule, cost: u64, retry_after: u64) -> Self {
        Self { rule, how: How::PLAIN, permits: cost, reset_after: FOLLOWS, retry_after }
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

    /// How many permits are left: fewer than the call costs, or none.
    pub fn remaining(&self) -> u64 {
        self.standing().remaining()
    }

    /// After how long the same call could go at once, exactly, if nobody else calls; one that may wait is admitted that
    /// much earlier. Nothing where waiting would not help, or nobody knows.
    pub fn retry_after(&self) -> Option<Duration> {
        (self.reason() == Reason::Exceeded).then(|| Duration::from_nanos(self.retry_after))
    }

    /// After how long all permits are back, if nobody else calls.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.standing().reset_after())
    }

    /// Why the call was rejected.
    pub fn reason(&self) -> Reason {
        self.how.reason()
    }

    /// Who decided.
    pub fn decided_by(&self) -> DecidedBy {
        self.how.decided_by()
    }

    fn standing(&self) -> Standing {
        match self.reset_after {
            FOLLOWS => Bucket::standing_when_refused(self.last_word(), self.permits, self.retry_after),
            reset_after => Standing::whole(self.permits, reset_after),
        }
    }

    pub(crate) fn last_word(&self) -> Quota {
        // Of another rule than the one that was asked about, it may have fewer.
        let quotas = self.rule.quotas();
        *quotas.get(self.how.quota()).unwrap_or(&quotas[0])
    }

    #[cfg(feature = "web")]
    pub(crate) fn whole_rule(&self) -> &Rule {
        self.rule
    }

    #[cfg(feature = "web")]
    pub(crate) fn quota(&self) -> usize {
        self.how.quota()
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, limit, window) = (self.rule(), self.limit(), self.window());
        match self.reason() {
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
            .field("reason", &self.reason())
            .field("quota", &self.last_word())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("decided_by", &self.decided_by())
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

#[cfg(test)]
mod tests {
    use std::mem::needs_drop;

    use super::*;
    use crate::Strategy;

    #[test]
    fn it_is_five_words_and_nothing_to_drop() {
        assert_eq!(size_of::<Rejected>(), 40);
        assert_eq!(size_of::<Result<(), Rejected>>(), 40);
        assert!(!needs_drop::<Rejected>());
    }

    #[test]
    fn one_word_says_who_decided_why_and_by_which_quota() {
        for decided_by in DecidedBy::ALL {
            for reason in Reason::ALL {
                for quota in 0..=u8::MAX {
                    let how = How::new(decided_by, reason, quota);
                    let read = (how.decided_by(), how.reason(), how.quota());
                    assert_eq!(read, (decided_by, reason, usize::from(quota)));
                }
            }
        }
    }

    /// The longest time there is means something else to a rejection, so it says a nanosecond less.
    #[test]
    fn the_longest_time_is_a_time() {
        let rule = Rule::new("ages", Strategy::TokenBucket, Quota::new(1, Duration::from_secs(1)));
        let decision = Decision::exceeded(0, 1, Standing::whole(7, u64::MAX));
        let rejected = decision.into_result(&rule).unwrap_err();
        assert_eq!(rejected.remaining(), 7);
        assert_eq!(rejected.reset_after(), Duration::from_nanos(u64::MAX - 1));
    }

    #[test]
    fn rules_of_one_name_are_told_apart() {
        let quota = |permits| Quota::new(permits, Duration::from_secs(1));
        for permits in 1..100 {
            let rule = Rule::new("twins", Strategy::SlidingLog, quota(permits));
            let decision = Decision::exceeded(0, 1, Standing::whole(0, 1));
            assert_eq!(decision.into_result(&rule).unwrap_err().limit(), permits);
        }
    }
}
