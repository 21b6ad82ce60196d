//! Which limiter a call asks: its scope's, else the installed one, else the process's own.

#[path = "support/elsewhere.rs"]
mod elsewhere;
mod support;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use elsewhere::Elsewhere;
use limiter::{
    AlreadyInstalled, Answer, Call, Decision, Key, Limiter, LocalLimiter, ManualClock, OnError, Rule,
    rate_limit, scope, scope_sync,
};
use support::now;

#[rate_limit(qps = 1)]
async fn shared() -> Option<()> {
    Some(())
}

#[rate_limit(qps = 1, store = "local")]
async fn local() -> Option<()> {
    Some(())
}

#[rate_limit(qps = 1, store = "local")]
fn local_sync() -> Option<()> {
    Some(())
}

#[rate_limit(qps = 1, window = "1h", wait = "2h", store = "local")]
async fn waits_locally() -> Option<()> {
    Some(())
}

/// The turn was told by the local limiter, so it is that one's clock which says when it has come.
#[tokio::test]
async fn a_local_call_waits_by_the_clock_of_the_local_limiter() {
    let clock = ManualClock::new();
    let limiter = Elsewhere { local: LocalLimiter::builder().clock(clock.clone()).build() };
    scope(limiter, async {
        assert!(waits_locally().await.is_some());
        let mut context = Context::from_waker(Waker::noop());
        let mut second = pin!(waits_locally());
        assert!(second.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_secs(3599));
        assert!(second.as_mut().poll(&mut context).is_pending(), "it went before its turn");
        clock.advance(Duration::from_secs(1));
        assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(Some(())), "it waits by another clock");
    })
    .await;
}

/// Lets its local limiter answer, and notes who would answer if it could not.
#[derive(Clone, Default)]
struct Noting {
    on_errors: Arc<Mutex<Vec<Option<OnError>>>>,
    local: LocalLimiter,
}

impl Limiter for Noting {
    fn decide(&self, call: Call<'_>) -> Answer<Decision> {
        self.on_errors.lock().unwrap().push(call.on_error);
        self.local.decide(call)
    }

    fn look(&self, rule: &Rule, key: &Key) -> Answer<Decision> {
        self.local.look(rule, key)
    }

    fn forget(&self, rule: &Rule, key: &Key) -> Answer<()> {
        self.local.forget(rule, key)
    }
}

#[rate_limit(qps = 1)]
async fn says_nothing() -> Option<()> {
    Some(())
}

#[rate_limit(qps = 1, on_error = "local")]
async fn says_local() -> Option<()> {
    Some(())
}

#[rate_limit(qps = 1, on_error = "allow")]
async fn says_allow() -> Option<()> {
    Some(())
}

#[rate_limit(qps = 1, on_error = "deny")]
async fn says_deny() -> Option<()> {
    Some(())
}

#[test]
fn a_limiter_is_told_what_the_site_says_about_errors() {
    let limiter = Noting::default();
    now(scope(limiter.clone(), async {
        says_nothing().await.unwrap();
        says_local().await.unwrap();
        says_allow().await.unwrap();
        says_deny().await.unwrap();
    }));
    let told = limiter.on_errors.lock().unwrap();
    assert_eq!(*told, [None, Some(OnError::Local), Some(OnError::Allow), Some(OnError::Deny)]);
}

#[tokio::test]
async fn a_call_asks_the_innermost_limiter() {
    // The process's own.
    assert!(shared().await.is_some() && shared().await.is_none());

    // A scope has limits of its own, and an inner one hides it.
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    scope(limiter.clone(), async {
        assert!(shared().await.is_some() && shared().await.is_none());
        scope(LocalLimiter::new(), async { assert!(shared().await.is_some()) }).await;
        assert!(shared().await.is_none());
        assert!(tokio::spawn(shared()).await.unwrap().is_none(), "a spawned task is outside of the scope");
        assert!(
            tokio::spawn(scope(limiter.clone(), shared())).await.unwrap().is_none(),
            "unless it is given one"
        );
        clock.advance(Duration::from_secs(1));
        assert!(shared().await.is_some());
    })
    .await;

    // Any limiter can be installed, once.
    limiter::install(Elsewhere { local: LocalLimiter::new() }).unwrap();
    assert_eq!(limiter::install(LocalLimiter::new()), Err(AlreadyInstalled));
    assert!(shared().await.is_none());
    assert!(local().await.is_some() && local().await.is_none(), "store = \"local\" asks its local one");
    assert!(local_sync().is_some() && local_sync().is_none());
    scope_sync(limiter, || {
        assert!(local_sync().is_some() && local_sync().is_none(), "a scope hides what is installed");
        assert!(now(shared()).is_none());
    });
    let site = limiter::sites().iter().find(|site| site.rule().name().ends_with("shared")).unwrap();
    assert_eq!(site.counts().degraded, 1, "a refusal of nobody in charge is told apart");
}
