//! What callers of a shared limiter saw, and whether it keeps the promise of the rule.
//!
//! A call that the server did not answer may have been counted there or not: "perhaps". So the server must have charged
//! at least what it admitted, and at most that and every "perhaps". One more, and something was charged twice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use limiter::{Call, DecidedBy, Decision, Health, Key, Limiter, OnError, Reason, RedisLimiter, Rule};

/// So long that only a test that hangs meets it: what is tested is not how fast this machine is.
pub const PATIENT: Duration = Duration::from_secs(60);

/// Calls of one key, all of cost 1, under a rule whose permits do not come back during the test.
#[derive(Clone)]
pub struct History {
    pub limiter: RedisLimiter,
    pub rule: Rule,
    key: Key,
    deadline: Duration,
    on_error: OnError,
    records: Arc<Mutex<Vec<Record>>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub asked: Instant,
    pub answered: Instant,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By the server.
    Admitted,
    /// By the server, or here because of what it said.
    Rejected,
    /// By `on_error`: perhaps the server counted it.
    Degraded { allowed: bool },
    /// Nobody waited for the answer: perhaps the server counted it.
    Dropped,
}

impl Outcome {
    /// Panics where a decision is not one that could be: nothing that was degraded is ever taken for shared, nor a
    /// failure for a rejection.
    pub fn of(decision: Decision, rule: &Rule, on_error: OnError) -> Self {
        let allowed = decision.is_allowed();
        let reason = decision.into_result(rule).err().map(|rejected| rejected.reason());
        match (decision.decided_by(), on_error, reason) {
            (DecidedBy::Shared, _, None) => Self::Admitted,
            (DecidedBy::Shared, _, Some(Reason::Exceeded)) => Self::Rejected,
            (DecidedBy::Degraded, OnError::Deny, Some(Reason::Unavailable))
            | (DecidedBy::Degraded, OnError::Local, None | Some(Reason::Exceeded))
            | (DecidedBy::Degraded, OnError::Allow, None) => Self::Degraded { allowed },
            wrong => panic!("{wrong:?} cannot be"),
        }
    }
}

impl History {
    /// `deadline` is that of the limiter.
    pub fn new(limiter: &RedisLimiter, rule: &Rule, key: &str, deadline: Duration) -> Self {
        let (key, on_error, records) = (Key::of(key), OnError::Local, Arc::default());
        Self { limiter: limiter.clone(), rule: rule.clone(), key, deadline, on_error, records }
    }

    /// The same book, for calls with this `on_error`.
    pub fn on_error(&self, on_error: OnError) -> Self {
        Self { on_error, ..self.clone() }
    }

    /// One call. Panics where its answer is not one that could be, or came far too late.
    pub async fn call(&self) -> Decision {
        let mut call = Call::new(&self.rule, &self.key, 1, Duration::ZERO);
        call.on_error = Some(self.on_error);
        let entry = Entry { history: self, asked: Instant::now(), outcome: Outcome::Dropped };
        // A machine with much else to do comes late to both timers, and then looks at the call first.
        let late = tokio::time::sleep(2 * self.deadline);
        let decision = tokio::select! {
            biased;
            decision = self.limiter.decide(call) => decision,
            () = late => panic!("a call was not answered at its deadline of {:?}", self.deadline),
        };
        entry.ends(Outcome::of(decision, &self.rule, self.on_error));
        decision
    }

    /// One call, which the server decides.
    pub async fn shared(&self) {
        assert_eq!(self.call().await.decided_by(), DecidedBy::Shared);
    }

    /// One call, which the server does not decide.
    pub async fn degraded(&self) {
        assert_eq!(self.call().await.decided_by(), DecidedBy::Degraded);
    }

    /// Calls until the answer is from there. Returns how long that took.
    pub async fn until(&self, by: DecidedBy) -> Duration {
        let start = Instant::now();
        until(&format!("{by:?} decisions"), async || self.call().await.decided_by() == by).await;
        start.elapsed()
    }

    /// Calls until the breaker is open.
    pub async fn until_down(&self) {
        until("the breaker to open", async || {
            self.call().await;
            self.limiter.health().iter().any(|(_, health)| *health == Health::Down)
        })
        .await;
    }

    pub fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn count(&self, is: impl Fn(Outcome) -> bool) -> u64 {
        self.records().iter().filter(|record| is(record.outcome)).count() as u64
    }

    pub fn admitted(&self) -> u64 {
        self.count(|outcome| outcome == Outcome::Admitted)
    }

    /// Calls that were perhaps counted.
    pub fn perhaps(&self) -> u64 {
        self.count(|outcome| matches!(outcome, Outcome::Degraded { .. } | Outcome::Dropped))
    }

    /// How many permits of this key are taken on the server, by the word of a limiter which nothing disturbs.
    pub async fn charged(&self, witness: &RedisLimiter) -> u64 {
        let state = witness.look(&self.rule, &self.key).await;
        assert_eq!(state.decided_by(), DecidedBy::Shared, "the witness hears nothing");
        self.rule.capacity() - state.remaining()
    }

    /// Panics where a promise was broken, and else returns how many permits are taken on the server.
    pub async fn settle(&self, witness: &RedisLimiter) -> u64 {
        let (limit, charged) = (self.rule.capacity(), self.charged(witness).await);
        let (admitted, perhaps) = (self.admitted(), self.perhaps());
        assert!(admitted <= limit, "{admitted} were admitted, of {limit}");
        assert!(charged >= admitted, "{admitted} were admitted, and {charged} charged");
        assert!(charged <= admitted + perhaps, "{admitted} and perhaps {perhaps} were charged as {charged}");
        let own = self.count(|outcome| outcome == Outcome::Degraded { allowed: true });
        assert!(self.on_error != OnError::Local || own <= limit, "{own} were admitted here, of {limit}");
        self.check_rejections(limit);
        charged
    }

    /// Nobody was rejected by the server before the limit can have been reached.
    fn check_rejections(&self, limit: u64) {
        let records = self.records();
        for rejected in records.iter().filter(|record| record.outcome == Outcome::Rejected) {
            let may_count =
                |record: &&Record| record.outcome != Outcome::Rejected && record.asked <= rejected.answered;
            let before = records.iter().filter(may_count).count() as u64;
            assert!(before >= limit, "rejected after {before} calls at the most, of {limit}");
        }
    }
}

/// A call under way. One that nobody waits for any more is written down as dropped.
struct Entry<'a> {
    history: &'a History,
    asked: Instant,
    outcome: Outcome,
}

impl Entry<'_> {
    fn ends(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let record = Record { asked: self.asked, answered: Instant::now(), outcome: self.outcome };
        self.history.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

/// Asks again until it is so, without ever blocking the runtime.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < PATIENT, "waited {PATIENT:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
