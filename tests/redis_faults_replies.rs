//! What happens to a call whose reply is lost, late, or makes no sense, and to one that nobody waits for.
//!
//! Each row of the list of faults is one test. In all of them [`History`] holds every call to its deadline, and what
//! the server charged to what it answered.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use allocation_counter::measure;
use limiter::{DecidedBy, Limiter, OnError};
use support::history::{History, PATIENT, until};
use support::proxy::{Harm, Proxy};
use support::servers::Server;
use support::shared::{RULE, SHORT, SLOW, limiter, through};

#[tokio::test]
async fn a_reset_in_the_middle_of_a_reply_is_not_sent_again() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    for on_error in [OnError::Local, OnError::Allow, OnError::Deny] {
        calls.shared().await;
        let (sent, start) = (proxy.scripts(), Instant::now());
        proxy.harm_next(Harm::Cut);
        calls.on_error(on_error).degraded().await;
        assert!(start.elapsed() < PATIENT / 2, "the policy answers as soon as the connection is gone");
        assert_eq!(proxy.scripts(), sent + 1, "sent once");
        calls.until(DecidedBy::Shared).await;
    }
    assert_eq!(
        calls.settle(&witness).await,
        proxy.scripts(),
        "the server counted all that it was sent, once"
    );
}

/// A whole pipeline of them, of many keys: nothing of it is sent again either.
#[tokio::test]
async fn a_reset_under_a_crowd_sends_nothing_again() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    let keys: Vec<History> =
        (0..100).map(|key| History::new(&calls.limiter, &RULE, &format!("key {key}"), PATIENT)).collect();
    for _ in 0..5 {
        proxy.harm_next(Harm::Cut);
        let crowd: Vec<_> = keys
            .iter()
            .map(|key| {
                let key = key.clone();
                tokio::spawn(async move { key.call().await })
            })
            .collect();
        for call in crowd {
            call.await.unwrap();
        }
    }
    let mut perhaps = 0;
    for key in &keys {
        key.settle(&witness).await;
        perhaps += key.perhaps();
    }
    assert!(perhaps > 0, "the reset hurt somebody");
}

#[tokio::test]
async fn a_timeout_whose_effect_was_applied_is_counted_and_not_sent_again() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, SHORT).await;
    until("a call that is sent and ends late", async || {
        proxy.delay(Duration::ZERO);
        calls.until(DecidedBy::Shared).await;
        proxy.delay(SLOW);
        let sent = proxy.scripts();
        calls.degraded().await;
        proxy.scripts() == sent + 1
    })
    .await;
    proxy.delay(Duration::ZERO);
    calls.until(DecidedBy::Shared).await;
    tokio::time::sleep(SLOW).await;
    calls.shared().await;
    assert_eq!(calls.settle(&witness).await, proxy.scripts(), "what was sent was counted, once");
    assert!(proxy.scripts() <= calls.records().len() as u64, "no call was sent twice");
}

/// While one call for a key is under way, others wait for the next. When their time is up they are gone for good.
#[tokio::test]
async fn what_waited_in_vain_is_not_sent_later() {
    // Between being sent and the answer lies time for the others to ask and to give up, also on a busy machine; a
    // connection is given up after four deadlines.
    const DEADLINE: Duration = Duration::from_secs(1);
    const ANSWER: Duration = Duration::from_secs(2);

    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, DEADLINE).await;
    proxy.delay(ANSWER);
    let call = |calls: &History| {
        let calls = calls.clone();
        tokio::spawn(async move { calls.degraded().await })
    };
    let first = call(&calls);
    until("the first to be sent", async || proxy.scripts() == 1).await;
    // Few enough that the connection lives on, and the answer to the first arrives.
    let others: Vec<_> = (0..3).map(|_| call(&calls)).collect();
    for call in others.into_iter().chain([first]) {
        call.await.unwrap();
    }
    tokio::time::sleep(ANSWER).await;
    proxy.delay(Duration::ZERO);
    let other_key = History::new(&calls.limiter, &RULE, "other", DEADLINE);
    other_key.until(DecidedBy::Shared).await;
    other_key.settle(&witness).await;
    assert_eq!(calls.settle(&witness).await, 1, "only the first was sent");
}

/// One reply too many, and each call would get the answer of another: behind what makes no sense, nobody is believed.
#[tokio::test]
async fn replies_behind_one_of_the_wrong_shape_are_not_believed() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    let others = History::new(&calls.limiter, &RULE, "another key", PATIENT);
    calls.shared().await;
    others.shared().await;
    // Both go in one pipeline. The second reply that comes would admit, and is not meant for the second call.
    proxy.harm_next(Harm::Replace(b"+stray\r\n*6\r\n:1\r\n:0\r\n:0\r\n:0\r\n:9\r\n:0\r\n"));
    tokio::join!(calls.degraded(), others.degraded());
    calls.until(DecidedBy::Shared).await;
    calls.settle(&witness).await;
    others.settle(&witness).await;
}

#[tokio::test]
async fn a_reply_of_the_wrong_shape_costs_the_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    let shapes: [&[u8]; 16] = [
        b"+OK\r\n",
        b":1\r\n",
        b"$3\r\nabc\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*1\r\n:5\r\n",
        b"*2\r\n*1\r\n:1\r\n*0\r\n",
        b"*6\r\n:1\r\n:9\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
        b"*6\r\n:1\r\n:0\r\n:-5\r\n:0\r\n:0\r\n:0\r\n",
        // By a quota that the rule does not have; admitted, after a wait that nobody agreed to.
        b"*6\r\n:1\r\n:1\r\n:5\r\n:7\r\n:0\r\n:0\r\n",
        b"*6\r\n:1\r\n:0\r\n:9000000\r\n:0\r\n:0\r\n:0\r\n",
        b"*11\r\n:1\r\n:0\r\n:0\r\n:0\r\n:9\r\n:0\r\n:0\r\n:0\r\n:0\r\n:9\r\n:0\r\n",
        // Not of this protocol at all.
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\xff\xfe\r\n",
        b"$abc\r\n",
    ];
    for shape in shapes {
        let text = shape.escape_ascii();
        calls.shared().await;
        let (before, sent) = (proxy.connections(), proxy.scripts());
        proxy.harm_next(Harm::Replace(shape));
        assert_eq!(calls.call().await.decided_by(), DecidedBy::Degraded, "{text}");
        assert_eq!(proxy.scripts(), sent + 1, "{text}");
        calls.until(DecidedBy::Shared).await;
        assert!(proxy.connections() > before, "{text} came over a connection that is still trusted");
    }
    assert_eq!(
        calls.settle(&witness).await,
        proxy.scripts(),
        "the server counted all that it was sent, once"
    );
}

#[tokio::test]
async fn a_future_dropped_half_way_spends_its_permit_and_holds_up_nobody() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    for round in 0..5 {
        proxy.delay(SLOW);
        let call = |calls: &History| {
            let calls = calls.clone();
            tokio::spawn(async move { calls.shared().await })
        };
        let sent = proxy.scripts();
        let dropped = call(&calls);
        until("the call to be sent", async || proxy.scripts() > sent).await;
        let (waiting, dropped_waiting) = (call(&calls), call(&calls));
        tokio::task::yield_now().await;
        for task in [&dropped, &dropped_waiting] {
            task.abort();
        }
        proxy.delay(Duration::ZERO);
        waiting.await.unwrap();
        assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(calls.perhaps(), 2 * (round + 1));
    }
    calls.settle(&witness).await;
}

#[test]
fn calls_that_nobody_waits_for_leave_nothing_behind() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(limiter(&server.url(), PATIENT));
    let drop_some = |from: u64| {
        runtime.block_on(async {
            for key in from..from + 10_000 {
                let mut call = limiter.check(&RULE, &key, 1);
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = std::pin::Pin::new(&mut call).poll(&mut context);
                drop(call);
                if key % 100 == 0 {
                    assert_eq!(limiter.check(&RULE, "other", 1).await.decided_by(), DecidedBy::Shared);
                }
            }
        });
    };
    drop_some(0);
    let kept = measure(|| drop_some(1_000_000)).bytes_current;
    println!("{kept} bytes stay of 10,000 dropped calls");
    assert!(kept < 100_000, "{kept} bytes");
}
