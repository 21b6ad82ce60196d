//! The limiter that a fleet shares, on real servers.

#![cfg(feature = "redis")]

mod support;

use std::time::Duration;

use limiter::{
    DecidedBy, Limiter, LocalLimiter, Quota, Reason, RedisLimiter, Rejected, Rule, Strategy, rate_limit,
    scope,
};
use support::servers::{Cluster, Sentinel, Server, Value};

/// So long that only a test that hangs meets it: what is tested here is not how fast this machine is.
const PATIENT: Duration = Duration::from_secs(60);

async fn limiter(url: &str) -> RedisLimiter {
    RedisLimiter::builder(url).timeout(PATIENT).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

fn rule(strategy: Strategy, quotas: &[&str]) -> Rule {
    let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
    Rule::try_new("orders", strategy, quotas).unwrap()
}

/// How many of `calls` calls are admitted, all by the server.
async fn admitted(limiter: &impl Limiter, rule: &Rule, key: &str, calls: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..calls {
        let decision = limiter.check(rule, key, 1).await;
        assert_eq!(decision.decided_by(), DecidedBy::Shared);
        admitted += u64::from(decision.is_allowed());
    }
    admitted
}

#[rate_limit(name = "get_order", key = "id", qps = 3, window = "1h", fallback = "busy")]
async fn get_order(id: u64) -> String {
    format!("order {id}")
}

async fn busy(id: u64, why: Rejected) -> String {
    assert_eq!((why.decided_by(), why.reason()), (DecidedBy::Shared, Reason::Exceeded));
    format!("busy {id}")
}

#[rate_limit(key = "id", qps = 1, window = "1h", store = "local", decision = d)]
async fn per_instance(id: u64) -> Option<(u64, DecidedBy)> {
    Some((id, d.decided_by()))
}

#[tokio::test]
async fn the_same_annotation_is_shared_by_all_instances() {
    let server = Server::start();
    let instances = [limiter(&server.url()).await, limiter(&server.url()).await];
    for (call, instance) in [0, 1, 0].into_iter().enumerate() {
        let answer = scope(instances[instance].clone(), get_order(1)).await;
        assert_eq!(answer, "order 1", "call {call}");
    }
    for instance in &instances {
        assert_eq!(scope(instance.clone(), get_order(1)).await, "busy 1");
        assert_eq!(scope(instance.clone(), per_instance(1)).await, Some((1, DecidedBy::Local)));
        assert_eq!(
            scope(instance.clone(), per_instance(1)).await,
            None,
            "each instance has a limit of its own"
        );
    }
    assert_eq!(scope(instances[0].clone(), get_order(2)).await, "order 2");
    assert_eq!(server.cli(&["KEYS", "*"]).lines().count(), 2);
    assert!(server.cli(&["KEYS", "*"]).contains("limiter:{get_order:#1}:sliding_window"));
}

#[tokio::test]
async fn every_kind_of_address() {
    let plain = Server::start();
    let secret = Server::with(&["--requirepass", "p@ss"]);
    let user = Server::start();
    user.cli(&["ACL", "SETUSER", "ann", "on", ">secret", "~limiter:*", "+@all"]);
    let sentinel = Sentinel::start();
    let cluster = Cluster::start();
    let addresses = [
        plain.url(),
        format!("{}/3", plain.url()),
        plain.socket_url(),
        format!("redis://:p%40ss@127.0.0.1:{}", secret.port()),
        format!("redis://ann:secret@127.0.0.1:{}", user.port()),
        sentinel.url(),
        cluster.url(),
    ];
    for (i, url) in addresses.iter().enumerate() {
        let limiter = limiter(url).await;
        for &strategy in Strategy::ALL {
            let rule = rule(strategy, &["3/1d", "100/2d"]);
            let key = format!("{strategy} {i}");
            assert_eq!(admitted(&limiter, &rule, &key, 5).await, 3, "{strategy} at address {i}");
        }
    }
    let keyspace = plain.cli(&["INFO", "keyspace"]);
    assert!(keyspace.contains("db3:keys=10"), "{keyspace}");
}

#[tokio::test]
async fn a_wrong_address_says_which_part_is_wrong() {
    let server = Server::with(&["--requirepass", "right"]);
    let port = server.port();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cases = [
        ("localhost:6379".to_owned(), "the address has no scheme"),
        (format!("redis://:wrong@127.0.0.1:{port}"), "cannot connect to the server at 127.0.0.1"),
        (format!("redis://127.0.0.1:{port}"), "NOAUTH"),
        (format!("redis://127.0.0.1:{silent}"), "refused"),
        (format!("redis+cluster://127.0.0.1:{silent}"), "cannot connect to the cluster at 127.0.0.1"),
        (format!("redis+sentinel://127.0.0.1:{silent}/main"), "cannot connect to the primary \"main\""),
        ("redis://no-such-host.invalid".to_owned(), "no-such-host.invalid"),
    ];
    for (url, part) in cases {
        let error = RedisLimiter::connect(&url).await.expect_err(&url).to_string();
        assert!(error.contains(part), "{url}: {error}");
        assert!(!error.contains("wrong@") && !error.contains(":wrong"), "a password in: {error}");
    }
}

/// One `EVALSHA` for a decision, none for a key that is known to be blocked, two at the most for a crowd.
#[tokio::test]
async fn a_decision_is_one_command_and_a_crowd_shares_it() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let commands = |lines: &[String]| {
        let scripts = lines.iter().filter(|line| line.contains("EVALSHA")).count();
        let others = lines.iter().filter(|line| line.contains("\"EVAL\"") || line.contains("SCRIPT")).count();
        (scripts, others)
    };
    for &strategy in Strategy::ALL {
        let rule = Rule::try_new(strategy.name(), strategy, ["10/1d".parse::<Quota>().unwrap()]).unwrap();
        let monitor = server.monitor();
        assert!(limiter.check(&rule, "one", 1).await.is_allowed());
        assert_eq!(commands(&monitor.stop()), (1, 0), "{strategy}: one decision");

        let monitor = server.monitor();
        assert!(!limiter.check(&rule, "one", 10).await.is_allowed());
        for _ in 0..100 {
            let rejected = limiter.check(&rule, "one", 10).await.into_result(&rule).unwrap_err();
            assert_eq!((rejected.reason(), rejected.remaining()), (Reason::Exceeded, 9));
        }
        assert_eq!(commands(&monitor.stop()), (1, 0), "{strategy}: known to be blocked");
        assert!(limiter.check(&rule, "one", 9).await.is_allowed(), "{strategy}: what costs less is asked");

        let monitor = server.monitor();
        let calls: Vec<_> = (0..1000)
            .map(|_| {
                let (limiter, rule) = (limiter.clone(), rule.clone());
                tokio::spawn(async move { limiter.check(&rule, "crowd", 1).await.is_allowed() })
            })
            .collect();
        let mut admitted = Vec::new();
        for call in calls {
            admitted.push(call.await.unwrap());
        }
        let (scripts, others) = commands(&monitor.stop());
        assert!((1..=2).contains(&scripts) && others == 0, "{strategy}: {scripts} script calls for a crowd");
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 10, "{strategy}");
        assert!(admitted[..10].iter().all(|admitted| *admitted), "{strategy}: not in the order of asking");
    }
}

/// Keys of one rule go together in few scripts, and one that holds something else spoils it for nobody.
#[tokio::test]
async fn keys_of_one_rule_share_a_script() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        let rule = Rule::try_new(strategy.name(), strategy, ["1/1d".parse::<Quota>().unwrap()]).unwrap();
        server.cli(&["SET", &format!("limiter:{{{strategy}:#7}}:{strategy}"), "somebody else's"]);
        let monitor = server.monitor();
        for admitted in [true, false] {
            let calls: Vec<_> = (0..48_u64)
                .map(|key| {
                    let (limiter, rule) = (limiter.clone(), rule.clone());
                    tokio::spawn(async move { limiter.check(&rule, &key, 1).await })
                })
                .collect();
            for (key, call) in calls.into_iter().enumerate() {
                let decision = call.await.unwrap();
                let by = if key == 7 { DecidedBy::Degraded } else { DecidedBy::Shared };
                let seen = (decision.decided_by(), decision.is_allowed());
                assert_eq!(seen, (by, admitted), "{strategy}, key {key}");
            }
        }
        let scripts = monitor.stop().iter().filter(|line| line.contains("EVALSHA")).count();
        let most = if strategy == Strategy::SlidingLog { 96 } else { 6 };
        assert!(scripts <= most, "{strategy}: {scripts} scripts");
    }
}

/// An address that does not say that the server is one of a cluster: its own keys are decided, whoever asks with them.
#[tokio::test]
async fn a_server_of_a_cluster_is_not_asked_about_keys_of_several_slots() {
    let cluster = Cluster::start();
    let node = &cluster.nodes()[0];
    let limiter = limiter(&node.url()).await;
    let rule = rule(Strategy::TokenBucket, &["1/1d"]);
    let calls: Vec<_> = (0..100_u64)
        .map(|key| {
            let (limiter, rule) = (limiter.clone(), rule.clone());
            tokio::spawn(async move { limiter.check(&rule, &key, 1).await.decided_by() })
        })
        .collect();
    let mut shared = 0;
    for call in calls {
        shared += usize::from(call.await.unwrap() == DecidedBy::Shared);
    }
    assert!(shared > 0);
    assert_eq!(node.cli(&["DBSIZE"]), shared.to_string());
    let own =
        (0..100_u64).filter(|key| cluster.owner(cluster.slot(&format!("limiter:{{orders:#{key}}}"))) == 0);
    assert_eq!(own.count(), shared, "all keys that are this server's");
}

/// However many are rejected, they take no memory.
#[tokio::test]
async fn a_key_known_to_be_blocked_is_rejected_without_an_allocation() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let rule = rule(Strategy::TokenBucket, &["1/1d"]);
    for key in ["alice", "a key that is longer than those which are held in place"] {
        for _ in 0..2 {
            let _ = limiter.check(&rule, key, 1).await;
        }
        let rejected = || assert!(!support::now(limiter.check(&rule, key, 1)).is_allowed());
        assert_eq!(allocation_counter::measure(rejected).count_total, 0, "{key}");
    }
}

/// Two rules of one name share their keys on the server: a reset by one is a reset for the other.
#[tokio::test]
async fn a_reset_ends_what_is_known_of_other_quotas() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let [few, fewer] = ["2/1d", "1/1d"].map(|quota| rule(Strategy::FixedWindow, &[quota]));
    assert_eq!(admitted(&limiter, &few, "key", 3).await, 2);
    assert_eq!(admitted(&limiter, &fewer, "key", 1).await, 0);
    limiter.reset(&few, "key").await;
    assert_eq!(admitted(&limiter, &fewer, "key", 1).await, 1);
}

#[tokio::test]
async fn calls_of_one_round_trip_keep_their_own_cost_and_patience() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let rule = rule(Strategy::SlidingLog, &["10/1h"]);
    let check = |cost: u64| {
        let (limiter, rule) = (limiter.clone(), rule.clone());
        tokio::spawn(async move { limiter.check(&rule, "key", cost).await })
    };
    let calls = [check(4), check(11), check(7), check(5), check(1), check(1)];
    let mut seen = Vec::new();
    for call in calls {
        let decision = call.await.unwrap();
        seen.push((decision.is_allowed(), decision.remaining()));
    }
    assert_eq!(seen, [(true, 6), (false, 6), (false, 6), (true, 1), (true, 0), (false, 0)]);
}

/// The future of a caller is dropped at any moment: nobody else is stuck, and nothing is gained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_caller_harms_nobody() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let rule = rule(Strategy::TokenBucket, &["200/1d"]);
    let mut random = support::random::Random::new(support::random::base_seed());
    let calls: Vec<_> = (0..2_000)
        .map(|_| {
            let (limiter, rule) = (limiter.clone(), rule.clone());
            let call = tokio::spawn(async move { limiter.check(&rule, "key", 1).await.is_allowed() });
            if random.chance(50) {
                call.abort();
            }
            call
        })
        .collect();
    let mut admitted = 0;
    for call in calls {
        match call.await {
            Ok(allowed) => admitted += u64::from(allowed),
            Err(aborted) => assert!(aborted.is_cancelled()),
        }
    }
    assert!(admitted <= 200, "{admitted}");
    let left = limiter.peek(&rule, "key").await.remaining();
    assert!(admitted + left <= 200, "{admitted} were admitted and {left} are left");
}

#[tokio::test]
async fn waiting_takes_one_round_trip_and_is_fair_across_instances() {
    let server = Server::start();
    let instances = [limiter(&server.url()).await, limiter(&server.url()).await];
    let rule = Rule::new("queue", Strategy::LeakyBucket, Quota::new(20, Duration::from_secs(1)).burst(1));
    let monitor = server.monitor();
    let mut calls = Vec::new();
    for caller in 0..6usize {
        let (limiter, rule) = (instances[caller % 2].clone(), rule.clone());
        let start = std::time::Instant::now();
        let asked = tokio::spawn(async move {
            let decision = limiter.acquire(&rule, &(), 1, Duration::from_secs(5)).await;
            (decision.delay(), start.elapsed())
        });
        calls.push(asked);
        // The next one asks when this one was heard.
        while script_calls(&server) <= caller {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut delays = Vec::new();
    for call in calls {
        let (delay, waited) = call.await.unwrap();
        assert!(waited >= delay, "it went {waited:?} after it asked, before its turn at {delay:?}");
        delays.push(delay);
    }
    assert!(
        delays.windows(2).all(|pair| pair[0] < pair[1]),
        "the order of asking is the order of turns: {delays:?}"
    );
    let scripts = monitor.stop().iter().filter(|line| line.contains("EVALSHA")).count();
    assert_eq!(scripts, 6, "waiting never asks again");
}

/// How many scripts the server has run.
fn script_calls(server: &Server) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.split("cmdstat_evalsha:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn peek_takes_nothing_and_reset_gives_all_back() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        let rule = rule(strategy, &["2/1d", "5/2d"]);
        for _ in 0..5 {
            let decision = limiter.peek(&rule, "key").await;
            assert!(decision.is_allowed() && decision.remaining() == 2, "{strategy}: {decision:?}");
        }
        assert_eq!(admitted(&limiter, &rule, "key", 4).await, 2, "{strategy}");
        assert!(!limiter.peek(&rule, "key").await.is_allowed());
        limiter.reset(&rule, "key").await;
        assert_eq!(
            admitted(&limiter, &rule, "key", 4).await,
            2,
            "{strategy}: after a reset, known to be blocked or not"
        );
        limiter.reset(&rule, "key").await;
        assert_eq!(server.cli(&["DBSIZE"]), "0", "{strategy}: all its keys are gone");
    }
}

/// Nothing is held for keys that were reset.
#[tokio::test]
async fn resets_of_many_keys_hold_no_memory() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let rule = rule(Strategy::FixedWindow, &["1/1d"]);
    let reset = async |keys: std::ops::Range<u64>| {
        for key in keys {
            limiter.reset(&rule, &key).await;
        }
    };
    reset(0..1_000).await;
    let before = allocation_counter::measure(|| {});
    assert_eq!(before.bytes_current, 0);
    // On this thread alone: the runtime is of one thread.
    let mut more = Box::pin(reset(1_000..3_000));
    let mut held = 0;
    std::future::poll_fn(|context| {
        let mut poll = std::task::Poll::Pending;
        held += allocation_counter::measure(|| poll = more.as_mut().poll(context)).bytes_current;
        poll
    })
    .await;
    assert!(held < 100_000, "{held} bytes stay after 2,000 resets");
}

#[tokio::test]
async fn every_key_has_a_time_to_live() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        let rule = Rule::try_new(
            strategy.name(),
            strategy,
            ["3/1m".parse::<Quota>().unwrap(), "50/1h".parse().unwrap()],
        )
        .unwrap();
        for key in 0..20u64 {
            for _ in 0..5 {
                let _ = limiter.check(&rule, &key, 1).await;
            }
        }
    }
    let keys = server.cli(&["KEYS", "*"]);
    assert_eq!(keys.lines().count(), 5 * 20 * 2);
    for key in keys.lines() {
        let ttl: i64 = server.cli(&["PTTL", key]).parse().unwrap();
        assert!((1..=3_601_001).contains(&ttl), "{key} lives for {ttl} ms");
    }
}

#[tokio::test]
async fn a_rejected_call_writes_nothing() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        let rule = rule(strategy, &["5/1d", "3/2d"]);
        let key = strategy.name();
        assert!(limiter.check(&rule, key, 2).await.is_allowed());
        let name = format!("limiter:{{orders:{key}}}:{strategy}");
        let names = [name.clone(), name + ":1"];
        let dump = || names.each_ref().map(|name| server.command(&["DUMP", name]).unwrap());
        let before = dump();
        assert!(before.iter().all(|value| !matches!(value, Value::Nil)), "{strategy}: {before:?}");
        for cost in [2, 3, 4] {
            assert!(!limiter.check(&rule, key, cost).await.is_allowed());
        }
        assert_eq!(dump(), before, "{strategy}");
    }
}

#[tokio::test]
async fn prefixes_databases_and_rules_keep_apart() {
    let server = Server::start();
    let shop = RedisLimiter::builder(&server.url()).prefix("shop").timeout(PATIENT).connect().await.unwrap();
    let plain = limiter(&server.url()).await;
    let rule = rule(Strategy::FixedWindow, &["1/1d"]);
    let other = Rule::new("others", Strategy::FixedWindow, Quota::new(1, Duration::from_secs(60)));
    assert_eq!(admitted(&shop, &rule, "key", 2).await, 1);
    assert_eq!(admitted(&plain, &rule, "key", 2).await, 1);
    assert_eq!(admitted(&plain, &other, "key", 2).await, 1);
}

/// Keys with braces, colons, NULs, newlines, other scripts and of a megabyte: no two become one, and none is long.
#[tokio::test]
async fn strange_keys_stay_apart() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    let rule = rule(Strategy::TokenBucket, &["1/1d"]);
    let long = "x".repeat(1 << 20);
    let keys =
        ["", "{", "}", "{}", "a:b", "a", "b", "\0", "\n", "\r\nDEL x\r\n", "漢字", "%7B", &long, &long[1..]];
    for key in keys {
        assert!(limiter.check(&rule, key, 1).await.is_allowed(), "{:?}", &key[..key.len().min(20)]);
        assert!(!limiter.check(&rule, key, 1).await.is_allowed());
    }
    let names = server.cli(&["KEYS", "*"]);
    assert_eq!(names.lines().count(), keys.len());
    assert!(names.lines().all(|name| name.len() < 300));
}

#[tokio::test]
async fn a_changed_quota_takes_effect() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        let key = strategy.name();
        assert_eq!(admitted(&limiter, &rule(strategy, &["3/1d"]), key, 5).await, 3);
        let raised = rule(strategy, &["5/1d"]);
        let more = admitted(&limiter, &raised, key, 5).await;
        // What was taken stays taken.
        assert!((1..=3).contains(&more), "{strategy}: {more} more");
    }
}

#[tokio::test]
async fn a_changed_strategy_starts_anew() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        assert_eq!(admitted(&limiter, &rule(strategy, &["3/1d"]), "key", 5).await, 3, "{strategy}");
    }
}

#[tokio::test]
async fn quotas_of_one_rule_share_a_slot_and_slots_may_move() {
    let cluster = Cluster::start();
    let limiter = limiter(&cluster.url()).await;
    let rule = rule(Strategy::SlidingWindow, &["5/1d", "100/2d", "1000/3d"]);
    for key in 0..50 {
        assert_eq!(admitted(&limiter, &rule, &format!("key {key}"), 2).await, 2);
    }
    let held: Vec<u64> = cluster.nodes().iter().map(|node| node.cli(&["DBSIZE"]).parse().unwrap()).collect();
    assert!(
        held.iter().all(|keys| *keys > 0 && keys % 3 == 0) && held.iter().sum::<u64>() == 150,
        "{held:?}"
    );

    // The slot of a key goes elsewhere while it is in use: ASK on the way, MOVED afterwards.
    let name = "limiter:{orders:key%201}";
    let slot = cluster.slot(name);
    let to = (cluster.owner(slot) + 1) % 3;
    let migration = cluster.migrate_slot(slot, to);
    assert_eq!(admitted(&limiter, &rule, "key 1", 1).await, 1, "still at home");
    migration.move_keys();
    assert_eq!(admitted(&limiter, &rule, "key 1", 1).await, 1, "on its way");
    migration.finish();
    assert_eq!(admitted(&limiter, &rule, "key 1", 2).await, 1, "5 in all, wherever they were counted");
}

#[tokio::test]
async fn a_new_primary_is_found() {
    let sentinel = Sentinel::start();
    let limiter = limiter(&sentinel.url()).await;
    let rule = rule(Strategy::FixedWindow, &["1000/1d"]);
    assert_eq!(admitted(&limiter, &rule, "key", 3).await, 3);
    sentinel.fail_over();
    let decision = limiter.check(&rule, "key", 1).await;
    assert!(decision.is_allowed());
    eventually_shared(&limiter, &rule).await;
}

/// The server comes back, and with it the shared decisions, without anybody doing anything.
#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let server = Server::start();
    let limiter = RedisLimiter::builder(&server.url())
        .timeout(Duration::from_millis(300))
        .local(LocalLimiter::new())
        .connect()
        .await
        .unwrap();
    let rule = rule(Strategy::FixedWindow, &["1000/1d"]);
    assert_eq!(limiter.check(&rule, "key", 1).await.decided_by(), DecidedBy::Shared);
    server.kill();
    eventually_by(&limiter, &rule, DecidedBy::Degraded).await;
    server.restart();
    eventually_shared(&limiter, &rule).await;
}

#[tokio::test]
async fn a_lazy_limiter_starts_without_a_server() {
    let server = Server::start();
    server.stop();
    let limiter = RedisLimiter::builder(&server.url()).connect_lazy().unwrap();
    let rule = rule(Strategy::FixedWindow, &["1000/1d"]);
    assert_eq!(limiter.check(&rule, "key", 1).await.decided_by(), DecidedBy::Degraded);
    server.restart();
    eventually_shared(&limiter, &rule).await;
}

/// `SCRIPT FLUSH`, or a new server: the script is sent again, and nothing is charged twice.
#[tokio::test]
async fn a_lost_script_is_brought_back() {
    let server = Server::start();
    let limiter = limiter(&server.url()).await;
    for &strategy in Strategy::ALL {
        let rule = rule(strategy, &["3/1d"]);
        server.cli(&["SCRIPT", "FLUSH"]);
        assert_eq!(admitted(&limiter, &rule, strategy.name(), 5).await, 3, "{strategy}");
    }
}

async fn eventually_shared(limiter: &RedisLimiter, rule: &Rule) {
    eventually_by(limiter, rule, DecidedBy::Shared).await;
}

async fn eventually_by(limiter: &RedisLimiter, rule: &Rule, by: DecidedBy) {
    let start = std::time::Instant::now();
    while limiter.check(rule, "key", 1).await.decided_by() != by {
        assert!(start.elapsed() < PATIENT, "nobody decides as {by:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
