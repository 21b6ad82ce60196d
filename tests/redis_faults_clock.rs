//! What happens when the clock of the server is set to another time.

#![cfg(feature = "redis")]

mod support;

use std::time::Duration;

use limiter::{DecidedBy, Limiter, Quota, RedisLimiter, Rule, Strategy};
use support::history::{History, PATIENT};
use support::servers::Server;

async fn limiter(url: &str) -> RedisLimiter {
    RedisLimiter::builder(url).timeout(PATIENT).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_clock_that_steps_locks_nobody_out() {
    /// Where the server's time is read from, for the test that runs with it.
    const CLOCK: &str = "LIMITER_TEST_CLOCK";

    let Some(clock) = std::env::var_os(CLOCK) else {
        // The same test again, in a process whose servers take their time from a file.
        let folder = std::env::temp_dir().join(format!("limiter-clock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (clock, wrapper) = (folder.join("clock"), folder.join("server"));
        std::fs::write(&clock, "+0").unwrap();
        let script = format!(
            "#!/bin/sh\nexport LD_PRELOAD={}:libc.so.6 FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 \
             FAKETIME_DONT_FAKE_MONOTONIC=1\nexec {} \"$@\"\n",
            support::faketime_library().display(),
            clock.display(),
            std::env::var("LIMITER_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned()),
        );
        std::fs::write(&wrapper, script).unwrap();
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_clock_that_steps_locks_nobody_out", "--nocapture"])
            .env("LIMITER_REDIS_SERVER", &wrapper)
            .env(CLOCK, &clock)
            .status();
        let _ = std::fs::remove_dir_all(&folder);
        assert!(run.unwrap().success());
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(step_the_clock(&clock));
}

async fn step_the_clock(clock: &std::ffi::OsStr) {
    const WINDOW: Duration = Duration::from_secs(60);

    let server = Server::start();
    let seconds = || server.cli(&["TIME"]).lines().next().unwrap().parse::<i64>().unwrap();
    for by in [-86_400, 86_400] {
        for &strategy in Strategy::ALL {
            std::fs::write(clock, "+0").unwrap();
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
            let before = seconds();
            std::fs::write(clock, format!("{by:+}")).unwrap();
            assert!(
                (seconds() - before - by).abs() < 60,
                "the server's clock stepped by {}",
                seconds() - before
            );
            for limiter in [&stepped, &limiter(&server.url()).await] {
                let decision = limiter.check(&rule, &key, 1).await;
                assert_eq!(decision.decided_by(), DecidedBy::Shared, "{key}");
                let wait = decision.retry_after().unwrap_or_default();
                assert!(wait <= WINDOW, "{key}: locked out for {wait:?}");
            }
            // One window later at the latest, by the stepped clock, all is as ever.
            std::fs::write(clock, format!("{:+}", by + 61)).unwrap();
            let fresh = History::new(&limiter(&server.url()).await, &rule, &key, PATIENT);
            fresh.shared().await;
            assert_eq!(fresh.admitted(), 1, "{key}: locked out after a window");
        }
    }
}
