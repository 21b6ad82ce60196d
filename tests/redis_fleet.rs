//! Many processes, many callers and many keys on one server.
//!
//! The processes are this test program, started again: see [`worker`].

#![cfg(feature = "redis")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use allocation_counter::measure;
use limiter::{DecidedBy, Limiter, Quota, RedisLimiter, Rule, Strategy};
use support::servers::{Server, WrongClock};

/// So long that only a test that hangs meets it: what is tested here is not how fast this machine is.
const PATIENT: Duration = Duration::from_secs(60);
/// In each process.
const CALLERS: usize = 64;
const CALLS_OF_EACH: usize = 8;

async fn limiter(url: &str) -> RedisLimiter {
    RedisLimiter::builder(url).timeout(PATIENT).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

fn rule(strategy: Strategy, quota: &str) -> Rule {
    Rule::try_new(strategy.name(), strategy, [quota.parse::<Quota>().unwrap()]).unwrap()
}

#[test]
fn four_processes_admit_exactly_the_limit() {
    let server = Server::start();
    let mut workers: Vec<Worker> = (0..4).map(|_| Worker::start(&server.url(), &[])).collect();
    for &strategy in Strategy::ALL {
        // A permit comes back after minutes, so none comes back meanwhile.
        let rounds = round(&mut workers, strategy, "500/1d");
        let admitted: Vec<u64> = rounds.iter().map(|round| round.admitted).collect();
        assert_eq!(admitted.iter().sum::<u64>(), 500, "{strategy}: {admitted:?}");
    }
}

/// Only the server's clock counts: with clocks an hour fast and an hour slow nobody gets more or waits longer, and no
/// key lives longer.
#[test]
fn wrong_clocks_of_clients_change_nothing() {
    const WINDOW: Duration = Duration::from_secs(3600);

    let server = Server::start();
    let clocks = [3600, -3600].map(|seconds| {
        let clock = WrongClock::new();
        clock.set(seconds);
        clock
    });
    let [fast, slow] = clocks.each_ref().map(|clock| {
        let environment = clock.environment();
        Worker::start(&server.url(), &environment.each_ref().map(|(name, value)| (*name, value.as_str())))
    });
    let mut workers = [fast, slow, Worker::start(&server.url(), &[])];
    let errors = workers.each_mut().map(|worker| {
        let shown = worker.ask("clock").parse::<i64>().unwrap();
        shown - i64::try_from(unix_seconds()).unwrap()
    });
    for (error, expected) in errors.into_iter().zip([3600, -3600, 0]) {
        assert!((error - expected).abs() < 60, "the clocks are wrong by {errors:?} seconds");
    }

    for &strategy in Strategy::ALL {
        let start = Instant::now();
        let rounds = round(&mut workers, strategy, "30/1h");
        let ttl = server.cli(&["PTTL", &format!("limiter:{{{strategy}:shared}}:{strategy}")]);
        let passed = start.elapsed();

        assert_eq!(rounds.iter().map(|round| round.admitted).sum::<u64>(), 30, "{strategy}");
        let waits: Vec<Duration> = rounds.iter().map(|round| round.retry_after).collect();
        let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*longest <= *shortest + passed, "{strategy}: {waits:?} differ by more than {passed:?}");
        assert!(*longest <= WINDOW, "{strategy}: {waits:?}");
        // All permits are back one window after the last was taken, and the state is forgotten a second later.
        let ttl = Duration::from_millis(ttl.parse().unwrap());
        let spare = Duration::from_millis(1_002);
        assert!(ttl <= WINDOW + spare && ttl + passed >= WINDOW, "{strategy}: a key lives for {ttl:?}");
    }
}

/// Tells all workers at once to use up a quota, and collects what each of them saw.
fn round(workers: &mut [Worker], strategy: Strategy, quota: &str) -> Vec<Round> {
    for worker in workers.iter_mut() {
        worker.tell(&format!("round {strategy} {quota}"));
    }
    let seen = workers.iter_mut().map(|worker| {
        let seen = worker.hear();
        let (admitted, micros) = seen.split_once(' ').unwrap_or_else(|| panic!("{strategy}: {seen}"));
        let retry_after = Duration::from_micros(micros.parse().unwrap());
        Round { admitted: admitted.parse().unwrap(), retry_after }
    });
    seen.collect()
}

/// What one worker saw: how many of its calls were admitted, and when the next could be.
struct Round {
    admitted: u64,
    retry_after: Duration,
}

/// No answer comes before the last question was asked: who asked one after the other would wait in vain.
#[tokio::test]
async fn calls_for_different_keys_do_not_wait_for_each_other() {
    const KEYS: usize = 1_000;
    /// At the least: a script is asked about so many keys at the most.
    const SCRIPTS: usize = KEYS.div_ceil(16);

    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let limiter = limiter(&proxy.url()).await;
    let rule = rule(Strategy::TokenBucket, "1/1d");
    proxy.hold_answers_until(SCRIPTS);
    let calls: Vec<_> = (0..KEYS)
        .map(|key| {
            let (limiter, rule) = (limiter.clone(), rule.clone());
            tokio::spawn(async move { limiter.check(&rule, &key, 1).await })
        })
        .collect();
    for call in calls {
        let decision = call.await.unwrap();
        assert_eq!(
            (decision.decided_by(), decision.is_allowed()),
            (DecidedBy::Shared, true),
            "the answers are held back until {SCRIPTS} scripts are there, and {} are",
            proxy.questions()
        );
    }
    assert!(proxy.questions() >= SCRIPTS);
}

/// 300,000 keys over their limit: memory stops growing, and what is not known costs a round trip and is rejected all the
/// same.
#[test]
fn what_is_known_to_be_blocked_is_bounded() {
    const KEYS: u64 = 300_000;
    /// About so many are remembered.
    const BOUND: usize = 102_400;

    let server = Server::start();
    // All on this thread, whose allocations are counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(limiter(&server.url()));
    let rule = rule(Strategy::FixedWindow, "1/1d");
    // One key uses up its limit, and is copied on the server.
    assert!(runtime.block_on(limiter.check(&rule, &0u64, 1)).is_allowed());
    let name = server.cli(&["KEYS", "*"]);
    let (start, end) = name.split_once("#0").unwrap();
    let copy = "for key = ARGV[1], ARGV[2] do redis.call('COPY', KEYS[1], ARGV[3] .. key .. ARGV[4]) end";
    for first in (1..KEYS).step_by(50_000) {
        let last = (first + 49_999).min(KEYS - 1);
        let (start, range) = (format!("{start}#"), [first.to_string(), last.to_string()]);
        server.cli(&["EVAL", copy, "1", &name, &range[0], &range[1], &start, end]);
    }
    assert_eq!(server.cli(&["DBSIZE"]), KEYS.to_string());

    // How many of the keys had to be asked about.
    let all_rejected = |keys: std::ops::Range<u64>| {
        let before = scripts_run(&server);
        runtime.block_on(async {
            let keys: Vec<u64> = keys.collect();
            for some in keys.chunks(1_000) {
                let calls: Vec<_> = some
                    .iter()
                    .map(|&key| {
                        let (limiter, rule) = (limiter.clone(), rule.clone());
                        tokio::spawn(async move { limiter.check(&rule, &key, 1).await })
                    })
                    .collect();
                for (key, call) in some.iter().zip(calls) {
                    let decision = call.await.unwrap();
                    assert_eq!(decision.decided_by(), DecidedBy::Shared);
                    assert!(!decision.is_allowed(), "key {key}");
                }
            }
        });
        scripts_run(&server) - before
    };
    // What is known is forgotten after some seconds, so only the sum of both halves does not depend on how fast this is.
    let filled = measure(|| assert!(all_rejected(0..KEYS / 2) <= KEYS / 2));
    let flood = measure(|| assert!(all_rejected(KEYS / 2..KEYS) <= KEYS / 2));
    let held = filled.bytes_current + flood.bytes_current;
    println!("{held} bytes stay for {KEYS} keys");
    // Twice the room of the entries, since a hash table that keys come and go in doubles once.
    assert!(held < i64::try_from(BOUND * 640).unwrap(), "{held} bytes");
}

/// How many scripts the server has run.
fn scripts_run(server: &Server) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.split("cmdstat_evalsha:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[cfg(feature = "tls")]
#[test]
fn tls_needs_a_certificate_that_is_trusted() {
    let (server, other) = (Server::tls(), Server::tls());
    let trust = |server: &Server| server.ca_path().to_str().unwrap().to_owned();
    let mut worker = Worker::start(&server.tls_url(), &[("SSL_CERT_FILE", &trust(&server))]);
    for &strategy in Strategy::ALL {
        worker.tell(&format!("round {strategy} 30/1d"));
        let seen = worker.hear();
        assert!(seen.starts_with("30 "), "{strategy}: {seen}");
    }
    let refused = Worker::refused(&server.tls_url(), &[("SSL_CERT_FILE", &trust(&other))]);
    let place = server.tls_url().replace("rediss://", "cannot connect to the server at ");
    assert!(refused.starts_with(&place), "{refused}");
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let refused = Worker::refused(&server.tls_url(), &[("SSL_CERT_FILE", "/no/such/file")]);
    assert!(refused.starts_with(&place) && refused.contains("/no/such/file"), "{refused}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_on_one_side_only_is_an_error() {
    let server = Server::tls();
    let plain = |url: &str| url.replace("rediss://", "redis://");
    for url in [server.url().replace("redis://", "rediss://"), plain(&server.tls_url())] {
        let error = RedisLimiter::connect(&url).await.expect_err(&url).to_string();
        let place = plain(&url).replace("redis://", "cannot connect to the server at ");
        assert!(error.starts_with(&place), "{url}: {error}");
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn tls_needs_its_feature() {
    for url in ["rediss://localhost", "rediss+sentinel://localhost/main", "rediss+cluster://localhost"] {
        let error = RedisLimiter::connect(url).await.expect_err(url).to_string();
        assert!(error.contains("the feature \"tls\" of limiter"), "{url}: {error}");
    }
}

/// Set in the processes that the tests start: the address of their server.
const WORKER: &str = "LIMITER_TEST_WORKER";
/// What a worker's lines begin with, among those of the test program.
const SAYS: &str = "worker: ";

/// A process of the fleet. Reads what to do, line by line, and says what came of it:
///
/// - `round token_bucket 500/1d`: all callers at once, and then a look. Says `admitted retry_after`, in microseconds.
/// - `clock`: says the seconds since 1970 that its clock shows.
#[test]
fn worker() {
    let Ok(url) = std::env::var(WORKER) else { return };
    println!();
    let say = |text: &str| println!("{SAYS}{text}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let limiter = match RedisLimiter::builder(&url).timeout(PATIENT).connect().await {
            Ok(limiter) => limiter,
            Err(error) => return say(&error.to_string()),
        };
        say("ready");
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["clock"] => say(&unix_seconds().to_string()),
                ["round", strategy, quota] => {
                    let strategy = Strategy::ALL.iter().find(|known| known.name() == strategy);
                    let rule = rule(*strategy.unwrap(), quota);
                    say(&use_up(&limiter, &rule).await);
                }
                _ => say("what?"),
            }
        }
    });
}

async fn use_up(limiter: &RedisLimiter, rule: &Rule) -> String {
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (limiter, rule) = (limiter.clone(), rule.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..CALLS_OF_EACH {
                    let decision = limiter.check(&rule, "shared", 1).await;
                    assert_eq!(decision.decided_by(), DecidedBy::Shared);
                    admitted += u64::from(decision.is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for caller in callers {
        match caller.await {
            Ok(count) => admitted += count,
            Err(error) => return error.to_string(),
        }
    }
    match limiter.peek(rule, "shared").await.retry_after() {
        Some(time) => format!("{admitted} {}", time.as_micros()),
        None => format!("{admitted} were admitted, and there is more"),
    }
}

fn unix_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// Another process of this program. Killed on drop.
struct Worker {
    child: Child,
    tasks: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// It is connected when this returns.
    fn start(url: &str, environment: &[(&str, &str)]) -> Self {
        let mut worker = Self::spawn(url, environment);
        assert_eq!(worker.hear(), "ready");
        worker
    }

    /// What it says where it cannot connect.
    #[cfg(feature = "tls")]
    fn refused(url: &str, environment: &[(&str, &str)]) -> String {
        let said = Self::spawn(url, environment).hear();
        assert_ne!(said, "ready", "it was connected to {url}");
        said
    }

    fn spawn(url: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env(WORKER, url)
            .env_remove("SSL_CERT_FILE")
            .env_remove("SSL_CERT_DIR")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tasks, lines) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, tasks, lines: BufReader::new(lines).lines() }
    }

    fn tell(&mut self, task: &str) {
        writeln!(self.tasks, "{task}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut said = self.lines.by_ref().map_while(Result::ok);
        said.find_map(|line| line.strip_prefix(SAYS).map(str::to_owned)).expect("the worker went away")
    }

    fn ask(&mut self, task: &str) -> String {
        self.tell(task);
        self.hear()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stands between a client and a server, counts questions, and can hold answers back.
struct Proxy {
    port: u16,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    questions: usize,
    /// No answer goes through before there were so many.
    wanted: usize,
}

impl Proxy {
    fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, gate) = (listener.local_addr().unwrap().port(), Arc::<Gate>::default());
        let proxy = Self { port, gate: Arc::clone(&gate) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let asking = Arc::clone(&gate);
                std::thread::spawn(move || pass_on(from, to, &mut |seen| asking.count(seen)));
                let answering = Arc::clone(&gate);
                std::thread::spawn(move || pass_on(server, client, &mut |_| answering.wait()));
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn hold_answers_until(&self, questions: usize) {
        self.gate.counts.lock().unwrap().wanted = questions;
    }

    fn questions(&self) -> usize {
        self.gate.counts.lock().unwrap().questions
    }
}

impl Gate {
    /// Counts the script calls in `seen`, and leaves there what may be the beginning of one.
    fn count(&self, seen: &mut Vec<u8>) {
        const CALL: &[u8] = b"EVALSHA";
        let calls = seen.windows(CALL.len()).filter(|window| *window == CALL).count();
        seen.drain(..seen.len().saturating_sub(CALL.len() - 1));
        self.counts.lock().unwrap().questions += calls;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let counts = self.counts.lock().unwrap();
        drop(self.changed.wait_while(counts, |counts| counts.questions < counts.wanted).unwrap());
    }
}

/// Until one side ends. `look` gets all that has passed, and may take away what it has seen.
fn pass_on(mut from: TcpStream, mut to: TcpStream, look: &mut dyn FnMut(&mut Vec<u8>)) {
    let (mut buffer, mut seen) = ([0; 16 << 10], Vec::new());
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..length]);
        look(&mut seen);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
