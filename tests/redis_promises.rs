//! The promises of the strategies, attacked with random traces beside slow models of them: on a server.

#![cfg(feature = "redis")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limiter::{RedisLimiter, Strategy};
use support::model::Ticks;
use support::servers::Server;
use support::trace;

/// A time in microseconds like any other, since a server's state holds times like it.
const TODAY: u64 = 1_790_000_000_000_000;

async fn decides_as_its_model(strategy: Strategy) {
    let server = Server::start();
    let clock = Arc::new(AtomicU64::new(TODAY));
    let limiter = RedisLimiter::builder(&server.url())
        .timeout(Duration::from_secs(60))
        .clock({
            let clock = Arc::clone(&clock);
            move || clock.load(Ordering::SeqCst)
        })
        .connect()
        .await
        .unwrap();
    let set = |time| clock.store(TODAY + time, Ordering::SeqCst);
    trace::decides_as_its_model(|| limiter.clone(), Ticks::Server, strategy, set).await;
}

#[tokio::test]
async fn fixed_window_decides_as_its_model() {
    decides_as_its_model(Strategy::FixedWindow).await;
}

#[tokio::test]
async fn sliding_window_decides_as_its_model() {
    decides_as_its_model(Strategy::SlidingWindow).await;
}

#[tokio::test]
async fn sliding_log_decides_as_its_model() {
    decides_as_its_model(Strategy::SlidingLog).await;
}

#[tokio::test]
async fn token_bucket_decides_as_its_model() {
    decides_as_its_model(Strategy::TokenBucket).await;
}

#[tokio::test]
async fn leaky_bucket_decides_as_its_model() {
    decides_as_its_model(Strategy::LeakyBucket).await;
}
