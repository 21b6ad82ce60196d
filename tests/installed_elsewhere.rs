//! A program that installs a limiter elsewhere, and opens no scope: functions that say `store = "local"` ask the local one of
//! that limiter, all others that limiter itself.

#[path = "support/elsewhere.rs"]
mod elsewhere;

use elsewhere::Elsewhere;
use limiter::{LocalLimiter, Rejected, rate_limit, sites};

#[rate_limit(key = "user", qps = 3, window = "1d")]
async fn shared(user: u64) -> Result<u64, Rejected> {
    Ok(user)
}

#[rate_limit(key = "user", qps = 3, window = "1d", store = "local")]
async fn here(user: u64) -> Result<u64, Rejected> {
    Ok(user)
}

#[rate_limit(key = "user", qps = 3, window = "1d", store = "local")]
fn here_sync(user: u64) -> Result<u64, Rejected> {
    Ok(user)
}

#[tokio::test]
async fn local_functions_ask_its_local_limiter() {
    let local = LocalLimiter::new();
    limiter::install(Elsewhere { local: local.clone() }).unwrap();
    for user in 0..10 {
        for call in 0..5 {
            assert!(shared(user).await.is_err());
            assert_eq!(here(user).await.is_ok(), call < 3, "{user}, call {call}");
            assert_eq!(here_sync(user).is_ok(), call < 3, "{user}, call {call}");
        }
    }
    for (name, keys, passed) in [("::shared", 0, 0), ("::here", 10, 30), ("::here_sync", 10, 30)] {
        let site = sites().iter().find(|site| site.rule().name().ends_with(name)).unwrap();
        assert_eq!((local.live_keys(site.rule()), site.counts().passed), (keys, passed), "{name}");
        assert_eq!(site.counts().passed + site.counts().rejected, 50, "{name}");
    }
}
