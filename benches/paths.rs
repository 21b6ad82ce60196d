//! The main paths of a decision in this process, each alone, for a tool that counts instructions:
//! `cargo xtask instructions`.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use limiter::{LocalLimiter, Quota, Rule, Strategy, rate_limit};

const CALLS: u64 = 20_000;
const KEYS: u64 = 100;
const PLENTY: u64 = 1_000_000_000;
const RULE: Rule = Rule::new("by hand", Strategy::TokenBucket, Quota::new(PLENTY, Duration::from_secs(1)));

#[rate_limit(strategy = "token_bucket", qps = PLENTY)]
async fn unkeyed() -> Option<()> {
    Some(())
}

#[rate_limit(strategy = "token_bucket", qps = PLENTY, store = "local")]
fn unkeyed_sync() -> Option<()> {
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

/// What is counted is what happens in here.
#[inline(never)]
fn counted_calls(call: &dyn Fn(u64)) {
    for i in 0..CALLS {
        call(i % KEYS);
    }
}

fn main() {
    let names: Vec<String> = (0..KEYS).map(|id| format!("user-{id:06}")).collect();
    let limiter = LocalLimiter::new();
    let paths: [(&str, &dyn Fn(u64)); 8] = [
        ("nothing", &|id| _ = black_box(id)),
        ("unkeyed, token_bucket", &|_| _ = black_box(now(unkeyed()))),
        ("unkeyed, token_bucket, not async", &|_| _ = black_box(unkeyed_sync())),
        ("keyed by u64, token_bucket", &|id| _ = black_box(now(token_bucket(id)))),
        ("keyed by String, token_bucket", &|id| {
            let name = &names[usize::try_from(id).expect("few keys")];
            _ = black_box(now(token_bucket_by_name(name)));
        }),
        ("keyed by u64, sliding_window", &|id| _ = black_box(now(sliding_window(id)))),
        ("keyed by u64, rejected", &|id| _ = black_box(now(rejected(id)))),
        ("keyed by u64, without the annotation", &|id| _ = black_box(limiter.check_sync(&RULE, &id, 1))),
    ];
    let Some(wanted) = std::env::args().nth(1).filter(|argument| argument != "--bench") else {
        for (name, _) in paths {
            println!("{name}");
        }
        println!("{CALLS} calls");
        return;
    };
    let (_, path) = paths.iter().find(|(name, _)| *name == wanted).expect("one of the paths");
    // The first calls make tables and keys, and somebody finds out meanwhile how fast the clock runs: 200 ms at most.
    for id in 0..KEYS {
        path(id);
        path(id);
    }
    std::thread::sleep(Duration::from_secs(1));
    counted_calls(*path);
}
