//! Exactly when, exactly how many, and nothing from a call that was rejected.

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use limiter::{Call, Key, LimitKey, Limiter, LocalLimiter, ManualClock, Quota, Rule, Strategy};
use support::clock::SetClock;
use support::model::Ticks;
use support::random::{Random, base_seed};
use support::trace;

fn rule(strategy: Strategy, quotas: &[&str]) -> Rule {
    let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
    Rule::try_new("rule", strategy, quotas).unwrap()
}

/// One nanosecond earlier the call is rejected; then it is admitted.
#[test]
fn retry_after_is_exact() {
    for &strategy in Strategy::ALL {
        let mut rejections = 0;
        for seed in 0..1_000 {
            let mut random = Random::new(base_seed().wrapping_add(seed));
            let rule = trace::rule(&mut random, strategy, Ticks::Local);
            let clock = SetClock::default();
            let limiter = LocalLimiter::builder().clock(clock.clone()).build();
            let mut now = random.between(0, 1_000);
            for _ in 0..60 {
                now += random.between(0, 20);
                clock.set(now);
                let cost = random.between(1, rule.capacity());
                let Some(retry_after) = limiter.check_sync(&rule, "key", cost).retry_after() else {
                    continue;
                };
                rejections += 1;
                now += u64::try_from(retry_after.as_nanos()).unwrap();
                clock.set(now - 1);
                let early = limiter.check_sync(&rule, "key", cost).retry_after();
                assert_eq!(early, Some(Duration::from_nanos(1)), "{rule:?}, seed {seed}");
                clock.set(now);
                assert!(limiter.check_sync(&rule, "key", cost).is_allowed(), "{rule:?}, seed {seed}");
            }
        }
        assert!(rejections > 10_000, "{strategy}: {rejections} rejections show little");
    }
}

/// Two limiters see the same calls, and one of them many more that are rejected: they never disagree.
#[test]
fn a_rejected_call_changes_nothing_in_any_quota() {
    for &strategy in Strategy::ALL {
        let mut rejections = 0;
        for seed in 0..500 {
            let mut random = Random::new(base_seed().wrapping_add(seed));
            let rule = trace::rule(&mut random, strategy, Ticks::Local);
            let clock = SetClock::default();
            let [plain, harassed] = [(); 2].map(|()| LocalLimiter::builder().clock(clock.clone()).build());
            let mut now = 0;
            for asked in trace::calls(&mut random, &rule, Ticks::Local, 60) {
                now = asked.now.max(now);
                clock.set(now);
                for _ in 0..3 {
                    let cost = random.between(1, rule.capacity() + 1);
                    let before = harassed.peek_sync(&rule, "key");
                    // Only what is surely rejected: more than remains, and it does not wait.
                    if cost > before.remaining() {
                        assert!(!harassed.check_sync(&rule, "key", cost).is_allowed());
                        let after = harassed.peek_sync(&rule, "key");
                        assert_eq!(format!("{before:?}"), format!("{after:?}"), "{rule:?}, seed {seed}");
                        rejections += 1;
                    }
                }
                let decisions = [&plain, &harassed].map(|limiter| {
                    let decision = limiter.check_sync(&rule, "key", asked.cost);
                    format!("{decision:?}")
                });
                assert_eq!(decisions[0], decisions[1], "{rule:?}, seed {seed}");
            }
        }
        assert!(rejections > 10_000, "{strategy}: {rejections} rejections show little");
    }
}

/// A limit without a key is kept apart from all others, and decides as they do: also when time runs backwards.
#[test]
fn a_limit_without_a_key_is_decided_as_one_with_a_key() {
    for &strategy in Strategy::ALL {
        for seed in 0..300 {
            let mut random = Random::new(base_seed().wrapping_add(seed));
            let rule = trace::rule(&mut random, strategy, Ticks::Local);
            let clock = SetClock::default();
            let limiter = LocalLimiter::builder().clock(clock.clone()).build();
            for asked in trace::calls(&mut random, &rule, Ticks::Local, 60) {
                clock.set(asked.now);
                let wait = Duration::from_nanos(asked.longest_wait);
                let [without, with] = [Key::of(&()), Key::of("key")].map(|key| {
                    let decision = support::now(limiter.decide(Call::new(&rule, &key, asked.cost, wait)));
                    let look = support::now(limiter.look(&rule, &key));
                    format!("{decision:?}, then {look:?}")
                });
                assert_eq!(without, with, "{rule:?}, seed {seed}, {asked:?}");
                if random.chance(5) {
                    limiter.reset_sync(&rule, &());
                    limiter.reset_sync(&rule, "key");
                }
            }
        }
    }
}

/// Rules of one name are one limit only where they say the same.
#[test]
fn rules_that_differ_only_in_their_samples_share_nothing() {
    let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
    for samples in [10, 5, 1] {
        let rule = rule(Strategy::SlidingWindow, &["3/4s"]).samples(samples);
        for key in [Some("alice"), None] {
            assert!(limiter.check_sync(&rule, &key, 3).is_allowed(), "{samples} samples");
            assert!(!limiter.check_sync(&rule, &key, 1).is_allowed(), "{samples} samples");
        }
    }
}

/// Of two quotas that keep a call waiting equally long, or can never pay it, the one that was written first is named.
#[test]
fn on_a_tie_the_first_quota_is_named() {
    for &strategy in Strategy::ALL {
        let quotas = match strategy {
            // Buckets of one size that fill equally fast.
            Strategy::TokenBucket | Strategy::LeakyBucket => {
                [Quota::new(2, Duration::from_secs(4)), Quota::new(4, Duration::from_secs(8)).burst(2)]
            }
            _ => [2, 3].map(|permits| Quota::new(permits, Duration::from_secs(4))),
        };
        for quotas in [quotas, [quotas[1], quotas[0]]] {
            let rule = Rule::try_new("tie", strategy, quotas).unwrap();
            let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
            assert!(limiter.check_sync(&rule, "key", 2).is_allowed());
            for (cost, retry_after) in [(2, Some(Duration::from_secs(4))), (5, None)] {
                let rejected = limiter.check_sync(&rule, "key", cost).into_result(&rule).unwrap_err();
                assert_eq!(rejected.retry_after(), retry_after, "{rule:?}");
                assert_eq!(rejected.limit(), quotas[0].permits(), "{rule:?}, cost {cost}");
            }
        }
    }
}

/// Not one more than one thread would, and not one fewer, while the clock moves on.
fn many_threads_get_exactly_the_limit<K: LimitKey + Sync + ?Sized>(key: &K) {
    const THREADS: usize = 8;
    for &strategy in Strategy::ALL {
        // 7 per second: a permit takes no whole number of nanoseconds, and a bucket is another room.
        for quotas in [&["100/s"][..], &["7/s"][..], &["100/s", "250/1m"][..]] {
            let rule = rule(strategy, quotas);
            let clock = ManualClock::new();
            let limiter = LocalLimiter::builder().clock(clock.clone()).build();
            let alone = LocalLimiter::builder().clock(clock.clone()).build();
            for round in 0..5 {
                let admitted = AtomicU64::new(0);
                let start = Barrier::new(THREADS);
                thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| {
                            start.wait();
                            for _ in 0..100 {
                                if limiter.check_sync(&rule, key, 1).is_allowed() {
                                    admitted.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        });
                    }
                });
                let one_thread =
                    (0..THREADS * 100).filter(|_| alone.check_sync(&rule, key, 1).is_allowed()).count();
                assert_eq!(admitted.into_inner(), one_thread as u64, "{rule:?}, round {round}");
                clock.advance(Duration::from_millis(700));
            }
        }
    }
}

#[test]
fn many_threads_on_one_key_get_exactly_the_limit() {
    many_threads_get_exactly_the_limit("key");
}

#[test]
fn many_threads_without_a_key_get_exactly_the_limit() {
    many_threads_get_exactly_the_limit(&());
}

/// On the real clock, with threads that read it in any order: never more than the limit.
#[test]
fn threads_on_the_real_clock_never_get_more_than_the_limit() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy, &["50/1h"]);
        let limiter = LocalLimiter::new();
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for key in 0..2_000u64 {
                        if limiter.check_sync(&rule, &(key % 10), 1).is_allowed() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 50 * 10, "{strategy}");
    }
}

/// Waiting calls get their turns in the order in which they asked, each at its exact time.
#[tokio::test]
async fn waiting_is_fair_and_evenly_spaced() {
    let rule = Rule::new("queue", Strategy::LeakyBucket, Quota::new(4, Duration::from_secs(1)).burst(1));
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    let (report, mut finished) = tokio::sync::mpsc::unbounded_channel();
    for caller in 0..5 {
        let (limiter, rule, report) = (limiter.clone(), rule.clone(), report.clone());
        tokio::spawn(async move {
            let decision = limiter.acquire(&rule, &(), 1, Duration::from_secs(1)).await;
            assert_eq!(decision.delay(), Duration::from_millis(250) * caller);
            report.send(caller).unwrap();
        });
        tokio::task::yield_now().await;
    }
    assert!(!limiter.acquire(&rule, &(), 1, Duration::from_secs(1)).await.is_allowed(), "the queue is full");
    assert_eq!(finished.recv().await, Some(0));
    for caller in 1..5 {
        clock.advance(Duration::from_nanos(249_999_999));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(finished.try_recv().is_err(), "caller {caller} went too early");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(finished.recv().await, Some(caller));
    }
}

/// Only a lower bound: how late a machine wakes is its own affair.
#[tokio::test]
async fn on_the_real_clock_nobody_goes_before_their_turn() {
    let apart = Duration::from_millis(40);
    let rule = Rule::new("real queue", Strategy::LeakyBucket, Quota::new(1, apart));
    let limiter = LocalLimiter::new();
    let start = Instant::now();
    for turn in 0..3 {
        assert!(limiter.acquire(&rule, "key", 1, Duration::from_secs(60)).await.is_allowed());
        assert!(start.elapsed() >= apart * turn, "call {turn} went after {:?}", start.elapsed());
    }
}

#[test]
fn a_cost_above_the_capacity_is_never_admitted_and_a_cost_of_nothing_always() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy, &["3/s", "10/1m"]);
        let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
        let rejected = limiter.check_sync(&rule, "key", 4).into_result(&rule).unwrap_err();
        assert_eq!(rejected.reason(), limiter::Reason::TooCostly);
        assert_eq!(rejected.retry_after(), None);
        assert_eq!((rejected.limit(), rejected.window()), (3, Duration::from_secs(1)));
        assert!(!limiter.check_sync(&rule, "key", -1).is_allowed());
        assert!(limiter.check_sync(&rule, "key", 3).is_allowed());
        assert!(limiter.check_sync(&rule, "key", 0).is_allowed());
        assert_eq!(limiter.peek_sync(&rule, "key").remaining(), 0);
    }
}

/// The largest numbers that can be written neither overflow nor panic, and nobody waits for longer than 146 years.
#[test]
fn extreme_numbers_are_only_numbers() {
    const FAR_AWAY: Duration = Duration::from_nanos(1 << 62);
    for &strategy in Strategy::ALL {
        for permits in [1, u64::MAX] {
            for window in [Duration::from_nanos(1), Quota::LONGEST_WINDOW] {
                let rule = Rule::new("extreme", strategy, Quota::new(permits, window));
                let clock = SetClock::default();
                let limiter = LocalLimiter::builder().clock(clock.clone()).build();
                for now in [0, 1, u64::MAX / 2, u64::MAX, u64::MAX] {
                    clock.set(now);
                    for cost in [permits, 1, u64::MAX] {
                        let decision = limiter.check_sync(&rule, &now, cost);
                        assert!(decision.remaining() <= permits);
                        assert!(
                            decision.is_allowed()
                                || decision.reset_after() > Duration::ZERO
                                || cost > permits
                        );
                    }
                    // So many calls, all in one queue, that their windows add up to more than any clock can show.
                    for _ in 0..300 {
                        let key = Key::of(&now);
                        let patient = Call::new(&rule, &key, permits, Duration::MAX);
                        let decision = support::now(limiter.decide(patient));
                        assert!(decision.delay() <= FAR_AWAY, "{rule:?} at {now}: {decision:?}");
                        assert!(decision.is_allowed() || decision.retry_after() > Some(FAR_AWAY));
                    }
                }
            }
        }
    }
}

#[test]
fn peek_takes_nothing_and_reset_gives_all_back() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy, &["2/4s"]);
        let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
        for key in [&Some("alice"), &None] {
            for _ in 0..10 {
                let decision = limiter.peek_sync(&rule, key);
                assert!(
                    decision.is_allowed() && decision.remaining() == 2 && decision.reset_after().is_zero()
                );
            }
            assert_eq!(limiter.check_sync(&rule, key, 2).remaining(), 0);
            let decision = limiter.peek_sync(&rule, key);
            assert!(!decision.is_allowed() && decision.retry_after().is_some());
            limiter.reset_sync(&rule, key);
            assert_eq!(limiter.peek_sync(&rule, key).remaining(), 2);
        }
    }
}
