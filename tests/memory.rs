//! What a limiter holds: bounded keys, nothing allocated for a known one, nobody reset to make room.

use std::time::Duration;

use allocation_counter::measure;
use limiter::{LocalLimiter, ManualClock, Quota, Rule, Strategy, rate_limit};

fn rule(strategy: Strategy) -> Rule {
    Rule::new("rule", strategy, Quota::new(3, Duration::from_secs(4)))
}

/// One million keys through room for ten thousand, none of them idle: the table stays bounded, and those who were over
/// their limit before are still over it after.
#[test]
fn a_flood_of_keys_neither_grows_memory_nor_resets_anybody() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let limiter = LocalLimiter::builder().max_keys(10_000).clock(ManualClock::new()).build();
        for key in 0..100u64 {
            assert!(limiter.check_sync(&rule, &key, 3).is_allowed());
        }
        let full = measure(|| {
            for key in 100..10_000u64 {
                assert!(limiter.check_sync(&rule, &key, 1).is_allowed());
            }
        });
        let flood = measure(|| {
            for key in 10_000..1_000_000u64 {
                let _ = limiter.check_sync(&rule, &key, 1);
            }
        });
        println!("{strategy}: {} bytes for 9,900 keys, {} more for a flood", full.bytes_max, flood.bytes_max);
        assert!(full.bytes_max < 10_000 * 400, "{strategy}: {} bytes", full.bytes_max);
        assert!(flood.bytes_max < 100_000, "{strategy}: the flood took {} bytes", flood.bytes_max);
        for key in 0..100u64 {
            assert!(!limiter.check_sync(&rule, &key, 1).is_allowed(), "{strategy}: {key} was reset");
        }
    }
}

/// Somebody may have a rule for each customer.
#[test]
fn a_rule_with_one_key_takes_little() {
    for &strategy in Strategy::ALL {
        let limiter = LocalLimiter::new();
        let taken = measure(|| assert!(limiter.check_sync(&rule(strategy), &1u64, 1).is_allowed()));
        assert!(taken.bytes_current < 100_000, "{strategy}: {} bytes", taken.bytes_current);
    }
}

/// Keys as long as anybody likes take no more room than others.
#[test]
fn long_keys_are_bounded_too() {
    let rule = rule(Strategy::TokenBucket);
    let limiter = LocalLimiter::builder().max_keys(1_000).clock(ManualClock::new()).build();
    let mut key = "x".repeat(1 << 20);
    let taken = measure(|| {
        for i in 0..100 {
            key.replace_range(..4, &format!("{i:04}"));
            assert!(limiter.check_sync(&rule, &key, 3).is_allowed(), "two long keys became one");
            assert!(!limiter.check_sync(&rule, &key, 1).is_allowed(), "a long key was not known again");
        }
    });
    assert!(taken.bytes_current < 50_000, "{} bytes stay for 100 keys", taken.bytes_current);
}

/// However long keys are, all of their bytes count.
#[test]
fn long_keys_that_differ_in_their_last_byte_stay_apart() {
    let rule = rule(Strategy::TokenBucket);
    let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
    // A string has 5 bytes more as a key; past 128 bytes it is held as a digest.
    for length in (110..140).chain([1_000, 1 << 16]) {
        let keys = ['a', 'b'].map(|last| format!("{}{last}", "x".repeat(length)));
        for key in &keys {
            assert!(limiter.check_sync(&rule, key, 3).is_allowed(), "two keys of {length} bytes became one");
        }
        for key in &keys {
            assert!(!limiter.check_sync(&rule, key, 1).is_allowed(), "a key of {length} bytes was forgotten");
        }
    }
}

/// Not one key more than there is room for has a state of its own.
#[test]
fn keys_without_a_place_share_one_state() {
    for &strategy in Strategy::ALL {
        for max_keys in [0, 1, 2, 100] {
            let rule = rule(strategy);
            let clock = ManualClock::new();
            let limiter = LocalLimiter::builder().max_keys(max_keys).clock(clock.clone()).build();
            let fill = || (0..max_keys).all(|key| limiter.check_sync(&rule, &key, 3).is_allowed());
            assert!(fill());
            assert_eq!(limiter.check_sync(&rule, "one", 1).remaining(), 2, "{strategy}, {max_keys} keys");
            assert_eq!(limiter.check_sync(&rule, "other", 1).remaining(), 1, "{strategy}, {max_keys} keys");
            assert_eq!(
                limiter.peek_sync(&rule, "third").remaining(),
                1,
                "a look sees what the crowd has left"
            );
            assert!(!limiter.check_sync(&rule, "third", 2).is_allowed(), "{strategy}, {max_keys} keys");

            // The table is as full as before, but nobody called with the crowd since.
            clock.advance(Duration::from_secs(4));
            assert!(fill());
            assert_eq!(limiter.peek_sync(&rule, "late").remaining(), 3, "{strategy}, {max_keys} keys");
            assert!(limiter.check_sync(&rule, "late", 3).is_allowed(), "{strategy}, {max_keys} keys");
            assert!(!limiter.check_sync(&rule, "later", 1).is_allowed(), "{strategy}, {max_keys} keys");
        }
    }
}

/// A key that is idle in one quota is still over another.
#[test]
fn a_key_makes_room_only_when_all_its_quotas_are_idle() {
    for &strategy in Strategy::ALL {
        let quotas = ["3/s", "10/1h"].map(|quota| quota.parse::<Quota>().unwrap());
        let rule = Rule::try_new("rule", strategy, quotas).unwrap();
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().max_keys(100).clock(clock.clone()).build();
        for _ in 0..3 {
            for key in 0..100u64 {
                assert!(limiter.check_sync(&rule, &key, 3).is_allowed(), "{strategy}");
            }
            clock.advance(Duration::from_secs(1));
        }
        for newcomer in 100..1_000u64 {
            let _ = limiter.check_sync(&rule, &newcomer, 1);
        }
        for key in 0..100u64 {
            assert_eq!(limiter.peek_sync(&rule, &key).remaining(), 1, "{strategy}: {key} was reset");
        }
    }
}

/// In a full table, the one idle key is found among all the busy ones.
#[test]
fn a_newcomer_gets_the_place_of_the_only_idle_key() {
    const KEYS: u64 = 10_000;
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().max_keys(10_000).clock(clock.clone()).build();
        for key in 0..KEYS {
            if key == 1 {
                clock.advance(Duration::from_secs(1));
            }
            assert!(limiter.check_sync(&rule, &key, 3).is_allowed(), "{strategy}");
        }
        clock.advance(Duration::from_secs(3));
        assert!(limiter.check_sync(&rule, "newcomer", 3).is_allowed(), "{strategy}");
        assert_eq!(
            limiter.peek_sync(&rule, "next").remaining(),
            3,
            "{strategy}: the newcomer joined the crowd"
        );
        for key in 1..KEYS {
            assert!(!limiter.check_sync(&rule, &key, 3).is_allowed(), "{strategy}: {key} was reset");
        }
    }
}

/// A key that called with the crowd takes what it took along when there is room for it.
#[test]
fn who_leaves_the_crowd_starts_with_what_it_took_there() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().max_keys(1).clock(clock.clone()).build();
        assert!(limiter.check_sync(&rule, "resident", 1).is_allowed());
        clock.advance(Duration::from_secs(3));
        assert!(
            limiter.check_sync(&rule, "newcomer", 2).is_allowed(),
            "{strategy}: the crowd has a limit of its own"
        );
        clock.advance(Duration::from_secs(1));
        // The resident is idle by now and makes room.
        let more = (0..3).filter(|_| limiter.check_sync(&rule, "newcomer", 1).is_allowed()).count();
        assert_eq!(more, 1, "{strategy}: 2 in the crowd, {more} more in the same window");
    }
}

/// Who shares a state hears exactly when it has permits again, and may wait for them.
#[test]
fn the_crowd_is_told_exactly_when_to_come_back() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().max_keys(0).clock(clock.clone()).build();
        assert!(limiter.check_sync(&rule, "a", 3).is_allowed());
        clock.advance(Duration::from_millis(2500));
        for key in ["a", "b"] {
            let told = limiter.check_sync(&rule, key, 3).retry_after();
            assert_eq!(told, Some(Duration::from_millis(1500)), "{strategy}");
        }
    }
}

/// Whoever is reset keeps its place, also while a flood of others finds none.
#[test]
fn a_reset_helps_in_a_full_table() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let limiter = LocalLimiter::builder().max_keys(2).clock(ManualClock::new()).build();
        for key in ["alice", "bob", "carol", "dave", "erin"] {
            let _ = limiter.check_sync(&rule, key, 3);
        }
        limiter.reset_sync(&rule, "alice");
        assert!(limiter.check_sync(&rule, "alice", 3).is_allowed(), "{strategy}");
        assert!(!limiter.check_sync(&rule, "alice", 1).is_allowed(), "{strategy}");
    }
}

/// Whoever is reset is idle, and makes room at once.
#[test]
fn keys_that_were_reset_make_room() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let limiter = LocalLimiter::builder().max_keys(100).clock(ManualClock::new()).build();
        for key in 0..100u64 {
            assert!(limiter.check_sync(&rule, &key, 3).is_allowed());
        }
        for key in 0..100u64 {
            limiter.reset_sync(&rule, &key);
        }
        for newcomer in 100..200u64 {
            assert!(
                limiter.check_sync(&rule, &newcomer, 3).is_allowed(),
                "{strategy}: no room for {newcomer}"
            );
        }
        assert!(limiter.check_sync(&rule, "one too many", 1).is_allowed());
        assert_eq!(limiter.peek_sync(&rule, "another").remaining(), 2, "{strategy}: the table has grown");
    }
}

/// Idle keys make room: ten times as many keys as fit, one window apart, and nobody shares a state.
#[test]
fn idle_keys_go_first() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().max_keys(1_000).clock(clock.clone()).build();
        for generation in 0..10u64 {
            for key in 0..1_000u64 {
                assert!(
                    limiter.check_sync(&rule, &(generation, key), 3).is_allowed(),
                    "{strategy} {generation} {key}"
                );
            }
            clock.advance(Duration::from_secs(4));
        }
    }
}

/// Memory of keys that went idle is given back while the others go on calling.
#[test]
fn idle_keys_give_their_memory_back() {
    for &strategy in Strategy::ALL {
        let rule = rule(strategy);
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().clock(clock.clone()).build();
        let held = measure(|| {
            for key in 0..100_000u64 {
                assert!(limiter.check_sync(&rule, &key, 1).is_allowed());
            }
        });
        // A window, and the second for which an idle key is kept in case that it calls again.
        clock.advance(Duration::from_secs(5));
        let later = measure(|| {
            for call in 0..3_000_000u64 {
                let _ = limiter.check_sync(&rule, &(call % 1_000), 1);
            }
        });
        let left = held.bytes_current + later.bytes_current;
        assert!(left * 4 < held.bytes_current, "{strategy}: {left} bytes are left of {}", held.bytes_current);
    }
}

#[test]
fn a_decision_for_a_known_key_allocates_nothing() {
    for &strategy in Strategy::ALL {
        for quotas in [&["3/4s"][..], &["3/4s", "100/1m"][..]] {
            let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
            let rule = Rule::try_new("rule", strategy, quotas).unwrap();
            let clock = ManualClock::new();
            let limiter = LocalLimiter::builder().clock(clock.clone()).build();
            let texts = [20, 70, 120].map(|length| "x".repeat(length));
            // Longer than the longest window: by then a `sliding_log` has grown to its size.
            let round = || {
                for _ in 0..70 {
                    for text in &texts {
                        let _ = limiter.check_sync(&rule, text, 1);
                    }
                    let _ = limiter.check_sync(&rule, &42u64, 1);
                    let _ = limiter.check_sync(&rule, &("tenant", 42u64), 1);
                    let _ = limiter.check_sync(&rule, &(), 1);
                    clock.advance(Duration::from_millis(900));
                }
            };
            round();
            let allocated = measure(round).count_total;
            assert_eq!(allocated, 0, "{strategy} with {} quotas", rule.quotas().len());
        }
    }
}

#[rate_limit(key = "id", qps = 3, window = "4s", store = "local")]
fn sync_call(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(key = "name", qps = 3, window = "4s", fallback = "busy")]
async fn async_call(name: &str) -> usize {
    name.len()
}

async fn busy(_: &str, why: limiter::Rejected) -> usize {
    usize::from(why.remaining() > 0)
}

/// The same through the annotation, admitted and rejected.
#[test]
fn an_annotated_function_allocates_nothing_for_a_known_key() {
    let round = || {
        let passed = (0..5).filter(|_| sync_call(7).is_some()).count();
        let runtime = std::pin::pin!(async {
            for _ in 0..5 {
                async_call("somebody").await;
            }
        });
        let done = runtime.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(done.is_ready(), "nothing here waits");
        passed
    };
    assert_eq!(round(), 3);
    let mut passed = 0;
    let allocated = measure(|| passed = round()).count_total;
    assert_eq!((allocated, passed), (0, 0));
}
