//! What happens while the server does not answer, for however long that is, and when it does again.
//!
//! Each row of the list of faults is one test. In all of them [`History`] holds every call to its deadline, and what
//! the server charged to what it answered.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use allocation_counter::measure;
use limiter::{
    DecidedBy, Health, Limiter, LocalLimiter, ManualClock, OnError, Quota, Reason, RedisLimiter, Rule,
    Strategy,
};
use support::history::{History, until};
use support::proxy::{Door, Proxy};
use support::servers::Server;
use support::shared::{RULE, SHORT, SLOW, builder, health, limiter, through};

#[tokio::test]
async fn calls_of_a_slow_server_end_at_their_deadline_and_open_the_breaker() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, SHORT).await;
    calls.until(DecidedBy::Shared).await;
    proxy.delay(SLOW);
    must_open(&calls).await;
    proxy.delay(Duration::ZERO);
    println!("shared again after {:?}", calls.until(DecidedBy::Shared).await);
    // What was on its way has arrived by now, or never will.
    tokio::time::sleep(SLOW).await;
    calls.settle(&witness).await;
}

#[tokio::test]
async fn calls_of_a_paused_server_end_at_their_deadline_and_open_the_breaker() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (calls, witness) = through(&proxy, &server, SHORT).await;
    // `WRITE` lets all but the scripts through, also a probe that is no decision. `ALL` ends by itself.
    for (kind, time) in [("WRITE", "600000"), ("ALL", "5000")] {
        calls.until(DecidedBy::Shared).await;
        server.cli(&["CLIENT", "PAUSE", time, kind]);
        must_open_for_a_crowd(&calls).await;
        if kind == "WRITE" {
            server.cli(&["CLIENT", "UNPAUSE"]);
        }
        println!("{kind}: shared again after {:?}", calls.until(DecidedBy::Shared).await);
        until("what was sent to be counted", async || calls.charged(&witness).await >= calls.admitted())
            .await;
        calls.settle(&witness).await;
    }
}

/// The first calls take their whole time and are degraded, a few later ones take none. Where the breaker did not open,
/// 100 calls would take 20 seconds.
async fn must_open(calls: &History) {
    let start = Instant::now();
    calls.degraded().await;
    assert!(start.elapsed() >= SHORT, "it ended after {:?}", start.elapsed());
    let mut late = 1;
    for _ in 0..100 {
        let start = Instant::now();
        calls.degraded().await;
        late += u32::from(start.elapsed() >= SHORT);
    }
    println!("{late} calls of 101 ran out of time");
    assert!(late <= 25, "{late} calls of 101 ran out of time");
}

/// When ten calls have run out of time at once, the breaker is open: long before the connection is given up, and before
/// another call is made.
async fn must_open_for_a_crowd(calls: &History) {
    let start = Instant::now();
    let crowd: Vec<_> = (0..10)
        .map(|_| {
            let calls = calls.clone();
            tokio::spawn(async move { calls.degraded().await })
        })
        .collect();
    for call in crowd {
        call.await.unwrap();
    }
    assert!(start.elapsed() >= SHORT, "they ended after {:?}", start.elapsed());
    assert_eq!(health(&calls.limiter), [Health::Down]);
    calls.degraded().await;
}

/// Where others use the machine a call may take any time, but not all of them all the time.
#[tokio::test]
async fn a_decision_in_an_outage_takes_less_than_20_microseconds() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let limiter = limiter(&proxy.url(), SHORT).await;
    let calls = History::new(&limiter, &RULE, "key", SHORT);
    for door in [Door::Slammed, Door::Silent] {
        calls.until(DecidedBy::Shared).await;
        proxy.door(door);
        proxy.reset();
        calls.until_down().await;
        let mut best = Duration::MAX;
        until("a median below 20 microseconds", async || {
            let mut times = Vec::new();
            for call in 0..1_001u64 {
                let start = Instant::now();
                let decision = limiter.check(&RULE, &(call % 100), 1).await;
                times.push(start.elapsed());
                assert_eq!(decision.decided_by(), DecidedBy::Degraded);
            }
            times.sort();
            best = best.min(times[500]);
            best < Duration::from_micros(20)
        })
        .await;
        println!("the median of 1,001 degraded decisions is {best:?}");
        proxy.door(Door::Open);
    }
}

type Act<'a> = &'a dyn Fn();

/// From when the server answers again, the best of a few times, since others use the machine too. Each outage is long
/// enough that attempts to connect have become rare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_decisions_resume_within_a_second_of_the_servers_return() {
    const OUTAGE: Duration = Duration::from_secs(2);

    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let limiter = limiter(&proxy.url(), SHORT).await;
    let calls = History::new(&limiter, &RULE, "key", SHORT);
    let outages: [(&str, Act<'_>, Act<'_>); 3] = [
        ("killed", &|| server.kill(), &|| server.restart()),
        ("refused", &|| (proxy.door(Door::Slammed), proxy.reset()).1, &|| proxy.door(Door::Open)),
        ("unanswered", &|| (proxy.door(Door::Silent), proxy.half_open()).1, &|| proxy.door(Door::Open)),
    ];
    for (name, begin, end) in outages {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            calls.until(DecidedBy::Shared).await;
            begin();
            let start = Instant::now();
            calls.until_down().await;
            tokio::time::sleep(OUTAGE.saturating_sub(start.elapsed())).await;
            tokio::task::block_in_place(end);
            let took = calls.until(DecidedBy::Shared).await;
            println!("{name}: shared again after {took:?}");
            best = best.min(took);
            if best < Duration::from_secs(1) {
                break;
            }
        }
        assert!(best < Duration::from_secs(1), "{name}: {best:?} at the best");
    }
}

/// Four instances, each with its part, admit what one server would.
#[tokio::test]
async fn a_fleet_without_its_server_holds_the_limit_together() {
    const INSTANCES: u32 = 4;

    let stopped = Server::start();
    stopped.stop();
    let clock = ManualClock::new();
    let instance = || {
        let local = LocalLimiter::builder().clock(clock.clone()).build();
        builder(&stopped.url(), SHORT).local(local).instances(INSTANCES).connect_lazy().unwrap()
    };
    let fleet: Vec<RedisLimiter> = (0..INSTANCES).map(|_| instance()).collect();
    let admitted = async |rule: &Rule| {
        let mut admitted = 0;
        for _ in 0..30 {
            for limiter in &fleet {
                let decision = limiter.check(rule, "key", 1).await;
                assert_eq!(decision.decided_by(), DecidedBy::Degraded);
                admitted += u64::from(decision.is_allowed());
            }
        }
        admitted
    };
    // What cannot be divided is not given away; but everybody has one permit.
    let cases: [(&[&str], u64); 4] =
        [(&["20/1m"], 20), (&["20/1m", "12/1h"], 12), (&["23/1m"], 20), (&["2/1m"], 4)];
    for &strategy in Strategy::ALL {
        for (quotas, most) in cases {
            let name = format!("{strategy} {quotas:?}");
            let parsed: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
            let rule = Rule::try_new(name.clone(), strategy, parsed).unwrap();
            assert_eq!(admitted(&rule).await, most, "{name}");
            assert_eq!(admitted(&rule).await, 0, "{name}");
            clock.advance(Duration::from_secs(2 * 3600));
            assert_eq!(admitted(&rule).await, most, "{name}, once more");
        }
    }
    // A call that costs more than the part of one instance, and less than the fleet may have: nobody can say alone.
    let rule = Rule::new("parts", Strategy::TokenBucket, Quota::new(20, Duration::from_secs(60)));
    for (cost, reason) in [(6, Reason::Unavailable), (20, Reason::Unavailable), (21, Reason::TooCostly)] {
        let rejected = fleet[0].check(&rule, "key", cost).await.into_result(&rule).unwrap_err();
        assert_eq!(rejected.reason(), reason, "{cost} permits");
        assert_eq!(rejected.decided_by(), DecidedBy::Degraded, "{cost} permits");
    }
}

/// Where a call says nothing of its own, the limiter's word counts.
#[tokio::test]
async fn the_policy_of_the_limiter_is_that_of_calls_without_one() {
    let stopped = Server::start();
    stopped.stop();
    let rule = Rule::new("two", Strategy::FixedWindow, Quota::new(2, Duration::from_secs(86_400)));
    for (on_error, admitted) in
        [(None, 2), (Some(OnError::Local), 2), (Some(OnError::Allow), 5), (Some(OnError::Deny), 0)]
    {
        let builder = builder(&stopped.url(), SHORT);
        let builder = if let Some(on_error) = on_error { builder.on_error(on_error) } else { builder };
        let limiter = builder.connect_lazy().unwrap();
        let mut allowed = 0;
        for _ in 0..5 {
            let decision = limiter.check(&rule, "key", 1).await;
            assert_eq!(decision.decided_by(), DecidedBy::Degraded);
            allowed += u32::from(decision.is_allowed());
            if let Err(rejected) = decision.into_result(&rule) {
                let is_denied = on_error == Some(OnError::Deny);
                assert_eq!(rejected.reason(), if is_denied { Reason::Unavailable } else { Reason::Exceeded });
            }
        }
        assert_eq!(allowed, admitted, "{on_error:?}");
    }
}

/// Hundred thousand calls in an outage, where nobody listens and where nobody answers.
#[test]
fn an_outage_of_any_length_takes_no_memory_and_ends_without_a_restart() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(limiter(&proxy.url(), SHORT));
    let book = || History::new(&limiter, &RULE, "key", SHORT);
    for door in [Door::Slammed, Door::Silent] {
        runtime.block_on(book().until(DecidedBy::Shared));
        proxy.door(door);
        proxy.reset();
        runtime.block_on(book().until_down());
        let degraded = |count: u64| {
            runtime.block_on(async {
                for call in 0..count {
                    let decision = limiter.check(&RULE, &(call % 100), 1).await;
                    assert_eq!(decision.decided_by(), DecidedBy::Degraded);
                    if call % 100 == 0 {
                        // Lets the attempts to connect run, which must not pile up either.
                        tokio::time::sleep(Duration::from_micros(100)).await;
                    }
                }
            });
        };
        degraded(10_000);
        let kept = measure(|| degraded(100_000)).bytes_current;
        println!("{kept} bytes stay of 100,000 calls in an outage");
        assert!(kept < 200_000, "{kept} bytes");
        proxy.door(Door::Open);
        proxy.reset();
        let took = runtime.block_on(book().until(DecidedBy::Shared));
        println!("shared again after {took:?}");
    }
}
