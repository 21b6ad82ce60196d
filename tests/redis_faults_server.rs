//! What happens when the server is there and does not do as it is asked: it refuses, is busy, forgets, or is somebody
//! else's.
//!
//! Each row of the list of faults is one test. In all of them [`History`] holds every call to its deadline, and what
//! the server charged to what it answered.

#![cfg(feature = "redis")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use limiter::{DecidedBy, Health, Limiter, OnError, Quota, RedisLimiter, Rule, Strategy};
use support::history::{History, PATIENT, until};
use support::proxy::Proxy;
use support::servers::{Server, Value, eventually};

/// Where calls are to run out of time.
const SHORT: Duration = Duration::from_millis(200);
const DAY: Duration = Duration::from_secs(86_400);

const RULE: Rule = Rule::new("orders", Strategy::FixedWindow, Quota::new(1_000_000, DAY));

async fn limiter(url: &str, deadline: Duration) -> RedisLimiter {
    RedisLimiter::builder(url).timeout(deadline).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

async fn history(url: &str, deadline: Duration) -> History {
    History::new(&limiter(url, deadline).await, &RULE, "key", deadline)
}

/// Calls for a while. All must be degraded. Returns how many ran out of time.
async fn degraded_for(time: Duration, calls: &History) -> usize {
    let (start, before) = (Instant::now(), calls.records().len());
    until("some time to pass", async || {
        calls.degraded().await;
        start.elapsed() > time
    })
    .await;
    calls.records()[before..].iter().filter(|record| record.answered - record.asked >= SHORT / 2).count()
}

/// A call that is made now and answered whenever it is.
fn under_way(calls: &History) -> tokio::task::JoinHandle<()> {
    let calls = calls.clone();
    tokio::spawn(async move { calls.shared().await })
}

#[tokio::test]
async fn noscript_brings_the_script_back_and_charges_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let calls = history(&proxy.url(), PATIENT).await;
    calls.shared().await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let crowd: Vec<_> = (0..50).map(|_| under_way(&calls)).collect();
    for call in crowd {
        call.await.unwrap();
    }
    assert_eq!(calls.settle(&limiter(&server.url(), PATIENT).await).await, 51);

    server.restart();
    let fresh = History::new(&calls.limiter, &RULE, "fresh", PATIENT);
    fresh.until(DecidedBy::Shared).await;
    let (witness, sent, before) = (limiter(&server.url(), PATIENT).await, proxy.scripts(), fresh.admitted());
    server.cli(&["SCRIPT", "FLUSH"]);
    fresh.shared().await;
    assert_eq!(proxy.scripts() - sent, 2, "`EVALSHA` did not run, and `EVAL` did");
    fresh.shared().await;
    assert_eq!(proxy.scripts() - sent, 3, "the script is there again");
    assert_eq!(fresh.settle(&witness).await, before + 2);
}

/// The primary becomes a replica while its connections live, and then a primary again.
#[tokio::test]
async fn readonly_is_asked_again_on_a_new_connection() {
    let (server, nobody) = (Server::start(), Server::start());
    nobody.stop();
    let proxy = Proxy::start(server.port());
    let calls = history(&proxy.url(), PATIENT).await;
    calls.shared().await;
    let (connections, before) = (proxy.connections(), calls.admitted());
    server.cli(&["REPLICAOF", "127.0.0.1", &nobody.port().to_string()]);
    let call = under_way(&calls);
    until("a new connection", async || proxy.connections() > connections).await;
    assert!(!call.is_finished(), "a replica decided");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    call.await.unwrap();
    assert_eq!(calls.admitted(), before + 1);
    calls.shared().await;
    assert_eq!(calls.settle(&limiter(&server.url(), PATIENT).await).await, 3);
}

#[tokio::test]
async fn a_server_that_stays_a_replica_is_degraded_without_a_storm() {
    let (server, nobody) = (Server::start(), Server::start());
    nobody.stop();
    let proxy = Proxy::start(server.port());
    let calls = history(&proxy.url(), SHORT).await;
    calls.until(DecidedBy::Shared).await;
    server.cli(&["REPLICAOF", "127.0.0.1", &nobody.port().to_string()]);
    let before = proxy.connections();
    let late = degraded_for(Duration::from_secs(3), &calls).await;
    let attempts = proxy.connections() - before;
    // It answers whatever does not write, and is not taken for one that is back.
    let start = Instant::now();
    until("some time to pass", async || {
        assert_eq!(calls.limiter.health()[0].1, Health::Down);
        start.elapsed() > Duration::from_secs(2)
    })
    .await;
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
    calls.settle(&limiter(&server.url(), PATIENT).await).await;
    assert!(attempts < 30, "{attempts} connections in 3 s");
    assert!(late < 10, "{late} calls ran out of time, and the breaker never opened");
}

#[tokio::test]
async fn busy_is_asked_again_within_the_deadline() {
    let server = Server::with(&["--lua-time-limit", "10"]);
    let patient = history(&server.url(), PATIENT).await;
    let hasty = history(&server.url(), SHORT).await;
    hasty.until(DecidedBy::Shared).await;
    patient.shared().await;
    let mut other = server.wire().unwrap();
    let script = std::thread::spawn(move || other.ask(&["EVAL", "while true do end", "0"]));
    until(
        "the server to be busy",
        async || matches!(server.command(&["PING"]), Ok(Value::Error(error)) if error.starts_with("BUSY")),
    )
    .await;
    let call = under_way(&patient);
    let late = degraded_for(Duration::from_secs(3), &hasty).await;
    assert!(!call.is_finished());
    server.cli(&["SCRIPT", "KILL"]);
    script.join().unwrap().unwrap();
    call.await.unwrap();
    println!("shared again after {:?}", hasty.until(DecidedBy::Shared).await);
    let witness = limiter(&server.url(), PATIENT).await;
    let charged = patient.charged(&witness).await;
    assert_eq!(charged, patient.admitted() + hasty.admitted(), "BUSY did not run");
    assert!(late < 10, "{late} calls ran out of time, and the breaker never opened");
}

#[tokio::test]
async fn loading_is_asked_again_within_the_deadline() {
    let server = Arc::new(Server::with(&[
        "--enable-debug-command",
        "yes",
        "--loading-process-events-interval-bytes",
        "1024",
    ]));
    let patient = history(&server.url(), PATIENT).await;
    let hasty = history(&server.url(), SHORT).await;
    patient.shared().await;
    // Too slow ever to end, until it is told to hurry: each key takes 50 milliseconds, and the server listens between.
    let fill = "for i = 1, 3000 do redis.call('SET', i, string.rep(tostring(math.random()), 100)) end";
    server.cli(&["EVAL", fill, "0"]);
    server.cli(&["CONFIG", "SET", "key-load-delay", "50000"]);
    let reload = std::thread::spawn({
        let server = Arc::clone(&server);
        move || server.command(&["DEBUG", "RELOAD"])
    });
    let loading =
        || matches!(server.command(&["PING"]), Ok(Value::Error(error)) if error.starts_with("LOADING"));
    until("the server to load", async || loading()).await;
    let call = under_way(&patient);
    hasty.until(DecidedBy::Degraded).await;
    assert!(loading() && !call.is_finished(), "it loaded too fast for this test");
    server.cli(&["CONFIG", "SET", "key-load-delay", "0"]);
    println!("shared again after {:?}", hasty.until(DecidedBy::Shared).await);
    call.await.unwrap();
    reload.join().unwrap().unwrap();
    let charged = patient.charged(&limiter(&server.url(), PATIENT).await).await;
    assert_eq!(charged, patient.admitted() + hasty.admitted(), "LOADING did not run");
}

#[tokio::test]
async fn out_of_memory_is_the_policy_and_ends_by_itself() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let calls = history(&proxy.url(), PATIENT).await;
    calls.shared().await;
    let connections = proxy.connections();
    for on_error in [OnError::Local, OnError::Allow, OnError::Deny] {
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        for _ in 0..20 {
            calls.on_error(on_error).degraded().await;
        }
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        calls.until(DecidedBy::Shared).await;
    }
    let charged = calls.settle(&limiter(&server.url(), PATIENT).await).await;
    assert_eq!(charged, calls.admitted(), "OOM counted nothing");
    assert_eq!(proxy.connections(), connections, "what it said is no fault of the connection");
}

/// Who is rejected needs no write, and hears it from the server, whoever asks along.
#[tokio::test]
async fn a_key_over_its_limit_is_rejected_by_a_server_without_memory() {
    for &strategy in Strategy::ALL {
        let server = Server::start();
        let rule = Rule::new("one", strategy, Quota::new(1, DAY));
        assert!(limiter(&server.url(), PATIENT).await.check(&rule, &0, 1).await.is_allowed());
        // This one does not know yet that the key is over its limit.
        let limiter = limiter(&server.url(), PATIENT).await;
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        let calls: Vec<_> = (0..16).map(|key| limiter.check(&rule, &key, 1)).collect();
        let mut decisions = Vec::new();
        // All are asked before the first is answered.
        let mut calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
        for call in &mut calls {
            decisions.push(call.await.unwrap());
        }
        assert_eq!(
            (decisions[0].decided_by(), decisions[0].is_allowed()),
            (DecidedBy::Shared, false),
            "{strategy}"
        );
        for decision in &decisions[1..] {
            assert_eq!(decision.decided_by(), DecidedBy::Degraded, "{strategy}");
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_one_clear_error_at_connect() {
    let server = Server::with(&["--requirepass", "right"]);
    server.cli(&["ACL", "SETUSER", "ann", "on", ">secret", "~limiter:*", "+ping", "+client"]);
    let proxy = Proxy::start(server.port());
    let place = proxy.url().replace("redis://", "");
    for (login, code) in
        [("", "NOAUTH"), (":wrong@", "Password authentication failed"), ("ann:secret@", "NoPerm")]
    {
        let before = proxy.connections();
        let error = RedisLimiter::connect(&format!("redis://{login}{place}")).await.unwrap_err().to_string();
        assert!(error.contains(code) && error.contains(&place), "{login}: {error}");
        assert!(!error.contains("secret") && !error.contains("wrong@"), "a password in: {error}");
        assert_eq!(proxy.connections() - before, 1, "{error}: tried once");
    }
}

/// Permission goes, the user goes, the password changes: policy, a few attempts, and all is well when it is back.
#[tokio::test]
async fn a_login_that_ends_at_run_time_is_no_storm() {
    let server = Server::start();
    let allow = ["ACL", "SETUSER", "ann", "reset", "on", ">secret", "~*", "+@all"];
    server.cli(&allow);
    let proxy = Proxy::start(server.port());
    let url = proxy.url().replace("redis://", "redis://ann:secret@");
    let calls = history(&url, PATIENT).await;
    let take_away: [&[&[&str]]; 3] = [
        &[&["ACL", "SETUSER", "ann", "-evalsha", "-eval"]],
        &[&["ACL", "DELUSER", "ann"]],
        &[&["ACL", "SETUSER", "ann", "resetpass", ">other"], &["CLIENT", "KILL", "USER", "ann"]],
    ];
    for commands in take_away {
        calls.until(DecidedBy::Shared).await;
        let (before, start) = (proxy.connections(), Instant::now());
        for command in commands {
            server.cli(command);
        }
        calls.until(DecidedBy::Degraded).await;
        degraded_for(Duration::from_secs(2), &calls).await;
        let attempts = proxy.connections() - before;
        println!("{commands:?}: {attempts} connections in {:?}", start.elapsed());
        assert!(attempts < 25, "{commands:?}: {attempts} connections in {:?}", start.elapsed());
        server.cli(&allow);
        println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
    }
    let charged = calls.settle(&limiter(&server.url(), PATIENT).await).await;
    println!("{charged} charged, {} admitted, {} perhaps", calls.admitted(), calls.perhaps());
}

#[tokio::test]
async fn flushall_and_eviction_start_the_key_anew() {
    let server = Server::start();
    let (first, second) = (limiter(&server.url(), PATIENT).await, limiter(&server.url(), PATIENT).await);
    for &strategy in Strategy::ALL {
        let rule = Rule::try_new("few", strategy, ["3/1d".parse::<Quota>().unwrap()]).unwrap();
        let evict = |server: &Server| {
            server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1"]);
            eventually("the eviction of all keys", || match server.cli(&["DBSIZE"]).as_str() {
                "0" => Ok(()),
                keys => Err(keys.to_owned()),
            });
            server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0"]);
        };
        for forget in [|server: &Server| drop(server.cli(&["FLUSHALL"])), evict] {
            for limiter in [&first, &second] {
                History::new(limiter, &rule, "key", PATIENT).shared().await;
            }
            forget(&server);
            let [calls, others] = [&first, &second].map(|one| History::new(one, &rule, "key", PATIENT));
            for caller in [&calls, &others, &others] {
                caller.shared().await;
            }
            assert_eq!((calls.admitted(), others.admitted()), (1, 2), "{strategy}");
            assert_eq!(calls.charged(&second).await, 3, "{strategy}");
            server.cli(&["FLUSHALL"]);
        }
    }
}

/// Also for who knows that the key was over its limit: what it knows must not outlive the key for long.
#[tokio::test]
async fn flushall_starts_a_key_anew_that_was_over_its_limit() {
    let server = Server::start();
    let limiter = limiter(&server.url(), PATIENT).await;
    let rule = Rule::new("few", Strategy::FixedWindow, Quota::new(3, DAY));
    for _ in 0..3 {
        assert!(limiter.check(&rule, "key", 1).await.is_allowed());
    }
    assert!(!limiter.check(&rule, "key", 1).await.is_allowed());
    server.cli(&["FLUSHALL"]);
    until("the key to start anew", async || limiter.check(&rule, "key", 1).await.is_allowed()).await;
}

#[tokio::test]
async fn a_key_that_holds_something_else_is_left_alone() {
    let server = Server::start();
    let limiter = limiter(&server.url(), PATIENT).await;
    let foreign: [(&str, &[&str]); 9] = [
        ("SET", &["somebody else's"]),
        ("SET", &[""]),
        ("SET", &["1 2 3 4 5 6 7 8 9"]),
        ("SET", &["-1 -1 -1"]),
        ("RPUSH", &["a", "b"]),
        ("HSET", &["a", "b", "c", "d"]),
        ("SADD", &["a"]),
        ("ZADD", &["1", "a", "2.5", "b"]),
        ("XADD", &["*", "a", "b"]),
    ];
    for &strategy in Strategy::ALL {
        let rule = Rule::try_new("few", strategy, ["3/1d".parse::<Quota>().unwrap()]).unwrap();
        server.cli(&["FLUSHALL"]);
        History::new(&limiter, &rule, "key", PATIENT).shared().await;
        let name = &server.cli(&["KEYS", "*"]);
        for (command, value) in foreign {
            server.cli(&["DEL", name]);
            server.cli(&[&[command, name], value].concat());
            let before = server.command(&["DUMP", name]).unwrap();
            for on_error in [OnError::Local, OnError::Allow, OnError::Deny] {
                let calls = History::new(&limiter, &rule, "key", PATIENT).on_error(on_error);
                let decision = calls.call().await;
                assert_eq!(decision.decided_by(), DecidedBy::Degraded, "{strategy}: {command} {value:?}");
            }
            assert_eq!(server.command(&["DUMP", name]).unwrap(), before, "{strategy}: {command} {value:?}");
            assert_eq!(server.cli(&["PTTL", name]), "-1", "{strategy}: {command} {value:?}");
            let other = limiter.check(&rule, "other", 0).await;
            assert_eq!(other.decided_by(), DecidedBy::Shared, "{strategy}: other keys go on");
            assert!(limiter.health().iter().all(|(_, health)| *health == Health::Up));
            server.cli(&["DEL", name]);
            History::new(&limiter, &rule, "key", PATIENT).shared().await;
        }
    }
}

/// 50,000 keys, as a sample of the million a minute: nothing of them stays here, and none stays there for ever.
#[test]
fn many_distinct_keys_take_no_memory_here_and_live_for_a_while_there() {
    const KEYS: u64 = 50_000;

    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(limiter(&server.url(), PATIENT));
    let use_keys = |keys: std::ops::Range<u64>| {
        runtime.block_on(async {
            for first in keys.step_by(1_000) {
                let calls: Vec<_> = (first..first + 1_000)
                    .map(|key| {
                        let limiter = limiter.clone();
                        tokio::spawn(async move { limiter.check(&RULE, &key, 1).await.decided_by() })
                    })
                    .collect();
                for call in calls {
                    assert_eq!(call.await.unwrap(), DecidedBy::Shared);
                }
            }
        });
    };
    use_keys(0..5_000);
    let (start, kept) = (Instant::now(), measure(|| use_keys(5_000..KEYS)).bytes_current);
    println!("{kept} bytes stay of {} keys, in {:?}", KEYS - 5_000, start.elapsed());
    assert!(kept < 500_000, "{kept} bytes");
    let immortal = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*')) do \
                    local ttl = redis.call('PTTL', key) if ttl < 0 or ttl > 86401001 then n = n + 1 end end return n";
    assert_eq!(server.cli(&["DBSIZE"]), KEYS.to_string());
    assert_eq!(
        server.cli(&["EVAL", immortal, "0"]),
        "0",
        "keys without a time to live, or with too long a one"
    );
}
