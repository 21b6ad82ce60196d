//! The main paths of a decision in this process, each alone, for a tool that counts instructions:
//! `cargo xtask instructions`.

mod annotated;

use std::hint::black_box;
use std::time::Duration;

use annotated::{
    PLENTY, now, rejected, rejected_sliding_window, rejected_with_reason, sliding_window, token_bucket,
    token_bucket_by_name, unkeyed, unkeyed_sliding_window, unkeyed_sync,
};
use limiter::{LocalLimiter, Quota, Rule, Strategy};

const CALLS: u64 = 20_000;
const KEYS: u64 = 100;
const RULE: Rule = Rule::new("by hand", Strategy::TokenBucket, Quota::new(PLENTY, Duration::from_secs(1)));

/// What is counted is what happens in here.
#[inline(never)]
fn counted_calls(call: &dyn Fn(u64)) {
    for i in 0..CALLS {
        call(i % KEYS);
    }
}

fn main() {
    let users: Vec<String> = (0..KEYS).map(annotated::user_name).collect();
    let uuids: Vec<String> = (0..KEYS).map(annotated::uuid_name).collect();
    let limiter = LocalLimiter::new();
    let by_name = |names: &[String], id: u64| {
        let name = &names[usize::try_from(id).expect("few keys")];
        _ = black_box(now(token_bucket_by_name(name)));
    };
    let paths: [(&str, &dyn Fn(u64)); 12] = [
        ("nothing", &|id| _ = black_box(id)),
        ("unkeyed, token_bucket", &|_| _ = black_box(now(unkeyed()))),
        ("unkeyed, token_bucket, not async", &|_| _ = black_box(unkeyed_sync())),
        ("unkeyed, sliding_window", &|_| _ = black_box(now(unkeyed_sliding_window()))),
        ("keyed by u64, token_bucket", &|id| _ = black_box(now(token_bucket(id)))),
        ("keyed by String, token_bucket", &|id| by_name(&users, id)),
        ("keyed by String of 36 characters, token_bucket", &|id| by_name(&uuids, id)),
        ("keyed by u64, sliding_window", &|id| _ = black_box(now(sliding_window(id)))),
        ("keyed by u64, rejected", &|id| _ = black_box(now(rejected(id)))),
        ("keyed by u64, rejected with its reason", &|id| _ = black_box(now(rejected_with_reason(id)))),
        ("keyed by u64, sliding_window, rejected", &|id| _ = black_box(now(rejected_sliding_window(id)))),
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
