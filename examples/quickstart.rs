//! Three calls in four seconds for each user. The next ones go to the fallback, until the time has come.

use std::time::Duration;

use limiter::{Rejected, rate_limit};
use tokio::time::{Instant, sleep_until};

struct Person {
    id: u64,
    name: &'static str,
}

const LIMIT: u64 = 3;

#[rate_limit(strategy = "sliding_window", key = "id", qps = LIMIT, window = "4s", fallback = "busy", decision = d)]
async fn get_order(p: Person) -> String {
    row("passed", LIMIT - d.remaining(), format!("the order of {}", p.name))
}

async fn busy(p: Person, why: Rejected) -> String {
    let seconds = why.retry_after().unwrap_or_default().as_secs_f64();
    row("rejected", why.limit() - why.remaining(), format!("sorry {}, try again in {seconds:.1}s", p.name))
}

fn row(decision: &str, count: u64, answer: String) -> String {
    format!("{decision:<8}  {count} of {LIMIT}  {answer}")
}

#[tokio::main]
async fn main() {
    let (alice, bob) = ((1, "alice"), (2, "bob"));
    let calls = [
        (0.0, alice),
        (0.5, alice),
        (1.0, alice),
        (1.5, alice), // her fourth
        (1.5, bob),
        (2.5, alice),
        (2.5, bob),
        (3.5, alice),
        (4.1, alice), // four seconds after her first
        (4.3, alice), // not yet four seconds after her second
        (4.6, alice),
    ];

    println!(" time  user   decision  count   answer");
    let start = Instant::now();
    for (seconds, (id, name)) in calls {
        sleep_until(start + Duration::from_secs_f64(seconds)).await;
        let answer = get_order(Person { id, name }).await;
        println!("{seconds:>4.1}s  {name:<5}  {answer}");
    }

    println!();
    for site in limiter::sites() {
        let (name, counts) = (site.rule().name(), site.counts());
        println!("{name}: {} passed, {} rejected", counts.passed, counts.rejected);
    }
}
