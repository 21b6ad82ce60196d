//! Several quotas at once: a call passes all of them, or takes from none.

use std::time::Duration;

use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit};

#[rate_limit(key = "user", limits = ["3/s", "5/m"], decision = d)]
async fn search(user: &str) -> Result<String, Rejected> {
    Ok(format!("{user} found it, {} left", d.remaining()))
}

#[tokio::main]
async fn main() {
    // A clock that we move, so that a minute takes no time.
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();

    limiter::scope(limiter, async {
        let mut now = 0;
        for (at, calls) in [(0, 4), (1, 3), (61, 4)] {
            clock.advance(Duration::from_secs(at - now));
            now = at;
            for _ in 0..calls {
                match search("alice").await {
                    Ok(found) => println!("{at:>2}s  {found}"),
                    Err(why) => println!("{at:>2}s  rejected: only {} in {:?}", why.limit(), why.window()),
                }
            }
        }
    })
    .await;
}
