//! Limiters on servers of the tests, for tests of what they do when something fails.

use std::time::Duration;

use limiter::{Health, Quota, RedisLimiter, RedisLimiterBuilder, Rule, Strategy};

use super::history::{History, PATIENT};
use super::proxy::Proxy;
use super::servers::Server;

/// Where calls are to run out of time.
pub const SHORT: Duration = Duration::from_millis(200);
/// Longer than `SHORT`, and shorter than a connection may take to make.
pub const SLOW: Duration = Duration::from_millis(600);

/// Its limit is never reached.
pub const RULE: Rule =
    Rule::new("orders", Strategy::FixedWindow, Quota::new(1_000_000, Duration::from_secs(86_400)));

pub fn builder(url: &str, deadline: Duration) -> RedisLimiterBuilder {
    RedisLimiter::builder(url).timeout(deadline)
}

pub async fn limiter(url: &str, deadline: Duration) -> RedisLimiter {
    builder(url, deadline).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

/// A limiter behind a proxy, its calls, and a witness of what the server counted.
pub async fn through(proxy: &Proxy, server: &Server, deadline: Duration) -> (History, RedisLimiter) {
    let disturbed = limiter(&proxy.url(), deadline).await;
    (History::new(&disturbed, &RULE, "key", deadline), limiter(&server.url(), PATIENT).await)
}

pub fn health(limiter: &RedisLimiter) -> Vec<Health> {
    limiter.health().into_iter().map(|(_, health)| health).collect()
}

/// The most connections that may be made in a time, with pauses that grow from 20 to 640 milliseconds and more than
/// half of each kept.
pub fn most_attempts(time: Duration) -> u64 {
    10 + u64::try_from(time.as_millis()).unwrap() / 300
}
