//! Several limits on one function: one after the other, each with a key of its own.

#![expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "users write functions of all kinds")]

mod support;

use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit, scope};
use support::now;

fn frozen() -> LocalLimiter {
    LocalLimiter::builder().clock(ManualClock::new()).build()
}

#[rate_limit(key = "user", qps = 2, window = "1h")]
#[rate_limit(key = "tenant", qps = 3, window = "1h")]
async fn search(user: u64, tenant: u32) -> Result<(u64, u32), Rejected> {
    Ok((user, tenant))
}

#[test]
fn they_are_checked_in_the_order_written() {
    now(scope(frozen(), async {
        let limit = |answer: Result<(u64, u32), Rejected>| answer.unwrap_err().limit();
        assert_eq!(search(1, 1).await.ok(), Some((1, 1)));
        assert_eq!(search(1, 1).await.ok(), Some((1, 1)));
        assert_eq!(limit(search(1, 1).await), 2, "the first limit answers, and the second is not asked");
        assert_eq!(search(2, 1).await.ok(), Some((2, 1)), "so it still has a permit");
        assert_eq!(limit(search(2, 1).await), 3, "the second rejects");
        assert_eq!(limit(search(2, 2).await), 2, "and what was taken from the first is gone");
    }));
}

#[test]
fn each_has_a_name_of_its_own() {
    let sites = limiter::sites().iter().filter(|site| site.rule().name().contains("search"));
    let named: Vec<_> = sites.map(|site| (site.rule().name(), site.rule().quotas()[0].permits())).collect();
    assert_eq!(named, [("several_limits::search", 2), ("several_limits::search#2", 3)]);
}

struct Path<T>(T);

/// Patterns, decisions, fallbacks and exceptions of both, and a third that waits for nobody.
#[rate_limit(key = id, qps = 5, cost = "id", window = "1h", fallback = "first_busy", decision = first)]
#[rate_limit(name = "second", key = (id, tag), limits = ["2/h", "3/d"], fallback = "second_busy", decision = second)]
#[rate_limit(name = "third", qps = 1, window = "1h", unless = "tag == 'x'", store = "local")]
async fn patterns(Path(id): Path<u64>, (tag, _): (char, u8)) -> Option<(u64, u64)> {
    let _ = (id, tag);
    Some((first.remaining(), second.remaining()))
}

fn first_busy(_: Path<u64>, _: (char, u8), _: Rejected) -> Option<(u64, u64)> {
    Some((1000, 0))
}

async fn second_busy(_: Path<u64>, _: (char, u8), _: Rejected) -> Option<(u64, u64)> {
    Some((0, 1000))
}

#[test]
fn each_has_its_own_options() {
    now(scope(frozen(), async {
        let call = |id, tag| patterns(Path(id), (tag, 0));
        assert_eq!(call(1, 'x').await, Some((4, 1)));
        assert_eq!(call(1, 'x').await, Some((3, 0)));
        assert_eq!(call(1, 'x').await, Some((0, 1000)), "the second");
        assert_eq!(call(1, 'y').await, Some((1, 1)), "the third is asked for the first time");
        assert_eq!(call(1, 'y').await, None, "the third");
        assert_eq!(call(1, 'y').await, Some((1000, 0)), "the first");
    }));
}

struct Shop;

impl Shop {
    #[rate_limit(name = "boxed one", qps = 2, window = "1h")]
    #[rate_limit(name = "boxed two", qps = 1, window = "1h")]
    fn boxed(&self) -> std::pin::Pin<Box<dyn Future<Output = Option<u8>> + Send + '_>> {
        Box::pin(async move { Some(1) })
    }

    #[limiter::rate_limit(name = "sync one", qps = 2, window = "1h", store = "local")]
    #[::limiter::rate_limit(name = "sync two", qps = 1, window = "1h", store = "local")]
    fn sync(&self) -> Option<u8> {
        Some(2)
    }
}

#[test]
fn on_functions_of_every_flow() {
    now(scope(frozen(), async {
        assert_eq!((Shop.boxed().await, Shop.boxed().await), (Some(1), None));
        assert_eq!((Shop.sync(), Shop.sync()), (Some(2), None));
    }));
}

#[rate_limit(qps = 3, window = "1h")]
#[cfg_attr(not(any()), rate_limit(name = "there", qps = 2, window = "1h", decision = d))]
#[cfg_attr(any(), rate_limit(name = "not there", qps = 1, window = "1h"))]
#[cfg_attr(any(), deprecated)]
async fn conditional() -> Result<u64, Rejected> {
    Ok(d.remaining())
}

#[test]
fn where_a_condition_holds() {
    now(scope(frozen(), async {
        assert_eq!((conditional().await.ok(), conditional().await.ok()), (Some(1), Some(0)));
        assert_eq!(
            conditional().await.unwrap_err().limit(),
            2,
            "the second, after the first had let it pass"
        );
        assert_eq!(conditional().await.unwrap_err().limit(), 3, "the first");
    }));
    assert!(limiter::sites().iter().all(|site| site.rule().name() != "not there"));
}
