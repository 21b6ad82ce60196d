//! Slow, obvious models of the strategies, written from their promises alone.
//!
//! A model knows every call that ever went, and asks of a time whether the promise would still hold if one more call
//! went then. Nothing is kept up to date, nothing is packed, nothing is dropped.

use limiter::{Quota, Rule, Strategy};

/// A call that went: when, and for how many permits.
#[derive(Clone, Copy, Debug)]
pub struct Went {
    pub at: u64,
    pub cost: u64,
}

/// All the calls of one key under one rule.
pub struct Model {
    strategy: Strategy,
    quotas: Vec<Quota>,
    samples: u64,
    /// In the order of their turns.
    pub history: Vec<Went>,
    newest: u64,
}

/// What a model expects of a decision, in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    Allowed { delay: u64 },
    Exceeded { retry_after: u64 },
    TooCostly,
}

impl Model {
    pub fn new(rule: &Rule) -> Self {
        Self {
            strategy: rule.strategy(),
            quotas: rule.quotas().to_vec(),
            samples: u64::from(rule.sample_count()),
            history: Vec::new(),
            newest: 0,
        }
    }

    /// Decides a call as the words of the design say: at the latest of the earliest times of all quotas.
    pub fn decide(&mut self, now: u64, cost: u64, longest_wait: u64) -> Expected {
        // An older now counts as the newest seen.
        self.newest = self.newest.max(now);
        let now = self.newest;
        let Some(turn) = self.earliest_of_all(cost) else { return Expected::TooCostly };
        if turn - now > longest_wait {
            return Expected::Exceeded { retry_after: turn - now };
        }
        if cost > 0 {
            self.history.push(Went { at: turn, cost });
        }
        Expected::Allowed { delay: turn - now }
    }

    /// The largest cost that would pass at once.
    pub fn remaining(&self) -> u64 {
        if self.history.last().is_some_and(|last| last.at > self.newest) {
            return 0;
        }
        let most = self.quotas.iter().map(Quota::capacity).min().unwrap();
        let passes = |cost: &u64| {
            let call = Went { at: self.newest, cost: *cost };
            self.quotas.iter().all(|quota| self.would_hold(quota, call))
        };
        (1..=most).rev().find(passes).unwrap_or(0)
    }

    /// How long until each quota could pay all it can ever hold.
    pub fn reset_after(&self) -> u64 {
        let full = |quota: &Quota| self.earliest(quota, quota.capacity()).unwrap() - self.newest;
        self.quotas.iter().map(full).max().unwrap()
    }

    fn earliest_of_all(&self, cost: u64) -> Option<u64> {
        self.quotas
            .iter()
            .map(|quota| self.earliest(quota, cost))
            .try_fold(self.newest, |latest, one| Some(latest.max(one?)))
    }

    /// The first time, not before the last call that went, at which the promise would still hold.
    fn earliest(&self, quota: &Quota, cost: u64) -> Option<u64> {
        if cost > quota.capacity() {
            return None;
        }
        // Nobody overtakes.
        let soonest = self.history.last().map_or(self.newest, |last| last.at.max(self.newest));
        let window = window(quota);
        let candidates: Vec<u64> = match self.strategy {
            // Between two calls nothing changes but at the moments when a call leaves the window.
            Strategy::FixedWindow | Strategy::SlidingLog | Strategy::SlidingWindow => {
                self.history.iter().map(|went| went.at + window).collect()
            }
            // A bucket gives back with every tick: for each earlier call, the tick from which the promise holds for
            // the interval that starts with it.
            Strategy::TokenBucket | Strategy::LeakyBucket => {
                let from = |i: usize| {
                    let taken: u64 = self.history[i..].iter().map(|went| went.cost).sum::<u64>() + cost;
                    let excess = u128::from(taken.saturating_sub(quota.capacity()));
                    let ticks = (excess * u128::from(window)).div_ceil(u128::from(quota.permits()));
                    self.history[i].at + u64::try_from(ticks).unwrap()
                };
                (0..self.history.len()).map(from).collect()
            }
            other => panic!("no model of {other}"),
        };
        let mut candidates: Vec<u64> = candidates.into_iter().filter(|time| *time > soonest).collect();
        candidates.push(soonest);
        candidates.sort_unstable();
        candidates.into_iter().find(|time| self.would_hold(quota, Went { at: *time, cost }))
    }

    fn would_hold(&self, quota: &Quota, more: Went) -> bool {
        let mut calls = match self.strategy {
            Strategy::SlidingWindow => as_sampled(&self.history, quota, self.samples),
            _ => self.history.clone(),
        };
        if more.cost > 0 {
            calls.push(more);
        }
        promise_holds(self.strategy, quota, &calls)
    }

    /// Whether the calls that went keep the promise of the strategy, all of them, from the start.
    pub fn promise_holds(&self) -> bool {
        self.quotas.iter().all(|quota| promise_holds(self.strategy, quota, &self.history))
    }

    /// For `sliding_window`: when the call could have gone if no permit ever came back late.
    pub fn exact(&self, cost: u64) -> Option<u64> {
        let exact = Self {
            strategy: Strategy::SlidingLog,
            quotas: self.quotas.clone(),
            history: self.history.clone(),
            ..*self
        };
        exact.earliest_of_all(cost)
    }

    /// The longest sample of the rule's quotas.
    pub fn sample(&self) -> u64 {
        self.quotas.iter().map(|quota| window(quota).div_ceil(self.samples)).max().unwrap()
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }
}

fn window(quota: &Quota) -> u64 {
    u64::try_from(quota.window().as_nanos()).unwrap()
}

fn promise_holds(strategy: Strategy, quota: &Quota, calls: &[Went]) -> bool {
    match strategy {
        Strategy::FixedWindow => fixed_window_holds(calls, quota),
        Strategy::SlidingLog | Strategy::SlidingWindow => any_interval_holds(calls, quota),
        Strategy::TokenBucket => token_bucket_holds(calls, quota),
        Strategy::LeakyBucket => leaky_bucket_holds(calls, quota),
        other => panic!("no model of {other}"),
    }
}

/// At most `qps` in each window; a key's window starts with its first call.
fn fixed_window_holds(calls: &[Went], quota: &Quota) -> bool {
    let mut rest = calls;
    while let Some(first) = rest.first() {
        let inside = rest.iter().take_while(|went| went.at < first.at + window(quota)).count();
        if rest[..inside].iter().map(|went| went.cost).sum::<u64>() > quota.permits() {
            return false;
        }
        rest = &rest[inside..];
    }
    true
}

/// At most `qps` in any interval of one window. Only the intervals that start with a call matter.
fn any_interval_holds(calls: &[Went], quota: &Quota) -> bool {
    (0..calls.len()).all(|i| {
        let inside = calls[i..].iter().take_while(|went| went.at < calls[i].at + window(quota));
        inside.map(|went| went.cost).sum::<u64>() <= quota.permits()
    })
}

/// The calls as `sliding_window` sees them: a sample opens with a call, and all calls within its length count as if they
/// came with the last of them.
fn as_sampled(calls: &[Went], quota: &Quota, samples: u64) -> Vec<Went> {
    let sample = window(quota).div_ceil(samples);
    let mut seen = Vec::new();
    let mut rest = calls;
    while let Some(first) = rest.first() {
        let inside = rest.iter().take_while(|went| went.at < first.at + sample).count();
        let at = rest[inside - 1].at;
        seen.extend(rest[..inside].iter().map(|went| Went { at, ..*went }));
        rest = &rest[inside..];
    }
    seen
}

/// In any interval of length t at most `burst + t * qps / window`.
fn token_bucket_holds(calls: &[Went], quota: &Quota) -> bool {
    (0..calls.len()).all(|i| {
        let mut taken = 0u128;
        calls[i..].iter().all(|went| {
            taken += u128::from(went.cost);
            let earned = u128::from(went.at - calls[i].at) * u128::from(quota.permits());
            taken * u128::from(window(quota))
                <= u128::from(quota.capacity()) * u128::from(window(quota)) + earned
        })
    })
}

/// The bucket holds `burst` and drains `qps` per window. Water is counted in drops: a permit is `window` of them.
fn leaky_bucket_holds(calls: &[Went], quota: &Quota) -> bool {
    let (mut water, mut time) = (0u128, 0);
    calls.iter().all(|went| {
        let drained = u128::from(went.at - time) * u128::from(quota.permits());
        water = water.saturating_sub(drained) + u128::from(went.cost) * u128::from(window(quota));
        time = went.at;
        water <= u128::from(quota.capacity()) * u128::from(window(quota))
    })
}
