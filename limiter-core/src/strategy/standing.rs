//! How a key stands after a decision.

use std::num::NonZeroU64;

/// How many permits remain, and after how many ticks all are back.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    /// A permit is `per_permit` of these: a division costs as much as the rest of a decision, and few callers ask.
    spare: u64,
    per_permit: NonZeroU64,
    reset_after: u64,
}

impl Standing {
    #[inline]
    pub(crate) fn whole(remaining: u64, reset_after: u64) -> Self {
        Self { spare: remaining, per_permit: NonZeroU64::MIN, reset_after }
    }

    /// `spare / per_permit` permits remain; a permit is not nothing.
    #[inline]
    pub(crate) fn fraction(spare: u64, per_permit: u64, reset_after: u64) -> Self {
        Self { spare, per_permit: NonZeroU64::new(per_permit).unwrap_or(NonZeroU64::MIN), reset_after }
    }

    pub(crate) fn remaining(self) -> u64 {
        if self.per_permit == NonZeroU64::MIN { self.spare } else { self.spare / self.per_permit }
    }

    /// Never as much as a word can say, which means something else to a [`Rejected`](crate::Rejected).
    #[inline]
    pub(crate) fn reset_after(self) -> u64 {
        self.reset_after.min(u64::MAX - 1)
    }

    /// What two quotas leave together: the fewer permits, the longer time.
    pub(crate) fn tightest(self, other: Self) -> Self {
        Self::whole(self.remaining().min(other.remaining()), self.reset_after.max(other.reset_after))
    }
}
