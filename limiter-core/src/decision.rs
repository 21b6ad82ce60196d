//! The answer to a call.

use std::fmt;
use std::time::Duration;

use crate::strategy::Standing;
use crate::{Rejected, Rule};

/// The answer to one call: whether it may go, and how the key stands now.
#[derive(Clone, Copy)]
pub struct Decision {
    verdict: Verdict,
    decided_by: DecidedBy,
    /// Which quota of the rule had the last word.
    quota: u8,
    standing: Standing,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    /// It may go after `delay`, when the limiter's clock says `turn`.
    Allowed {
        delay: u64,
        turn: u64,
    },
    Exceeded {
        retry_after: u64,
    },
    TooCostly,
    Unavailable,
}

/// Who made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecidedBy {
    /// This process alone, as the rule wants it.
    Local,
    /// The server that the fleet shares.
    Shared,
    /// Nobody could be asked: the site's `on_error` answered.
    Degraded,
}

impl Decision {
    /// It may go, `delay` after now, when the clock says `turn`.
    pub(crate) fn allowed(quota: u8, turn: u64, delay: u64, standing: Standing) -> Self {
        Self { verdict: Verdict::Allowed { delay, turn }, decided_by: DecidedBy::Local, quota, standing }
    }

    pub(crate) fn exceeded(quota: u8, retry_after: u64, standing: Standing) -> Self {
        Self { verdict: Verdict::Exceeded { retry_after }, decided_by: DecidedBy::Local, quota, standing }
    }

    pub(crate) fn too_costly(quota: u8, standing: Standing) -> Self {
        Self { verdict: Verdict::TooCostly, decided_by: DecidedBy::Local, quota, standing }
    }

    /// What a call hears that is not limited at all.
    #[doc(hidden)]
    pub fn exempt() -> Self {
        Self::allowed(0, 0, 0, Standing::whole(u64::MAX, 0))
    }

    /// What a call hears where nobody could be asked and `on_error` says `allow` or `deny`.
    #[doc(hidden)]
    pub fn undecided(allow: bool) -> Self {
        let verdict = if allow { Verdict::Allowed { delay: 0, turn: 0 } } else { Verdict::Unavailable };
        Self { verdict, decided_by: DecidedBy::Degraded, quota: 0, standing: Standing::whole(0, 0) }
    }

    /// The same decision, made by another.
    #[doc(hidden)]
    #[must_use]
    pub fn by(self, decided_by: DecidedBy) -> Self {
        Self { decided_by, ..self }
    }

    /// What a look heard: a rejection of something that nothing admits, with the time after which it could go.
    #[cfg(feature = "redis")]
    pub(crate) fn as_looked_at(self) -> Self {
        match self.verdict {
            Verdict::Exceeded { retry_after: 0 } => {
                Self { verdict: Verdict::Allowed { delay: 0, turn: 0 }, ..self }
            }
            _ => self,
        }
    }

    /// The same rejection as it stands some time later.
    #[cfg(feature = "redis")]
    pub(crate) fn after(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let verdict = match self.verdict {
            Verdict::Exceeded { retry_after } => {
                Verdict::Exceeded { retry_after: retry_after.saturating_sub(nanos) }
            }
            other => other,
        };
        let standing =
            Standing::whole(self.standing.remaining(), self.standing.reset_after().saturating_sub(nanos));
        Self { verdict, standing, ..self }
    }

    /// Whether the call may go at once.
    #[inline]
    pub(crate) fn goes_now(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed { delay: 0, .. })
    }

    /// Whether the call may go, later.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed { delay: 1.., .. })
    }

    /// Whether the call may go.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed { .. })
    }

    /// How many permits could be taken at once right now, after this call took its own. For a call that `unless`
    /// exempted there is no limit, and this is [`u64::MAX`].
    pub fn remaining(&self) -> u64 {
        self.standing.remaining()
    }

    /// How long an allowed call waits for its turn. Zero where it may go at once, or not at all.
    pub fn delay(&self) -> Duration {
        match self.verdict {
            Verdict::Allowed { delay, .. } => Duration::from_nanos(delay),
            _ => Duration::ZERO,
        }
    }

    /// After how long the same call could go at once, exactly, if nobody else calls; one that may wait is admitted that
    /// much earlier. Nothing where it was admitted, costs more than there can ever be, or nobody could be asked.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Exceeded { retry_after } => Some(Duration::from_nanos(retry_after)),
            _ => None,
        }
    }

    /// Zero where [`retry_after`](Self::retry_after) says nothing.
    #[inline]
    pub(crate) fn retry_after_nanos(&self) -> u64 {
        match self.verdict {
            Verdict::Exceeded { retry_after } => retry_after,
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// After how long all permits are back, if nobody else calls.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.standing.reset_after())
    }

    /// Who decided.
    pub fn decided_by(&self) -> DecidedBy {
        self.decided_by
    }

    /// This decision where it is a yes, and what to tell the caller of `rule` where it is a no.
    ///
    /// ```
    /// # extern crate limiter_core as limiter;
    /// # use limiter::{Limiter, LocalLimiter, Quota, Rejected, Rule, Strategy};
    /// # use std::time::Duration;
    /// const LOGIN: Rule = Rule::new("login", Strategy::SlidingLog, Quota::new(5, Duration::from_secs(60)));
    ///
    /// fn login(limiter: &LocalLimiter, user: &str) -> Result<(), Rejected> {
    ///     limiter.check_sync(&LOGIN, user, 1).into_result(&LOGIN)?;
    ///     Ok(())
    /// }
    /// # login(&LocalLimiter::new(), "alice").unwrap();
    /// ```
    ///
    /// The process remembers every rule of which a call was rejected so, as a limiter remembers those it met.
    ///
    /// # Errors
    ///
    /// If the call may not go.
    pub fn into_result(self, rule: &Rule) -> Result<Self, Rejected> {
        if self.is_allowed() { Ok(self) } else { Err(Rejected::new(rule, &self)) }
    }

    pub(crate) fn quota(&self) -> u8 {
        self.quota
    }

    /// When the limiter's clock says this, it is the turn of a call that waits.
    pub(crate) fn turn(&self) -> Option<u64> {
        match self.verdict {
            Verdict::Allowed { delay, turn } if delay > 0 => Some(turn),
            _ => None,
        }
    }

    pub(crate) fn reason(&self) -> Reason {
        match self.verdict {
            Verdict::TooCostly => Reason::TooCostly,
            Verdict::Unavailable => Reason::Unavailable,
            Verdict::Allowed { .. } | Verdict::Exceeded { .. } => Reason::Exceeded,
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("is_allowed", &self.is_allowed())
            .field("remaining", &self.remaining())
            .field("delay", &self.delay())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("decided_by", &self.decided_by)
            .finish_non_exhaustive()
    }
}

impl DecidedBy {
    /// In their order, so that one is found by its number.
    pub(crate) const ALL: [Self; 3] = [Self::Local, Self::Shared, Self::Degraded];
}

/// Why a call was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is reached; time brings permits back.
    Exceeded,
    /// The call costs more than there can ever be.
    TooCostly,
    /// The shared limiter could not answer, and the site says `on_error = "deny"`.
    Unavailable,
}

impl Reason {
    /// In their order, so that one is found by its number.
    pub(crate) const ALL: [Self; 3] = [Self::Exceeded, Self::TooCostly, Self::Unavailable];
}
