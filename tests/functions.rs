//! Every shape of function can be annotated, and stays what it was.

#![expect(
    clippy::cast_lossless,
    clippy::manual_async_fn,
    clippy::trivially_copy_pass_by_ref,
    clippy::unused_self,
    reason = "users write functions of all kinds"
)]

mod support;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use limiter::{LimitKey, LocalLimiter, ManualClock, Rejected, rate_limit, scope};
use support::now;

fn frozen() -> LocalLimiter {
    LocalLimiter::builder().clock(ManualClock::new()).build()
}

fn send<T: Send>(value: T) -> T {
    value
}

struct Service {
    tenant: String,
    calls: u32,
}

fn service() -> Service {
    Service { tenant: "acme".into(), calls: 0 }
}

impl Service {
    #[rate_limit(key = "self.tenant", qps = 1, fallback = "Self::shared_busy")]
    async fn shared(&self, by: u32) -> u32 {
        self.calls + by
    }

    async fn shared_busy(&self, by: u32, _: Rejected) -> u32 {
        by * 100
    }

    #[rate_limit(key = "self.tenant", qps = 1, fallback = "Self::mutable_busy")]
    async fn mutable(&mut self, by: u32) -> u32 {
        self.calls += by;
        self.calls
    }

    fn mutable_busy(&mut self, by: u32, _: Rejected) -> u32 {
        self.calls + by * 100
    }

    #[rate_limit(qps = 1, fallback = "consumed_busy")]
    async fn consumed(self, by: u32) -> u32 {
        self.calls + by
    }

    #[rate_limit(key = "self.tenant", qps = 1)]
    async fn counted(self: Arc<Self>) -> Option<u32> {
        Some(self.calls)
    }

    #[rate_limit(name = "boxed", key = "text", qps = 1)]
    fn boxed<'a>(&'a self, text: &'a str) -> Pin<Box<dyn Future<Output = Option<&'a str>> + Send + 'a>> {
        if text.is_empty() {
            return Box::pin(async { None });
        }
        Box::pin(async move { Some(text) })
    }

    #[rate_limit(key = "text", qps = 1, fallback = "Self::lazy_busy")]
    fn lazy(&self, text: String) -> impl Future<Output = String> + Send {
        let more = format!("{text}!");
        async move { more }
    }

    async fn lazy_busy(&self, text: String, _: Rejected) -> String {
        format!("{text}?")
    }
}

async fn consumed_busy(service: Service, by: u32, _: Rejected) -> u32 {
    service.calls + by * 100
}

#[test]
fn methods() {
    now(scope(frozen(), async {
        let mut service = service();
        assert_eq!((send(service.shared(2)).await, service.shared(2).await), (2, 200));
        assert_eq!((send(service.mutable(2)).await, service.mutable(2).await), (2, 202));
        assert_eq!((send(service.boxed("a")).await, service.boxed("a").await), (Some("a"), None));
        assert_eq!(
            (send(service.lazy("a".into())).await, service.lazy("a".into()).await),
            ("a!".into(), "a?".into())
        );
        let service = Arc::new(service);
        assert_eq!((send(service.clone().counted()).await, service.clone().counted().await), (Some(2), None));
        assert_eq!(self::service().consumed(3).await, 3);
        assert_eq!(self::service().consumed(3).await, 300);
    }));
}

trait Store {
    fn load(&self, id: u64) -> impl Future<Output = Option<u64>> + Send;
    fn save(&mut self, id: u64) -> impl Future<Output = u64> + Send;
}

impl Store for Service {
    #[rate_limit(name = "load", key = "id", qps = 1)]
    async fn load(&self, id: u64) -> Option<u64> {
        Some(id)
    }

    #[rate_limit(name = "save", key = "id", qps = 1, fallback = "Self::save_busy")]
    fn save(&mut self, id: u64) -> impl Future<Output = u64> + Send {
        async move {
            self.calls += 1;
            id
        }
    }
}

impl Service {
    fn save_busy(&mut self, id: u64, _: Rejected) -> u64 {
        id * 100
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn get(&self, id: u64) -> Result<u64, Rejected>;
    async fn put(&mut self, id: u64, pair: (u8, u8)) -> String;
    async fn any<T: LimitKey + Send + Sync>(&self, value: T) -> Option<T>;
}

#[async_trait::async_trait]
impl Boxed for Service {
    #[rate_limit(name = "async_trait get", qps = 1, key = "(&self.tenant, id)")]
    async fn get(&self, id: u64) -> Result<u64, Rejected> {
        Ok(id)
    }

    #[rate_limit(name = "async_trait put", qps = 1, key = "id", fallback = "Self::put_busy")]
    async fn put(&mut self, id: u64, (a, b): (u8, u8)) -> String {
        self.calls += 1;
        format!("{id} {a} {b}")
    }

    #[rate_limit(name = "async_trait any", qps = 1, key = "value")]
    async fn any<T: LimitKey + Send + Sync>(&self, value: T) -> Option<T> {
        Some(value)
    }
}

impl Service {
    async fn put_busy(&mut self, id: u64, (a, b): (u8, u8), _: Rejected) -> String {
        format!("{id} {a} {b} {} busy", self.calls)
    }
}

#[test]
fn trait_implementations() {
    now(scope(frozen(), async {
        let mut service = service();
        assert_eq!((send(service.load(1)).await, service.load(1).await), (Some(1), None));
        assert_eq!((send(service.save(1)).await, service.save(1).await), (1, 100));
        assert_eq!(send(service.get(1)).await.ok(), Some(1));
        assert!(service.get(1).await.is_err());
        assert_eq!(send(service.put(1, (2, 3))).await, "1 2 3");
        assert_eq!(service.put(1, (2, 3)).await, "1 2 3 2 busy", "one `save` and one `put` went");
        assert_eq!((send(service.any("x")).await, service.any("x").await), (Some("x"), None));
    }));
}

#[rate_limit(key = "key", qps = 1, fallback = "generic_busy")]
async fn generic<'a, K, const N: usize>(key: K, texts: &'a [&'a str; N], show: impl Display + Send) -> String
where
    K: LimitKey + Send,
{
    drop(key);
    format!("{show} {}", texts.concat())
}

fn generic_busy<K, const N: usize>(_: K, texts: &[&str; N], _: impl Display + Send, _: Rejected) -> String {
    format!("{N} {}", texts[0])
}

#[rate_limit(qps = 1, fallback = "number_busy")]
async fn some_number() -> impl Display {
    7
}

fn number_busy(_: Rejected) -> i32 {
    8
}

#[test]
fn generics_lifetimes_and_impl_trait() {
    now(scope(frozen(), async {
        assert_eq!(send(generic(1, &["a", "b"], 5)).await, "5 ab");
        assert_eq!(generic(1, &["a", "b"], 5).await, "2 a");
        assert_eq!(generic("x", &["a"], 'c').await, "c a");
        assert_eq!(
            (some_number().await.to_string(), some_number().await.to_string()),
            ("7".into(), "8".into())
        );
    }));
}

struct Path<T>(T);

#[rate_limit(key = id, qps = 1, cost = "if id == 7 { 1 } else { 2 }", unless = "!flag && id == 0", fallback = destructured_busy, decision = d)]
async fn destructured(
    Path(id): Path<u64>,
    mut text: String,
    &flag: &bool,
    (ref a, mut b): (String, u8),
    _: Loud,
) -> String {
    text.push('!');
    b += 1;
    format!("{id} {text} {flag} {a}{b} {}", d.remaining())
}

fn destructured_busy(
    id: Path<u64>,
    text: String,
    flag: &bool,
    pair: (String, u8),
    _: Loud,
    _: Rejected,
) -> String {
    format!("{} {text} {flag} {} busy", id.0, pair.0)
}

thread_local!(static DROPS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

struct Loud(u8);

impl Drop for Loud {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops.push(self.0));
    }
}

#[rate_limit(qps = 9, fallback = "drops_busy")]
async fn drops_limited((x, _): (Loud, Loud), y: Loud, _: Loud, (_, z): (Loud, Loud)) {
    let _ = (&x, &y, &z);
}

async fn drops_plain((x, _): (Loud, Loud), y: Loud, _: Loud, (_, z): (Loud, Loud)) {
    let _ = (&x, &y, &z);
}

fn drops_busy(_: (Loud, Loud), _: Loud, _: Loud, _: (Loud, Loud), _: Rejected) {}

#[test]
fn patterns_and_the_order_of_drops() {
    now(scope(frozen(), async {
        let call = |id| destructured(Path(id), "t".into(), &true, ("x".into(), 1), Loud(0));
        assert_eq!(call(7).await, "7 t! true x2 0");
        assert_eq!(call(7).await, "7 t true x busy");
        DROPS.take();
        let loud = || ((Loud(0), Loud(1)), Loud(2), Loud(3), (Loud(4), Loud(5)));
        let (a, b, c, d) = loud();
        drops_plain(a, b, c, d).await;
        let plain = DROPS.take();
        let (a, b, c, d) = loud();
        drops_limited(a, b, c, d).await;
        assert_eq!(DROPS.take(), plain);
        assert_eq!(plain.len(), 6);
    }));
}

/// `Cell` is not `Sync`, so a reference to it held over an await would make the future not `Send`.
#[rate_limit(key = "tag.get()", qps = 1)]
async fn not_sync(tag: Cell<u64>) -> Option<u64> {
    tokio::task::yield_now().await;
    Some(tag.get())
}

#[rate_limit(key = "Rc::new(text.clone()).as_str()", qps = 1)]
async fn key_not_send(text: String) -> Option<String> {
    tokio::task::yield_now().await;
    Some(text)
}

#[rate_limit(key = "text", qps = 1, wait = "1s")]
async fn waiting(text: String) -> Option<String> {
    tokio::task::yield_now().await;
    Some(text)
}

#[tokio::test]
async fn a_future_is_send_where_its_body_is() {
    assert_eq!(tokio::spawn(not_sync(Cell::new(1))).await.unwrap(), Some(1));
    assert!(tokio::spawn(key_not_send("a".into())).await.unwrap().is_some());
    assert!(tokio::spawn(waiting("a".into())).await.unwrap().is_some());
}

/// Names of the user's that look like ours, and modules that hide what we could have meant.
mod clashes {
    #![allow(dead_code, non_upper_case_globals, non_camel_case_types, reason = "the clashes are the point")]

    pub(super) mod core {}
    pub(super) mod std {}
    struct Result;
    struct Ok;
    struct Site;
    const entry: u8 = 1;
    const SITE: u8 = 2;

    #[::limiter::rate_limit(
        qps = "entry",
        fallback = "answer",
        key = "decision",
        cost = "entry as u64 + rejected"
    )]
    pub(super) async fn clash(decision: u64, rejected: u64) -> u64 {
        #![allow(unused_variables)]
        decision + rejected + u64::from(SITE)
    }

    fn answer(decision: u64, rejected: u64, _: ::limiter::Rejected) -> u64 {
        decision * rejected
    }
}

macro_rules! limited {
    ($limit:expr, $name:ident, $parameter:ident) => {
        #[rate_limit(qps = $limit, key = $parameter, fallback = limited_busy)]
        async fn $name(&($parameter, _): &(u8, u8)) -> u8 {
            $parameter
        }
    };
}

limited!(1, made_by_a_macro, first);

fn limited_busy(pair: &(u8, u8), _: Rejected) -> u8 {
    pair.1
}

#[rate_limit(key = "depth", qps = 1, store = "local")]
fn recursive(depth: u32) -> Option<u32> {
    if depth == 0 { Some(0) } else { recursive(depth - 1).map(|below| below + 1) }
}

#[test]
fn names_macros_and_recursion() {
    now(scope(frozen(), async {
        #[rate_limit(qps = 1)]
        async fn nested() -> Option<()> {
            Some(())
        }
        assert_eq!(clashes::clash(1, 0).await, 3);
        assert_eq!(clashes::clash(7, 8).await, 56);
        assert_eq!((made_by_a_macro(&(1, 2)).await, made_by_a_macro(&(1, 2)).await), (1, 2));
        assert!(nested().await.is_some() && nested().await.is_none());
        assert_eq!((recursive(5), recursive(5)), (Some(5), None));
    }));
}
