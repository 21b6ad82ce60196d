//! Random traces of calls through both twins.

use std::time::Duration;

use ::redis::Value;

use super::server::{Answer, Server};
use super::{SEED, TODAY, rule_of};
use crate::draw::Draw;
use crate::strategy::lua::LONGEST_WAIT;
use crate::strategy::{Question, Room, Strategy, Terms, Visitor, decide};
use crate::{Quota, Rule};

const LEAST_DECISIONS: usize = 20_000;

/// Random traces through both twins, until there were decisions enough.
pub(super) fn compare(strategy: Strategy) {
    let server = Server::start();
    let (mut decisions, mut seed) = (0, SEED.wrapping_mul(1_000_003));
    while decisions < LEAST_DECISIONS {
        decisions += strategy.enter(Trace { server: &server, strategy, seed });
        seed += 1;
    }
}

struct Trace<'a> {
    server: &'a Server,
    strategy: Strategy,
    seed: u64,
}

impl Visitor for Trace<'_> {
    /// How many decisions were compared.
    type Output = usize;

    fn visit<R: Room>(self) -> usize {
        let Self { server, strategy, seed } = self;
        let mut random = Random::new(seed);
        // Now and then many calls close together, so that logs get long.
        let dense = random.chance(2);
        let rule = if dense { rule_of(strategy, &["300/1ms"]) } else { random_rule(&mut random, strategy) };
        let mut script = server.script(&rule, &format!("trace {seed}"));
        let terms = script.terms.clone();
        let mut states: Vec<R::State> = terms.iter().map(R::fresh).collect();

        let mut now = if random.chance(10) { 0 } else { TODAY };
        // The newest time that was written, and before which the clock must not go.
        let (mut written, mut floor) = (0, now);
        let mut lives = vec![0; terms.len()];
        let (mut decisions, mut edge) = (0, 0);
        for batch in 0..if dense { 600 } else { 40 } {
            let told = match random.between(0, 9) {
                _ if dense => now + random.between(0, 4),
                // Where something changes, by what the last batch was told.
                0 => now + edge,
                1 => (now + edge).saturating_sub(1),
                _ => random_time(&mut random, now, &terms),
            };
            let told = told.max(floor);
            now = told.max(written);
            if now > 2 * TODAY {
                break;
            }
            // A server forgets a key at the end of its life, or a little later.
            for (key, life) in script.keys.iter().zip(&mut lives) {
                if *life > 0 && now >= *life && random.chance(50) {
                    ::redis::cmd("DEL").arg(key).query::<Value>(&mut script.connection).unwrap();
                    (*life, floor) = (0, now);
                }
            }
            let calls = random_calls(&mut random, &terms);
            let context = || {
                let samples = rule.sample_count();
                format!(
                    "{rule:?}, {samples} samples, seed {seed}, batch {batch} at {told}: {calls:?}, {terms:?}"
                )
            };
            let before = script.dump();
            let answers = script.ask(told, &calls);
            assert_eq!(answers.len(), calls.len(), "{}", context());
            let mut taken = false;
            for (&(cost, longest_wait), answer) in calls.iter().zip(&answers) {
                let expected = decide::<R>(&mut states, &terms, now, Question { cost, longest_wait });
                assert_eq!(
                    *answer,
                    Answer::from(expected),
                    "cost {cost}, wait {longest_wait}, {}",
                    context()
                );
                taken |= expected.is_allowed() && cost > 0;
            }
            decisions += calls.len();
            let last = answers.last().expect("there is a call");
            edge = if last.time > 0 { last.time } else { last.reset_after };
            if !taken {
                assert_eq!(script.dump(), before, "rejected calls wrote, {}", context());
                continue;
            }
            written = now;
            for (quota, (state, terms)) in states.iter().zip(terms.iter()).enumerate() {
                let reset_after = R::standing(state, terms, now).reset_after();
                script.assert_life_of(quota, reset_after);
                lives[quota] = now + reset_after.next_multiple_of(1_000) + 1_000;
            }
        }
        script.forget();
        decisions
    }
}

pub(super) struct Random(Draw);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Draw::new(seed))
    }

    /// A number from `least` to `most`, both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    /// A number from 1 to `most`, of any magnitude.
    fn of_any_size(&mut self, most: u64) -> u64 {
        let bits = self.between(0, u64::from(most.ilog2()));
        self.between(1, most >> bits)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.0.any() % 100 < percent
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.0.any() % choices.len() as u64).unwrap()]
    }
}

/// One to three quotas: small ones that meet every edge, and the largest there can be.
pub(super) fn random_rule(random: &mut Random, strategy: Strategy) -> Rule {
    let longest = u64::try_from(Quota::LONGEST_WINDOW.as_nanos()).unwrap();
    // The totals of a log start anew when they get too large, which its twin need not do.
    let most = if strategy == Strategy::SlidingLog { 1_000_000_000 } else { u64::MAX - 1 };
    let quotas: Vec<Quota> = (0..random.one_of(&[1, 1, 2, 3]))
        .map(|_| {
            let (permits, window) = match random.between(0, 4) {
                0 | 1 => (random.between(1, 6), random.between(1, 40) * 1_000),
                2 => (random.between(1, 100), random.between(1, 10_000_000_000)),
                3 => (random.of_any_size(1_000_000_000), random.of_any_size(longest)),
                _ => (random.of_any_size(most), random.of_any_size(longest)),
            };
            let quota = Quota::new(permits, Duration::from_nanos(window));
            if !strategy.has_burst() {
                quota
            } else if random.chance(10) {
                // So many that no product of them is exact.
                let quota = Quota::new(random.between(1 << 38, 1 << 48), Duration::from_secs(1));
                quota.burst(random.between(1 << 48, 1 << 53))
            } else if random.chance(60) {
                let most = random.one_of(&[20, 1_000_000_000, u64::MAX - 1]);
                quota.burst(random.of_any_size(most))
            } else {
                quota
            }
        })
        .collect();
    let rule = Rule::try_new("trace", strategy, quotas).unwrap();
    if strategy.has_samples() {
        rule.try_samples(random.one_of(&[1, 2, 3, 10, 1_000])).unwrap()
    } else {
        rule
    }
}

/// A time at, after or a little before `now`.
fn random_time(random: &mut Random, now: u64, terms: &[Terms]) -> u64 {
    let Terms { permits, window, .. } = random.one_of(terms);
    match random.between(0, 9) {
        0..=2 => now,
        3 => now.saturating_sub(random.one_of(&[1, 999_999, 1_000_000])),
        4 | 5 => now + random.between(0, 3 * (window / permits).max(1)),
        6 | 7 => now + random.between(0, window / 8 + 1),
        8 => now + window,
        _ => now + random.between(0, 2 * window),
    }
}

/// A few calls, of which several may be alike: cost, longest wait.
pub(super) fn random_calls(random: &mut Random, terms: &[Terms]) -> Vec<(u64, u64)> {
    // Most calls are alone.
    let batch = if random.chance(50) { 1 } else { random.between(2, 8) };
    let mut call = |_| {
        let Terms { capacity, window, .. } = random.one_of(terms);
        let cost = match random.between(0, 9) {
            0..=4 => 1,
            5 => 0,
            6 => random.between(1, capacity),
            7 => random.of_any_size(capacity),
            8 => random.of_any_size(1_000_000_000),
            _ => random.one_of(&[capacity, capacity + 1, Terms::MOST_PERMITS]),
        };
        let longest_wait = match random.between(0, 9) {
            0..=4 => 0,
            5..=7 => random.between(0, window),
            8 => random.between(0, 5 * window),
            _ => LONGEST_WAIT,
        };
        (cost.min(Terms::MOST_PERMITS), longest_wait)
    };
    let mut calls: Vec<(u64, u64)> = (0..batch).map(&mut call).collect();
    if random.chance(30) {
        let at = usize::try_from(random.between(1, batch)).unwrap();
        let alike = usize::try_from(random.between(1, 12)).unwrap();
        let call = calls[at - 1];
        calls.splice(at..at, std::iter::repeat_n(call, alike));
    }
    calls
}
