//! What is asked of a server, and what it answers.

use std::sync::Arc;

use redis::{Cmd, Script, Value};

use super::failure::Failure;
use crate::strategy::{Standing, Terms, lua};
use crate::{DecidedBy, Decision, Rule};

/// Everything about a rule that is the same for all its calls.
pub(super) struct Prepared {
    pub(super) rule: Rule,
    /// What this instance keeps to on its own.
    pub(super) own_part: Rule,
    /// What the names of its keys start with.
    pub(super) start: String,
    script: Script,
    source: String,
    /// The terms of each quota, as arguments of the script.
    terms: Vec<u64>,
    quotas: usize,
    /// The second, counted from the start of the program, in which a refusal was last reported.
    #[cfg(feature = "tracing")]
    reported: std::sync::atomic::AtomicU64,
}

/// One call, for one key.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) rule: Arc<Prepared>,
    /// The name of the first quota's key; those of the others follow from it.
    pub(super) name: Arc<str>,
    pub(super) what: What,
}

impl Question {
    /// Whether the call may be admitted after so many microseconds.
    fn would_wait(&self, micros: u64) -> bool {
        match self.what {
            What::Take { longest_wait, .. } => {
                i64::try_from(micros).is_ok_and(|micros| micros <= longest_wait)
            }
            What::Forget => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Take this many permits, waiting at most so many microseconds; or look, waiting a negative time.
    Take { cost: u64, longest_wait: i64, now: Option<u64> },
    /// Give all permits back.
    Forget,
}

impl What {
    pub(super) fn take(cost: u64, longest_wait: std::time::Duration, now: Option<u64>) -> Self {
        let micros = u64::try_from(longest_wait.as_micros()).unwrap_or(u64::MAX).min(lua::LONGEST_WAIT);
        Self::Take { cost: cost.min(Terms::MOST_PERMITS), longest_wait: micros.cast_signed(), now }
    }

    /// A call that nothing admits, since it would have to go before now.
    pub(super) fn look(now: Option<u64>) -> Self {
        Self::Take { cost: 1, longest_wait: -1, now }
    }
}

impl Prepared {
    pub(super) fn new(prefix: &str, rule: &Rule, clock: lua::ScriptClock, instances: u64) -> Self {
        let terms = Terms::in_micros(rule);
        let source = lua::source(rule.strategy(), clock);
        Self {
            rule: rule.clone(),
            own_part: if instances == 1 { rule.clone() } else { rule.divided(instances) },
            start: super::names::start(prefix, rule.name()),
            script: Script::new(&source),
            source,
            quotas: terms.len(),
            #[cfg(feature = "tracing")]
            reported: std::sync::atomic::AtomicU64::new(0),
            terms: lua::arguments(&terms, []).collect(),
        }
    }
}

impl Prepared {
    /// Tells those who run the service what the server has against this rule, once in a second. A server that is away
    /// is its breaker's to tell.
    #[cfg(feature = "tracing")]
    pub(super) fn report(&self, failure: &Failure) {
        static START: once_cell::sync::Lazy<std::time::Instant> =
            once_cell::sync::Lazy::new(std::time::Instant::now);
        let second = START.elapsed().as_secs() + 1;
        if matches!(failure, Failure::Refused(_) | Failure::Strange)
            && self.reported.swap(second, std::sync::atomic::Ordering::Relaxed) != second
        {
            tracing::warn!(target: "limiter", rule = self.rule.name(), %failure, "calls of this limit go by their on_error");
        }
    }

    #[cfg(not(feature = "tracing"))]
    #[expect(clippy::unused_self, reason = "there is nobody to tell")]
    pub(super) fn report(&self, _: &Failure) {}
}

/// Calls for one key that go together in one script. There is always one.
pub(super) fn command<'a>(questions: impl Iterator<Item = &'a Question>, with_source: bool) -> Cmd {
    let mut questions = questions.peekable();
    let first = *questions.peek().expect("a batch has a question");
    let Prepared { script, source, terms, quotas, .. } = &*first.rule;
    if first.what == What::Forget {
        let mut command = Cmd::new();
        command.arg("UNLINK");
        names(&mut command, &first.name, *quotas);
        return command;
    }
    let mut command = Cmd::new();
    if with_source {
        command.arg("EVAL").arg(source);
    } else {
        command.arg("EVALSHA").arg(script.get_hash());
    }
    command.arg(*quotas);
    names(&mut command, &first.name, *quotas);
    command.arg(terms);
    let mut time = None;
    for question in questions {
        if let What::Take { cost, longest_wait, now } = question.what {
            command.arg(cost).arg(longest_wait);
            time = now;
        }
    }
    if let Some(now) = time {
        command.arg(now);
    }
    command
}

fn names(command: &mut Cmd, name: &str, quotas: usize) {
    command.arg(name);
    for quota in 1..quotas {
        command.arg(format!("{name}:{quota}"));
    }
}

/// The decisions of calls that went together.
pub(super) fn decisions<'a>(
    reply: Value,
    questions: impl ExactSizeIterator<Item = &'a Question>,
) -> Result<Vec<Decision>, Failure> {
    const FIELDS: usize = 5;
    let strange = || Failure::Strange;
    let Value::Array(values) = reply else { return Err(strange()) };
    let numbers = values.into_iter().map(|value| match value {
        Value::Int(number) => u64::try_from(number).map_err(|_| strange()),
        _ => Err(strange()),
    });
    let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
    // The first one is the server's time.
    let rows = numbers.get(1..).unwrap_or_default();
    if rows.len() != questions.len() * FIELDS {
        return Err(strange());
    }
    let nanos = |micros: u64| micros.saturating_mul(1_000);
    let decision = |(row, question): (&[u64], &Question)| {
        let [verdict, time, quota, remaining, reset_after] = *row else { return Err(strange()) };
        let quota = u8::try_from(quota).map_err(|_| strange())?;
        if usize::from(quota) >= question.rule.quotas || verdict == 0 && !question.would_wait(time) {
            return Err(strange());
        }
        let standing = Standing::whole(remaining, nanos(reset_after));
        let decision = match verdict {
            // The turn is counted from the answer: the server's clock is not ours.
            0 => Decision::allowed(quota, 0, nanos(time), standing),
            1 => Decision::exceeded(quota, nanos(time), standing),
            2 => Decision::too_costly(quota, standing),
            _ => return Err(strange()),
        };
        Ok(decision.by(DecidedBy::Shared))
    };
    rows.chunks_exact(FIELDS).zip(questions).map(decision).collect()
}
