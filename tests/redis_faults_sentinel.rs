//! What happens when the primary under a sentinel is replaced, dead or alive.
//!
//! What the old primary counted and did not pass on is lost with it, and can be taken once more: that much more than the
//! limit may be admitted, and no more.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use limiter::{DecidedBy, Quota, RedisLimiter, Rule, Strategy};
use support::history::{History, PATIENT, until};
use support::servers::{Sentinel, Server};

/// A second, on a machine with nothing else to do. An old primary that lives on says nothing for eight.
const SOON: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_millis(500);
const RULE: Rule =
    Rule::new("orders", Strategy::FixedWindow, Quota::new(1_000_000, Duration::from_secs(86_400)));

async fn limiter(url: &str, deadline: Duration) -> RedisLimiter {
    RedisLimiter::builder(url).timeout(deadline).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

async fn replicated(sentinel: &Sentinel) {
    let state = |server: &Server| {
        let name = server.cli(&["KEYS", "*"]);
        (server.cli(&["GET", &name]), name)
    };
    until("the replica to be level", async || state(sentinel.replica()) == state(sentinel.primary())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_replaced() {
    let sentinel = Sentinel::start();
    let calls = History::new(&limiter(&sentinel.url(), DEADLINE).await, &RULE, "key", DEADLINE);
    for _ in 0..10 {
        calls.until(DecidedBy::Shared).await;
    }
    replicated(&sentinel).await;
    let old = sentinel.primary();
    old.kill();
    calls.until(DecidedBy::Degraded).await;
    tokio::task::block_in_place(|| sentinel.await_switch(old));
    let elected = Instant::now();
    calls.until(DecidedBy::Shared).await;
    let took = elected.elapsed();
    println!("killed: shared on the new primary {took:?} after its election");
    assert!(took < SOON, "{took:?}");
    for _ in 0..10 {
        calls.until(DecidedBy::Shared).await;
    }
    let witness = limiter(&sentinel.primary().url(), PATIENT).await;
    let charged = calls.settle(&witness).await;
    println!("{} admitted and {} perhaps, {charged} charged", calls.admitted(), calls.perhaps());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_primary_that_lives_on_is_left() {
    let sentinel = Sentinel::start();
    let calls = History::new(&limiter(&sentinel.url(), DEADLINE).await, &RULE, "key", DEADLINE);
    calls.until(DecidedBy::Shared).await;
    replicated(&sentinel).await;
    let (old, before) = (sentinel.primary(), calls.admitted());
    tokio::task::block_in_place(|| sentinel.fail_over());
    let (elected, new) = (Instant::now(), sentinel.primary());
    assert_ne!(old.port(), new.port());

    // A decision that the new primary made shows there.
    let witness = limiter(&new.url(), PATIENT).await;
    let first = calls.charged(&witness).await;
    until("a decision of the new primary", async || {
        calls.call().await;
        calls.charged(&witness).await > first
    })
    .await;
    let took = elected.elapsed();
    println!("alive: shared on the new primary {took:?} after its election");
    assert!(took < SOON, "{took:?}");
    let (charged, admitted, perhaps) = (calls.charged(&witness).await, calls.admitted(), calls.perhaps());
    let lost = admitted.saturating_sub(charged);
    println!(
        "{admitted} admitted and {perhaps} perhaps, {charged} charged: {lost} were lost with the old primary"
    );
    assert!(lost <= admitted - before, "only what was admitted after the last copy can be lost");
    assert!(charged <= admitted + perhaps);

    // From here on all is as ever: each call counts, once, there.
    for _ in 0..50 {
        calls.until(DecidedBy::Shared).await;
    }
    let more = calls.charged(&witness).await - charged;
    assert!(more >= calls.admitted() - admitted, "{more}");
    assert!(more <= calls.admitted() - admitted + calls.perhaps() - perhaps, "{more}");
}

/// The old primary comes back, and for a moment takes itself for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_failovers_and_a_return_charge_nothing_twice() {
    let sentinel = Sentinel::start();
    sentinel.hasten();
    let calls = History::new(&limiter(&sentinel.url(), DEADLINE).await, &RULE, "key", DEADLINE);
    for _ in 0..2 {
        calls.until(DecidedBy::Shared).await;
        replicated(&sentinel).await;
        let old = sentinel.primary();
        old.kill();
        tokio::task::block_in_place(|| sentinel.await_switch(old));
        calls.until(DecidedBy::Shared).await;
        old.restart();
        tokio::task::block_in_place(|| sentinel.await_replica());
    }
    calls.until(DecidedBy::Shared).await;
    calls.settle(&limiter(&sentinel.primary().url(), PATIENT).await).await;
}

#[tokio::test]
async fn without_its_sentinel_a_primary_goes_on() {
    let sentinel = Sentinel::start();
    let calls = History::new(&limiter(&sentinel.url(), PATIENT).await, &RULE, "key", PATIENT);
    calls.shared().await;
    sentinel.sentinel().kill();
    let start = Instant::now();
    until("some time to pass", async || {
        calls.shared().await;
        start.elapsed() > Duration::from_secs(2)
    })
    .await;
}
