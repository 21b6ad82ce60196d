//! What happens when the way to the server breaks: no server, refused, reset, slow, half-open, garbled.
//!
//! Each row of the list of faults is one test. In all of them [`History`] holds every call to its deadline, and what
//! the server charged to what it answered.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use allocation_counter::measure;
use limiter::{
    DecidedBy, Health, Limiter, OnError, Quota, RedisLimiter, RedisLimiterBuilder, Rule, Strategy,
};
use support::history::{History, PATIENT, until};
use support::proxy::{Door, Harm, Proxy};
use support::servers::Server;

/// Where calls are to run out of time.
const SHORT: Duration = Duration::from_millis(200);
/// Longer than `SHORT`, and shorter than a connection may take to make.
const SLOW: Duration = Duration::from_millis(600);

const RULE: Rule =
    Rule::new("orders", Strategy::FixedWindow, Quota::new(1_000_000, Duration::from_secs(86_400)));

fn builder(url: &str, deadline: Duration) -> RedisLimiterBuilder {
    RedisLimiter::builder(url).timeout(deadline)
}

async fn limiter(url: &str, deadline: Duration) -> RedisLimiter {
    builder(url, deadline).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

/// A limiter behind a proxy, its calls, and a witness of what the server counted.
async fn through(proxy: &Proxy, server: &Server, deadline: Duration) -> (History, RedisLimiter) {
    let disturbed = limiter(&proxy.url(), deadline).await;
    (History::new(&disturbed, &RULE, "key", deadline), limiter(&server.url(), PATIENT).await)
}

fn health(limiter: &RedisLimiter) -> Vec<Health> {
    limiter.health().into_iter().map(|(_, health)| health).collect()
}

/// The most connections that may be made in a time, with pauses that grow from 20 to 640 milliseconds and more than
/// half of each kept.
fn most_attempts(time: Duration) -> u64 {
    10 + u64::try_from(time.as_millis()).unwrap() / 300
}

#[tokio::test]
async fn no_server_at_the_start() {
    let server = Server::start();
    let port = server.port();
    server.stop();
    let start = Instant::now();
    for (url, clear) in [
        (format!("redis://127.0.0.1:{port}"), "cannot connect to the server at 127.0.0.1"),
        (format!("redis+cluster://127.0.0.1:{port}"), "cannot connect to the cluster at 127.0.0.1"),
        (format!("redis+sentinel://127.0.0.1:{port}/main"), "cannot connect to the primary \"main\""),
    ] {
        let error = RedisLimiter::connect(&url).await.expect_err(&url).to_string();
        assert!(error.contains(clear) && error.contains("refused"), "{error}");
    }
    assert!(start.elapsed() < PATIENT, "it says so at once");

    let lazy = builder(&server.url(), PATIENT).connect_lazy().unwrap();
    let calls = History::new(&lazy, &RULE, "key", PATIENT);
    for on_error in [OnError::Local, OnError::Allow, OnError::Deny] {
        for _ in 0..3 {
            calls.on_error(on_error).degraded().await;
        }
    }
    assert_eq!(health(&lazy), [Health::Down]);
    server.restart();
    println!("to life after {:?}", calls.until(DecidedBy::Shared).await);
    assert_eq!(health(&lazy), [Health::Up]);
    calls.settle(&limiter(&server.url(), PATIENT).await).await;
}

#[tokio::test]
async fn a_refused_connection_or_an_unknown_name_opens_the_breaker() {
    let server = Server::start();
    let plain = server.url();
    let stopped = Server::start();
    stopped.stop();
    let mut urls = vec![stopped.url(), "redis://no-such-host.invalid".to_owned()];
    if cfg!(feature = "tls") {
        urls.push(plain.replace("redis://", "rediss://"));
    }
    for url in urls {
        let lazy = builder(&url, SHORT).on_error(OnError::Deny).connect_lazy().unwrap();
        let calls = History::new(&lazy, &RULE, "key", SHORT).on_error(OnError::Deny);
        calls.until_down().await;
        let median = median_of_1000(&calls).await;
        println!("{url}: a degraded decision takes {median:?}");
        assert!(median < Duration::from_millis(1), "{url}: {median:?}");
    }
}

#[tokio::test]
async fn an_open_breaker_leaves_the_network_alone_and_closes_by_itself() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, Duration::from_secs(2)).await;
    for door in [Door::Slammed, Door::Silent] {
        calls.until(DecidedBy::Shared).await;
        proxy.door(door);
        proxy.reset();
        calls.until_down().await;
        let (start, before, sent) = (Instant::now(), proxy.connections(), proxy.scripts());
        let median = median_of_1000(&calls).await;
        until("a second to pass", async || start.elapsed() > Duration::from_secs(1)).await;
        let (attempts, most) = (proxy.connections() - before, most_attempts(start.elapsed()));
        println!("a degraded decision takes {median:?}; {attempts} connections in {:?}", start.elapsed());
        assert!(median < Duration::from_millis(1), "{median:?}");
        assert!(attempts <= most, "{attempts} connections, and not {most}, for 1,000 decisions");
        assert_eq!(proxy.scripts(), sent);
        assert_eq!(health(&calls.limiter), [Health::Down]);
        proxy.door(Door::Open);
        proxy.reset();
        println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
        calls.settle(&witness).await;
    }
}

/// All must be degraded.
async fn median_of_1000(calls: &History) -> Duration {
    let mut times = Vec::new();
    for _ in 0..1_000 {
        let start = Instant::now();
        calls.degraded().await;
        times.push(start.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

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

/// As by a server or something on the way to it that closes what is idle: the next call is not the first to notice.
#[tokio::test]
async fn a_connection_that_is_closed_while_idle_costs_no_call() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    for _ in 0..3 {
        calls.shared().await;
        let before = proxy.connections();
        proxy.reset();
        until("a new connection", async || proxy.connections() > before).await;
        until("it to be used", async || health(&calls.limiter) == [Health::Up]).await;
        calls.shared().await;
    }
    assert_eq!(calls.settle(&witness).await, 6);
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

/// A server that greets well and breaks every reply: after a few failures in a row nobody asks it any more.
#[tokio::test]
async fn a_server_that_breaks_every_reply_is_not_stormed() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    for harm in [Harm::Cut, Harm::Replace(b"+what?\r\n")] {
        proxy.harm_all(Some(harm));
        let (start, before) = (Instant::now(), proxy.connections());
        until("two seconds to pass", async || {
            calls.degraded().await;
            start.elapsed() > Duration::from_secs(2)
        })
        .await;
        let (attempts, most) = (proxy.connections() - before, most_attempts(start.elapsed()));
        proxy.harm_all(None);
        calls.until(DecidedBy::Shared).await;
        calls.settle(&witness).await;
        assert!(attempts <= most, "{attempts} connections, and not {most}, in 2 s");
    }
}

#[tokio::test]
async fn calls_of_a_slow_server_end_at_their_deadline_and_open_the_breaker() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, SHORT).await;
    calls.until(DecidedBy::Shared).await;
    proxy.delay(SLOW);
    must_open(&calls).await;
    proxy.delay(Duration::ZERO);
    println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
    // What was on its way has arrived by now, or never will.
    tokio::time::sleep(SLOW).await;
    calls.settle(&witness).await;
}

#[tokio::test]
async fn calls_of_a_paused_server_end_at_their_deadline_and_open_the_breaker() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, SHORT).await;
    // `WRITE` lets all but the scripts through, also a probe that is no decision. `ALL` ends by itself.
    for (kind, time) in [("WRITE", "600000"), ("ALL", "5000")] {
        calls.until(DecidedBy::Shared).await;
        server.cli(&["CLIENT", "PAUSE", time, kind]);
        must_open(&calls).await;
        if kind == "WRITE" {
            server.cli(&["CLIENT", "UNPAUSE"]);
        }
        println!("{kind}: shared again after {:?}", calls.until(DecidedBy::Shared).await);
        until("what was sent to be counted", async || calls.charged(&witness).await >= calls.admitted())
            .await;
        calls.settle(&witness).await;
    }
}

/// The first calls take their whole time and are degraded, a few later ones take none. Where the breaker did not open,
/// 100 calls would take 20 seconds.
async fn must_open(calls: &History) {
    let start = Instant::now();
    calls.degraded().await;
    assert!(start.elapsed() >= SHORT, "it ended after {:?}", start.elapsed());
    let mut late = 1;
    for _ in 0..100 {
        let start = Instant::now();
        calls.degraded().await;
        late += u32::from(start.elapsed() >= SHORT);
    }
    println!("{late} calls of 101 ran out of time");
    assert!(late <= 25, "{late} calls of 101 ran out of time");
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

#[tokio::test]
async fn a_half_open_socket_is_dropped_and_replaced() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, SHORT).await;
    calls.until(DecidedBy::Shared).await;
    let before = proxy.connections();
    proxy.half_open();
    let took = calls.until(DecidedBy::Shared).await;
    println!("shared again after {took:?} on a new socket");
    assert!(took >= SHORT && proxy.connections() > before);
    until("the old socket to be closed", async || proxy.open() == 1).await;
    calls.settle(&witness).await;
}

#[tokio::test]
async fn a_reply_of_the_wrong_shape_costs_the_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, PATIENT).await;
    let shapes: [&[u8]; 14] = [
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

/// Hundred thousand calls in an outage, where nobody listens and where nobody answers.
#[test]
fn an_outage_of_any_length_takes_no_memory_and_ends_without_a_restart() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(limiter(&proxy.url(), SHORT));
    let book = || History::new(&limiter, &RULE, "key", SHORT);
    for door in [Door::Slammed, Door::Silent] {
        runtime.block_on(book().until(DecidedBy::Shared));
        proxy.door(door);
        proxy.reset();
        runtime.block_on(book().until_down());
        let degraded = |count: u64| {
            runtime.block_on(async {
                for call in 0..count {
                    let decision = limiter.check(&RULE, &(call % 100), 1).await;
                    assert_eq!(decision.decided_by(), DecidedBy::Degraded);
                    if call % 100 == 0 {
                        // Lets the attempts to connect run, which must not pile up either.
                        tokio::time::sleep(Duration::from_micros(100)).await;
                    }
                }
            });
        };
        degraded(10_000);
        let kept = measure(|| degraded(100_000)).bytes_current;
        println!("{kept} bytes stay of 100,000 calls in an outage");
        assert!(kept < 200_000, "{kept} bytes");
        proxy.door(Door::Open);
        proxy.reset();
        let took = runtime.block_on(book().until(DecidedBy::Shared));
        println!("shared again after {took:?}");
    }
}
