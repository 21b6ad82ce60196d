//! A program that installs a limiter of its own process, and opens no scope: its calls take the shortest way there is, to that
//! limiter and no other.

use limiter::{LocalLimiter, Rejected, Rule, rate_limit, sites};

#[rate_limit(strategy = "token_bucket", key = "user", qps = 3, window = "1d")]
async fn order(user: u64) -> Result<u64, Rejected> {
    Ok(user)
}

#[rate_limit(key = "user", qps = 3, window = "1d", store = "local")]
fn order_sync(user: u64) -> Result<u64, Rejected> {
    Ok(user)
}

fn rule(name: &str) -> &'static Rule {
    let of = |rule: &str| rule.ends_with(&format!("::{name}"));
    sites().iter().map(|site| site.rule()).find(|rule| of(rule.name())).unwrap()
}

#[tokio::test]
async fn annotated_functions_ask_it() {
    let limiter = LocalLimiter::builder().max_keys(100).build();
    limiter::install(limiter.clone()).unwrap();
    for user in 0..50 {
        for call in 0..5 {
            assert_eq!(order(user).await.is_ok(), call < 3, "{user}, call {call}");
            assert_eq!(order_sync(user).is_ok(), call < 3, "{user}, call {call}");
        }
    }
    for name in ["order", "order_sync"] {
        assert_eq!(limiter.live_keys(rule(name)), 50, "{name}");
        assert_eq!(limiter.peek_sync(rule(name), &7_u64).remaining(), 0, "{name}");
        limiter.reset_sync(rule(name), &7_u64);
    }
    assert!(order(7).await.is_ok() && order_sync(7).is_ok());

    for user in 50..1_000 {
        let _ = (order(user).await, order_sync(user));
    }
    for name in ["order", "order_sync"] {
        assert!(limiter.live_keys(rule(name)) <= 100, "{name}: it was told to hold 100");
    }
    let site = sites().iter().find(|site| site.rule() == rule("order")).unwrap();
    assert_eq!(site.counts().passed + site.counts().rejected, 50 * 5 + 1 + 950);
}
