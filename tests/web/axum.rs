//! Limits in a service of axum, asked by a real client.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, Json, Path, Query, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use limiter::web::{ClientAddress, RateLimitFields, TrustedProxies};
use limiter::{
    Limiter, LocalLimiter, ManualClock, Quota, RedisLimiter, Rejected, Rule, Strategy, rate_limit,
};
use limiter_web_tests::{Client, item};
use serde::Deserialize;
use tokio::net::TcpListener;

/// Serves `router` under a limiter of its own.
async fn serve(router: Router, limiter: impl Limiter + Clone + 'static) -> SocketAddr {
    let scoped = move |request: Request, next: Next| limiter::scope(limiter.clone(), next.run(request));
    let router = router.layer(from_fn(scoped));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// A client of `router`, and the clock of its limits.
async fn client(router: Router) -> (Client, ManualClock) {
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().clock(clock.clone()).build();
    (Client::connect(serve(router, limiter).await).await, clock)
}

mod answers {
    use super::*;

    #[rate_limit(name = "response", strategy = "sliding_log", key = "id", qps = 3, window = "4s")]
    async fn response(Path(id): Path<u64>) -> Response {
        format!("order {id}").into_response()
    }

    #[rate_limit(name = "rejected", strategy = "sliding_log", key = "id", qps = 3, window = "4s")]
    async fn rejected(Path(id): Path<u64>) -> Result<String, Rejected> {
        Ok(format!("order {id}"))
    }

    #[rate_limit(name = "result of a response", strategy = "sliding_log", key = "id", qps = 3, window = "4s")]
    async fn result_of_a_response(Path(id): Path<u64>) -> Result<String, Response> {
        Ok(format!("order {id}"))
    }

    #[rate_limit(name = "result of axum", strategy = "sliding_log", key = "id", qps = 3, window = "4s")]
    async fn result_of_axum(Path(id): Path<u64>) -> axum::response::Result<String> {
        Ok(format!("order {id}"))
    }

    #[rate_limit(name = "app error", strategy = "sliding_log", key = "id", qps = 3, window = "4s")]
    async fn app_error(Path(id): Path<u64>) -> Result<String, AppError> {
        if id == 0 { Err(AppError::NoOrder) } else { Ok(format!("order {id}")) }
    }

    enum AppError {
        NoOrder,
        Busy(Rejected),
    }

    impl From<Rejected> for AppError {
        fn from(why: Rejected) -> Self {
            Self::Busy(why)
        }
    }

    impl IntoResponse for AppError {
        fn into_response(self) -> Response {
            match self {
                Self::NoOrder => StatusCode::NOT_FOUND.into_response(),
                Self::Busy(why) => why.into_response(),
            }
        }
    }

    #[rate_limit(
        name = "fallback",
        strategy = "sliding_log",
        key = "id",
        qps = 3,
        window = "4s",
        fallback = "busy"
    )]
    async fn fallback(Path(id): Path<u64>) -> impl IntoResponse {
        format!("order {id}")
    }

    async fn busy(Path(id): Path<u64>, why: Rejected) -> String {
        format!("{id} waits {:?}", why.retry_after())
    }

    fn router() -> Router {
        Router::new()
            .route("/response/{id}", get(response))
            .route("/rejected/{id}", get(rejected))
            .route("/result%20of%20a%20response/{id}", get(result_of_a_response))
            .route("/result%20of%20axum/{id}", get(result_of_axum))
            .route("/app%20error/{id}", get(app_error))
            .route("/fallback/{id}", get(fallback))
    }

    #[tokio::test]
    async fn a_rejected_handler_answers_by_itself() {
        let (mut client, clock) = client(router()).await;
        for name in ["response", "rejected", "result of a response", "result of axum", "app error"] {
            let path = format!("/{}/7", name.replace(' ', "%20"));
            for _ in 0..3 {
                let reply = client.get(&path).await;
                assert_eq!((reply.status, &*reply.body), (200, "order 7"), "{name}");
                assert_eq!(reply.field("ratelimit"), None, "nobody asked for fields on success");
            }
            clock.advance(Duration::from_millis(2500));
            assert_eq!(client.get(&path).await.rejected_by(name, 3, 4), 2, "1.5 seconds, rounded up");
            assert_eq!(client.get(&path.replace('7', "8")).await.status, 200, "{name}: another key");
            clock.advance(Duration::from_secs(2));
            assert_eq!(client.get(&path).await.status, 200, "{name}: a client that waited");
        }
    }

    #[tokio::test]
    async fn a_fallback_and_an_error_of_the_body_answer_as_they_like() {
        let (mut client, _) = client(router()).await;
        assert_eq!(client.get("/app%20error/0").await.status, 404);
        for _ in 0..3 {
            assert_eq!(client.get("/fallback/7").await.body, "order 7");
        }
        let reply = client.get("/fallback/7").await;
        assert_eq!((reply.status, &*reply.body), (200, "7 waits Some(4s)"));
    }

    #[rate_limit(name = "denied", qps = 3, on_error = "deny")]
    async fn denied() -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(name = "costly", strategy = "token_bucket", qps = 3, window = "4s", cost = "n")]
    async fn costly(Path(n): Path<u64>) -> Result<(), Rejected> {
        Ok(())
    }

    #[tokio::test]
    async fn what_waiting_does_not_help_says_so() {
        // A server that never says a word.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", silent.local_addr().unwrap());
        let nowhere = RedisLimiter::builder(&url).connect_lazy().unwrap();
        let router = Router::new().route("/denied", get(denied)).layer(RateLimitFields::new().x_rate_limit());
        let mut client = Client::connect(serve(router, nowhere).await).await;
        let reply = client.get("/denied").await;
        assert_eq!((reply.status, reply.retry_after()), (503, None));
        assert_eq!(reply.policies(), [item("denied", &[("q", 3), ("w", 1)])]);
        assert_eq!(reply.limits(), [], "nobody knows how it stands");
        assert_eq!(reply.field("x-ratelimit-remaining"), None);
        assert_eq!(reply.json()["status"], 503);

        let (mut client, _) = super::client(Router::new().route("/costly/{n}", get(costly))).await;
        let reply = client.get("/costly/4").await;
        assert_eq!((reply.status, reply.retry_after()), (429, None));
        assert_eq!(reply.limits(), [item("costly", &[("r", 3), ("t", 0)])]);
    }
}

mod fields {
    use super::*;

    #[rate_limit(name = "shallow", strategy = "fixed_window", key = "user", qps = 2, window = "10s")]
    async fn shallow(Path(user): Path<String>) -> Result<String, Rejected> {
        // Fields are those of the whole request, also of its parts that take turns.
        let (one, other) = tokio::join!(deep(&user), async {
            tokio::task::yield_now().await;
            deeper().await
        });
        one?;
        other?;
        Ok(user)
    }

    #[rate_limit(name = "deep", strategy = "fixed_window", key = "user", qps = 5, window = "1m")]
    async fn deep(user: &str) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(name = "deeper", strategy = "token_bucket", limits = ["10/s", "100/m"])]
    async fn deeper() -> Result<(), Rejected> {
        only_tried().await?;
        free(true).await
    }

    #[rate_limit(qps = 1, mode = "shadow")]
    async fn only_tried() -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(qps = 1, unless = "exempt")]
    async fn free(exempt: bool) -> Result<(), Rejected> {
        assert!(exempt);
        Ok(())
    }

    fn router() -> Router {
        Router::new()
            .route("/{user}", get(shallow))
            .route("/by/hand", get(by_hand))
            .route("/no/limit", get(|| async { "free" }))
    }

    /// A limit that is not an annotation.
    async fn by_hand() -> Result<(), Rejected> {
        let rule = Rule::new("by hand", Strategy::FixedWindow, Quota::new(1, Duration::from_secs(9)));
        let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
        for _ in 0..2 {
            let decision = limiter.check(&rule, "x", 1).await;
            limiter::web::met(&rule, &decision);
        }
        deep("x").await
    }

    #[tokio::test]
    async fn every_limit_that_a_request_met_is_shown() {
        let (mut client, clock) = client(router().layer(RateLimitFields::new())).await;
        let reply = client.get("/alice").await;
        assert_eq!((reply.status, &*reply.body), (200, "alice"));
        let policies = [
            item("shallow", &[("q", 2), ("w", 10)]),
            item("deep", &[("q", 5), ("w", 60)]),
            item("deeper 10/1s", &[("q", 10), ("w", 1)]),
            item("deeper 100/1m", &[("q", 100), ("w", 60)]),
        ];
        assert_eq!(reply.policies(), policies);
        let limits = [
            item("shallow", &[("r", 1), ("t", 10)]),
            item("deep", &[("r", 4), ("t", 60)]),
            item("deeper 10/1s", &[("r", 9), ("t", 1)]),
            item("deeper 100/1m", &[("r", 9), ("t", 1)]),
        ];
        assert_eq!(reply.limits(), limits);
        assert!(reply.fields.iter().all(|(name, _)| !name.starts_with("x-")), "nobody asked for them");

        client.get("/alice").await;
        clock.advance(Duration::from_secs(3));
        assert_eq!(client.get("/alice").await.rejected_by("shallow", 2, 10), 7);

        let reply = client.get("/no/limit").await;
        assert_eq!((reply.policies(), reply.limits()), (Vec::new(), Vec::new()));
    }

    #[tokio::test]
    async fn a_rejection_deep_below_is_shown_with_all_else() {
        let (mut client, clock) = client(router().layer(RateLimitFields::new().x_rate_limit())).await;
        for _ in 0..2 {
            client.get("/by/hand").await;
        }
        for _ in 0..3 {
            let reply = client.get("/by/hand").await;
            assert_eq!(reply.status, 200);
            assert_eq!(reply.limits()[0], item("by hand", &[("r", 0), ("t", 9)]), "the worse of two");
            assert_eq!(reply.field("x-ratelimit-limit"), Some("1"));
        }
        clock.advance(Duration::from_secs(45));
        let reply = client.get("/by/hand").await;
        assert_eq!((reply.status, reply.retry_after()), (429, Some(15)));
        assert_eq!(reply.json()["violated-policies"], serde_json::json!(["deep"]));
        let limits = [item("by hand", &[("r", 0), ("t", 9)]), item("deep", &[("r", 0), ("t", 15)])];
        assert_eq!(reply.limits(), limits);
    }

    #[tokio::test]
    async fn x_rate_limit_tells_of_the_tightest() {
        let (mut client, clock) = client(router().layer(RateLimitFields::new().x_rate_limit())).await;
        let x = |reply: &limiter_web_tests::Reply| {
            ["limit", "remaining", "reset"]
                .map(|name| reply.field(&format!("x-ratelimit-{name}")).expect("a field").to_owned())
        };
        assert_eq!(x(&client.get("/alice").await), ["2", "1", "10"]);
        client.get("/alice").await;
        clock.advance(Duration::from_secs(4));
        assert_eq!(x(&client.get("/alice").await), ["2", "0", "6"]);
    }

    #[tokio::test]
    async fn a_layer_within_a_layer_hides_nothing() {
        let inner = router().layer(RateLimitFields::new());
        let around = |request: Request, next: Next| async move {
            deep("around").await?;
            Ok::<_, Rejected>(next.run(request).await)
        };
        let router = inner.layer(from_fn(around)).layer(RateLimitFields::new());
        let (mut client, _) = client(router).await;
        let names: Vec<_> = client.get("/alice").await.limits().into_iter().map(|item| item.0).collect();
        assert_eq!(names, ["deep", "shallow", "deeper 10/1s", "deeper 100/1m"]);
    }

    const ODD: &str = "a \"b\" \\ ü\u{2028}, c;q=9";

    #[rate_limit(name = "a \"b\" \\ ü\u{2028}, c;q=9", key = "name", qps = 1, window = "4s")]
    async fn odd(Path(name): Path<String>) -> Result<String, Rejected> {
        Ok(name)
    }

    #[tokio::test]
    async fn no_name_and_no_key_breaks_a_field() {
        let router = Router::new().route("/{name}", get(odd)).layer(RateLimitFields::new());
        let (mut client, _) = client(router).await;
        let path = "/%0D%0Ax-forged:%201%22%5C%00%C3%BC";
        let reply = client.get(path).await;
        let name = "a \"b\" \\ %C3%BC%E2%80%A8, c;q=9";
        assert_eq!((reply.status, reply.limits().len()), (200, 1));
        assert_eq!(client.get(path).await.rejected_by(name, 1, 4), 4);
        let reply = client.get(path).await;
        assert_eq!(reply.field("x-forged"), None);
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("{ODD:?}")) && !detail.contains("forged"), "{detail}");
    }
}

mod keys {
    use super::*;

    #[derive(Deserialize)]
    struct Filter {
        user: String,
    }

    #[derive(Deserialize)]
    struct Order {
        user: Option<String>,
        items: Vec<u32>,
    }

    #[derive(Clone)]
    struct User {
        id: u64,
    }

    #[rate_limit(key = "q.user", qps = 1, window = "1h")]
    async fn by_query(Query(q): Query<Filter>) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(
        key = "order.user",
        cost = "order.items.len()",
        strategy = "token_bucket",
        qps = 2,
        window = "1h"
    )]
    async fn by_json(Json(order): Json<Order>) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(key = "addr.ip()", qps = 1, window = "1h")]
    async fn by_peer(ConnectInfo(addr): ConnectInfo<SocketAddr>) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(key = "headers.get(\"x-api-key\").map(HeaderValue::as_bytes)", qps = 1, window = "1h")]
    async fn by_header(headers: HeaderMap) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(key = "user.id", qps = 1, window = "1h")]
    async fn by_extension(Extension(user): Extension<User>) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(key = (tenant, id), qps = 1, window = "1h")]
    async fn by_two(Path((tenant, id)): Path<(String, u64)>) -> Result<(), Rejected> {
        Ok(())
    }

    #[rate_limit(key = "client", qps = 2, window = "1h")]
    async fn by_client(client: ClientAddress) -> Result<String, Rejected> {
        Ok(client.to_string())
    }

    async fn identify(mut request: Request, next: Next) -> Response {
        let id = request.headers().get("x-user").and_then(|id| id.to_str().ok()?.parse().ok());
        request.extensions_mut().insert(User { id: id.unwrap_or_default() });
        next.run(request).await
    }

    fn router() -> Router {
        Router::new()
            .route("/query", get(by_query))
            .route("/json", post(by_json))
            .route("/peer", get(by_peer))
            .route("/header", get(by_header))
            .route("/extension", get(by_extension))
            .route("/two/{tenant}/{id}", get(by_two))
            .route("/client", get(by_client))
            .layer(from_fn(identify))
    }

    #[tokio::test]
    async fn extractors_are_keys() {
        let (mut client, _) = client(router()).await;
        let mut statuses = Vec::new();
        for path in ["/query?user=alice", "/query?user=bob", "/query?user=alice"] {
            statuses.push(client.get(path).await.status);
        }
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
        for path in ["/two/acme/1", "/two/acme/2", "/two/acme/1"] {
            statuses.push(client.get(path).await.status);
        }
        assert_eq!(statuses, [200, 200, 429].repeat(5));
        assert_eq!(client.get("/peer").await.status, 200);
        assert_eq!(client.get("/peer").await.status, 429, "the peer is known, whatever its port");
    }

    #[tokio::test]
    async fn a_forged_address_changes_nothing() {
        let everywhere = [("x-forwarded-for", "203.0.113.1"), ("forwarded", "for=203.0.113.2")];
        let trusting_others = TrustedProxies::x_forwarded_for(["10.0.0.0/8"]).unwrap();
        for router in [router(), router().layer(Extension(trusting_others))] {
            let (mut client, _) = client(router).await;
            for status in [200, 200, 429] {
                let reply = client.get_with("/client", &everywhere).await;
                assert_eq!(reply.status, status);
                assert!(status == 429 || reply.body == "127.0.0.1", "{}", reply.body);
            }
        }
    }

    #[tokio::test]
    async fn a_trusted_proxy_is_believed_in_the_field_that_it_writes() {
        for (proxies, field, [alice, bob]) in [
            (TrustedProxies::x_forwarded_for(["127.0.0.1"]), "x-forwarded-for", ["192.0.2.1", "192.0.2.2"]),
            (TrustedProxies::forwarded(["127.0.0.1"]), "forwarded", ["for=192.0.2.1", "for=192.0.2.2"]),
        ] {
            let other = if field == "forwarded" { "x-forwarded-for" } else { "forwarded" };
            let (mut client, _) = client(router().layer(Extension(proxies.unwrap()))).await;
            // What stands before the proxy's word was sent by the client, and so was the other field.
            for forged in ["198.51.100.1", "for=198.51.100.2", "\"", "unknown"] {
                let reply =
                    client.get_with("/client", &[(field, forged), (field, alice), (other, forged)]).await;
                assert!(reply.status == 429 || reply.body == "192.0.2.1", "{}", reply.body);
            }
            assert_eq!(client.get_with("/client", &[(field, alice)]).await.status, 429);
            assert_eq!(client.get_with("/client", &[(field, bob)]).await.body, "192.0.2.2");
        }
    }

    #[tokio::test]
    async fn a_network_of_ipv6_is_one_client() {
        let proxies = TrustedProxies::x_forwarded_for(["127.0.0.1"]).unwrap();
        let (mut client, _) = client(router().layer(Extension(proxies))).await;
        let mut admitted = 0;
        for host in 0..100 {
            let address = format!("2001:db8:0:1:{host:x}::{host:x}");
            let reply = client.get_with("/client", &[("x-forwarded-for", &address)]).await;
            admitted += i32::from(reply.status == 200);
        }
        assert_eq!(admitted, 2, "a flood from one network has the limit of one client");
        let neighbour = [("x-forwarded-for", "2001:db8:0:2::1")];
        assert_eq!(client.get_with("/client", &neighbour).await.status, 200);
    }

    #[tokio::test]
    async fn a_server_that_does_not_know_its_peers_says_what_to_write() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router: Router = Router::new().route("/client", get(by_client));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let reply = Client::connect(address).await.get("/client").await;
        assert_eq!(reply.status, 500);
        assert!(reply.body.contains("into_make_service_with_connect_info"), "{}", reply.body);
    }
}
