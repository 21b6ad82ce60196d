//! How to test one's limits: a clock that the test moves, and a limiter for each test alone. Nothing sleeps.
//!
//! `cargo test --example testing` runs the tests; `cargo run --example testing` runs the same code as a program.

use std::time::Duration;

use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit};

#[rate_limit(key = "user", qps = 3, window = "4s")]
async fn get_order(user: &str) -> Result<String, Rejected> {
    Ok(format!("the order of {user}"))
}

#[rate_limit(strategy = "leaky_bucket", qps = 1, window = "1h", burst = 1, wait = "1h")]
async fn send_report() -> Result<&'static str, Rejected> {
    Ok("sent")
}

/// A limiter that nobody else sees, and its clock.
fn limiter() -> (LocalLimiter, ManualClock) {
    let clock = ManualClock::new();
    (LocalLimiter::builder().clock(clock.clone()).build(), clock)
}

async fn three_orders_in_four_seconds() {
    let (limiter, clock) = limiter();
    limiter::scope(limiter, async {
        for _ in 0..3 {
            assert!(get_order("alice").await.is_ok());
        }
        let why = get_order("alice").await.unwrap_err();
        assert_eq!(why.retry_after(), Some(Duration::from_secs(4)));
        assert!(get_order("bob").await.is_ok());

        clock.advance(Duration::from_secs(4) - Duration::from_nanos(1));
        assert!(get_order("alice").await.is_err());
        clock.advance(Duration::from_nanos(1));
        assert!(get_order("alice").await.is_ok());
    })
    .await;
}

/// A call that waits goes on when the clock is moved to its turn.
async fn the_second_report_waits_an_hour() {
    let (limiter, clock) = limiter();
    limiter::scope(limiter, async {
        assert_eq!(send_report().await.unwrap(), "sent");
        let (second, ()) = tokio::join!(send_report(), async { clock.advance(Duration::from_secs(3600)) });
        assert_eq!(second.unwrap(), "sent");
    })
    .await;
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn three_orders_in_four_seconds() {
        super::three_orders_in_four_seconds().await;
    }

    #[tokio::test]
    async fn the_second_report_waits_an_hour() {
        super::the_second_report_waits_an_hour().await;
    }
}

#[tokio::main]
async fn main() {
    three_orders_in_four_seconds().await;
    println!("three orders in four seconds, for each user");
    the_second_report_waits_an_hour().await;
    println!("the second report waits for an hour, which took no time");
}
