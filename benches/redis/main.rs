//! What a shared decision costs, beside peers, a bare script through the same client, and what the server alone can do.
//!
//! Starts a server of its own. Rounds of all contenders are interleaved, so that noise hits them alike; medians are
//! compared as ratios. Leaves `results/redis.md` and `results/redis_callers.csv`.

mod contenders;
mod load;
mod report;
mod server_side;
mod support;

use std::fmt::Write as _;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use limiter::RedisLimiter;
use redis::Connection;
use tokio::runtime::{Builder, Runtime};

use crate::contenders::{Contender, Peers};
use crate::load::Load;
use crate::report::{Row, Target};
use crate::server_side::Asked;
use crate::support::servers::Server;

const ROUNDS: usize = 15;
const CALLERS: [u64; 4] = [1, 8, 64, 512];
const MOST_CALLERS: u64 = 512;
const KEYS: u64 = 10_000;

fn main() {
    let server = Server::start();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let peers = runtime.block_on(async {
        // Nobody is to be answered by this process: what is measured is the server and the way to it.
        let limiter = RedisLimiter::builder(&server.url()).timeout(Duration::from_secs(5)).connect().await;
        limiter::install(limiter.expect("the server is there")).expect("the first");
        Arc::new(Peers::connect(&server.url()).await)
    });
    let load = Load { runtime: &runtime, peers };

    let mut rows = Vec::new();
    rows.extend(different_keys_and_one(&server, &load));
    rows.push(blocked(&server, &runtime));
    rows.extend(server_time(&server, &runtime));

    let table = report::table(&rows);
    println!("{table}");
    report::keep("redis.md", &table);
}

/// Decisions per second by number of callers, the latency of one, and many callers of one key.
fn different_keys_and_one(server: &Server, load: &Load<'_>) -> Vec<Row> {
    let asked = Asked::without_argument(server, || _ = load.runtime.block_on(contenders::token_bucket(0)));
    let mut rates = vec![[const { Vec::new() }; CALLERS.len()]; Contender::ALL.len()];
    let [mut latencies, mut bare_latencies] = [const { Vec::new() }; 2];
    let [mut one_key, mut benchmark, mut benchmark_one_key] = [const { Vec::new() }; 3];
    // The first round only warms up.
    for round in 0..=ROUNDS {
        let mut figures = Vec::new();
        for (contender, rates) in Contender::ALL.into_iter().zip(&mut rates) {
            for (callers, rates) in CALLERS.into_iter().zip(rates) {
                let measured = load.round(contender, callers, KEYS);
                if round > 0 {
                    rates.push(measured.per_second);
                }
                if callers == 1 {
                    figures.push(measured.latency);
                }
            }
        }
        let alone = load.round(Contender::Limiter, MOST_CALLERS, 1).per_second;
        let [different, same] = [KEYS, 1].map(|keys| asked.benchmark(server, keys));
        if round > 0 {
            latencies.push(figures[0]);
            bare_latencies.push(figures[3]);
            one_key.push(alone);
            benchmark.push(different);
            benchmark_one_key.push(same);
        }
    }
    let mut lines = "contender,callers,per_second\n".to_owned();
    let mut rate = |contender: usize, callers: usize| {
        let rate = median(&mut rates[contender][callers]);
        let _ = writeln!(lines, "{},{},{rate:.0}", Contender::ALL[contender].name(), CALLERS[callers]);
        rate
    };
    let all: Vec<[f64; CALLERS.len()]> = (0..Contender::ALL.len())
        .map(|contender| std::array::from_fn(|callers| rate(contender, callers)))
        .collect();
    report::keep("redis_callers.csv", &lines);
    println!("{lines}");
    let [ours, throttled, trypema, bare] = [0, 1, 2, 3].map(|contender| all[contender][CALLERS.len() - 1]);
    let [one_key, benchmark, benchmark_one_key] =
        [one_key, benchmark, benchmark_one_key].map(|mut rates| median(&mut rates));
    let [latency, bare_latency] = [latencies, bare_latencies].map(|mut times| median(&mut times));
    println!("redis-benchmark {benchmark:.0}, of one key {benchmark_one_key:.0}; one key {one_key:.0}");
    println!("one caller: {latency:.1} µs, bare {bare_latency:.1} µs\n");
    let different = "different keys, 512 callers, token_bucket";
    let row = |path, beside, figure, target| Row { path, beside, figure, target };
    vec![
        row(
            different,
            "redis-benchmark, the same script, a key a call",
            ours / benchmark,
            Target::AtLeast(0.7),
        ),
        row(different, "throttled 0.1.0", ours / throttled, Target::AtLeast(1.5)),
        row(different, "trypema 2.2.1, a sliding window", ours / trypema, Target::AtLeast(1.5)),
        row(
            "one key, 512 callers",
            "a script for each call, by redis-benchmark",
            one_key / benchmark_one_key,
            Target::AtLeast(5.0),
        ),
        row(
            "one key, 512 callers",
            "a script for each call, by the same client, different keys",
            one_key / bare,
            Target::AtLeast(5.0),
        ),
        row(
            "one caller, median latency",
            "a bare EVALSHA by the same client",
            latency / bare_latency,
            Target::AtMost(1.15),
        ),
    ]
}

/// Rejections of keys that are known to be blocked, on one thread.
fn blocked(server: &Server, runtime: &Runtime) -> Row {
    const BLOCKED_KEYS: u64 = 100;
    const CALLS: u32 = 100_000;

    let mut rates = Vec::new();
    for round in 0..=ROUNDS {
        // A block is believed for ten seconds.
        runtime.block_on(async {
            for id in 0..BLOCKED_KEYS {
                contenders::blocked(id).await;
                contenders::blocked(id).await;
            }
        });
        let before = server_side::scripts(server);
        let start = Instant::now();
        for call in 0..CALLS {
            let answer = now(contenders::blocked(u64::from(call) % BLOCKED_KEYS));
            assert!(black_box(answer).is_none(), "a key that is blocked");
        }
        let rate = f64::from(CALLS) / start.elapsed().as_secs_f64();
        assert!((server_side::scripts(server) - before).abs() < 0.5, "the server was asked");
        if round > 0 {
            rates.push(rate);
        }
    }
    Row {
        path: "a key known to be blocked",
        beside: "rejections per second, one thread",
        figure: median(&mut rates),
        target: Target::AtLeast(5e6),
    }
}

/// What the server takes for a script of ours, beside the leanest for the same strategy.
fn server_time(server: &Server, runtime: &Runtime) -> Vec<Row> {
    /// Few enough that every key is called again and again within its window.
    const CALLED_KEYS: u64 = 500;
    const BUCKET: &str = include_str!("lean/token_bucket.lua");

    let mut connection: Connection = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .expect("the server is there");
    let [token, leaky, fixed, sliding] = [
        Asked::by(server, || _ = runtime.block_on(contenders::token_bucket(0))),
        Asked::by(server, || _ = runtime.block_on(contenders::leaky_bucket(0))),
        Asked::by(server, || _ = runtime.block_on(contenders::fixed_window(0))),
        Asked::by(server, || _ = runtime.block_on(contenders::sliding_window(0))),
    ];
    let mut lean = |name, source, arguments: &[u64]| Asked::lean(&mut connection, name, source, arguments);
    let contenders = [
        ("server time, token_bucket", token, lean("token", BUCKET, &[86_400, 1_000_000]), 1.2),
        ("server time, leaky_bucket", leaky, lean("leaky", BUCKET, &[86_400, 1_000_000]), 1.2),
        (
            "server time, fixed_window",
            fixed,
            lean("fixed", include_str!("lean/fixed_window.lua"), &[1_000_000, 1_000_000]),
            1.2,
        ),
        (
            "server time, sliding_window",
            sliding,
            lean("sliding", include_str!("lean/sliding_window.lua"), &[1_000_000, 1_000_000, 100_000]),
            2.0,
        ),
    ];
    let mut times = [const { (Vec::new(), Vec::new()) }; 4];
    for round in 0..=2 * ROUNDS {
        for ((_, ours, lean, _), (our_times, lean_times)) in contenders.iter().zip(&mut times) {
            let measured = [ours, lean].map(|script| script.server_time(&mut connection, CALLED_KEYS));
            if round > 0 {
                our_times.push(measured[0]);
                lean_times.push(measured[1]);
            }
        }
    }
    let rows = contenders.iter().zip(times).map(|((path, _, _, most), (mut ours, mut lean))| {
        let [ours, lean] = [median(&mut ours), median(&mut lean)];
        println!("{path}: {ours:.2} µs, leanest {lean:.2} µs");
        Row { path, beside: "the leanest script", figure: ours / lean, target: Target::AtMost(*most) }
    });
    rows.collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value of a future that is ready at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it should not have to wait"),
    }
}
