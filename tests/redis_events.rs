//! What those who run a service are told: each change of a server once, with its reason; what a server has against the
//! calls of a limit, by the name of the limit. Never a key, never a password, never a flood.

#![cfg(all(feature = "redis", feature = "tracing"))]

mod support;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use limiter::{DecidedBy, Quota, RedisLimiter, Rule, Strategy};
use support::history::{History, PATIENT, until};
use support::proxy::{Door, Harm, Proxy};
use support::servers::Server;
use support::shared::{SHORT, limiter};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

const KEY: &str = "kept-to-ourselves";
const RULE: Rule =
    Rule::new("orders", Strategy::FixedWindow, Quota::new(1_000_000, Duration::from_secs(86_400)));

/// Keeps what this crate tells, a line for each event, such as `WARN server=127.0.0.1:1 message`.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl Listener {
    /// All that happens on this thread, which is all of a test: its runtime has no other.
    fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let listener = Self::default();
        let guard = tracing::subscriber::set_default(listener.clone());
        (listener, guard)
    }

    /// What was told since this was last asked. No line holds what is nobody's business.
    fn told(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap());
        for line in &lines {
            assert!(!line.contains(KEY) && !line.contains("secret"), "{line}");
        }
        lines
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("limiter")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

/// What `on_error` is for is told as a warning, and that it is over as information.
fn is(level: Level, line: &str, parts: &[&str]) -> bool {
    line.starts_with(level.as_str()) && parts.iter().all(|part| line.contains(part))
}

/// Calls for a while. All must be degraded.
async fn degraded_for(time: Duration, calls: &History) {
    let start = Instant::now();
    until("some time to pass", async || {
        calls.degraded().await;
        start.elapsed() > time
    })
    .await;
}

#[tokio::test]
async fn each_change_of_a_server_is_told_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (listener, _guard) = Listener::listen();
    let limiter = limiter(&proxy.url(), PATIENT).await;
    let calls = History::new(&limiter, &RULE, KEY, PATIENT);
    let place = proxy.url().replace("redis://", "");
    calls.shared().await;
    // A connection that breaks and is made anew at once is nothing to speak of.
    proxy.reset();
    calls.until(DecidedBy::Shared).await;
    assert_eq!(listener.told(), [""; 0]);
    for _ in 0..3 {
        proxy.door(Door::Slammed);
        proxy.reset();
        calls.until_down().await;
        // Many calls and many attempts to connect later, nothing more was told.
        degraded_for(Duration::from_secs(1), &calls).await;
        let told = listener.told();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(is(Level::WARN, &told[0], &[&place, "why=", "on_error"]), "{told:?}");
        proxy.door(Door::Open);
        calls.until(DecidedBy::Shared).await;
        let told = listener.told();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(is(Level::INFO, &told[0], &[&place, "answers again"]), "{told:?}");
    }
}

#[tokio::test]
async fn calls_that_run_out_of_time_are_the_reason_that_is_told() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (listener, _guard) = Listener::listen();
    let limiter = limiter(&proxy.url(), SHORT).await;
    let calls = History::new(&limiter, &RULE, KEY, SHORT);
    calls.until(DecidedBy::Shared).await;
    listener.told();
    proxy.delay(SHORT * 2);
    calls.until_down().await;
    let told = listener.told();
    assert!(is(Level::WARN, &told[0], &["calls run out of time"]), "{told:?}");
}

/// A login that ends is not just a server that does not answer.
#[tokio::test]
async fn a_login_that_ends_is_told_with_what_the_server_says() {
    let server = Server::start();
    let allow = ["ACL", "SETUSER", "ann", "reset", "on", ">secret", "~*", "+@all"];
    server.cli(&allow);
    let (listener, _guard) = Listener::listen();
    let limiter = limiter(&server.url().replace("redis://", "redis://ann:secret@"), PATIENT).await;
    let calls = History::new(&limiter, &RULE, KEY, PATIENT);
    calls.shared().await;

    server.cli(&["ACL", "SETUSER", "ann", "-evalsha", "-eval"]);
    degraded_for(Duration::from_secs(2), &calls).await;
    a_few_of_the_rule(&listener.told(), "NOPERM");

    server.cli(&["ACL", "SETUSER", "ann", "resetpass", ">other"]);
    server.cli(&["CLIENT", "KILL", "USER", "ann"]);
    calls.until_down().await;
    degraded_for(Duration::from_secs(1), &calls).await;
    let told = listener.told();
    let down: Vec<&String> = told.iter().filter(|line| is(Level::WARN, line, &["server="])).collect();
    assert_eq!(down.len(), 1, "{told:?}");
    assert!(down[0].contains("authentication failed"), "{told:?}");
    server.cli(&allow);
    calls.until(DecidedBy::Shared).await;
}

/// At least one line, and at most one for each second, names the rule and what the server says.
fn a_few_of_the_rule(told: &[String], code: &str) {
    let of_rule = told.iter().filter(|line| is(Level::WARN, line, &["rule=\"orders\"", code])).count();
    assert!((1..20).contains(&of_rule) && of_rule == told.len(), "{code}: {told:?}");
}

#[tokio::test]
async fn what_a_server_has_against_a_call_is_told_by_the_name_of_its_rule() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (listener, _guard) = Listener::listen();
    let limiter = limiter(&proxy.url(), PATIENT).await;
    let calls = History::new(&limiter, &RULE, KEY, PATIENT);
    calls.shared().await;
    let name = server.cli(&["KEYS", "*"]);

    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    degraded_for(Duration::from_millis(1_500), &calls).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    a_few_of_the_rule(&listener.told(), "OOM");

    for (command, value, code) in [("SET", "somebody else's", "WRONGSTATE"), ("RPUSH", "a", "WRONGTYPE")] {
        server.cli(&["DEL", &name]);
        server.cli(&[command, &name, value]);
        degraded_for(Duration::from_millis(1_500), &calls).await;
        a_few_of_the_rule(&listener.told(), code);
    }
    server.cli(&["DEL", &name]);
    calls.until(DecidedBy::Shared).await;

    tokio::time::sleep(Duration::from_millis(1_100)).await;
    proxy.harm_next(Harm::Replace(b"+what?\r\n"));
    calls.degraded().await;
    a_few_of_the_rule(&listener.told(), "makes no sense");
}

/// Also where no call is made: a service that starts without its server hears of it.
#[tokio::test]
async fn a_start_without_a_server_is_told() {
    let stopped = Server::start();
    stopped.stop();
    let (listener, _guard) = Listener::listen();
    let url = stopped.url().replace("redis://", "redis://:secret@");
    let _lazy: RedisLimiter = RedisLimiter::builder(&url).connect_lazy().unwrap();
    until("a word", async || !listener.0.lock().unwrap().is_empty()).await;
    let told = listener.told();
    assert!(told.len() == 1 && is(Level::WARN, &told[0], &["why=", "refused"]), "{told:?}");
}
