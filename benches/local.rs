//! What a decision in this process costs, beside a peer that does the same work, in one run.
//!
//! Rounds of all contenders are interleaved, so that noise hits them alike; medians are compared as ratios.

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use limiter::rate_limit;

const ROUNDS: usize = 61;
const CALLS: u32 = 20_000;
const KEYS: u64 = 10_000;
const PLENTY: u64 = 1_000_000_000;

#[rate_limit(strategy = "token_bucket", qps = PLENTY)]
async fn unkeyed() -> Option<()> {
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = id, qps = PLENTY)]
async fn token_bucket(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = name, qps = PLENTY)]
async fn token_bucket_by_name(name: &str) -> Option<()> {
    black_box(name);
    Some(())
}

#[rate_limit(key = id, qps = PLENTY)]
async fn sliding_window(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = id, qps = 1, window = "1d")]
async fn rejected(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

/// The value of a future that is ready at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// What takes one call's key and makes the call.
type Contender<'a> = Box<dyn Fn(u64) + 'a>;

/// Nanoseconds for one call: the median of all rounds, the contenders taking turns.
fn medians(contenders: &[Contender<'_>]) -> Vec<f64> {
    let mut rounds = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for round in 0..=ROUNDS {
        for (contender, times) in contenders.iter().zip(&mut rounds) {
            let start = Instant::now();
            for call in 0..CALLS {
                contender(u64::from(call).wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS);
            }
            let elapsed = start.elapsed();
            // The first round only warms up.
            if round > 0 {
                times.push(elapsed.as_secs_f64() * 1e9 / f64::from(CALLS));
            }
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    rounds.into_iter().map(median).collect()
}

fn main() {
    let plenty = Quota::per_second(NonZeroU32::MAX);
    let direct: DefaultDirectRateLimiter = RateLimiter::direct(plenty);
    let keyed: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(plenty);
    let by_name: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(plenty);
    let exhausted: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(Quota::per_hour(NonZeroU32::MIN));
    let names: Vec<String> = (0..KEYS).map(|id| format!("user-{id:06}")).collect();
    let name = |id: u64| &names[usize::try_from(id).expect("fewer than 2^32 keys")];

    let mut rows = Vec::new();
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    let mut compare = |row, peer, ours| {
        rows.push(row);
        contenders.extend([peer, ours]);
    };
    compare(
        "unkeyed, token_bucket",
        Box::new(|_| _ = black_box(direct.check())),
        Box::new(|_| _ = black_box(now(unkeyed()))),
    );
    compare(
        "10,000 keys u64, token_bucket",
        Box::new(|id| _ = black_box(keyed.check_key(&id))),
        Box::new(|id| _ = black_box(now(token_bucket(id)))),
    );
    compare(
        "10,000 keys String, token_bucket",
        Box::new(|id| _ = black_box(by_name.check_key(name(id)))),
        Box::new(|id| _ = black_box(now(token_bucket_by_name(name(id))))),
    );
    compare(
        "10,000 keys u64, sliding_window",
        Box::new(|id| _ = black_box(keyed.check_key(&id))),
        Box::new(|id| _ = black_box(now(sliding_window(id)))),
    );
    compare(
        "10,000 keys u64, rejected",
        Box::new(|id| _ = black_box(exhausted.check_key(&id))),
        Box::new(|id| _ = black_box(now(rejected(id)))),
    );
    let medians = medians(&contenders);

    println!(
        "{:<36}{:>14}{:>14}{:>8}",
        "one decision, annotated async fn", "governor ns", "limiter ns", "ratio"
    );
    for (i, row) in rows.iter().enumerate() {
        let [peer, ours] = [medians[2 * i], medians[2 * i + 1]];
        println!("{row:<36}{peer:>14.1}{ours:>14.1}{:>8.2}", ours / peer);
    }
}
