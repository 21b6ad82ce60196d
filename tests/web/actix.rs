//! Limits in a service of actix-web, asked by a real client.

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::dev::{ServerHandle, Service as _};
use actix_web::http::header::HeaderValue;
use actix_web::{
    App, HttpMessage as _, HttpRequest, HttpResponse, HttpServer, Responder, ResponseError, web,
};
use limiter::web::{ClientAddress, RateLimitFields, TrustedProxies};
use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit};
use limiter_web_tests::{Client, item};
use serde::Deserialize;

#[rate_limit(name = "response", strategy = "sliding_log", key = "*id", qps = 3, window = "4s")]
async fn response(id: web::Path<u64>) -> HttpResponse {
    HttpResponse::Ok().body(format!("order {id}"))
}

#[rate_limit(name = "rejected", strategy = "sliding_log", key = "*id", qps = 3, window = "4s")]
async fn rejected(id: web::Path<u64>) -> Result<String, Rejected> {
    Ok(format!("order {id}"))
}

#[rate_limit(name = "actix-error", strategy = "sliding_log", key = "*id", qps = 3, window = "4s")]
async fn actix_error(id: web::Path<u64>) -> actix_web::Result<String> {
    Ok(format!("order {id}"))
}

#[rate_limit(name = "app-error", strategy = "sliding_log", key = "*id", qps = 3, window = "4s")]
async fn app_error(id: web::Path<u64>) -> Result<String, AppError> {
    if *id == 0 { Err(AppError::NoOrder) } else { Ok(format!("order {id}")) }
}

#[derive(Debug)]
enum AppError {
    NoOrder,
    Busy(Rejected),
}

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoOrder => f.write_str("there is no such order"),
            Self::Busy(why) => why.fmt(f),
        }
    }
}

impl From<Rejected> for AppError {
    fn from(why: Rejected) -> Self {
        Self::Busy(why)
    }
}

impl ResponseError for AppError {
    fn error_response(&self) -> HttpResponse {
        match self {
            Self::NoOrder => HttpResponse::NotFound().finish(),
            Self::Busy(why) => why.error_response(),
        }
    }
}

#[rate_limit(
    name = "fallback",
    strategy = "sliding_log",
    key = "*id",
    qps = 3,
    window = "4s",
    fallback = "busy"
)]
async fn fallback(id: web::Path<u64>) -> impl Responder {
    format!("order {id}")
}

async fn busy(id: web::Path<u64>, why: Rejected) -> String {
    format!("{id} waits {:?}", why.retry_after())
}

#[rate_limit(name = "shallow", strategy = "fixed_window", key = "q.user", qps = 2, window = "10s")]
async fn shallow(web::Query(q): web::Query<Filter>) -> Result<String, Rejected> {
    deep().await?;
    Ok(q.user)
}

#[rate_limit(name = "deep", strategy = "fixed_window", qps = 9, window = "1m")]
async fn deep() -> Result<(), Rejected> {
    tokio::task::yield_now().await;
    Ok(())
}

#[derive(Deserialize)]
struct Filter {
    user: String,
}

#[derive(Deserialize)]
struct Order {
    user: String,
    items: Vec<u32>,
}

#[derive(Clone)]
struct User {
    id: u64,
}

#[rate_limit(
    key = "order.user",
    cost = "order.items.len()",
    strategy = "token_bucket",
    qps = 2,
    window = "1h"
)]
async fn by_json(web::Json(order): web::Json<Order>) -> Result<String, Rejected> {
    Ok(order.user)
}

#[rate_limit(key = "request.headers().get(\"x-api-key\").map(HeaderValue::as_bytes)", qps = 1, window = "1h")]
async fn by_header(request: HttpRequest) -> Result<String, Rejected> {
    Ok(request.path().to_owned())
}

#[rate_limit(key = "user.id", qps = 1, window = "1h")]
async fn by_extension(user: web::ReqData<User>) -> Result<String, Rejected> {
    Ok(user.id.to_string())
}

#[rate_limit(key = "client", qps = 2, window = "1h")]
async fn by_client(client: ClientAddress) -> Result<String, Rejected> {
    Ok(client.to_string())
}

/// A service with a limiter of its own, which ends with this value.
struct Shop {
    address: SocketAddr,
    clock: ManualClock,
    handle: ServerHandle,
}

impl Shop {
    fn open(fields: RateLimitFields, proxies: Option<TrustedProxies>) -> Self {
        let clock = ManualClock::new();
        let limiter = LocalLimiter::builder().clock(clock.clone()).build();
        let server = HttpServer::new(move || {
            let limiter = limiter.clone();
            let mut app = App::new();
            if let Some(proxies) = &proxies {
                app = app.app_data(proxies.clone());
            }
            app.route("/response/{id}", web::get().to(response))
                .route("/rejected/{id}", web::get().to(rejected))
                .route("/actix-error/{id}", web::get().to(actix_error))
                .route("/app-error/{id}", web::get().to(app_error))
                .route("/fallback/{id}", web::get().to(fallback))
                .route("/shallow", web::get().to(shallow))
                .route("/json", web::post().to(by_json))
                .route("/header", web::get().to(by_header))
                .route("/extension", web::get().to(by_extension))
                .route("/client", web::get().to(by_client))
                .wrap(fields)
                .wrap_fn(move |request, service| {
                    let id = request.headers().get("x-user").and_then(|id| id.to_str().ok()?.parse().ok());
                    request.extensions_mut().insert(User { id: id.unwrap_or_default() });
                    limiter::scope(limiter.clone(), service.call(request))
                })
        });
        let server = server.workers(1).disable_signals().bind("127.0.0.1:0").expect("a port");
        let address = server.addrs()[0];
        let server = server.run();
        let handle = server.handle();
        std::thread::spawn(|| actix_web::rt::System::new().block_on(server));
        Self { address, clock, handle }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
    }
}

#[tokio::test]
async fn a_rejected_handler_answers_by_itself() {
    let shop = Shop::open(RateLimitFields::new(), None);
    let mut client = shop.client().await;
    for name in ["response", "rejected", "actix-error", "app-error"] {
        for left in [2, 1, 0] {
            let reply = client.get(&format!("/{name}/7")).await;
            assert_eq!((reply.status, &*reply.body), (200, "order 7"), "{name}");
            assert_eq!(reply.policies(), [item(name, &[("q", 3), ("w", 4)])]);
            assert_eq!(reply.limits(), [item(name, &[("r", left), ("t", 4)])]);
        }
        shop.clock.advance(Duration::from_millis(2500));
        assert_eq!(
            client.get(&format!("/{name}/7")).await.rejected_by(name, 3, 4),
            2,
            "1.5 seconds, rounded up"
        );
        assert_eq!(client.get(&format!("/{name}/8")).await.status, 200, "{name}: another key");
        shop.clock.advance(Duration::from_secs(2));
        assert_eq!(client.get(&format!("/{name}/7")).await.status, 200, "{name}: a client that waited");
    }
    assert_eq!(client.get("/app-error/0").await.status, 404);
}

#[tokio::test]
async fn a_fallback_answers_as_it_likes() {
    let shop = Shop::open(RateLimitFields::new().x_rate_limit(), None);
    let mut client = shop.client().await;
    for _ in 0..3 {
        assert_eq!(client.get("/fallback/7").await.body, "order 7");
    }
    let reply = client.get("/fallback/7").await;
    assert_eq!((reply.status, &*reply.body), (200, "7 waits Some(4s)"));
    assert_eq!(reply.limits(), [item("fallback", &[("r", 0), ("t", 4)])]);
    let x = ["limit", "remaining", "reset"].map(|name| reply.field(&format!("x-ratelimit-{name}")));
    assert_eq!(x, [Some("3"), Some("0"), Some("4")]);
}

#[tokio::test]
async fn limits_deep_below_are_shown() {
    let shop = Shop::open(RateLimitFields::new(), None);
    let mut client = shop.client().await;
    let reply = client.get("/shallow?user=alice").await;
    assert_eq!((reply.status, &*reply.body), (200, "alice"));
    let limits = [item("shallow", &[("r", 1), ("t", 10)]), item("deep", &[("r", 8), ("t", 60)])];
    assert_eq!(reply.limits(), limits);
    assert!(reply.fields.iter().all(|(name, _)| !name.starts_with("x-")), "nobody asked for them");
    client.get("/shallow?user=alice").await;
    assert_eq!(client.get("/shallow?user=alice").await.rejected_by("shallow", 2, 10), 10);
    assert_eq!(client.get("/shallow?user=bob").await.status, 200);
}

#[tokio::test]
async fn extractors_are_keys() {
    let shop = Shop::open(RateLimitFields::new(), None);
    let mut client = shop.client().await;
    let mut statuses = Vec::new();
    for order in [
        r#"{"user":"alice","items":[1,2]}"#,
        r#"{"user":"a\u0000\r\nb","items":[1,2]}"#,
        r#"{"user":"alice","items":[1]}"#,
    ] {
        statuses.push(client.post("/json", order).await.status);
    }
    for fields in [[("x-api-key", "a")], [("x-api-key", "b")], [("x-api-key", "a")]] {
        statuses.push(client.get_with("/header", &fields).await.status);
    }
    for fields in [[("x-user", "1")], [("x-user", "2")], [("x-user", "1")]] {
        statuses.push(client.get_with("/extension", &fields).await.status);
    }
    assert_eq!(statuses, [200, 200, 429].repeat(3));
}

#[tokio::test]
async fn addresses_are_believed_from_trusted_proxies_only() {
    let field = "x-forwarded-for";
    let others = TrustedProxies::x_forwarded_for(["10.0.0.0/8"]).unwrap();
    for proxies in [None, Some(others)] {
        let shop = Shop::open(RateLimitFields::new(), proxies);
        let mut client = shop.client().await;
        for (forged, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.3", 429)] {
            let reply = client.get_with("/client", &[(field, forged)]).await;
            assert_eq!(reply.status, status);
            assert!(status == 429 || reply.body == "127.0.0.1", "{}", reply.body);
        }
    }
    let shop =
        Shop::open(RateLimitFields::new(), Some(TrustedProxies::x_forwarded_for(["127.0.0.1"]).unwrap()));
    let mut client = shop.client().await;
    let reply = client
        .get_with("/client", &[(field, "198.51.100.1, 192.0.2.1"), ("forwarded", "for=192.0.2.9")])
        .await;
    assert_eq!(reply.body, "192.0.2.1");
    let mut admitted = 0;
    for host in 0..20 {
        let address = format!("[2001:db8:0:1::{host:x}]:4711");
        admitted += i32::from(client.get_with("/client", &[(field, &address)]).await.status == 200);
    }
    assert_eq!(admitted, 2, "a flood from one network has the limit of one client");
}
