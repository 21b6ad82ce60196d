//! The promises of the strategies, attacked with random traces beside slow models of them.

mod support;

use std::time::Duration;

use limiter::{Call, Decision, Key, Limiter, LocalLimiter, Reason, Rule, Strategy};
use support::clock::SetClock;
use support::model::{Expected, Model};
use support::random::{Random, base_seed};
use support::trace::{self, Asked};

const TRACES: u64 = 2_500;
const CALLS: usize = 40;

/// Seeds of traces that once failed. They stay.
const REGRESSIONS: &[u64] = &[];

fn decide(limiter: &LocalLimiter, rule: &Rule, asked: Asked) -> Decision {
    let key = Key::of("somebody");
    let call = Call::new(rule, &key, asked.cost, Duration::from_nanos(asked.longest_wait));
    support::now(limiter.decide(call))
}

fn seen(decision: &Decision, rule: &Rule) -> Expected {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    match decision.into_result(rule) {
        Ok(decision) => Expected::Allowed { delay: nanos(decision.delay()) },
        Err(rejected) => match rejected.reason() {
            Reason::Exceeded => Expected::Exceeded { retry_after: nanos(rejected.retry_after().unwrap()) },
            Reason::TooCostly => Expected::TooCostly,
            other => panic!("a local limiter never says {other:?}"),
        },
    }
}

fn traces_of(strategy: Strategy) {
    let seeds = (0..TRACES).map(|i| base_seed().wrapping_mul(1_000_003).wrapping_add(i));
    for seed in REGRESSIONS.iter().copied().chain(seeds) {
        let mut random = Random::new(seed);
        let rule = trace::rule(&mut random, strategy);
        let clock = SetClock::default();
        let limiter = LocalLimiter::builder().clock(clock.clone()).build();
        let mut model = Model::new(&rule);
        for (i, asked) in trace::calls(&mut random, &rule, CALLS).into_iter().enumerate() {
            let context =
                || format!("{rule:?}, {} samples, seed {seed}, call {i}: {asked:?}", rule.sample_count());
            clock.set(asked.now);
            let expected = model.decide(asked.now, asked.cost, asked.longest_wait);
            let decision = decide(&limiter, &rule, asked);
            assert_eq!(seen(&decision, &rule), expected, "{}", context());
            assert_eq!(decision.remaining(), model.remaining(), "remaining, {}", context());
            let reset_after = u64::try_from(decision.reset_after().as_nanos()).unwrap();
            assert_eq!(reset_after, model.reset_after(), "reset_after, {}", context());
            if let (Strategy::SlidingWindow, Some(exact)) = (strategy, model.exact(1)) {
                let peeked = limiter.peek_sync(&rule, "somebody").retry_after().unwrap_or_default();
                let turn = model.newest() + u64::try_from(peeked.as_nanos()).unwrap();
                assert!(
                    exact <= turn && turn - exact < model.sample().max(1),
                    "more than a sample late, {}",
                    context()
                );
            }
        }
        assert!(model.promise_holds(), "{rule:?}, seed {seed}");
        let turns = model.history.windows(2);
        assert!(turns.into_iter().all(|pair| pair[0].at <= pair[1].at), "somebody overtook, seed {seed}");
    }
}

#[test]
fn fixed_window_decides_as_its_model() {
    traces_of(Strategy::FixedWindow);
}

#[test]
fn sliding_window_decides_as_its_model() {
    traces_of(Strategy::SlidingWindow);
}

#[test]
fn sliding_log_decides_as_its_model() {
    traces_of(Strategy::SlidingLog);
}

#[test]
fn token_bucket_decides_as_its_model() {
    traces_of(Strategy::TokenBucket);
}

#[test]
fn leaky_bucket_decides_as_its_model() {
    traces_of(Strategy::LeakyBucket);
}

#[test]
fn every_strategy_has_its_traces() {
    assert_eq!(Strategy::ALL.len(), 5, "a new strategy needs a model and a test above");
    assert!(TRACES * CALLS as u64 >= 100_000);
}
