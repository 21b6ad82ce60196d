//! Who is measured: annotated functions of ours, peers, and a bare script through the client crate that all of them use.

use std::num::NonZeroU32;
use std::sync::Arc;

use limiter::rate_limit;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Script};
use throttled::{RateLimiter as _, RedisRateLimiter};
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimiterBuilder as _, WindowSize};

/// A permit is back after a second, so that no server has forgotten a key when its next call comes, whoever wrote it.
pub(crate) const A_DAY: u32 = 86_400;
/// Nobody is rejected here.
pub(crate) const PLENTY: u32 = 86_400_000;
const DAY: u64 = 24 * 60 * 60;

#[rate_limit(name = "token", strategy = "token_bucket", key = id, qps = A_DAY, window = "1d", burst = PLENTY)]
pub(crate) async fn token_bucket(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(name = "leaky", strategy = "leaky_bucket", key = id, qps = A_DAY, window = "1d", burst = PLENTY)]
pub(crate) async fn leaky_bucket(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(name = "fixed", strategy = "fixed_window", key = id, qps = PLENTY, window = "1s")]
pub(crate) async fn fixed_window(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(name = "sliding", strategy = "sliding_window", key = id, qps = PLENTY, window = "1s")]
pub(crate) async fn sliding_window(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(name = "blocked", strategy = "token_bucket", key = id, qps = 1, window = "1d")]
pub(crate) async fn blocked(id: u64) -> Option<u64> {
    Some(id)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Limiter,
    Throttled,
    Trypema,
    /// One `EVALSHA` of a lean script for each call.
    Bare,
}

impl Contender {
    pub(crate) const ALL: [Self; 4] = [Self::Limiter, Self::Throttled, Self::Trypema, Self::Bare];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Limiter => "limiter",
            Self::Throttled => "throttled 0.1.0",
            Self::Trypema => "trypema 2.2.1",
            Self::Bare => "bare EVALSHA",
        }
    }
}

/// All that is not ours, connected to one server.
pub(crate) struct Peers {
    throttled: RedisRateLimiter,
    throttled_quota: throttled::Quota,
    trypema: Arc<RedisRateLimiterProvider>,
    trypema_rate: RateLimit,
    bare: MultiplexedConnection,
    lean: Script,
}

impl Peers {
    pub(crate) async fn connect(url: &str) -> Self {
        let client = Client::open(url).expect("an address");
        // As large a buffer as ours, with which they are faster than with the default.
        let config = ConnectionManagerConfig::new().set_pipeline_buffer_size(1024);
        let manager = || async {
            let manager = ConnectionManager::new_with_config(client.clone(), config.clone()).await;
            manager.expect("the server is there")
        };
        let plenty = NonZeroU32::new(PLENTY).expect("not zero");
        let one_a_second = throttled::Quota::per_second(NonZeroU32::MIN);
        let provider = RedisRateLimiterProvider::builder(manager().await)
            .window_size(WindowSize::seconds_or_panic(DAY))
            .build()
            .expect("a provider");
        let config = AsyncConnectionConfig::new().set_pipeline_buffer_size(1024);
        let bare = client.get_multiplexed_async_connection_with_config(&config).await;
        Self {
            throttled: RedisRateLimiter::new(manager().await),
            throttled_quota: one_a_second.with_burst(plenty),
            trypema: provider,
            trypema_rate: RateLimit::per_day_or_panic(f64::from(PLENTY)),
            bare: bare.expect("the server is there"),
            lean: Script::new(include_str!("lean/token_bucket.lua")),
        }
    }

    pub(crate) async fn throttled(&self, id: u64) -> bool {
        let answer = self.throttled.check(format!("throttled:{id}"), self.throttled_quota).await;
        answer.expect("an answer").is_allowed()
    }

    pub(crate) async fn trypema(&self, id: u64) -> bool {
        let key = RedisKey::try_from(format!("user-{id}")).expect("a key");
        let answer = self.trypema.absolute().inc(&key, &self.trypema_rate, 1).await;
        matches!(answer.expect("an answer"), trypema::RateLimitDecision::Allowed)
    }

    pub(crate) async fn bare(&self, id: u64) -> bool {
        let mut invocation = self.lean.prepare_invoke();
        invocation.key(format!("bare:{id}")).arg(DAY * 1_000_000 / u64::from(A_DAY)).arg(PLENTY);
        let answer: redis::RedisResult<(u64, u64, u64, u64)> =
            invocation.invoke_async(&mut self.bare.clone()).await;
        answer.expect("an answer").0 == 0
    }
}
