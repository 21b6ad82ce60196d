//! Random rules, random calls under them, and a limiter that must decide them as the model does.

use std::time::Duration;

use limiter::{Call, Decision, Key, Limiter, Quota, Reason, Rule, Strategy};

use super::model::{Expected, Model, Ticks};
use super::random::{Random, base_seed};

const TRACES: u64 = 2_500;
const CALLS: usize = 40;
const _: () = assert!(TRACES * CALLS as u64 >= 100_000, "so many decisions were promised");

/// Seeds of traces that once failed. They stay.
const REGRESSIONS: &[u64] = &[];

/// One call of a trace, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub now: u64,
    pub cost: u64,
    pub longest_wait: u64,
}

/// Sends random traces through limiters that `limiter` makes or hands out, whose clock `set` sets, and compares every
/// decision with the model's.
pub async fn decides_as_its_model<L: Limiter>(
    limiter: impl Fn() -> L,
    ticks: Ticks,
    strategy: Strategy,
    set: impl Fn(u64),
) {
    let seeds = (0..TRACES).map(|i| base_seed().wrapping_mul(1_000_003).wrapping_add(i));
    for seed in REGRESSIONS.iter().copied().chain(seeds) {
        let mut random = Random::new(seed);
        let rule = rule(&mut random, strategy, ticks);
        let limiter = limiter();
        // A server holds the keys of all traces, and rules of one name share them.
        let key = Key::of(&(strategy.name(), seed));
        let mut model = Model::new(&rule, ticks);
        for (i, asked) in calls(&mut random, &rule, ticks, CALLS).into_iter().enumerate() {
            let context =
                || format!("{rule:?}, {} samples, seed {seed}, call {i}: {asked:?}", rule.sample_count());
            set(asked.now);
            let expected = model.decide(asked.now, asked.cost, asked.longest_wait);
            let longest_wait = Duration::from_nanos(asked.longest_wait * ticks.nanos());
            let decision = limiter.decide(Call::new(&rule, &key, asked.cost, longest_wait)).await;
            assert_eq!(seen(&decision, &rule, ticks), expected, "{}", context());
            assert_eq!(decision.remaining(), model.remaining(), "remaining, {}", context());
            assert_eq!(
                in_ticks(decision.reset_after(), ticks),
                model.reset_after(),
                "reset_after, {}",
                context()
            );
            if strategy == Strategy::SlidingWindow {
                let peeked = limiter.look(&rule, &key).await.retry_after().unwrap_or_default();
                let (turn, exact) = (model.now + in_ticks(peeked, ticks), model.exact());
                assert!(
                    exact <= turn && turn - exact < model.sample(),
                    "more than a sample late, {}",
                    context()
                );
            }
        }
        assert!(model.promise_holds(), "{rule:?}, seed {seed}");
        let in_order = model.history.windows(2).all(|pair| pair[0].at <= pair[1].at);
        assert!(in_order, "somebody overtook, seed {seed}");
    }
}

fn seen(decision: &Decision, rule: &Rule, ticks: Ticks) -> Expected {
    match decision.into_result(rule) {
        Ok(decision) => Expected::Allowed { delay: in_ticks(decision.delay(), ticks) },
        Err(rejected) => match rejected.reason() {
            Reason::Exceeded => {
                Expected::Exceeded { retry_after: in_ticks(rejected.retry_after().unwrap(), ticks) }
            }
            Reason::TooCostly => Expected::TooCostly,
            other => panic!("nobody was away, but: {other:?}"),
        },
    }
}

fn in_ticks(time: Duration, ticks: Ticks) -> u64 {
    let nanos = u64::try_from(time.as_nanos()).unwrap();
    assert!(nanos.is_multiple_of(ticks.nanos()), "{time:?} is not a whole number of ticks");
    nanos / ticks.nanos()
}

/// A rule of one to three quotas, small enough that every edge is met often, sometimes with numbers that do not divide.
pub fn rule(random: &mut Random, strategy: Strategy, ticks: Ticks) -> Rule {
    let quotas: Vec<Quota> = (0..random.one_of(&[1, 1, 1, 2, 3]))
        .map(|_| {
            let permits = random.one_of(&[1, 2, 3, 5, 7, 10, 13]);
            let window = random.one_of(&[1, 7, 10, 100, 997, 1_000, 4_000_000_000]);
            let quota = Quota::new(permits, Duration::from_nanos(window * ticks.nanos()));
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
pub fn calls(random: &mut Random, rule: &Rule, ticks: Ticks, count: usize) -> Vec<Asked> {
    let window =
        rule.quotas().iter().map(|quota| u64::try_from(quota.window().as_nanos()).unwrap()).max().unwrap();
    let window = window / ticks.nanos();
    let most = rule.quotas().iter().map(Quota::capacity).max().unwrap();
    // A server's clock that jumps back by more than a second was set: that is another story, with tests of its own.
    let furthest_back = match ticks {
        Ticks::Local => u64::MAX,
        Ticks::Server => 1_000_000,
    };
    let mut now = random.between(0, window);
    let mut newest = now;
    (0..count)
        .map(|_| {
            now = match random.between(0, 9) {
                0..=3 => now,
                4..=6 => now + random.between(0, (window / 8).max(1)),
                7 => now + random.between(0, window * 2),
                8 => now + window * 10,
                _ => now.saturating_sub(random.between(0, window * 2)),
            };
            newest = newest.max(now);
            now = now.max(newest.saturating_sub(furthest_back));
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
