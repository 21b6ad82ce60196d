//! A process of the fleet, and the reins of it.
//!
//! It is this test program, started again. It calls until it is told to stop, and tells of every call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use limiter::{Call, Key, Limiter as _, OnError, RedisLimiter, Rule};

use crate::load;
use crate::record::{Clock, Record};
use crate::support::history::Outcome;
use crate::support::random::Random;

/// Set in the processes that the test starts: `number seed url`.
const WORKER: &str = "LIMITER_CHAOS_WORKER";
/// What a worker's lines begin with, among those of the test program.
const SAYS: &str = "worker: ";
/// Callers in each process.
const CALLERS: u64 = 4;
/// Only a hang meets it.
const PATIENT: Duration = Duration::from_secs(60);

/// The process, if this is one of the fleet.
pub(crate) fn work() {
    let Ok(task) = std::env::var(WORKER) else { return };
    let [number, seed, url] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task:?}") };
    let (number, seed): (usize, u64) = (number.parse().expect("a number"), seed.parse().expect("a seed"));
    println!();
    // Wherever it happens, also in a task that nobody waits for.
    std::panic::set_hook(Box::new(|panic| {
        println!("{SAYS}{}", panic.to_string().replace('\n', ": "));
        std::process::exit(3);
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let instances = u32::try_from(load::WORKERS).expect("a few");
        let builder = RedisLimiter::builder(url).timeout(load::DEADLINE).instances(instances);
        let limiter = builder.connect().await.unwrap_or_else(|error| panic!("{error}"));
        println!("{SAYS}ready");
        let (stop, stopped) = tokio::sync::watch::channel(false);
        std::thread::spawn(move || {
            // A word, or the end of who started us.
            let _ = std::io::stdin().read_line(&mut String::new());
            let _ = stop.send(true);
        });
        let pages = Arc::new(AtomicU64::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let mut random = Random::new(seed ^ (number as u64 * CALLERS + caller + 1) << 32);
                let caller = Caller {
                    limiter: limiter.clone(),
                    clock: Clock::new(),
                    number,
                    pages: Arc::clone(&pages),
                };
                let stopped = stopped.clone();
                tokio::spawn(async move {
                    while !*stopped.borrow() {
                        caller.step(&mut random).await;
                        tokio::time::sleep(Duration::from_millis(random.between(5, 40))).await;
                    }
                })
            })
            .collect();
        let _ = stopped.clone().changed().await;
        for caller in callers {
            tokio::time::timeout(PATIENT, caller).await.expect("a call hangs").expect("it did not panic");
        }
        println!("{SAYS}done");
    });
}

struct Caller {
    limiter: RedisLimiter,
    clock: Clock,
    number: usize,
    pages: Arc<AtomicU64>,
}

impl Caller {
    async fn step(&self, random: &mut Random) {
        if random.chance(60) {
            let limits = load::limits();
            let rule = &limits[random.below(limits.len())];
            self.call(rule, load::KEY, OnError::Local, random.chance(3)).await;
        } else {
            // Several at once, which share a script call.
            let number = self.pages.fetch_add(1, Ordering::Relaxed);
            let (rule, page, policy) =
                (load::ledger(), load::page(self.number, number), load::page_policy(number));
            let [dropped, second, third] = [3, 30, 10].map(|percent| random.chance(percent));
            let call = async |is_made: bool, dropped| {
                if is_made {
                    self.call(&rule, &page, policy, dropped).await;
                }
            };
            tokio::join!(call(true, dropped), call(second, false), call(third, false));
        }
    }

    /// One call. Where it is to be `dropped`, nobody waits for its answer for long.
    async fn call(&self, rule: &Rule, key: &str, on_error: OnError, dropped: bool) {
        let subject = if rule.name() == "ledger" { key } else { rule.name() }.to_owned();
        let key = Key::of(key);
        let mut call = Call::new(rule, &key, 1, Duration::ZERO);
        call.on_error = Some(on_error);
        let asked = self.clock.now();
        let answer = self.limiter.decide(call);
        let outcome = if dropped {
            match tokio::time::timeout(Duration::from_millis(1), answer).await {
                Ok(decision) => Outcome::of(decision, rule, on_error),
                Err(_) => Outcome::Dropped,
            }
        } else {
            Outcome::of(answer.await, rule, on_error)
        };
        println!("{SAYS}{}", Record { subject, asked, answered: self.clock.now(), outcome });
    }
}

/// A process of the fleet, as the test has it. Killed on drop.
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    said: Arc<Mutex<Said>>,
}

/// What it has told so far.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) records: Vec<Record>,
    /// When the last call was asked that a server admitted, in each third of a cluster's slots.
    pub(crate) last_admitted: [u64; 3],
    ready: bool,
    done: bool,
    /// What else it said, and that it ended.
    pub(crate) wrong: Option<String>,
}

impl Worker {
    /// It is connected when this returns.
    pub(crate) fn start(number: usize, seed: u64, url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env(WORKER, format!("{number} {seed} {url}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let said = Arc::<Mutex<Said>>::default();
        let worker = Self { child, input, said: Arc::clone(&said) };
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(SAYS) {
                    lock(&said).hear(line);
                }
            }
            let mut said = lock(&said);
            if !said.done && said.wrong.is_none() {
                said.wrong = Some("it went away".to_owned());
            }
        });
        worker.until("be connected", |said| said.ready);
        worker
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        lock(&self.said)
    }

    /// Lets it end, and waits until it has.
    pub(crate) fn stop(&mut self) -> Vec<Record> {
        let _ = writeln!(self.input, "stop");
        self.until("end", |said| said.done);
        std::mem::take(&mut self.said().records)
    }

    fn until(&self, what: &str, is_so: impl Fn(&Said) -> bool) {
        let start = std::time::Instant::now();
        loop {
            let said = self.said();
            if let Some(wrong) = &said.wrong {
                panic!("a worker: {wrong}");
            }
            if is_so(&said) {
                return;
            }
            drop(said);
            assert!(start.elapsed() < PATIENT * 2, "a worker does not {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Said {
    fn hear(&mut self, line: &str) {
        match (line, line.parse::<Record>()) {
            ("ready", _) => self.ready = true,
            ("done", _) => self.done = true,
            (_, Ok(record)) => {
                if record.outcome == Outcome::Admitted && record.subject.starts_with('w') {
                    let last = &mut self.last_admitted[load::third(&record.subject)];
                    *last = record.asked.max(*last);
                }
                self.records.push(record);
            }
            _ => self.wrong = Some(line.to_owned()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
