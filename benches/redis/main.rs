//! What a shared decision costs, beside peers, a bare script through the same client, and what the server alone can do.
//!
//! Starts a server of its own. Rounds of all contenders are interleaved, so that noise hits them alike; medians are
//! taken of the ratios within a round. Leaves `results/redis.md` and `results/redis_callers.csv`.

mod contenders;
mod load;
#[path = "../machine.rs"]
mod machine;
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

    let (mut rows, notes) = different_keys_and_one(&server, &load);
    rows.push(blocked(&server, &runtime));
    rows.extend(server_time(&server, &runtime));

    let table = report::table(&rows);
    println!("{table}");
    let program = server.cli(&["INFO", "server"]);
    let version =
        program.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("of some kind");
    report::keep("redis.md", &report::page(version.trim(), &table, &notes));
}

/// Decisions per second by number of callers, the latency of one, and many callers of one key.
fn different_keys_and_one(server: &Server, load: &Load<'_>) -> (Vec<Row>, String) {
    let asked = Asked::without_argument(server, || _ = load.runtime.block_on(contenders::token_bucket(0)));
    let mut rates = vec![[const { Vec::new() }; CALLERS.len()]; Contender::ALL.len()];
    let [mut latencies, mut bare_latencies] = [const { Vec::new() }; 2];
    let [mut one_key, mut benchmark, mut benchmark_one_key] = [const { Vec::new() }; 3];
    // The first round only warms up.
    for round in 0..=ROUNDS {
        let mut figures = [0.0; Contender::ALL.len()];
        for turn in 0..Contender::ALL.len() {
            // Whoever is first changes from round to round.
            let place = (turn + round) % Contender::ALL.len();
            for (callers, rates) in CALLERS.into_iter().zip(&mut rates[place]) {
                let measured = load.round(Contender::ALL[place], callers, KEYS);
                if round > 0 {
                    rates.push(measured.per_second);
                }
                if callers == 1 {
                    figures[place] = measured.latency;
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
    for (contender, rates) in Contender::ALL.into_iter().zip(&rates) {
        for (callers, rates) in CALLERS.into_iter().zip(rates) {
            let _ = writeln!(lines, "{},{callers},{:.0}", contender.name(), median(rates.iter().copied()));
        }
    }
    report::keep("redis_callers.csv", &lines);
    println!("{lines}");
    let [ours, throttled, trypema, bare] = [0, 1, 2, 3].map(|place| &rates[place][CALLERS.len() - 1]);
    let middle = |figures: &[f64]| median(figures.iter().copied());
    let notes = format!(
        "With 512 callers: {:.0} decisions a second about different keys, {:.0} about one; redis-benchmark {:.0} and {:.0}.\n\
         One caller: {:.0} µs, by a bare EVALSHA {:.0} µs. Where keys differ, ours sends up to 16 of them in a call of the script.",
        middle(ours),
        middle(&one_key),
        middle(&benchmark),
        middle(&benchmark_one_key),
        middle(&latencies),
        middle(&bare_latencies)
    );
    println!("{notes}\n");
    let different = "different keys, 512 callers, token_bucket";
    let row = |path, beside, figure, target| Row { path, beside, figure, target };
    let rows = vec![
        row(
            different,
            "redis-benchmark, the same script, a key a call",
            ratio(ours, &benchmark),
            Target::AtLeast(0.7),
        ),
        row(different, "throttled 0.1.0", ratio(ours, throttled), Target::AtLeast(1.5)),
        row(different, "trypema 2.2.1, a sliding window", ratio(ours, trypema), Target::AtLeast(1.5)),
        row(
            "one key, 512 callers",
            "a script for each call, by redis-benchmark",
            ratio(&one_key, &benchmark_one_key),
            Target::AtLeast(5.0),
        ),
        row(
            "one key, 512 callers",
            "a script for each call, by the same client, different keys",
            ratio(&one_key, bare),
            Target::AtLeast(5.0),
        ),
        row(
            "one caller, median latency",
            "a bare EVALSHA by the same client",
            ratio(&latencies, &bare_latencies),
            Target::AtMost(1.15),
        ),
    ];
    (rows, notes)
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
        figure: median(rates.into_iter()),
        target: Target::AtLeast(5e6),
    }
}

/// What the server takes for a script of ours, beside a lean one for the same strategy and under the same limit.
fn server_time(server: &Server, runtime: &Runtime) -> Vec<Row> {
    /// Few enough that every key is called again and again within its window.
    const CALLED_KEYS: u64 = 500;
    const BUCKET: &str = include_str!("lean/token_bucket.lua");
    const SECOND: u64 = 1_000_000;
    let plenty = u64::from(contenders::PLENTY);
    let bucket = [24 * 60 * 60 * SECOND / u64::from(contenders::A_DAY), plenty];

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
        ("server time, token_bucket", token, lean("token", BUCKET, &bucket), 1.2),
        ("server time, leaky_bucket", leaky, lean("leaky", BUCKET, &bucket), 1.2),
        (
            "server time, fixed_window",
            fixed,
            lean("fixed", include_str!("lean/fixed_window.lua"), &[plenty, SECOND]),
            1.2,
        ),
        (
            "server time, sliding_window",
            sliding,
            lean("sliding", include_str!("lean/sliding_window.lua"), &[plenty, SECOND, SECOND / 10]),
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
    let rows = contenders.iter().zip(times).map(|((path, _, _, most), (ours, lean))| {
        let middle = |times: &[f64]| median(times.iter().copied());
        println!("{path}: {:.2} µs, a lean script {:.2} µs", middle(&ours), middle(&lean));
        let beside = "a script for that strategy, and nothing else";
        Row { path, beside, figure: ratio(&ours, &lean), target: Target::AtMost(*most) }
    });
    rows.collect()
}

/// Of what both showed in the same round.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
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
