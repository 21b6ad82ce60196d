//! The promises of the strategies, attacked with random traces beside slow models of them: in this process.

mod support;

use limiter::{LocalLimiter, Strategy};
use support::clock::SetClock;
use support::model::Ticks;
use support::now;
use support::trace;

fn decides_as_its_model(strategy: Strategy) {
    let clock = SetClock::default();
    // Each trace has a limiter of its own: the newest time seen is one for all keys of a shard.
    let limiter = || LocalLimiter::builder().clock(clock.clone()).build();
    now(trace::decides_as_its_model(limiter, Ticks::Local, strategy, |time| clock.set(time)));
}

#[test]
fn fixed_window_decides_as_its_model() {
    decides_as_its_model(Strategy::FixedWindow);
}

#[test]
fn sliding_window_decides_as_its_model() {
    decides_as_its_model(Strategy::SlidingWindow);
}

#[test]
fn sliding_log_decides_as_its_model() {
    decides_as_its_model(Strategy::SlidingLog);
}

#[test]
fn token_bucket_decides_as_its_model() {
    decides_as_its_model(Strategy::TokenBucket);
}

#[test]
fn leaky_bucket_decides_as_its_model() {
    decides_as_its_model(Strategy::LeakyBucket);
}

#[test]
fn every_strategy_has_its_traces() {
    assert_eq!(Strategy::ALL.len(), 5, "a new strategy needs a model and a test above");
}
