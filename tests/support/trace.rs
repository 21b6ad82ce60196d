//! Random rules, and random calls under them.

use std::time::Duration;

use limiter::{Quota, Rule, Strategy};

use super::random::Random;

/// One call of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub now: u64,
    pub cost: u64,
    pub longest_wait: u64,
}

/// A rule of one to three quotas, small enough that every edge is met often, sometimes with numbers that do not divide.
pub fn rule(random: &mut Random, strategy: Strategy) -> Rule {
    let quotas: Vec<Quota> = (0..random.one_of(&[1, 1, 1, 2, 3]))
        .map(|_| {
            let permits = random.one_of(&[1, 2, 3, 5, 7, 10, 13]);
            let window = random.one_of(&[1, 7, 10, 100, 997, 1_000, 4_000_000_000]);
            let quota = Quota::new(permits, Duration::from_nanos(window));
            let has_bucket = matches!(strategy, Strategy::TokenBucket | Strategy::LeakyBucket);
            if has_bucket && random.chance(50) { quota.burst(random.between(1, 20)) } else { quota }
        })
        .collect();
    let rule = Rule::try_new("trace", strategy, quotas).unwrap();
    match strategy {
        Strategy::SlidingWindow => rule.try_samples(random.one_of(&[1, 2, 3, 10, 64])).unwrap(),
        _ => rule,
    }
}

/// Calls that come in bursts and after pauses, at times that stand still and times that run backwards.
pub fn calls(random: &mut Random, rule: &Rule, count: usize) -> Vec<Asked> {
    let window =
        rule.quotas().iter().map(|quota| u64::try_from(quota.window().as_nanos()).unwrap()).max().unwrap();
    let most = rule.quotas().iter().map(Quota::capacity).max().unwrap();
    let mut now = random.between(0, window);
    (0..count)
        .map(|_| {
            now = match random.between(0, 9) {
                0..=3 => now,
                4..=6 => now + random.between(0, (window / 8).max(1)),
                7 => now + random.between(0, window * 2),
                8 => now + window * 10,
                _ => now.saturating_sub(random.between(0, window * 2)),
            };
            let cost = match random.between(0, 9) {
                0..=5 => 1,
                6..=7 => random.between(1, most),
                8 => 0,
                _ => random.between(most, most + 2),
            };
            let longest_wait = match random.between(0, 3) {
                0..=1 => 0,
                2 => random.between(0, window),
                _ => random.between(0, window * 5),
            };
            Asked { now, cost, longest_wait }
        })
        .collect()
}
