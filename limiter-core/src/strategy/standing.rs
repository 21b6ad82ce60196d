//! How a key stands after a decision.

/// How many permits remain, and after how many ticks all are back.
///
/// Both are kept as fractions, because a division costs as much as the rest of a decision and few callers ask.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    permits: Fraction,
    ticks: Fraction,
}

#[derive(Clone, Copy)]
struct Fraction {
    /// Two halves of a u128, which would need 16 bytes of alignment.
    above: [u64; 2],
    below: u64,
}

impl Fraction {
    fn new(above: u128, below: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of one number")]
        Self { above: [above as u64, (above >> 64) as u64], below }
    }

    fn above(self) -> u128 {
        u128::from(self.above[1]) << 64 | u128::from(self.above[0])
    }

    fn rounded_down(self) -> u64 {
        match self.above {
            [above, 0] if self.below == 1 => above,
            [above, 0] => above / self.below,
            _ => u64::try_from(self.above() / u128::from(self.below)).unwrap_or(u64::MAX),
        }
    }

    fn rounded_up(self) -> u64 {
        match self.above {
            [above, 0] if self.below == 1 => above,
            [above, 0] => above.div_ceil(self.below),
            _ => u64::try_from(self.above().div_ceil(u128::from(self.below))).unwrap_or(u64::MAX),
        }
    }
}

impl Standing {
    pub(crate) fn whole(remaining: u64, reset_after: u64) -> Self {
        Self { permits: Fraction::new(remaining.into(), 1), ticks: Fraction::new(reset_after.into(), 1) }
    }

    /// `(spare, per_permit)` is the fraction of permits that remain, `(debt, per_tick)` that of ticks.
    pub(crate) fn fractions((spare, per_permit): (u128, u64), (debt, per_tick): (u128, u64)) -> Self {
        Self { permits: Fraction::new(spare, per_permit), ticks: Fraction::new(debt, per_tick) }
    }

    pub(crate) fn remaining(self) -> u64 {
        self.permits.rounded_down()
    }

    pub(crate) fn reset_after(self) -> u64 {
        self.ticks.rounded_up()
    }

    /// What two quotas leave together: the fewer permits, the longer time.
    pub(crate) fn tightest(self, other: Self) -> Self {
        Self::whole(self.remaining().min(other.remaining()), self.reset_after().max(other.reset_after()))
    }
}
