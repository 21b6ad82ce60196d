//! The numbers of a quota as a strategy computes with them.

use crate::{Quota, Rule};

/// A quota in whole ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) permits: u64,
    /// The length of the window.
    pub(crate) window: u64,
    /// The most permits that can be there at once.
    pub(crate) capacity: u64,
    /// Calls that come within this time of the first one may be counted together.
    pub(crate) sample: u64,
    /// How long one permit takes to come back, where that is a whole number of ticks, else 0.
    pub(crate) interval: u64,
    /// How long all permits take to come back, where [`interval`](Self::interval) says how long one takes, else 0.
    pub(crate) fill: u64,
    /// How many bits the window leaves of a word.
    pub(crate) spare_bits: u32,
}

impl Terms {
    /// The terms of every quota of `rule`, in nanoseconds.
    pub(crate) fn of(rule: &Rule) -> Box<[Self]> {
        let terms = |quota: &Quota| {
            let window = quota.window_nanos();
            // Rounded up, so that a window never has more samples than the rule says.
            let sample = if rule.strategy().has_samples() {
                window.div_ceil(u64::from(rule.sample_count()))
            } else {
                1
            };
            let interval = if window.is_multiple_of(quota.permits()) { window / quota.permits() } else { 0 };
            let capacity = quota.capacity();
            let fill = capacity.checked_mul(interval).unwrap_or_default();
            let spare_bits = window.leading_zeros();
            Self { permits: quota.permits(), window, capacity, sample, interval, fill, spare_bits }
        };
        rule.quotas().iter().map(terms).collect()
    }

    /// The most permits that a script can count exactly.
    #[cfg(feature = "redis")]
    pub(crate) const MOST_PERMITS: u64 = (1 << 53) - 1;

    /// The terms of every quota of `rule`, in microseconds and in numbers that a script computes with exactly.
    ///
    /// Whatever does not fit is rounded so that no more is admitted. The permits and the window of a bucket only say how
    /// fast it fills: they are the terms of the fraction, which is reduced.
    #[cfg(feature = "redis")]
    pub(crate) fn in_micros(rule: &Rule) -> Box<[Self]> {
        let terms = |quota: &Quota| {
            let window = quota.window_nanos().div_ceil(1_000);
            let permits = quota.permits().min(Self::MOST_PERMITS);
            if rule.strategy().has_burst() {
                return Self::bucket_in_micros(quota.permits(), window, quota.capacity());
            }
            let sample = if rule.strategy().has_samples() {
                window.div_ceil(u64::from(rule.sample_count()))
            } else {
                1
            };
            Self { permits, window, capacity: permits, sample, interval: 0, fill: 0, spare_bits: 0 }
        };
        rule.quotas().iter().map(terms).collect()
    }

    #[cfg(feature = "redis")]
    fn bucket_in_micros(permits: u64, window: u64, capacity: u64) -> Self {
        /// The square of a larger one would not be exact.
        const LARGEST_DENOMINATOR: u64 = 1 << 26;
        /// 71 years: a bucket that takes longer to fill is as good as one that never does.
        const LONGEST_FILL: u64 = 1 << 51;

        let common = greatest_common_divisor(permits, window);
        let (mut permits, mut window) = (permits / common, window / common);
        if permits > LARGEST_DENOMINATOR {
            let scaled = u128::from(window) * u128::from(LARGEST_DENOMINATOR);
            window = u64::try_from(scaled.div_ceil(u128::from(permits))).expect("less than the window");
            permits = LARGEST_DENOMINATOR;
        }
        let fills = u128::from(LONGEST_FILL) * u128::from(permits) / u128::from(window);
        let fills = u64::try_from(fills).unwrap_or(u64::MAX).min(Self::MOST_PERMITS);
        Self {
            permits,
            window,
            capacity: capacity.min(fills),
            sample: 1,
            interval: 0,
            fill: 0,
            spare_bits: 0,
        }
    }
}

#[cfg(feature = "redis")]
fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
