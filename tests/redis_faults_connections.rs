//! What happens when the way to the server breaks: no server, refused, closed, half-open, one failure after another.
//!
//! Each row of the list of faults is one test. In all of them [`History`] holds every call to its deadline, and what
//! the server charged to what it answered.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use limiter::{DecidedBy, Health, Limiter as _, OnError, RedisLimiter};
use support::history::{History, PATIENT, until};
use support::proxy::{Door, Harm, Proxy};
use support::servers::{Cluster, Sentinel, Server};
use support::shared::{RULE, SHORT, builder, health, limiter, most_attempts, through};

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
    all_ended_early(&calls);
    // However long it takes.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(health(&lazy), [Health::Down]);
    server.restart();
    println!("to life after {:?}", calls.until(DecidedBy::Shared).await);
    assert_eq!(health(&lazy), [Health::Up]);
    calls.settle(&limiter(&server.url(), PATIENT).await).await;
}

#[tokio::test]
async fn a_refused_connection_or_an_unknown_name_opens_the_breaker() {
    let server = Server::start();
    let stopped = Server::start();
    stopped.stop();
    // As patient as can be: only an open breaker answers them.
    let refused = (stopped.url(), PATIENT);
    // How fast a name is not found is not ours to say.
    let mut outages = vec![refused, ("redis://no-such-host.invalid".to_owned(), SHORT)];
    if cfg!(feature = "tls") {
        outages.push((server.url().replace("redis://", "rediss://"), SHORT));
    }
    for (url, deadline) in outages {
        let lazy = builder(&url, deadline).connect_lazy().unwrap();
        let calls = History::new(&lazy, &RULE, "key", deadline).on_error(OnError::Deny);
        calls.until_down().await;
        let start = Instant::now();
        for _ in 0..1_000 {
            calls.degraded().await;
        }
        assert!(start.elapsed() < SHORT * 100, "{url}: 1,000 calls took {:?}", start.elapsed());
        if deadline == PATIENT {
            all_ended_early(&calls);
        }
    }
}

/// No call waited for its deadline, which is [`PATIENT`].
fn all_ended_early(calls: &History) {
    let longest = calls.records().iter().map(|record| record.answered - record.asked).max().unwrap();
    assert!(longest < PATIENT / 2, "a call took {longest:?}");
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
        for _ in 0..1_000 {
            calls.degraded().await;
        }
        until("a second to pass", async || start.elapsed() > Duration::from_secs(1)).await;
        let (attempts, most) = (proxy.connections() - before, most_attempts(start.elapsed()));
        println!("{attempts} connections in {:?}", start.elapsed());
        assert!(attempts <= most, "{attempts} connections, and not {most}, for 1,000 decisions");
        assert_eq!(proxy.scripts(), sent);
        assert_eq!(health(&calls.limiter), [Health::Down]);
        if door == Door::Silent {
            // Nobody says that an attempt is in vain: the next does not wait for that.
            until("two attempts at once", async || proxy.open() >= 2).await;
        }
        proxy.door(Door::Open);
        proxy.reset();
        println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
        calls.settle(&witness).await;
    }
}

/// Of several sentinels, or servers of a cluster, the first is let in and never answered.
#[tokio::test]
async fn a_silent_host_does_not_hold_up_the_others() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let first = format!("://{},", silent.local_addr().unwrap());
    let (sentinel, cluster) = (Sentinel::start(), Cluster::start());
    for url in [sentinel.url(), cluster.url()] {
        let url = url.replace("://", &first);
        let connected = tokio::time::timeout(PATIENT / 2, limiter(&url, PATIENT)).await;
        let calls = History::new(&connected.expect("the others are asked too"), &RULE, "key", PATIENT);
        calls.shared().await;
    }
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

/// Who drives the connection changes between a lone caller and a crowd, while replies are under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lone_calls_and_crowds_take_turns_on_one_connection() {
    const CROWD: u64 = 300;

    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let limiter = limiter(&proxy.url(), PATIENT).await;
    let before = proxy.connections();
    let check = async |key: u64| {
        assert_eq!(limiter.check(&RULE, &key, 1).await.decided_by(), DecidedBy::Shared);
    };
    let mut calls = 0;
    for _ in 0..3 {
        let start = Instant::now();
        // Longer than two beats, after which a crowd is forgotten.
        until("a quiet time to pass", async || {
            check(calls % 20).await;
            calls += 1;
            start.elapsed() > Duration::from_millis(2_100)
        })
        .await;
        let crowd: Vec<_> =
            (0..CROWD).map(|key| tokio::spawn(limiter.check(&RULE, &(key % 20), 1))).collect();
        for call in crowd {
            assert_eq!(call.await.unwrap().decided_by(), DecidedBy::Shared);
        }
        calls += CROWD;
    }
    let mut charged = 0;
    for key in 0..20_u64 {
        charged += RULE.quotas()[0].permits() - limiter.peek(&RULE, &key).await.remaining();
    }
    assert_eq!((charged, proxy.connections()), (calls, before));
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

/// While no answer comes: the server must hear of all keys, not of as many as a task may do at once.
#[tokio::test]
async fn however_many_keys_ask_at_once_the_server_is_asked_about_all() {
    const KEYS: u64 = 12_000;

    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let limiter = RedisLimiter::builder(&proxy.url()).timeout(PATIENT).connect().await.unwrap();
    assert!(limiter.check(&RULE, &0u64, 1).await.is_allowed());
    proxy.delay(10 * PATIENT);
    let calls: Vec<_> = (1..=KEYS).map(|key| tokio::spawn(limiter.check(&RULE, &key, 1))).collect();
    until("all keys on the server", async || server.cli(&["DBSIZE"]) == (KEYS + 1).to_string()).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}
