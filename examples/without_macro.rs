//! Rules and limiters without the annotation: for limits that a program reads, or checks in the middle of a function.

use std::error::Error;
use std::time::Duration;

use limiter::{Limiter, LocalLimiter, Quota, Rejected, Rule, Strategy};

/// A rule can be a constant; a quota of 0 would not compile.
const LOGIN: Rule = Rule::new("login", Strategy::SlidingLog, Quota::new(2, Duration::from_secs(60)));

/// In code that is not async: the `_sync` methods. `into_result` makes an error of a decision that says no.
fn login(limiter: &LocalLimiter, user: &str) -> Result<&'static str, Rejected> {
    let decision = limiter.check_sync(&LOGIN, user, 1).into_result(&LOGIN)?;
    Ok(if decision.remaining() > 0 { "welcome" } else { "welcome, for the last time in a minute" })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = LocalLimiter::builder().max_keys(10_000).build();

    for _ in 0..3 {
        match login(&limiter, "alice") {
            Ok(welcome) => println!("login   {welcome}"),
            Err(why) => println!("login   {why}"),
        }
    }

    // `peek` takes nothing, `reset` gives everything back.
    println!("peek    allowed: {}", limiter.peek(&LOGIN, "alice").await.is_allowed());
    limiter.reset(&LOGIN, "alice").await;
    println!("reset   remaining: {}", limiter.peek(&LOGIN, "alice").await.remaining());

    // A rule can be read while the program runs. What is unusable is a typed error.
    let configured = "10/s";
    let upload = Rule::try_new("upload", Strategy::TokenBucket, [configured.parse::<Quota>()?.burst(4)])?;
    println!("parse   {}", "0/s".parse::<Quota>().unwrap_err());

    // `check` takes permits or says no at once; `acquire` waits for its turn, up to a time.
    let (key, cost) = (("acme", 7), 3);
    let decision = limiter.check(&upload, &key, cost).await;
    println!("check   allowed: {}, remaining: {}", decision.is_allowed(), decision.remaining());
    let decision = limiter.check(&upload, &key, cost).await;
    println!("check   allowed: {}, retry after {:.0?}", decision.is_allowed(), decision.retry_after());
    let decision = limiter.acquire(&upload, &key, cost, Duration::from_secs(1)).await;
    println!("acquire allowed: {}, after {:.0?}", decision.is_allowed(), decision.delay());
    Ok(())
}
