//! What happens when the clock of the server is set to another time.

#![cfg(feature = "redis")]

mod support;

use std::time::Duration;

use limiter::{DecidedBy, Limiter, Quota, RedisLimiter, Rule, Strategy};
use support::history::{History, PATIENT, until};
use support::servers::{Server, WrongClock};

async fn limiter(url: &str) -> RedisLimiter {
    RedisLimiter::builder(url).timeout(PATIENT).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn a_clock_that_steps_locks_nobody_out() {
    const WINDOW: Duration = Duration::from_secs(60);

    let clock = WrongClock::new();
    let server = Server::by(&clock);
    let wrong_by = || {
        let shown: i64 = server.cli(&["TIME"]).lines().next().unwrap().parse().unwrap();
        shown - i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
    };
    let show = async |seconds: i64| {
        clock.set(seconds);
        // Some servers look at the clock only once in a while.
        until("the server's clock to step", async || (wrong_by() - seconds).abs() < 20).await;
    };
    for by in [-86_400, 86_400] {
        for &strategy in Strategy::ALL {
            show(0).await;
            let rule = Rule::new("stepped", strategy, Quota::new(3, WINDOW));
            let key = format!("{strategy} {by}");
            // A new one each time: none knows already that the key is over its limit.
            let stepped = limiter(&server.url()).await;
            for _ in 0..3 {
                let decision = stepped.check(&rule, &key, 1).await;
                assert!(
                    decision.is_allowed() && decision.decided_by() == DecidedBy::Shared,
                    "{key}: {decision:?}"
                );
            }
            show(by).await;
            for limiter in [&stepped, &limiter(&server.url()).await] {
                let decision = limiter.check(&rule, &key, 1).await;
                assert_eq!(decision.decided_by(), DecidedBy::Shared, "{key}");
                let wait = decision.retry_after().unwrap_or_default();
                assert!(wait <= WINDOW, "{key}: locked out for {wait:?}");
            }
            // One window later at the latest, by the stepped clock, all is as ever.
            show(by + 61).await;
            let fresh = History::new(&limiter(&server.url()).await, &rule, &key, PATIENT);
            fresh.shared().await;
            assert_eq!(fresh.admitted(), 1, "{key}: locked out after a window");
        }
    }
}
