//! Calls that wait for their turn instead of being rejected.

use std::time::Instant;

use limiter::{Rejected, rate_limit};
use tokio::task::JoinSet;

/// A bucket of 1 that drains five times a second: calls leave 200 ms apart. Who would wait longer than a second is
/// rejected at once.
#[rate_limit(strategy = "leaky_bucket", qps = 5, burst = 1, wait = "1s", decision = d)]
async fn send_mail(number: u32) -> Result<String, Rejected> {
    Ok(format!("mail {number} sent, it waited for {:.1}s", d.delay().as_secs_f64()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let start = Instant::now();
    let mut calls = JoinSet::new();
    // Turns are given in the order of asking.
    for number in 1..=8 {
        calls.spawn(async move { (number, send_mail(number).await) });
    }
    while let Some(done) = calls.join_next().await {
        let at = start.elapsed().as_secs_f64();
        match done.expect("no call panics") {
            (_, Ok(sent)) => println!("{at:.1}s  {sent}"),
            (number, Err(why)) => println!("{at:.1}s  mail {number} rejected: {:?}", why.reason()),
        }
    }

    let counts = limiter::sites()[0].counts();
    println!("\n{} passed, {} of them waited, {} rejected", counts.passed, counts.waited, counts.rejected);
}
