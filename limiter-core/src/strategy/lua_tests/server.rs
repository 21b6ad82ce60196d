//! A server, and the scripts on it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::redis::{Connection, ConnectionLike as _, Value};

use crate::strategy::Terms;
use crate::strategy::lua::{self, Argument, ScriptClock};
use crate::{Decision, Reason, Rule};

/// What the clock of tests adds to the life of a key, in milliseconds.
const SPARE_LIFE: i64 = 3_600_000;

/// One decision as a script replies it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: u64,
    pub(super) time: u64,
    pub(super) quota: u64,
    pub(super) remaining: u64,
    pub(super) reset_after: u64,
}

impl Answer {
    /// The answers to calls of this cost that are alike, as driver.lua writes them.
    fn of_run(numbers: &mut impl Iterator<Item = i64>, calls: usize, cost: u64, quotas: usize) -> Vec<Self> {
        let mut next = || numbers.next().expect("enough numbers");
        let natural = |number: i64| u64::try_from(number).unwrap();
        let mut answers = Vec::new();
        while answers.len() < calls {
            let alike = if calls > 1 { natural(next()) } else { 1 };
            let (answer, remaining, reset_after) = (next(), natural(next()), natural(next()));
            let quota = if quotas > 1 { natural(next()) } else { 0 };
            let step = if calls > 1 { natural(next()) } else { 0 };
            let (verdict, time) = match answer {
                -1 => (2, 0),
                0.. => (0, natural(answer)),
                _ => (1, natural(-2 - answer)),
            };
            answers.extend((0..alike).map(|call| Self {
                verdict,
                time,
                quota,
                remaining: if verdict == 0 { remaining - call * cost } else { remaining },
                reset_after: reset_after + call * step,
            }));
        }
        answers
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        let ticks = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
        let (verdict, time) = match decision.reason() {
            _ if decision.is_allowed() => (0, decision.delay()),
            Reason::TooCostly => (2, Duration::ZERO),
            _ => (1, decision.retry_after().unwrap()),
        };
        Self {
            verdict,
            time: ticks(time),
            quota: decision.quota().into(),
            remaining: decision.remaining(),
            reset_after: ticks(decision.reset_after()),
        }
    }
}

/// The script of one rule, on keys of its own.
pub(super) struct Script {
    pub(super) connection: Connection,
    sha: String,
    clock: ScriptClock,
    pub(super) keys: Vec<String>,
    pub(super) terms: Box<[Terms]>,
    /// How long each key was last seen to live.
    lives: HashMap<String, i64>,
}

impl Script {
    /// What it decides about these calls (cost, longest wait), told this time.
    pub(super) fn ask(&mut self, now: u64, calls: &[(u64, u64)]) -> Vec<Answer> {
        self.try_ask(now, calls).unwrap_or_else(|error| panic!("{error}, asked {calls:?}, {:?}", self.terms))
    }

    pub(super) fn try_ask(&mut self, now: u64, calls: &[(u64, u64)]) -> ::redis::RedisResult<Vec<Answer>> {
        let keys = self.keys.clone();
        let mut answers = self.try_ask_about(&keys, now, &[calls])?;
        answers.pop().expect("one key was asked about")
    }

    /// What it decides about calls of several keys, of which each has as many names as there are quotas.
    pub(super) fn try_ask_about<C: AsRef<[(u64, u64)]>>(
        &mut self,
        keys: &[String],
        now: u64,
        calls: &[C],
    ) -> ::redis::RedisResult<Vec<::redis::RedisResult<Vec<Answer>>>> {
        let runs = |calls: &C| -> Vec<(usize, (u64, u64))> {
            let runs = calls.as_ref().chunk_by(|one, next| one == next);
            runs.map(|run| (run.len(), run[0])).collect()
        };
        let mut argument = Argument::new(calls.len(), &self.terms);
        for runs in calls.iter().map(runs) {
            argument.runs(runs.len());
            for (count, (cost, longest_wait)) in runs {
                argument.run(count, cost, longest_wait.cast_signed());
            }
        }
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(&self.sha).arg(keys.len()).arg(keys).arg(argument.as_bytes());
        if self.clock == ScriptClock::Argument {
            command.arg(now);
        }
        let reply = match self.connection.req_command(&command)? {
            Value::ServerError(error) => return Err(error.into()),
            Value::Array(reply) => reply,
            other => panic!("not a reply: {other:?}"),
        };
        let mut reply = reply.into_iter().peekable();
        let answers = calls.iter().map(|calls| {
            if let Some(Value::ServerError(error)) =
                reply.next_if(|value| matches!(value, Value::ServerError(_)))
            {
                return Err(error.into());
            }
            let mut numbers = reply.by_ref().map(|value| match value {
                Value::Int(number) => number,
                other => panic!("not a number: {other:?}"),
            });
            let answers = runs(calls)
                .into_iter()
                .flat_map(|(count, (cost, _))| Answer::of_run(&mut numbers, count, cost, self.terms.len()));
            let answers: Vec<Answer> = answers.collect();
            assert_eq!(answers.len(), calls.as_ref().len(), "as many answers as calls");
            Ok(answers)
        });
        let answers = answers.collect();
        assert!(reply.next().is_none(), "nothing more");
        Ok(answers)
    }

    pub(super) fn dump(&mut self) -> Vec<Value> {
        let mut all = ::redis::pipe();
        for key in &self.keys {
            all.cmd("DUMP").arg(key);
        }
        all.query(&mut self.connection).unwrap()
    }

    /// Every key lives as long as its quota needs it.
    pub(super) fn assert_life(&mut self, reset_after: u64) {
        for quota in 0..self.keys.len() {
            self.assert_life_of(quota, reset_after);
        }
    }

    pub(super) fn assert_life_of(&mut self, quota: usize, reset_after: u64) {
        let key = &self.keys[quota];
        let life: i64 = ::redis::cmd("PTTL").arg(key).query(&mut self.connection).unwrap();
        let shortest = i64::try_from(reset_after.div_ceil(1_000)).unwrap() + 1 + SPARE_LIFE;
        // The time that the test has taken meanwhile.
        let slack = 60_000;
        assert!(life >= shortest - slack, "quota {quota} lives {life} ms of {shortest}");
        // A life that is long enough is kept. By the clock of tests it does not get shorter.
        let kept = self.lives.insert(key.clone(), life).unwrap_or_default();
        let longest = (shortest + 1_000).max(kept);
        assert!(life <= longest, "quota {quota} lives {life} ms of {longest}");
    }

    pub(super) fn forget(&mut self) {
        ::redis::cmd("DEL").arg(&self.keys).query::<Value>(&mut self.connection).unwrap();
    }
}

/// A server of our own, which ends with the test.
pub(super) struct Server {
    process: Child,
    folder: PathBuf,
}

impl Server {
    pub(super) fn start() -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("limiter-lua-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let binary = std::env::var("LIMITER_REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        let process = Command::new(&binary)
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(folder.join("socket"))
            .arg("--dir")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "cannot start `{binary}`: {error}; install redis-server (Debian: `apt install redis-server`), \
                     or name a server in LIMITER_REDIS_SERVER"
                )
            });
        let server = Self { process, folder };
        server.connect();
        server
    }

    /// A connection, as soon as the server is there.
    pub(super) fn connect(&self) -> Connection {
        let client =
            ::redis::Client::open(format!("unix://{}", self.folder.join("socket").display())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match client.get_connection() {
                Ok(connection) => return connection,
                Err(error) => assert!(Instant::now() < deadline, "the server does not answer: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The script of `rule`, by the clock of tests, with keys that nobody else has.
    pub(super) fn script(&self, rule: &Rule, keys: &str) -> Script {
        self.script_with(rule, keys, ScriptClock::Argument)
    }

    pub(super) fn script_with(&self, rule: &Rule, keys: &str, clock: ScriptClock) -> Script {
        let mut connection = self.connect();
        let source = lua::source(rule.strategy(), clock);
        let sha = ::redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut connection).unwrap();
        let terms = Terms::in_micros(rule);
        let keys = (0..terms.len()).map(|quota| format!("{{{} {keys}}}{quota}", rule.strategy())).collect();
        Script { connection, sha, clock, keys, terms, lives: HashMap::new() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
