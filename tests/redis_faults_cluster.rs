//! What happens when a part of a cluster is away, or on its way elsewhere.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use limiter::{DecidedBy, Health, OnError, Quota, RedisLimiter, Rule, Strategy};
use support::history::{History, PATIENT, until};
use support::servers::{Cluster, eventually};

/// Where calls are to run out of time.
const SHORT: Duration = Duration::from_millis(200);
const RULE: Rule =
    Rule::new("orders", Strategy::FixedWindow, Quota::new(1_000_000, Duration::from_secs(86_400)));

async fn limiter(cluster: &Cluster, deadline: Duration) -> RedisLimiter {
    let builder = RedisLimiter::builder(&cluster.url()).timeout(deadline);
    builder.connect().await.unwrap_or_else(|error| panic!("{error}"))
}

/// A key of each node.
fn keys(cluster: &Cluster) -> Vec<String> {
    let keys: Vec<(String, usize)> = (0..100)
        .map(|key| {
            let slot = cluster.slot(&format!("limiter:{{orders:key{key}}}"));
            (format!("key{key}"), cluster.owner(slot))
        })
        .collect();
    let of = |node| keys.iter().find(|(_, owner)| *owner == node).unwrap().0.clone();
    (0..cluster.nodes().len()).map(of).collect()
}

/// With several quotas, of which some are here and some there, both servers say `TRYAGAIN`.
#[tokio::test]
async fn tryagain_is_asked_again_until_the_slot_has_moved() {
    let cluster = Cluster::start();
    let quotas = ["1000/1d", "2000/2d", "3000/3d"].map(|quota| quota.parse::<Quota>().unwrap());
    let rule = Rule::try_new("orders", Strategy::SlidingWindow, quotas).unwrap();
    let patient = History::new(&limiter(&cluster, PATIENT).await, &rule, "key", PATIENT);
    let hasty = History::new(&limiter(&cluster, SHORT).await, &rule, "key", SHORT);
    patient.shared().await;
    hasty.until(DecidedBy::Shared).await;

    let slot = cluster.slot("limiter:{orders:key}");
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let migration = cluster.migrate_slot(slot, to);
    let names = cluster.nodes()[from].cli(&["KEYS", "*:{orders:key}*"]);
    let port = cluster.nodes()[to].port().to_string();
    cluster.nodes()[from].cli(&["MIGRATE", "127.0.0.1", &port, names.lines().next().unwrap(), "0", "5000"]);
    let call = tokio::spawn({
        let patient = patient.clone();
        async move { patient.shared().await }
    });
    for _ in 0..10 {
        hasty.degraded().await;
        // It is one slot that cannot be asked about, not a server.
        let health = hasty.limiter.health();
        assert!(health.iter().all(|(_, health)| *health == Health::Up), "{health:?}");
    }
    assert!(!call.is_finished(), "nobody can decide half-way");
    migration.finish();
    call.await.unwrap();
    hasty.until(DecidedBy::Shared).await;
    let charged = patient.charged(&limiter(&cluster, PATIENT).await).await;
    assert_eq!(charged, patient.admitted() + hasty.admitted(), "TRYAGAIN did not run");
}

/// Half-way, its old server answers `ASK` for a key that it has no more; in the end, `MOVED`. Nobody needs to read anew who
/// has what for that, and here nobody can.
#[tokio::test]
async fn moved_and_ask_are_followed_at_once() {
    let cluster = Cluster::start();
    let calls = History::new(&limiter(&cluster, PATIENT).await, &RULE, "key", PATIENT);
    let slot = cluster.slot("limiter:{orders:key}");
    calls.shared().await;
    let migration = cluster.migrate_slot(slot, (cluster.owner(slot) + 1) % 3);
    migration.move_keys();
    for _ in 0..5 {
        in_time("ASK", calls.shared()).await;
    }
    migration.finish();
    for node in cluster.nodes() {
        node.cli(&["ACL", "SETUSER", "default", "-cluster|slots"]);
    }
    for _ in 0..5 {
        in_time("MOVED", calls.shared()).await;
    }
    for node in cluster.nodes() {
        node.cli(&["ACL", "SETUSER", "default", "+cluster|slots"]);
    }
    assert_eq!(calls.settle(&limiter(&cluster, PATIENT).await).await, 11);
}

/// Well before its deadline, which is [`PATIENT`].
async fn in_time(what: &str, call: impl Future<Output = ()>) {
    let followed = tokio::time::timeout(PATIENT / 2, call).await;
    assert!(followed.is_ok(), "{what} was not followed");
}

/// The slot of a key moves to and fro under load: every call is followed to where the key is, and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_and_ask_are_followed_under_load() {
    let cluster = Cluster::start();
    let calls = History::new(&limiter(&cluster, PATIENT).await, &RULE, "key", PATIENT);
    let slot = cluster.slot("limiter:{orders:key}");
    calls.shared().await;
    let load: Vec<_> = (0..4)
        .map(|_| {
            let calls = calls.clone();
            tokio::spawn(async move {
                loop {
                    calls.shared().await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    tokio::task::block_in_place(|| {
        for _ in 0..10 {
            let owner = (cluster.owner(slot) + 1) % 3;
            let migration = cluster.migrate_slot(slot, owner);
            migration.move_keys();
            migration.finish();
            await_agreement(&cluster, slot, owner);
        }
    });
    for task in load {
        assert!(!task.is_finished(), "a call was not decided by the server");
        task.abort();
        let _ = task.await;
    }
    // Who was dropped on the way may have been counted, nobody else.
    until("the last calls to be counted", async || {
        calls.charged(&limiter(&cluster, PATIENT).await).await >= calls.admitted()
    })
    .await;
    let charged = calls.settle(&limiter(&cluster, PATIENT).await).await;
    println!("{} calls in 10 moves, {charged} charged", calls.records().len());
}

/// Waits until all nodes name the same owner of the slot of `limiter:{orders:key}`.
fn await_agreement(cluster: &Cluster, slot: u16, owner: usize) {
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes()[owner].port());
    for (index, node) in cluster.nodes().iter().enumerate() {
        eventually("the nodes to agree", || {
            let answer = node.command(&["EXISTS", "limiter:{orders:key}"]).unwrap().to_string();
            let is_right = if index == owner { !answer.contains("MOVED") } else { answer == moved };
            if is_right { Ok(()) } else { Err(answer) }
        });
    }
}

#[tokio::test]
async fn one_shard_away_is_the_policy_for_its_keys_only() {
    let cluster = Cluster::start();
    let limiter = limiter(&cluster, PATIENT).await;
    let calls: Vec<History> =
        keys(&cluster).iter().map(|key| History::new(&limiter, &RULE, key, PATIENT)).collect();
    for calls in &calls {
        calls.shared().await;
    }
    cluster.nodes()[1].kill();
    calls[1].until(DecidedBy::Degraded).await;
    until("the breaker of one server to open", async || {
        limiter.health().iter().filter(|(_, health)| *health == Health::Down).count() == 1
    })
    .await;
    let down = limiter.health().into_iter().find(|(_, health)| *health == Health::Down).unwrap().0;
    assert_eq!(down, format!("127.0.0.1:{}", cluster.nodes()[1].port()));

    // Longer than the cluster takes to notice, and to tell that it knows.
    let (start, mut times) = (Instant::now(), Vec::new());
    until("some time to pass", async || {
        for (node, calls) in calls.iter().enumerate() {
            let asked = Instant::now();
            let decided_by = calls.call().await.decided_by();
            if node == 1 {
                times.push(asked.elapsed());
                assert_eq!(decided_by, DecidedBy::Degraded);
            } else {
                assert_eq!(decided_by, DecidedBy::Shared, "node {node} is well");
            }
        }
        start.elapsed() > Duration::from_secs(5)
    })
    .await;
    times.sort();
    println!(
        "a degraded decision takes {:?}, the slowest {:?}",
        times[times.len() / 2],
        times.last().unwrap()
    );
    assert!(times[times.len() / 2] < Duration::from_millis(5));
    calls[1].on_error(OnError::Deny).degraded().await;
    calls[1].on_error(OnError::Allow).degraded().await;

    cluster.nodes()[1].restart();
    println!("shared again after {:?}", calls[1].until(DecidedBy::Shared).await);
    for node in [0, 2] {
        calls[node].settle(&limiter).await;
        assert_eq!(calls[node].perhaps(), 0);
    }
}

/// Where a cluster is told to serve nothing unless it serves all, the loss of one server takes the others with it.
#[tokio::test]
async fn clusterdown_is_the_policy_and_ends_by_itself() {
    let cluster = Cluster::with(&["--cluster-require-full-coverage", "yes"]);
    let (limiter, patient) = (limiter(&cluster, SHORT).await, limiter(&cluster, PATIENT).await);
    let keys = keys(&cluster);
    let calls: Vec<History> = keys.iter().map(|key| History::new(&limiter, &RULE, key, SHORT)).collect();
    for calls in &calls {
        calls.until(DecidedBy::Shared).await;
    }
    cluster.nodes()[1].kill();
    for node in [0, 2] {
        eventually("the cluster to be down", || {
            let info = cluster.nodes()[node].cli(&["CLUSTER", "INFO"]);
            if info.contains("cluster_state:fail") { Ok(()) } else { Err(info) }
        });
    }
    // It did not run, so one that has the time is asked again.
    let patient = History::new(&patient, &RULE, &keys[0], PATIENT);
    let call = tokio::spawn({
        let patient = patient.clone();
        async move { patient.shared().await }
    });
    for calls in &calls {
        for on_error in [OnError::Local, OnError::Allow, OnError::Deny] {
            calls.on_error(on_error).degraded().await;
        }
    }
    let (start, mut late) = (Instant::now(), 0);
    until("some time to pass", async || {
        let asked = Instant::now();
        calls[0].degraded().await;
        late += u32::from(asked.elapsed() > SHORT / 2);
        start.elapsed() > Duration::from_secs(4)
    })
    .await;
    assert!(!call.is_finished(), "nobody can decide");
    cluster.nodes()[1].restart();
    cluster.settle();
    call.await.unwrap();
    for calls in &calls {
        println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
    }
    for node in [0, 2] {
        let charged = calls[node].charged(&limiter).await;
        let patient = if node == 0 { patient.admitted() } else { 0 };
        assert_eq!(charged, calls[node].admitted() + patient, "CLUSTERDOWN did not run");
    }
    assert!(late < 12, "{late} calls ran out of time, and the breaker never opened");
}
