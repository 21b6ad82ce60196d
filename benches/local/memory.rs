//! What a key takes of the memory, and whether a known one takes more with every call.

use std::time::Duration;

use allocation_counter::measure as count;
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use limiter::{LocalLimiter, ManualClock, rate_limit};

use crate::annotated::{PLENTY, now, user_name};
use crate::report::{Report, Target};
use crate::rounds::float;
use crate::{live, peers};

const KEYS: u64 = 1_000_000;

pub(crate) fn measure(report: &mut Report) {
    bytes(report);
    allocations(report);
}

/// What is allocated once all keys are known and in use.
fn bytes(report: &mut Report) {
    const UNIT: &str = "bytes for a key";
    let bytes = |fill: &dyn Fn()| {
        let bytes = u32::try_from(count(fill).bytes_current / 1000).expect("no limiter takes that much");
        f64::from(bytes) * 1000.0 / float(1_000_000)
    };
    let limiter = LocalLimiter::new();
    let token_bucket = bytes(&|| {
        for id in 0..KEYS {
            assert!(limiter.check_sync(&live::TOKEN_BUCKET, &id, 1).is_allowed());
        }
    });
    assert_eq!(limiter.live_keys(&live::TOKEN_BUCKET), 1_000_000);
    report.row("memory, 1,000,000 live keys, `token_bucket`", token_bucket, UNIT, Target::AtMost(48.0));
    drop(limiter);

    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    // Calls in four samples of ten, and in two within each.
    let sliding_window = bytes(&|| {
        for _ in 0..8 {
            for id in 0..KEYS {
                assert!(limiter.check_sync(&live::SLIDING_WINDOW, &id, 1).is_allowed());
            }
            clock.advance(live::SAMPLE / 2);
        }
    });
    assert_eq!(limiter.live_keys(&live::SLIDING_WINDOW), 1_000_000);
    report.row("memory, 1,000,000 live keys, `sliding_window`", sliding_window, UNIT, Target::AtMost(160.0));
    drop(limiter);

    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::live());
    let theirs = bytes(&|| (0..KEYS).for_each(|id| assert!(governor.check_key(&id).is_ok())));
    report.row("memory, 1,000,000 keys u64, governor", theirs, UNIT, Target::None);
    drop(governor);
    let governor: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(peers::live());
    let theirs = bytes(&|| (0..KEYS).for_each(|id| assert!(governor.check_key(&user_name(id)).is_ok())));
    report.row("memory, 1,000,000 keys String, governor", theirs, UNIT, Target::None);
}

/// Of a key that has called once.
fn allocations(report: &mut Report) {
    // With tables of their own: one that gives back the room of others allocates a smaller one.
    #[rate_limit(strategy = "token_bucket", key = id, qps = PLENTY)]
    async fn by_id(id: u64) -> Option<u64> {
        Some(id)
    }
    #[rate_limit(strategy = "token_bucket", key = name, qps = PLENTY)]
    async fn by_name(name: &str) -> Option<&str> {
        Some(name)
    }
    let mut known = |path: &str, call: &dyn Fn()| {
        call();
        let allocations = count(|| (0..10_000).for_each(|_| call())).count_total;
        let allocations = float(usize::try_from(allocations).expect("a small number"));
        report.row(format!("allocations, a known key, {path}"), allocations, "", Target::AtMost(0.0));
    };
    let forty = "a name of forty characters, neither more";
    known("u64", &|| assert!(now(by_id(7)).is_some()));
    known("11 characters", &|| assert!(now(by_name("user-000007")).is_some()));
    known("40 characters", &|| assert!(now(by_name(forty)).is_some()));
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    known("`sliding_window`, in many samples", &|| {
        clock.advance(live::SAMPLE / 3 + Duration::from_millis(1));
        assert!(limiter.check_sync(&live::SLIDING_WINDOW, &7, 1).is_allowed());
    });
}
