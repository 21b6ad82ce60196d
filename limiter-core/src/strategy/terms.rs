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
            Self { permits: quota.permits(), window, capacity: quota.capacity(), sample }
        };
        rule.quotas().iter().map(terms).collect()
    }
}
