//! Attribute macros of other crates stand before and after ours.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Path;
use axum::http::StatusCode;
use axum::{debug_handler, debug_middleware};
use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit, scope};
use tracing::field::{Field, Visit};
use tracing::{Metadata, Subscriber, instrument, span};

fn frozen() -> LocalLimiter {
    LocalLimiter::builder().clock(ManualClock::new()).build()
}

#[instrument(skip(secret))]
#[rate_limit(key = "user", qps = 1, fallback = "traced_busy")]
async fn traced_before(user: u64, secret: &str) -> String {
    format!("{user} {secret}")
}

#[rate_limit(key = "user", qps = 1, fallback = "traced_busy")]
#[instrument(skip(secret))]
async fn traced_after(user: u64, secret: &str) -> String {
    format!("{user} {secret}")
}

/// A pattern in between: `instrument` sees a name for it, and skips it by that.
#[rate_limit(key = "user", qps = 1, fallback = "pattern_busy")]
#[instrument(skip(user))]
async fn traced_pattern(Path(user): Path<u64>) -> String {
    format!("{user} passed")
}

fn pattern_busy(Path(user): Path<u64>, _: Rejected) -> String {
    format!("{user} busy")
}

/// Between two limits.
#[rate_limit(key = "user", qps = 2, fallback = "traced_busy")]
#[instrument(skip_all, fields(user))]
#[rate_limit(key = "secret", qps = 1)]
async fn traced_between(user: u64, secret: &str) -> Result<String, Rejected> {
    Ok(format!("{user} {secret}"))
}

trait Busy {
    fn busy(user: u64) -> Self;
}

impl Busy for String {
    fn busy(user: u64) -> Self {
        format!("{user} busy")
    }
}

impl Busy for Result<String, Rejected> {
    fn busy(user: u64) -> Self {
        Ok(String::busy(user))
    }
}

async fn traced_busy<B: Busy>(user: u64, _: &str, _: Rejected) -> B {
    B::busy(user)
}

/// Notes the names of spans and the values of their fields.
#[derive(Default)]
struct Notes {
    spans: AtomicU64,
}

struct Visitor<'a>(&'a mut String);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Subscriber for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut note = attributes.metadata().name().to_owned();
        attributes.record(&mut Visitor(&mut note));
        NOTES.lock().unwrap().push(note);
        span::Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn tracing_instrument() {
    let _guard = tracing::subscriber::set_default(Notes::default());
    scope(frozen(), async {
        assert_eq!(traced_before(1, "s").await, "1 s");
        assert_eq!(traced_before(1, "s").await, "1 busy");
        assert_eq!(traced_after(1, "s").await, "1 s");
        assert_eq!(traced_after(1, "s").await, "1 busy");
        assert_eq!(traced_pattern(Path(1)).await, "1 passed");
        assert_eq!(traced_pattern(Path(1)).await, "1 busy");
        assert_eq!(traced_between(1, "s").await.unwrap(), "1 s");
        assert!(traced_between(1, "s").await.is_err(), "the second limit");
        assert_eq!(
            traced_between(1, "t").await.unwrap(),
            "1 busy",
            "the first, which the last call took from"
        );
    })
    .await;
    let notes = NOTES.lock().unwrap();
    let count = |note: &str| notes.iter().filter(|written| *written == note).count();
    // Who stands first is expanded first, and ends up inside: only calls that were admitted come there.
    assert_eq!(count("traced_before user=1"), 1, "{notes:?}");
    assert_eq!(count("traced_after user=1"), 2, "{notes:?}");
    assert_eq!(count("traced_pattern"), 2, "{notes:?}");
}

/// A handler: `debug_handler` looks at its types, before or after.
#[debug_handler]
#[rate_limit(key = "id", qps = 1, fallback = "order_busy")]
async fn handler_before(Path(id): Path<u64>) -> Result<String, StatusCode> {
    Ok(format!("order {id}"))
}

#[rate_limit(key = "id", qps = 1, fallback = "order_busy")]
#[debug_handler]
async fn handler_after(Path(id): Path<u64>) -> Result<String, StatusCode> {
    Ok(format!("order {id}"))
}

async fn order_busy(Path(_): Path<u64>, _: Rejected) -> Result<String, StatusCode> {
    Err(StatusCode::TOO_MANY_REQUESTS)
}

#[debug_middleware]
#[rate_limit(qps = 1, fallback = "closed")]
async fn middleware(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    next.run(request).await
}

fn closed(_: axum::extract::Request, _: axum::middleware::Next, _: Rejected) -> axum::response::Response {
    axum::response::IntoResponse::into_response(StatusCode::TOO_MANY_REQUESTS)
}

#[tokio::test]
async fn axum_debug_handler() {
    scope(frozen(), async {
        assert_eq!(handler_before(Path(1)).await.unwrap(), "order 1");
        assert_eq!(handler_before(Path(1)).await, Err(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(handler_after(Path(1)).await.unwrap(), "order 1");
        assert_eq!(handler_after(Path(1)).await, Err(StatusCode::TOO_MANY_REQUESTS));
        let _: axum::Router = axum::Router::new()
            .route("/before/{id}", axum::routing::get(handler_before))
            .route("/after/{id}", axum::routing::get(handler_after))
            .layer(axum::middleware::from_fn(middleware));
    })
    .await;
    // `debug_handler` writes the function a second time; it stays one.
    let sites = limiter::sites().iter().filter(|site| site.rule().name().starts_with("others::handler_"));
    let counts: Vec<_> = sites.map(|site| (site.counts().passed, site.counts().rejected)).collect();
    assert_eq!(counts, [(1, 1), (1, 1)]);
}

/// A test can be limited too, on either side.
#[tokio::test]
#[rate_limit(qps = 1, store = "local", fallback = "never")]
async fn a_tokio_test_before() {
    assert_eq!(limited_test(), 1);
}

#[rate_limit(qps = 1, store = "local", fallback = "never")]
#[tokio::test]
async fn a_tokio_test_after() {
    assert_eq!(limited_test(), 1);
}

fn never(_: Rejected) {
    panic!("it runs once");
}

fn limited_test() -> usize {
    limiter::sites().iter().filter(|site| site.rule().name().ends_with("a_tokio_test_before")).count()
}

struct Shop;
struct Pair {
    left: u64,
    right: u64,
}

/// `async_trait` stands on the trait or on the `impl`, and so is always expanded first.
#[async_trait::async_trait]
trait Orders {
    /// A method that the trait itself has.
    #[rate_limit(name = "given", key = "left", qps = 1, unless = "*left == 9")]
    async fn given(&self, Pair { ref left, right }: Pair) -> Result<u64, Rejected>
    where
        Self: Sync,
    {
        Ok(*left + right)
    }

    async fn get(&self, pair: Pair, id: u64) -> String;
    async fn put(&mut self, pair: Pair, list: [u64; 2]) -> Option<u64>;
    async fn consume(self: Box<Self>, tag: (u8, String)) -> Option<String>;
}

#[async_trait::async_trait]
impl Orders for Shop {
    #[rate_limit(name = "get", key = "(left, id)", qps = 1, fallback = "Self::busy")]
    #[instrument(skip_all)]
    async fn get(&self, Pair { left, mut right }: Pair, id: u64) -> String {
        right += 1;
        format!("{left} {right} {id}")
    }

    #[instrument(skip_all)]
    #[rate_limit(name = "put", key = "first", cost = "(first + rest.len() as u64).min(3)", qps = 3)]
    #[rate_limit(name = "put too", key = "right", qps = 1, window = "1h")]
    async fn put(&mut self, Pair { right, .. }: Pair, [first, rest @ ..]: [u64; 2]) -> Option<u64> {
        Some(right + first + rest[0])
    }

    #[rate_limit(name = "consume", key = "text", qps = 1)]
    async fn consume(self: Box<Self>, (_, text): (u8, String)) -> Option<String> {
        Some(text)
    }
}

impl Shop {
    async fn busy(&self, pair: Pair, id: u64, _: Rejected) -> String {
        format!("{} {id} busy", pair.left)
    }
}

#[tokio::test]
async fn async_trait_hides_patterns() {
    scope(frozen(), async {
        let mut shop = Shop;
        let pair = || Pair { left: 1, right: 2 };
        assert_eq!(shop.given(pair()).await.ok(), Some(3));
        assert!(shop.given(pair()).await.is_err());
        assert_eq!(shop.given(Pair { left: 9, right: 9 }).await.ok(), Some(18));
        assert_eq!(shop.given(Pair { left: 9, right: 9 }).await.ok(), Some(18));
        assert_eq!(shop.get(pair(), 7).await, "1 3 7");
        assert_eq!(shop.get(pair(), 7).await, "1 7 busy");
        assert_eq!(shop.get(pair(), 8).await, "1 3 8");
        assert_eq!(shop.put(pair(), [1, 5]).await, Some(8));
        assert_eq!(shop.put(pair(), [2, 5]).await, None, "the second limit: its key is the same");
        assert_eq!(Box::new(Shop).consume((1, "x".into())).await.as_deref(), Some("x"));
        assert_eq!(Box::new(Shop).consume((1, "x".into())).await, None);
    })
    .await;
}
