//! What each option of the annotation does, decided in this process and timed by hand.

mod support;

use std::time::Duration;

use limiter::{
    Decision, LimitKey, LocalLimiter, ManualClock, Quota, Reason, Rejected, Rule, RuleError, Strategy,
    rate_limit, scope, scope_sync,
};
use support::now;

/// A limiter of its own for each test, and the clock that it goes by.
fn timed() -> (LocalLimiter, ManualClock) {
    let clock = ManualClock::new();
    (LocalLimiter::builder().clock(clock.clone()).build(), clock)
}

#[derive(Clone)]
struct Person {
    id: u64,
    name: String,
}

fn person(id: u64) -> Person {
    Person { id, name: format!("person {id}") }
}

#[rate_limit(strategy = "sliding_window", key = "id", qps = 3, window = "4s", fallback = "busy")]
async fn get_order(p: Person) -> String {
    format!("the order of {}", p.name)
}

async fn busy(p: Person, why: Rejected) -> String {
    format!("{}: try again in {:?}", p.name, why.retry_after())
}

#[test]
fn the_example_of_the_readme() {
    let (limiter, clock) = timed();
    now(scope(limiter, async {
        for _ in 0..3 {
            assert_eq!(get_order(person(1)).await, "the order of person 1");
        }
        assert_eq!(get_order(person(1)).await, "person 1: try again in Some(4s)");
        assert_eq!(get_order(person(2)).await, "the order of person 2");
        clock.advance(Duration::from_secs(4));
        assert_eq!(get_order(person(1)).await, "the order of person 1");
    }));
}

#[rate_limit(qps = 2)]
async fn keyless(_who: u64) -> Option<()> {
    Some(())
}

#[test]
fn without_a_key_the_whole_function_has_one_limit() {
    now(scope(timed().0, async {
        assert!(keyless(1).await.is_some() && keyless(2).await.is_some());
        assert!(keyless(3).await.is_none());
    }));
}

struct Path<T>(T);

#[rate_limit(key = "id", qps = 1, fallback = "path_busy")]
async fn by_pattern(Path(id): Path<u64>, _other: bool) -> u64 {
    id
}

fn path_busy(path: Path<u64>, _other: bool, why: Rejected) -> u64 {
    assert_eq!(why.reason(), Reason::Exceeded);
    1000 + path.0
}

#[rate_limit(key = (tenant, user.id), qps = 1)]
async fn by_tuple(tenant: &str, user: &Person) -> Option<usize> {
    Some(tenant.len() + user.name.len())
}

#[rate_limit(key = (tenant, [user.name, user.name]), qps = 1, fallback = "owned_busy")]
async fn by_owned(tenant: String, user: Person) -> (String, String) {
    (tenant, user.name)
}

fn owned_busy(tenant: String, _: Person, _: Rejected) -> (String, String) {
    (tenant, "busy".into())
}

#[rate_limit(key = "email.to_lowercase()", qps = 1)]
async fn by_expression(email: String) -> Option<String> {
    Some(email)
}

#[derive(LimitKey)]
enum Caller {
    User { tenant: u32, id: u64 },
    Service(&'static str),
    Anybody,
}

#[rate_limit(key = "caller", qps = 1)]
async fn by_derived(caller: Caller) -> Option<Caller> {
    Some(caller)
}

#[test]
fn each_key_has_a_limit_of_its_own() {
    now(scope(timed().0, async {
        assert_eq!(by_pattern(Path(1), true).await, 1);
        assert_eq!(by_pattern(Path(1), true).await, 1001);
        assert_eq!(by_pattern(Path(2), true).await, 2);

        assert!(by_tuple("a", &person(1)).await.is_some());
        assert!(by_tuple("a", &person(1)).await.is_none());
        assert!(by_tuple("a", &person(2)).await.is_some());
        assert!(by_tuple("b", &person(1)).await.is_some());

        assert_eq!(by_owned("a".into(), person(1)).await.1, "person 1");
        assert_eq!(by_owned("a".into(), person(1)).await.1, "busy");

        assert!(by_expression("Ann@Example.com".into()).await.is_some());
        assert!(by_expression("ann@example.com".into()).await.is_none());

        let callers = || {
            [
                Caller::User { tenant: 1, id: 2 },
                Caller::User { tenant: 2, id: 1 },
                Caller::Service("mail"),
                Caller::Service("User"),
                Caller::Anybody,
            ]
        };
        for caller in callers() {
            assert!(by_derived(caller).await.is_some());
        }
        for caller in callers() {
            assert!(by_derived(caller).await.is_none());
        }
    }));
}

#[rate_limit(key = "id", qps = 2, window = "10s", strategy = "sliding_log", cost = "items.len()")]
async fn weighed(id: u64, items: &[u64]) -> Result<u64, Rejected> {
    Ok(id + items.iter().sum::<u64>())
}

#[rate_limit(qps = 10, cost = 4, decision = d)]
async fn fixed_cost() -> Option<u64> {
    Some(d.remaining())
}

#[test]
fn a_call_takes_what_it_costs() {
    now(scope(timed().0, async {
        assert!(weighed(1, &[1, 2]).await.is_ok());
        assert!(weighed(1, &[]).await.is_ok(), "a call that costs nothing passes");
        assert_eq!(weighed(1, &[1]).await.unwrap_err().reason(), Reason::Exceeded);
        let rejected = weighed(2, &[1, 2, 3]).await.unwrap_err();
        assert_eq!((rejected.reason(), rejected.retry_after()), (Reason::TooCostly, None));

        assert_eq!(fixed_cost().await, Some(6));
        assert_eq!(fixed_cost().await, Some(2));
        assert_eq!(fixed_cost().await, None);
    }));
}

#[rate_limit(limits = ["2/s", "3/1m"], strategy = "sliding_log")]
async fn several() -> Result<(), Rejected> {
    Ok(())
}

#[test]
fn a_call_passes_all_quotas_or_takes_from_none() {
    let (limiter, clock) = timed();
    now(scope(limiter, async {
        several().await.unwrap();
        several().await.unwrap();
        for _ in 0..10 {
            assert_eq!(several().await.unwrap_err().limit(), 2);
        }
        clock.advance(Duration::from_secs(1));
        several().await.expect("the rejected calls took nothing from the minute");
        let rejected = several().await.unwrap_err();
        assert_eq!((rejected.limit(), rejected.window()), (3, Duration::from_secs(60)));
        assert_eq!(rejected.retry_after(), Some(Duration::from_secs(59)));
    }));
}

#[rate_limit(strategy = "token_bucket", qps = 1, burst = 5, window = "250ms")]
async fn bursty() -> Option<()> {
    Some(())
}

#[test]
fn a_bucket_holds_its_burst() {
    let (limiter, clock) = timed();
    now(scope(limiter, async {
        for _ in 0..5 {
            assert!(bursty().await.is_some());
        }
        assert!(bursty().await.is_none());
        clock.advance(Duration::from_millis(500));
        assert!(bursty().await.is_some() && bursty().await.is_some() && bursty().await.is_none());
    }));
}

#[rate_limit(strategy = "leaky_bucket", qps = 10, burst = 1, wait = "200ms", decision = d)]
async fn queued() -> Option<Duration> {
    Some(d.delay())
}

#[tokio::test]
async fn a_call_waits_for_its_turn() {
    let (limiter, clock) = timed();
    let call = || tokio::spawn(scope(limiter.clone(), queued()));
    let calls = [call(), call(), call(), call()];
    while limiter::sites()
        .iter()
        .find(|site| site.rule().name().ends_with("queued"))
        .unwrap()
        .counts()
        .rejected
        == 0
    {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_millis(200));
    let mut delays = Vec::new();
    for call in calls {
        delays.push(call.await.unwrap().map(|delay| delay.as_millis()));
    }
    assert_eq!(delays, [Some(0), Some(100), Some(200), None]);
}

#[rate_limit(qps = 1, unless = "p.id == 0", decision = d)]
async fn exempt(p: &Person) -> Option<Decision> {
    assert!(!p.name.is_empty());
    Some(d)
}

#[test]
fn exempt_calls_are_not_limited() {
    now(scope(timed().0, async {
        assert!(exempt(&person(1)).await.is_some());
        assert!(exempt(&person(1)).await.is_none());
        for _ in 0..5 {
            assert!(exempt(&person(0)).await.unwrap().is_allowed());
        }
    }));
}

#[rate_limit(qps = 1, wait = "1h", mode = "shadow", decision = d)]
async fn watched() -> Option<(bool, Duration)> {
    Some((d.is_allowed(), d.delay()))
}

#[rate_limit(qps = 1, mode = "shadow")]
async fn watched_strictly() -> String {
    "a type that could not say that it was rejected".into()
}

#[test]
fn shadow_mode_lets_every_call_through_at_once() {
    now(scope(timed().0, async {
        assert_eq!(watched().await, Some((true, Duration::ZERO)));
        assert_eq!(watched().await, Some((true, Duration::from_secs(1))), "it would have waited");
        for _ in 0..5 {
            assert!(!watched_strictly().await.is_empty());
        }
    }));
    let site = limiter::sites().iter().find(|site| site.rule().name().ends_with("watched_strictly")).unwrap();
    assert_eq!((site.counts().passed, site.counts().rejected), (1, 4));
}

#[rate_limit(store = "local", key = "id", qps = 1)]
fn not_async(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(store = "local", key = "id", qps = 1, on_error = "deny", fallback = "not_async_busy")]
fn not_async_with_fallback(id: u64) -> u64 {
    id
}

fn not_async_busy(id: u64, _: Rejected) -> u64 {
    id * 100
}

#[test]
fn a_function_that_is_not_async_is_limited_in_this_process() {
    scope_sync(timed().0, || {
        assert_eq!((not_async(1), not_async(1), not_async(2)), (Some(1), None, Some(2)));
        assert_eq!((not_async_with_fallback(3), not_async_with_fallback(3)), (3, 300));
    });
}

#[rate_limit(store = local, key = id, qps = 1, strategy = fixed_window, window = 2s, on_error = allow, mode = enforce, name = "all bare")]
async fn bare(id: u64) -> Option<u64> {
    Some(id)
}

const LIMIT: u32 = 2;

#[rate_limit(qps = "LIMIT * 2", samples = "5", cost = "2", key = "\"a text\".len()")]
async fn constants() -> Option<()> {
    Some(())
}

#[test]
fn options_are_quoted_or_bare_and_numbers_are_constants() {
    let (limiter, clock) = timed();
    now(scope(limiter, async {
        assert!(bare(1).await.is_some() && bare(1).await.is_none());
        clock.advance(Duration::from_secs(2));
        assert!(bare(1).await.is_some());
        assert!(constants().await.is_some() && constants().await.is_some() && constants().await.is_none());
    }));
    let site = limiter::sites().iter().find(|site| site.rule().name() == "all bare").unwrap();
    assert_eq!(site.rule().quotas()[0].to_string(), "1/2s");
    let site = limiter::sites().iter().find(|site| site.rule().name().ends_with("constants")).unwrap();
    assert_eq!((site.rule().quotas()[0].permits(), site.rule().sample_count()), (4, 5));
}

#[derive(Debug, PartialEq)]
enum AppError {
    TooMany(Option<Duration>),
    Parse,
}

impl From<Rejected> for AppError {
    fn from(why: Rejected) -> Self {
        Self::TooMany(why.retry_after())
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::Parse
    }
}

#[rate_limit(key = "text", qps = 1)]
async fn fallible(text: &str) -> Result<u64, AppError> {
    if text == "early" {
        return Ok(0);
    }
    Ok(text.parse()?)
}

#[rate_limit(key = "text", qps = 1, fallback = "never")]
async fn fallible_with_fallback(text: &str) -> Result<u64, AppError> {
    Ok(text.parse()?)
}

async fn never(text: &str, _: Rejected) -> Result<u64, AppError> {
    panic!("{text} was not rejected")
}

#[rate_limit(qps = 1)]
async fn boxed_error() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[test]
fn the_return_type_answers_and_errors_of_the_body_stay_its_own() {
    now(scope(timed().0, async {
        assert_eq!(fallible("5").await, Ok(5));
        assert_eq!(fallible("early").await, Ok(0));
        assert_eq!(fallible("x").await, Err(AppError::Parse));
        assert_eq!(fallible("x").await, Err(AppError::TooMany(Some(Duration::from_secs(1)))));
        assert_eq!(
            fallible_with_fallback("x").await,
            Err(AppError::Parse),
            "the fallback is not for the body's errors"
        );
        boxed_error().await.unwrap();
        assert!(boxed_error().await.unwrap_err().downcast_ref::<Rejected>().is_some());
    }));
}

#[rate_limit(name = "secrets", key = "token", qps = 1)]
async fn secret(token: &str) -> Result<usize, Rejected> {
    Ok(token.len())
}

#[test]
fn no_text_of_ours_holds_the_key() {
    now(scope(timed().0, async {
        secret("hunter2").await.unwrap();
        let rejected = secret("hunter2").await.unwrap_err();
        let texts = [rejected.to_string(), format!("{rejected:?}"), format!("{:?}", limiter::sites())];
        assert!(texts.iter().all(|text| !text.contains("hunter2")), "{texts:?}");
        assert_eq!(rejected.to_string(), r#"the limit "secrets" of 1 per 1s is reached; try again in 1s"#);
    }));
}

/// The annotation and the rules know the same limits of limits: what one takes, the other takes, up to the same bounds.
/// A bound that is lower on either side does not compile here.
mod bounds {
    #![expect(dead_code, reason = "a function is listed whether or not anybody calls it")]

    use limiter::rate_limit;

    macro_rules! one_of_each {
        ($($strategy:ident)*) => {
            $(
                #[rate_limit(strategy = $strategy, qps = 1)]
                pub(super) async fn $strategy() -> Option<()> {
                    Some(())
                }
            )*
        };
    }

    one_of_each!(fixed_window sliding_window sliding_log token_bucket leaky_bucket);

    #[rate_limit(name = "bounds: longest window", qps = 1, window = "1000d")]
    pub(super) async fn longest_window() -> Option<()> {
        Some(())
    }

    #[rate_limit(name = "bounds: most samples", qps = 1, samples = 1000)]
    pub(super) async fn most_samples() -> Option<()> {
        Some(())
    }

    #[rate_limit(
        name = "bounds: most quotas",
        limits = ["1/ms", "2/s", "3/m", "4/h", "5/d", "6/90s", "7/1_000d", "1_000/250ms"]
    )]
    pub(super) async fn most_quotas() -> Option<()> {
        Some(())
    }

    #[rate_limit(
        name = "bounds: longest name: 3456789012345678901234567890\
                12345678901234567890123456789012345678901234567890\
                12345678901234567890123456789012345678901234567890\
                12345678901234567890123456789012345678901234567890",
        qps = 1
    )]
    pub(super) async fn longest_name() -> Option<()> {
        Some(())
    }
}

fn rule_called(start: &str) -> &'static Rule {
    let mut found =
        limiter::sites().iter().map(|site| site.rule()).filter(|rule| rule.name().starts_with(start));
    match (found.next(), found.next()) {
        (Some(rule), None) => rule,
        _ => panic!("not one rule is called {start:?}"),
    }
}

#[test]
fn every_strategy_can_be_annotated_by_its_name() {
    for &strategy in Strategy::ALL {
        let rule = rule_called(&format!("annotation::bounds::{strategy}"));
        assert_eq!(rule.strategy(), strategy);
    }
}

#[test]
fn the_annotation_and_the_rules_have_the_same_bounds() {
    assert_eq!(rule_called("bounds: longest window").quotas()[0].window(), Quota::LONGEST_WINDOW);
    assert_eq!(rule_called("bounds: most samples").sample_count(), Rule::MOST_SAMPLES);

    let quotas = rule_called("bounds: most quotas").quotas();
    assert_eq!(quotas.len(), Rule::MOST_QUOTAS);
    let written = ["1/ms", "2/s", "3/m", "4/h", "5/d", "6/90s", "7/1_000d", "1_000/250ms"];
    assert_eq!(quotas, written.map(|quota| quota.parse().unwrap()), "quotas are read in the same way");

    let longest = rule_called("bounds: longest name");
    let named = |name: String| Rule::try_new(name, longest.strategy(), longest.quotas());
    assert_eq!(named(longest.name().into()), Ok(longest.clone()));
    assert_eq!(named(format!("{}!", longest.name())), Err(RuleError::NameTooLong));
}
