//! Slow, obvious models of the strategies, written from their promises alone.
//!
//! A model knows every call that ever went, and asks of a time whether the promise would still hold if one more call
//! went then. Nothing is kept up to date, nothing is packed, nothing is dropped.

use limiter::{Rule, Strategy};

/// A call that went: when, and for how many permits.
#[derive(Clone, Copy, Debug)]
pub struct Went {
    pub at: u64,
    pub cost: u64,
}

/// How a limiter counts time, and which times it remembers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ticks {
    /// Nanoseconds; every call tells the time.
    Local,
    /// Microseconds; only a call that took something tells the time, since others write nothing.
    Server,
}

impl Ticks {
    /// The length of a tick in nanoseconds.
    pub fn nanos(self) -> u64 {
        match self {
            Self::Local => 1,
            Self::Server => 1_000,
        }
    }
}

/// A quota in ticks.
#[derive(Clone, Copy)]
struct Limit {
    permits: u64,
    window: u64,
    capacity: u64,
    sample: u64,
}

/// All the calls of one key under one rule. Times are in ticks.
pub struct Model {
    strategy: Strategy,
    ticks: Ticks,
    limits: Vec<Limit>,
    /// In the order of their turns.
    pub history: Vec<Went>,
    /// The newest time that is remembered.
    newest: u64,
    /// The time of the last decision, as it was counted.
    pub now: u64,
}

/// What a model expects of a decision.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    Allowed { delay: u64 },
    Exceeded { retry_after: u64 },
    TooCostly,
}

impl Model {
    pub fn new(rule: &Rule, ticks: Ticks) -> Self {
        let limit = |quota: &limiter::Quota| {
            let window = u64::try_from(quota.window().as_nanos()).unwrap() / ticks.nanos();
            let sample = window.div_ceil(u64::from(rule.sample_count()));
            Limit { permits: quota.permits(), window, capacity: quota.capacity(), sample }
        };
        let limits = rule.quotas().iter().map(limit).collect();
        Self { strategy: rule.strategy(), ticks, limits, history: Vec::new(), newest: 0, now: 0 }
    }

    /// Decides a call as the words of the design say: at the latest of the earliest times of all quotas.
    pub fn decide(&mut self, now: u64, cost: u64, longest_wait: u64) -> Expected {
        // An older now counts as the newest seen.
        self.now = self.newest.max(now);
        let Some(turn) = self.earliest_of_all(cost) else { return self.remember(Expected::TooCostly, false) };
        let wait = turn - self.now;
        if wait > longest_wait {
            return self.remember(Expected::Exceeded { retry_after: wait }, false);
        }
        if cost > 0 {
            self.history.push(Went { at: turn, cost });
        }
        self.remember(Expected::Allowed { delay: wait }, cost > 0)
    }

    fn remember(&mut self, expected: Expected, taken: bool) -> Expected {
        if taken || self.ticks == Ticks::Local {
            self.newest = self.now;
        }
        expected
    }

    /// The largest cost that would pass at once.
    pub fn remaining(&self) -> u64 {
        if self.history.last().is_some_and(|last| last.at > self.now) {
            return 0;
        }
        let most = self.limits.iter().map(|limit| limit.capacity).min().unwrap();
        let passes = |cost: &u64| {
            let call = Went { at: self.now, cost: *cost };
            self.limits.iter().all(|limit| self.would_hold(limit, call))
        };
        (1..=most).rev().find(passes).unwrap_or(0)
    }

    /// How long until each quota could pay all it can ever hold.
    pub fn reset_after(&self) -> u64 {
        let full = |limit: &Limit| self.earliest(limit, limit.capacity).unwrap() - self.now;
        self.limits.iter().map(full).max().unwrap()
    }

    /// Whether the calls that went keep the promise of the strategy, all of them, from the start.
    pub fn promise_holds(&self) -> bool {
        self.limits.iter().all(|limit| promise_holds(self.strategy, limit, &self.history))
    }

    /// For `sliding_window`: when a call of cost 1 could have gone if no permit ever came back late.
    pub fn exact(&self) -> u64 {
        let (limits, history) = (self.limits.clone(), self.history.clone());
        let exact = Self { strategy: Strategy::SlidingLog, limits, history, ..*self };
        exact.earliest_of_all(1).expect("every quota has a permit")
    }

    /// The longest sample of the rule's quotas.
    pub fn sample(&self) -> u64 {
        self.limits.iter().map(|limit| limit.sample).max().unwrap()
    }

    fn earliest_of_all(&self, cost: u64) -> Option<u64> {
        self.limits.iter().try_fold(self.now, |latest, limit| Some(latest.max(self.earliest(limit, cost)?)))
    }

    /// The first time, not before the last call that went, at which the promise would still hold.
    fn earliest(&self, limit: &Limit, cost: u64) -> Option<u64> {
        if cost > limit.capacity {
            return None;
        }
        // Nobody overtakes.
        let soonest = self.history.last().map_or(self.now, |last| last.at.max(self.now));
        let candidates: Vec<u64> = match self.strategy {
            // Between two calls nothing changes but at the moments when a call leaves the window.
            Strategy::FixedWindow | Strategy::SlidingLog | Strategy::SlidingWindow => {
                self.history.iter().map(|went| went.at + limit.window).collect()
            }
            // A bucket gives back with every tick: for each earlier call, the tick from which the promise holds for
            // the interval that starts with it.
            Strategy::TokenBucket | Strategy::LeakyBucket => {
                let from = |i: usize| {
                    let taken: u64 = self.history[i..].iter().map(|went| went.cost).sum::<u64>() + cost;
                    let excess = u128::from(taken.saturating_sub(limit.capacity));
                    let ticks = (excess * u128::from(limit.window)).div_ceil(u128::from(limit.permits));
                    self.history[i].at + u64::try_from(ticks).unwrap()
                };
                (0..self.history.len()).map(from).collect()
            }
            other => panic!("no model of {other}"),
        };
        let mut candidates: Vec<u64> = candidates.into_iter().filter(|time| *time > soonest).collect();
        candidates.push(soonest);
        candidates.sort_unstable();
        candidates.into_iter().find(|time| self.would_hold(limit, Went { at: *time, cost }))
    }

    fn would_hold(&self, limit: &Limit, more: Went) -> bool {
        let mut calls = match self.strategy {
            Strategy::SlidingWindow => as_sampled(&self.history, limit),
            _ => self.history.clone(),
        };
        if more.cost > 0 {
            calls.push(more);
        }
        promise_holds(self.strategy, limit, &calls)
    }
}

fn promise_holds(strategy: Strategy, limit: &Limit, calls: &[Went]) -> bool {
    match strategy {
        Strategy::FixedWindow => fixed_window_holds(calls, limit),
        Strategy::SlidingLog | Strategy::SlidingWindow => any_interval_holds(calls, limit),
        Strategy::TokenBucket => token_bucket_holds(calls, limit),
        Strategy::LeakyBucket => leaky_bucket_holds(calls, limit),
        other => panic!("no model of {other}"),
    }
}

/// At most `qps` in each window; a key's window starts with its first call.
fn fixed_window_holds(calls: &[Went], limit: &Limit) -> bool {
    let mut rest = calls;
    while let Some(first) = rest.first() {
        let inside = rest.iter().take_while(|went| went.at < first.at + limit.window).count();
        if rest[..inside].iter().map(|went| went.cost).sum::<u64>() > limit.permits {
            return false;
        }
        rest = &rest[inside..];
    }
    true
}

/// At most `qps` in any interval of one window. Only the intervals that start with a call matter.
fn any_interval_holds(calls: &[Went], limit: &Limit) -> bool {
    (0..calls.len()).all(|i| {
        let inside = calls[i..].iter().take_while(|went| went.at < calls[i].at + limit.window);
        inside.map(|went| went.cost).sum::<u64>() <= limit.permits
    })
}

/// The calls as `sliding_window` sees them: a sample opens with a call, and all calls within its length count as if they
/// came with the last of them.
fn as_sampled(calls: &[Went], limit: &Limit) -> Vec<Went> {
    let mut seen = Vec::new();
    let mut rest = calls;
    while let Some(first) = rest.first() {
        let inside = rest.iter().take_while(|went| went.at < first.at + limit.sample).count();
        let at = rest[inside - 1].at;
        seen.extend(rest[..inside].iter().map(|went| Went { at, ..*went }));
        rest = &rest[inside..];
    }
    seen
}

/// In any interval of length t at most `burst + t * qps / window`.
fn token_bucket_holds(calls: &[Went], limit: &Limit) -> bool {
    let [permits, window, burst] = [limit.permits, limit.window, limit.capacity].map(u128::from);
    (0..calls.len()).all(|i| {
        let mut taken = 0;
        calls[i..].iter().all(|went| {
            taken += u128::from(went.cost);
            taken * window <= burst * window + u128::from(went.at - calls[i].at) * permits
        })
    })
}

/// The bucket holds `burst` and drains `qps` per window. Water is counted in drops: a permit is `window` of them.
fn leaky_bucket_holds(calls: &[Went], limit: &Limit) -> bool {
    let [permits, window, burst] = [limit.permits, limit.window, limit.capacity].map(u128::from);
    let (mut water, mut time) = (0u128, 0);
    calls.iter().all(|went| {
        let drained = u128::from(went.at - time) * permits;
        water = water.saturating_sub(drained) + u128::from(went.cost) * window;
        time = went.at;
        water <= burst * window
    })
}
