//! One attribute gives a function a rate limit.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! struct Person {
//!     id: u64,
//!     name: String,
//! }
//!
//! #[rate_limit(strategy = "sliding_window", key = "id", qps = 3, window = "4s", fallback = "busy")]
//! async fn get_order(p: Person) -> String {
//!     format!("the order of {}", p.name)
//! }
//!
//! async fn busy(p: Person, why: Rejected) -> String {
//!     format!("{}: try again in {:?}", p.name, why.retry_after())
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let alice = || Person { id: 1, name: "alice".into() };
//! # for _ in 0..3 { assert_eq!(get_order(alice()).await, "the order of alice"); }
//! # assert!(get_order(alice()).await.starts_with("alice: try again in Some("));
//! # assert_eq!(get_order(Person { id: 2, name: "bob".into() }).await, "the order of bob");
//! # }
//! ```
//!
//! Each person may ask three times in any four seconds. A fourth call does not run the body: `busy` answers, with the
//! same arguments and the reason. Nothing has to be set up.
//!
//! This page leads through all of it:
//! [the first limit](#the-first-limit),
//! [the key](#whose-limit-it-is-the-key),
//! [rejected calls](#rejected-calls),
//! [strategies](#strategies),
//! [waiting](#waiting),
//! [cost](#cost),
//! [several quotas](#several-quotas),
//! [methods, traits and functions that are not async](#methods-traits-functions-that-are-not-async),
//! [shadow mode](#trying-a-limit-out-shadow-mode),
//! [seeing what happens](#seeing-what-happens),
//! [testing](#testing),
//! [without the macro](#without-the-macro),
//! [who answers](#who-answers),
//! [a fleet](#a-fleet),
//! [a web service](#a-web-service),
//! [memory](#memory),
//! [all options](#all-options).
//!
//! # The first limit
//!
//! How many calls, in how long. Without a `window` it is one second; without a `key` the whole function has one limit;
//! without a `fallback` the return type says that a call was rejected.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! #[rate_limit(qps = 2, window = "1m")]
//! async fn report() -> Result<&'static str, Rejected> {
//!     Ok("all is well")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! assert!(report().await.is_ok());
//! assert!(report().await.is_ok());
//! let why = report().await.unwrap_err();
//! assert_eq!(why.limit(), 2);
//! # }
//! ```
//!
//! A mistake in the attribute is a compile error at the word that is wrong, and it says what to write instead:
//!
//! ```compile_fail
//! # use limiter::{Rejected, rate_limit};
//! #[rate_limit(qps = 2, windw = "1m")] // unknown option "windw"; did you mean "window"?
//! async fn report() -> Result<&'static str, Rejected> {
//!     Ok("all is well")
//! }
//! ```
//!
//! # Whose limit it is: the key
//!
//! A name is a parameter, also one inside of a pattern; where the function has only one parameter, it is else a field of
//! that. Anything longer is an expression over the parameters. It is read before the body starts, and only borrowed.
//!
//! ```
//! use limiter::{LimitKey, rate_limit};
//! # struct Person { id: u64 }
//! # struct Path<T>(T);
//!
//! #[rate_limit(key = "id", qps = 3)] // p.id
//! async fn by_field(p: Person) -> Option<()> { Some(()) }
//!
//! #[rate_limit(key = "id", qps = 3)] // the id in the pattern
//! async fn by_pattern(Path(id): Path<u64>) -> Option<u64> { Some(id) }
//!
//! #[rate_limit(key = (tenant, p.id), qps = 3)]
//! async fn by_tuple(tenant: &str, p: Person) -> Option<()> { Some(()) }
//!
//! #[rate_limit(key = "email.to_lowercase()", qps = 3)]
//! async fn by_expression(email: &str) -> Option<()> { Some(()) }
//!
//! #[derive(LimitKey)]
//! enum Caller {
//!     User { tenant: String, id: u64 },
//!     Guest(std::net::IpAddr),
//! }
//!
//! #[rate_limit(key = caller, qps = 3)]
//! async fn by_own_type(caller: Caller) -> Option<()> { Some(()) }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # assert!(by_field(Person { id: 1 }).await.is_some());
//! # assert!(by_pattern(Path(1)).await.is_some());
//! # assert!(by_tuple("acme", Person { id: 1 }).await.is_some());
//! # assert!(by_expression("a@b.org").await.is_some());
//! # assert!(by_own_type(Caller::User { tenant: "acme".into(), id: 1 }).await.is_some());
//! # assert!(by_own_type(Caller::Guest([127, 0, 0, 1].into())).await.is_some());
//! # }
//! ```
//!
//! Keys are integers, `bool`, `char`, strings, byte strings, addresses, `Option`, references, smart pointers, tuples and
//! arrays of these, `Uuid` with the feature `uuid`, and your own types by [`derive@LimitKey`]. Two different keys never
//! become one: `("ab", "c")` is not `("a", "bc")`, and an IPv4 address is not its IPv6 form (`ip.to_canonical()` makes them
//! one). The types of a generic function share its limit, unless the key tells them apart. See [`trait@LimitKey`].
//!
//! # Rejected calls
//!
//! A `fallback` gets the arguments of the call, and a [`Rejected`] as the last one. It may be async or not, a function, a
//! path to one, or `Self::method`. It is called for rejected calls only, never for an error of the body. One that never
//! returns (`-> !`) is async where the function is.
//!
//! Without a fallback the return type answers, by [`FromRejected`]: `Option<T>` with `None`, `Result<T, E>` with an error
//! that is made from the `Rejected`, your own types with what you say.
//!
//! ```
//! use limiter::{FromRejected, Reason, Rejected, rate_limit};
//!
//! #[rate_limit(qps = 1, window = "1m")]
//! async fn order() -> Result<&'static str, ShopError> {
//!     Ok("ordered")
//! }
//!
//! #[derive(Debug)]
//! enum ShopError {
//!     SoldOut,
//!     Busy(Rejected),
//! }
//!
//! impl From<Rejected> for ShopError {
//!     fn from(why: Rejected) -> Self {
//!         Self::Busy(why)
//!     }
//! }
//!
//! #[rate_limit(qps = 1, window = "1m")]
//! async fn status() -> Status {
//!     Status(200)
//! }
//!
//! struct Status(u16);
//!
//! impl FromRejected for Status {
//!     fn from_rejected(_: Rejected) -> Self {
//!         Self(429)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # order().await.unwrap();
//! # status().await;
//! let ShopError::Busy(why) = order().await.unwrap_err() else { panic!("there is enough for all") };
//! assert_eq!(why.reason(), Reason::Exceeded);
//! assert!(why.retry_after().is_some()); // exactly then, unless somebody else comes first
//! assert_eq!(status().await.0, 429);
//! # }
//! ```
//!
//! A `Rejected` is an error whose text never holds the key: it can be logged and shown.
//!
//! # Strategies
//!
//! | strategy | its promise | take it for |
//! | --- | --- | --- |
//! | `sliding_window` | at most `qps` in *any* interval of one window; a permit comes back at most one sample late | most limits: it is the default |
//! | `sliding_log` | at most `qps` in *any* interval of one window; a permit comes back exactly one window later | few permits that must be exact; its memory grows with `qps` |
//! | `fixed_window` | at most `qps` in each window; a key's window starts with its first call | allowances per day or hour, where two windows may meet |
//! | `token_bucket` | in any interval of length t at most `burst + t * qps / window` | a steady rate with bursts |
//! | `leaky_bucket` | the bucket holds `burst` and drains `qps` per window; a call that would overflow it is rejected | an even flow: with `burst = 1` and `wait`, calls leave evenly spaced |
//!
//! `sliding_window` cuts its window into `samples` samples, 10 unless told otherwise. Rejected calls take nothing, in any
//! of them: who calls too often is not kept out for longer. See [`Strategy`].
//!
//! # Waiting
//!
//! With `wait` a call waits for its turn instead of being rejected, up to that time. One that would have to wait longer is
//! rejected at once. Turns are given in the order of asking; nobody overtakes. If the future of a call that waits is
//! dropped, its permit stays spent, and its turn with it. The promises hold for turns: the body starts when tokio's timer
//! fires, up to a millisecond later.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! #[rate_limit(strategy = "leaky_bucket", qps = 50, burst = 1, wait = "1s")]
//! async fn send_mail() -> Result<(), Rejected> {
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let start = std::time::Instant::now();
//! for _ in 0..3 {
//!     send_mail().await.unwrap();
//! }
//! assert!(start.elapsed().as_millis() >= 40); // they left 20 ms apart
//! # }
//! ```
//!
//! # Cost
//!
//! A call takes one permit, or its `cost`: a number, or an expression over the arguments of any integer type. Where
//! `unless` is true the call is not limited, and not counted.
//!
//! ```
//! use limiter::{Reason, Rejected, rate_limit};
//!
//! #[rate_limit(strategy = "token_bucket", qps = 100, window = "1m", cost = "rows.len()", unless = "internal")]
//! async fn import(rows: Vec<u32>, internal: bool) -> Result<usize, Rejected> {
//!     Ok(rows.len())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! assert!(import(vec![0; 70], false).await.is_ok());
//! assert_eq!(import(vec![0; 70], false).await.unwrap_err().reason(), Reason::Exceeded);
//! assert_eq!(import(vec![0; 101], false).await.unwrap_err().reason(), Reason::TooCostly);
//! assert!(import(vec![0; 500], true).await.is_ok());
//! # }
//! ```
//!
//! # Several quotas
//!
//! `limits` instead of `qps` and `window`: a call passes all of them, or takes from none.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! #[rate_limit(key = "user", limits = ["3/s", "100/m", "1000/1d"])]
//! async fn search(user: &str) -> Result<(), Rejected> {
//!     Ok(())
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # for _ in 0..3 { search("alice").await.unwrap(); }
//! # assert_eq!(search("alice").await.unwrap_err().limit(), 3);
//! # }
//! ```
//!
//! Where the limits have different keys, write several attributes. They are checked in the order written, and a call that
//! a later one rejects keeps what it has taken from the earlier ones, so put the one that rejects most often first.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! #[rate_limit(key = "user", qps = 3)]
//! #[rate_limit(key = "tenant", qps = 100)]
//! async fn search(tenant: u32, user: u64) -> Result<(), Rejected> {
//!     Ok(())
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # for _ in 0..3 { search(1, 1).await.unwrap(); }
//! # assert_eq!(search(1, 1).await.unwrap_err().limit(), 3);
//! # }
//! ```
//!
//! # Methods, traits, functions that are not async
//!
//! The signature and the body stay as you wrote them, so the attribute goes on methods, on the functions of a trait's
//! implementation, on generic functions, and together with `async_trait`. A function that is not async says
//! `store = "local"`, because a shared limiter can only be asked by waiting for its answer; it cannot `wait`.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! struct Shop {
//!     tenant: String,
//! }
//!
//! impl Shop {
//!     #[rate_limit(key = "self.tenant", qps = 3, fallback = "Self::closed")]
//!     async fn look(&self, user: &str) -> String {
//!         format!("{user} looks around")
//!     }
//!
//!     fn closed(&self, user: &str, _: Rejected) -> String {
//!         format!("{user} waits outside of {}", self.tenant)
//!     }
//!
//!     #[rate_limit(key = "self.tenant", qps = 3, store = "local")]
//!     fn price(&self) -> Option<u32> {
//!         Some(10)
//!     }
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let shop = Shop { tenant: "acme".into() };
//! # assert_eq!(shop.look("alice").await, "alice looks around");
//! # for _ in 0..2 { shop.look("alice").await; }
//! # assert_eq!(shop.look("alice").await, "alice waits outside of acme");
//! # assert_eq!(shop.price(), Some(10));
//! # }
//! ```
//!
//! [`expansion`] shows what the attribute writes in front of a body.
//!
//! A limit is called after its module and its function, such as `shop::orders::look`. Two of one name in a program, such
//! as the `look` of two types in one module, are a mistake: [`sites`] and the first call of any annotated function panic,
//! and name both places. Give one of them a `name`. Functions of one name that one call of a macro writes, such as a method
//! for each of several types, stand at the same place and are taken for one: hand each a `name`, or they share a limit.
//!
//! # Trying a limit out: shadow mode
//!
//! With `mode = "shadow"` every call runs, and runs at once; what would have been rejected is only counted. With
//! `decision` the body can read the [`Decision`].
//!
//! ```
//! use limiter::rate_limit;
//!
//! #[rate_limit(qps = 1, window = "1m", mode = "shadow", fallback = "busy", decision = d)]
//! async fn get_order() -> String {
//!     format!("allowed: {}, remaining: {}", d.is_allowed(), d.remaining())
//! }
//!
//! async fn busy(_: limiter::Rejected) -> String {
//!     "not yet in use".into()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! assert_eq!(get_order().await, "allowed: true, remaining: 0");
//! assert_eq!(get_order().await, "allowed: false, remaining: 0");
//! # }
//! ```
//!
//! # Seeing what happens
//!
//! [`sites`] lists every annotated function of the program, called or not, with its rule, its place in the source, and
//! how its calls fared.
//!
//! ```
//! # #[limiter::rate_limit(qps = 1)] async fn order() -> Option<()> { Some(()) }
//! for site in limiter::sites() {
//!     let counts = site.counts();
//!     println!("{} at {}: {:?}", site.rule().name(), site.place(), site.rule().quotas());
//!     println!("{} passed, {} rejected, {} waited", counts.passed, counts.rejected, counts.waited);
//! }
//! # assert!(limiter::sites().iter().any(|site| site.rule().name().ends_with("::order")));
//! ```
//!
//! # Testing
//!
//! A [`ManualClock`] stands still until the test moves it, and [`scope`] gives a future a limiter of its own. So tests
//! neither sleep nor meet each other.
//!
//! ```
//! use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit};
//! use std::time::Duration;
//!
//! #[rate_limit(key = "user", qps = 3, window = "4s")]
//! async fn get_order(user: &str) -> Result<String, Rejected> {
//!     Ok(format!("the order of {user}"))
//! }
//!
//! # /*
//! #[tokio::test]
//! # */
//! async fn three_orders_in_four_seconds() {
//!     let clock = ManualClock::new();
//!     let limiter = LocalLimiter::builder().clock(clock.clone()).build();
//!     limiter::scope(limiter, async {
//!         for _ in 0..3 {
//!             assert!(get_order("alice").await.is_ok());
//!         }
//!         let why = get_order("alice").await.unwrap_err();
//!         assert_eq!(why.retry_after(), Some(Duration::from_secs(4)));
//!
//!         clock.advance(Duration::from_secs(4));
//!         assert!(get_order("alice").await.is_ok());
//!     })
//!     .await;
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() { three_orders_in_four_seconds().await }
//! ```
//!
//! Calls that wait go on when the clock is moved to their turn: advance it beside the call, with `tokio::join!`.
//! Functions that are not async are tested in [`scope_sync`]. A task that the future spawns is outside of its scope, and
//! needs one of its own; what counts is where a future is first polled. Limits do not go by tokio's paused clock. The
//! counts of [`sites`] are those of the process, whatever the scope.
//!
//! # Without the macro
//!
//! For limits that are read while the program runs, or checked in the middle of a function: a [`Rule`], and a
//! [`Limiter`] that is asked.
//!
//! ```
//! use limiter::{Limiter, LocalLimiter, Quota, Rule, Strategy};
//! use std::time::Duration;
//!
//! // A constant; a quota of 0 does not compile.
//! const LOGIN: Rule = Rule::new("login", Strategy::SlidingLog, Quota::new(5, Duration::from_secs(60)));
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = LocalLimiter::new();
//! let decision = limiter.check(&LOGIN, "alice", 1).await; // takes a permit, or says no
//! assert!(decision.is_allowed());
//! assert_eq!(limiter.peek(&LOGIN, "alice").await.remaining(), 4); // takes nothing
//! limiter.reset(&LOGIN, "alice").await; // gives all permits back
//! let decision = limiter.check_sync(&LOGIN, "alice", 1).into_result(&LOGIN)?; // not async, and as a `Result`
//! assert_eq!(decision.remaining(), 4);
//!
//! // Read while the program runs; what is unusable is a typed error.
//! let upload = Rule::try_new("upload", Strategy::TokenBucket, ["100/s".parse::<Quota>()?.burst(1)])?;
//! for _ in 0..2 {
//!     let decision = limiter.acquire(&upload, &("acme", 7), 1, Duration::from_secs(1)).await; // waits for its turn
//!     assert!(decision.is_allowed());
//! }
//! # Ok(()) }
//! ```
//!
//! # Who answers
//!
//! An annotated function asks the limiter of its [`scope`]; where there is none the one that [`install`] made known, once
//! per process; and where there is none either, a [`LocalLimiter`] of this process. With `store = "local"` it is always
//! answered in this process. `on_error` says who answers when a limiter that is shared by several processes cannot.
//!
//! # A fleet
//!
//! With the feature `redis`, one line when the program starts, and every annotated function shares its limits with all
//! other instances, on Redis or Valkey:
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! limiter::install(limiter::RedisLimiter::connect("redis://localhost").await?)?;
//! # Ok(()) }
//! ```
//!
//! Addresses: `redis://user:password@host:6379/0`, `rediss://host` with the feature `tls`, `unix:///path/to/socket`,
//! `redis+sentinel://host:26379,host:26379/name`, `redis+cluster://host:6379,host:6379`.
//!
//! `store = "local"` beside it: a limit for each instance.
//!
//! ```
//! use limiter::{Rejected, rate_limit};
//!
//! #[rate_limit(key = "user", qps = 3, on_error = "deny")] // three in the whole fleet
//! async fn get_order(user: &str) -> Result<(), Rejected> {
//!     Ok(())
//! }
//!
//! #[rate_limit(key = "user", qps = 3, store = "local")] // three in each instance
//! async fn get_price(user: &str) -> Result<(), Rejected> {
//!     Ok(())
//! }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # get_order("alice").await.unwrap();
//! # get_price("alice").await.unwrap();
//! # }
//! ```
//!
//! A decision is one script call by the server's clock. A key that is known to be over its limit is rejected without
//! asking. When the server does not answer in time, 50 ms unless told otherwise, `on_error` does: `"local"` (the same rule,
//! in each instance by itself), `"allow"`, or `"deny"`. [`Decision::decided_by`] says who decided. On the server,
//! `limiter:{name:key}:strategy` is the state of a key, and lives until all its permits are back. Calls with `wait` get their turns
//! in the order in which they reach the server.
//!
//! # A web service
//!
//! With the features `axum`, `actix-web` and `tonic` a [`Rejected`] is an answer: 429 with `Retry-After`, the fields
//! `RateLimit` and `RateLimit-Policy` of the IETF draft and a problem body; 503 where the limit could not be checked; in
//! gRPC `RESOURCE_EXHAUSTED` with `RetryInfo`. Handlers may return `Response` or `HttpResponse`, `Result<_, Rejected>`,
//! `Result<_, E>` with your own error, or anything at all with a fallback.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! # use limiter::__private::axum;
//! use axum::{Extension, Router, extract::Path, response::Response, routing::get};
//! use limiter::web::{ClientAddress, RateLimitFields, TrustedProxies};
//! use limiter::{Rejected, rate_limit};
//!
//! #[rate_limit(key = "id", qps = 3, window = "4s")]
//! async fn order(Path(id): Path<u64>) -> Response {
//!     Response::new(format!("order {id}").into())
//! }
//!
//! #[rate_limit(key = "client", qps = 5, window = "1m")]
//! async fn login(client: ClientAddress) -> Result<String, Rejected> {
//!     Ok(format!("hello {client}"))
//! }
//!
//! let shop: Router = Router::new()
//!     .route("/order/{id}", get(order))
//!     .route("/login", get(login))
//!     .layer(RateLimitFields::new())
//!     .layer(Extension(TrustedProxies::x_forwarded_for(["10.0.0.0/8"]).unwrap()));
//! # }
//! ```
//!
//! `RateLimitFields` shows on every response all limits that its request met. `ClientAddress` is who calls, as a key: the
//! peer, or whom proxies speak for that are trusted. See `limiter::web`.
//!
//! With the feature `tracing` there is an event for each rejection, and a span around each wait, under the target
//! `limiter`; `trace_keys` adds the key, which is else not shown. With the feature `metrics` there are counters, histograms
//! and a gauge for each limit; `describe_metrics` lists them.
//!
//! # Memory
//!
//! A [`LocalLimiter`] holds at most [`max_keys`](LocalLimiterBuilder::max_keys) keys for each rule, 1,000,000 unless told
//! otherwise. A key that has all its permits back is idle and makes room for others, without a background thread. Where
//! no idle key is found, new keys share one state until there is room. So a flood of keys can neither grow memory past
//! the bound nor reset anybody's limit.
//!
//! ```
//! # fn main() -> Result<(), limiter::AlreadyInstalled> {
//! limiter::install(limiter::LocalLimiter::builder().max_keys(10_000).build())?;
//! # Ok(()) }
//! ```
//!
//! # All options
//!
//! Every option may be written quoted or bare: `key = "p.id"`, `key = p.id`.
//!
//! | option | meaning | default |
//! | --- | --- | --- |
//! | `name` | the limit's name; no other limit in the program may have it | module path and function name |
//! | `strategy` | [one of five](#strategies) | `sliding_window` |
//! | `key` | [whose limit it is](#whose-limit-it-is-the-key) | the whole function has one limit |
//! | `qps` | permits per window, a constant expression above 0 | required, or `limits` |
//! | `window` | `"250ms"`, `"4s"`, `"1m"`, `"1h"`, `"1d"` | `"1s"` |
//! | `limits` | [several quotas](#several-quotas), `["3/s", "100/m", "1000/1d"]` | |
//! | `burst` | the capacity of `token_bucket` and `leaky_bucket` | `qps` |
//! | `samples` | into how many samples `sliding_window` cuts its window | 10 |
//! | `cost` | [permits that one call takes](#cost): a number, or an expression over the arguments | 1 |
//! | `wait` | [how long a call may wait](#waiting) for its turn instead of being rejected | it does not wait |
//! | `fallback` | [who answers for a rejected call](#rejected-calls) | the return type |
//! | `store` | `"local"`: this process alone, [whatever is installed](#who-answers) | the installed limiter |
//! | `on_error` | when the shared limiter cannot answer: `"local"` (the same rule, in this process), `"allow"`, `"deny"` | `"local"` |
//! | `unless` | an expression over the arguments; where it is true the call is not limited | |
//! | `mode` | `"enforce"`, or [`"shadow"`](#trying-a-limit-out-shadow-mode): decide and count, but let every call through | `"enforce"` |
//! | `decision` | a name under which the body can read the [`Decision`] that let it in | |
//! | `crate` | the path to this crate, where it is renamed or re-exported: `crate = "shop::limiter"` | `::limiter` |

#[cfg(feature = "metrics")]
pub use limiter_core::describe_metrics;
#[cfg(feature = "tracing")]
pub use limiter_core::trace_keys;
#[cfg(any(feature = "actix-web", feature = "axum", feature = "tonic"))]
pub use limiter_core::web;
pub use limiter_core::{
    AlreadyInstalled, Answer, Call, Clock, Cost, Counts, DecidedBy, Decision, FromRejected, Key, LimitKey,
    Limiter, LocalLimiter, LocalLimiterBuilder, ManualClock, OnError, Place, Quota, QuotaError, Reason,
    Rejected, Rule, RuleError, Site, Strategy, SystemClock, install, scope, scope_sync, sites,
};
#[cfg(feature = "redis")]
pub use limiter_core::{ConnectError, Health, RedisLimiter, RedisLimiterBuilder};
pub use limiter_macros::{LimitKey, rate_limit};

#[doc(hidden)]
pub use limiter_core::private as __private;

#[cfg(doc)]
#[doc = include_str!("expansion.md")]
pub mod expansion {}

/// The code of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
