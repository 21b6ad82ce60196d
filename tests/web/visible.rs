//! What those who run a service see: events and spans by `tracing`, counters and histograms by `metrics`.

#[path = "../support/mod.rs"]
mod support;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use limiter::{Health, LocalLimiter, ManualClock, RedisLimiter, Rejected, rate_limit, scope};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// What is written to the log while a value of this lives, in this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Runs `future` to its end, and returns the lines of its log.
    async fn of(future: impl Future<Output = ()>) -> Vec<String> {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .with_ansi(false)
            .without_time()
            .finish();
        // Tests have a thread each, and a runtime in it.
        let guard = tracing::subscriber::set_default(subscriber);
        future.await;
        drop(guard);
        let text = String::from_utf8(log.bytes().clone()).expect("a text");
        text.lines().map(str::to_owned).collect()
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panicked while writing")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Keys are shown or hidden in the whole process.
static KEYS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn limiter() -> (LocalLimiter, ManualClock) {
    let clock = ManualClock::new();
    (LocalLimiter::builder().clock(clock.clone()).build(), clock)
}

/// A limiter on a server that never says a word, which goes with the second value.
fn nowhere() -> (RedisLimiter, std::net::TcpListener) {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    (RedisLimiter::builder(&url).timeout(Duration::from_millis(20)).connect_lazy().unwrap(), silent)
}

#[rate_limit(name = "orders", strategy = "sliding_log", key = "user", qps = 1, window = "4s")]
async fn orders(user: &str) -> Result<(), Rejected> {
    Ok(())
}

#[rate_limit(name = "tried", qps = 1, window = "4s", mode = "shadow")]
async fn tried() -> Result<(), Rejected> {
    Ok(())
}

#[rate_limit(name = "denied", key = "user", qps = 1, on_error = "deny")]
async fn denied(user: &str) -> Result<(), Rejected> {
    Ok(())
}

#[rate_limit(name = "waits", strategy = "leaky_bucket", qps = 1, window = "4s", burst = 1, wait = "10s")]
async fn waits() -> Result<(), Rejected> {
    Ok(())
}

#[tokio::test]
async fn a_rejection_is_one_event_without_the_key() {
    let _hidden = KEYS.lock().await;
    let (limiter, clock) = limiter();
    let log = Log::of(scope(limiter, async {
        assert!(orders("secret-name").await.is_ok());
        clock.advance(Duration::from_millis(1500));
        for _ in 0..2 {
            assert!(orders("secret-name").await.is_err());
        }
        for _ in 0..2 {
            assert!(tried().await.is_ok());
        }
    }))
    .await;
    let orders = "INFO limiter: rejected rule=\"orders\" reason=\"exceeded\" remaining=0 retry_after_ms=2500 decided_by=\"local\"";
    let tried = "INFO limiter: rejected rule=\"tried\" reason=\"exceeded\" remaining=0 retry_after_ms=4000 \
                 decided_by=\"local\" shadow=true";
    assert_eq!(log.iter().map(|line| line.trim()).collect::<Vec<_>>(), [orders, orders, tried]);
}

#[tokio::test]
async fn a_limit_that_cannot_be_checked_says_so() {
    let _hidden = KEYS.lock().await;
    let (nowhere, _silent) = nowhere();
    let log = Log::of(scope(nowhere, async { assert!(denied("secret-name").await.is_err()) })).await;
    let rejection = log.iter().find(|line| line.contains("rejected")).expect("an event");
    assert!(rejection.contains("reason=\"unavailable\"") && rejection.contains("decided_by=\"degraded\""));
    assert!(!rejection.contains("retry_after"), "nobody knows when: {rejection}");
    assert!(log.iter().all(|line| !line.contains("secret-name")), "{log:?}");
}

#[tokio::test]
async fn keys_are_shown_to_those_who_ask_and_break_no_line() {
    let _shown = KEYS.lock().await;
    let (limiter, _) = limiter();
    let megabyte = "x".repeat(1 << 20);
    let keys = ["alice", "a\r\nINFO forged: \u{1b}[31m\u{2028}\0\"", &*megabyte];
    limiter::trace_keys(true);
    let log = Log::of(scope(limiter, async {
        for key in keys {
            assert!(orders(key).await.is_ok());
            assert!(orders(key).await.is_err());
        }
    }))
    .await;
    limiter::trace_keys(false);
    let shown: Vec<_> = log.iter().map(|line| line.split_once("key=").expect("a key").1).collect();
    assert_eq!(
        shown,
        ["\"alice\"", "\"a%0D%0AINFO%20forged%3A%20%1B%5B31m%E2%80%A8%00%22\"", "\"(1048581 bytes)\"",]
    );
}

#[tokio::test]
async fn waiting_is_a_span() {
    let (limiter, clock) = limiter();
    let log = Log::of(scope(limiter, async {
        assert!(waits().await.is_ok());
        let advance = async {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(4));
        };
        assert!(tokio::join!(waits(), advance).0.is_ok());
    }))
    .await;
    assert_eq!(log.len(), 2, "it begins and ends: {log:?}");
    for (line, what) in log.iter().zip(["new", "close"]) {
        assert!(line.contains("limiter.wait{rule=\"waits\" wait_ms=4000}") && line.contains(what), "{line}");
    }
}

/// Waits until the only server is as it should be.
async fn until(limiter: &RedisLimiter, health: Health) {
    for _ in 0..6000 {
        if limiter.health().iter().all(|(_, found)| *found == health) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited a minute for the server to be {health}: {:?}", limiter.health());
}

#[tokio::test]
async fn a_change_of_the_breaker_is_one_event() {
    let server = support::servers::Server::start();
    let log = Log::of(async {
        // Patient, so that only a server that is gone is down.
        let limiter =
            RedisLimiter::builder(&server.url()).timeout(Duration::from_secs(20)).connect().await.unwrap();
        server.stop();
        until(&limiter, Health::Down).await;
        server.restart();
        until(&limiter, Health::Up).await;
    })
    .await;
    let events: Vec<_> =
        log.iter().map(|line| line.trim()).filter(|line| line.contains("the shared limiter")).collect();
    let [down, up] = *events else { panic!("one event when it goes and one when it comes: {log:?}") };
    assert!(down.starts_with("WARN limiter: ") && down.contains("does not answer"), "{down}");
    assert!(up.starts_with("INFO limiter: ") && up.contains("answers again"), "{up}");
}

/// Runs `future` with a recorder of its own, and returns what Prometheus would read.
async fn measured(future: impl Future<Output = ()>) -> Measured {
    let recorder = PrometheusBuilder::new().set_buckets(&[1.0, 10.0]).unwrap().build_recorder();
    let guard = metrics::set_default_local_recorder(&recorder);
    limiter::describe_metrics();
    future.await;
    drop(guard);
    Measured::of(&recorder.handle())
}

struct Measured(String);

impl Measured {
    fn of(handle: &PrometheusHandle) -> Self {
        Self(handle.render())
    }

    fn value(&self, name: &str) -> Option<f64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(line.parse().expect("a number"))
    }
}

#[rate_limit(name = "counted", key = "user", qps = 2, window = "4s")]
async fn counted(user: &str) -> Result<(), Rejected> {
    Ok(())
}

#[tokio::test]
async fn calls_are_counted_by_rule() {
    let (limiter, _) = limiter();
    let measured = measured(scope(limiter.clone(), async {
        for user in ["alice", "alice", "alice", "bob"] {
            let _ = counted(user).await;
        }
    }))
    .await;
    assert_eq!(measured.value("limiter_passed_total{rule=\"counted\"}"), Some(3.0), "{}", measured.0);
    assert_eq!(measured.value("limiter_rejected_total{rule=\"counted\"}"), Some(1.0));
    assert_eq!(measured.value("limiter_waited_total{rule=\"counted\"}"), None);
    assert_eq!(measured.value("limiter_degraded_total{rule=\"counted\"}"), None);
    assert_eq!(measured.value("limiter_live_keys{rule=\"counted\"}"), Some(2.0));
    let site = limiter::sites().iter().find(|site| site.rule().name() == "counted").expect("a site");
    assert_eq!(limiter.live_keys(site.rule()), 2);
    assert!(measured.0.contains("# HELP limiter_passed_total"), "{}", measured.0);
    assert!(measured.0.contains("# TYPE limiter_passed_total counter"), "{}", measured.0);
    assert!(!measured.0.contains("alice"), "keys are in no measure");
}

#[rate_limit(name = "late", strategy = "leaky_bucket", qps = 1, window = "4s", burst = 1, wait = "10s")]
async fn late() -> Result<(), Rejected> {
    Ok(())
}

#[tokio::test]
async fn waits_are_measured() {
    let (limiter, clock) = limiter();
    let measured = measured(scope(limiter, async {
        assert!(late().await.is_ok());
        let advance = async {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(4));
        };
        assert!(tokio::join!(late(), advance).0.is_ok());
    }))
    .await;
    assert_eq!(measured.value("limiter_waited_total{rule=\"late\"}"), Some(1.0), "{}", measured.0);
    assert_eq!(measured.value("limiter_wait_duration_seconds_count{rule=\"late\"}"), Some(1.0));
    assert_eq!(measured.value("limiter_wait_duration_seconds_sum{rule=\"late\"}"), Some(4.0));
}

#[rate_limit(name = "shared", key = "user", qps = 2, window = "1m")]
async fn shared(user: &str) -> Result<(), Rejected> {
    Ok(())
}

#[tokio::test]
async fn shared_decisions_are_measured() {
    let server = support::servers::Server::start();
    // Long enough for a machine that is busy with other tests.
    let limiter =
        RedisLimiter::builder(&server.url()).timeout(Duration::from_secs(20)).connect().await.unwrap();
    let measured = measured(scope(limiter, async {
        for _ in 0..4 {
            let _ = shared("alice").await;
        }
    }))
    .await;
    assert_eq!(measured.value("limiter_passed_total{rule=\"shared\"}"), Some(2.0), "{}", measured.0);
    assert_eq!(measured.value("limiter_rejected_total{rule=\"shared\"}"), Some(2.0));
    // The fourth call is known to be over the limit, and nobody is asked.
    assert_eq!(measured.value("limiter_shared_decision_duration_seconds_count{rule=\"shared\"}"), Some(3.0));
}

#[tokio::test]
async fn degraded_calls_are_counted_and_are_no_shared_decisions() {
    let (nowhere, _silent) = nowhere();
    let measured = measured(scope(nowhere, async { assert!(denied("bob").await.is_err()) })).await;
    assert_eq!(measured.value("limiter_degraded_total{rule=\"denied\"}"), Some(1.0), "{}", measured.0);
    assert_eq!(measured.value("limiter_rejected_total{rule=\"denied\"}"), Some(1.0));
    assert_eq!(measured.value("limiter_shared_decision_duration_seconds_count{rule=\"denied\"}"), None);
}

/// A recorder that comes late misses what was before, and nothing after.
#[tokio::test]
async fn a_recorder_may_be_installed_after_the_first_call() {
    let (limiter, _) = limiter();
    let _ = scope(limiter.clone(), counted_late()).await;
    let measured = measured(async { drop(scope(limiter, counted_late()).await) }).await;
    assert_eq!(measured.value("limiter_passed_total{rule=\"counted late\"}"), Some(1.0), "{}", measured.0);
}

#[rate_limit(name = "counted late", qps = 2, window = "4s")]
async fn counted_late() -> Result<(), Rejected> {
    Ok(())
}
