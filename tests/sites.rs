//! The annotated functions of a program can be listed before any is called, and count their calls.

mod support;

use std::time::Duration;

use limiter::{DecidedBy, LocalLimiter, ManualClock, Rejected, Strategy, rate_limit, scope, sites};

const LINE_OF_ORDERS: u32 = line!() + 2;

#[rate_limit(name = "orders", key = "id", qps = 3, window = "4s")]
async fn orders(id: u64) -> Result<u64, Rejected> {
    Ok(id)
}

#[rate_limit(qps = 1, wait = "1s", strategy = "leaky_bucket", decision = d)]
async fn waits() -> Option<DecidedBy> {
    Some(d.decided_by())
}

mod deep {
    use super::{Rejected, rate_limit};

    #[expect(dead_code, reason = "it is a site all the same")]
    #[rate_limit(limits = ["1/s", "2/m"], store = "local")]
    pub(super) fn never_called<T>(_: T) -> Result<T, Rejected> {
        unreachable!()
    }
}

#[tokio::test]
async fn every_site_is_listed_and_counts() {
    let names: Vec<_> = sites().iter().map(|site| site.rule().name()).collect();
    assert_eq!(names, ["orders", "sites::deep::never_called", "sites::waits"]);
    let [orders_site, never, waits_site] = sites() else { panic!("three sites") };
    assert_eq!(never.rule().quotas().len(), 2);
    assert_eq!(never.rule().strategy(), Strategy::SlidingWindow);
    assert_eq!(orders_site.place().file, file!());
    assert_eq!(orders_site.place().line, LINE_OF_ORDERS);
    assert_eq!(orders_site.counts(), limiter::Counts::default());

    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    scope(limiter.clone(), async {
        for _ in 0..5 {
            let _ = orders(1).await;
        }
    })
    .await;
    let counts = orders_site.counts();
    assert_eq!((counts.passed, counts.rejected, counts.waited, counts.degraded), (3, 2, 0, 0));

    let waiting = [(); 3].map(|()| tokio::spawn(scope(limiter.clone(), waits())));
    while waits_site.counts().passed + waits_site.counts().rejected < 3 {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(1));
    for call in waiting {
        assert!(matches!(call.await.unwrap(), Some(DecidedBy::Local) | None));
    }
    let counts = waits_site.counts();
    assert_eq!((counts.passed, counts.rejected, counts.waited, counts.degraded), (2, 1, 1, 0));
}
