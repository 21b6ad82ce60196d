//! Annotated functions in a program that installs nothing and opens no scope: as most programs are, and the shortest way
//! that a call can take. No test here may open a scope, since that would lead all calls of the process another way.

use limiter::{Rejected, rate_limit, sites};

#[rate_limit(strategy = "token_bucket", qps = 3, window = "1d")]
async fn unkeyed() -> Result<(), Rejected> {
    Ok(())
}

#[rate_limit(key = "user", qps = 3, window = "1d")]
async fn keyed(user: &str) -> Result<(), Rejected> {
    assert!(!user.is_empty());
    Ok(())
}

#[rate_limit(key = "user", qps = 3, window = "1d", store = "local", fallback = "busy")]
fn not_async(user: u64) -> u64 {
    user
}

fn busy(_: u64, why: Rejected) -> u64 {
    1_000 + why.remaining()
}

#[rate_limit(key = "user", qps = 3, window = "1d", mode = "shadow")]
async fn shadowed(user: u64) -> u64 {
    user
}

#[tokio::test]
async fn each_gets_its_limit_and_is_counted() {
    for call in 0..5 {
        assert_eq!(unkeyed().await.is_ok(), call < 3, "call {call}");
        for user in ["alice", "bob, whose name is longer than a few bytes"] {
            let answer = keyed(user).await;
            assert_eq!(answer.is_ok(), call < 3, "{user}, call {call}");
            assert!(answer.err().is_none_or(|why| why.retry_after().is_some() && why.remaining() == 0));
        }
        assert_eq!(not_async(7), if call < 3 { 7 } else { 1_000 }, "call {call}");
        assert_eq!(shadowed(7).await, 7);
    }
    for (name, passed, rejected) in
        [("unkeyed", 3, 2), ("keyed", 6, 4), ("not_async", 3, 2), ("shadowed", 3, 2)]
    {
        let of = |rule: &str| rule.ends_with(&format!("::{name}"));
        let site = sites().iter().find(|site| of(site.rule().name())).unwrap();
        assert_eq!((site.counts().passed, site.counts().rejected), (passed, rejected), "{name}");
    }
}

/// Threads that come at the same time, and see clocks that differ by as much as clocks do, get all that there is.
#[test]
fn no_permit_is_lost_between_threads() {
    const KEYS: u64 = 20_000;

    #[rate_limit(strategy = "token_bucket", key = key, qps = 4, window = "100d", store = "local")]
    fn bucket(key: u64) -> Option<u64> {
        Some(key)
    }

    #[rate_limit(key = key, qps = 4, window = "100d", store = "local")]
    fn window(key: u64) -> Option<u64> {
        Some(key)
    }

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..KEYS {
                    assert_eq!((bucket(key), window(key)), (Some(key), Some(key)));
                }
            });
        }
    });
    for key in 0..KEYS {
        assert_eq!((bucket(key), window(key)), (None, None));
    }
    let counts =
        |name: &str| sites().iter().find(|site| site.rule().name().ends_with(name)).unwrap().counts();
    for counts in [counts("::bucket"), counts("::window")] {
        assert_eq!((counts.passed, counts.rejected), (4 * KEYS, KEYS));
    }
}
