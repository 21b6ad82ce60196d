//! What is asked of a server, and what it answers.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use redis::{Cmd, Script, Value};

use super::failure::Failure;
use crate::strategy::lua::{self, Argument};
use crate::strategy::{Standing, Terms};
use crate::{DecidedBy, Decision, Rule};

/// Everything about a rule that is the same for all its calls.
pub(super) struct Prepared {
    pub(super) rule: Rule,
    /// What this instance keeps to on its own.
    pub(super) own_part: Rule,
    /// What the names of its keys start with.
    pub(super) start: String,
    /// Of what all its names have in common.
    pub(super) names_hash: u64,
    script: Script,
    source: String,
    terms: Box<[Terms]>,
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

    /// Whether it asks for the same as another, whenever that was.
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Take { cost, longest_wait, .. },
                Self::Take { cost: other_cost, longest_wait: other_wait, .. },
            ) => (cost, longest_wait) == (other_cost, other_wait),
            _ => self == other,
        }
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
        let start = super::names::start(prefix, rule.name());
        Self {
            rule: rule.clone(),
            own_part: if instances == 1 { rule.clone() } else { rule.divided(instances) },
            names_hash: BuildHasherDefault::<DefaultHasher>::default()
                .hash_one((&start, rule.strategy().name())),
            start,
            script: Script::new(&source),
            source,
            #[cfg(feature = "tracing")]
            reported: std::sync::atomic::AtomicU64::new(0),
            terms,
        }
    }
}

impl Prepared {
    /// Whether its keys have the names of another's: then they are the same on the server.
    pub(super) fn has_names_of(&self, other: &Self) -> bool {
        self.start == other.start && self.rule.strategy() == other.rule.strategy()
    }

    /// How many keys can be asked about in one script.
    pub(super) fn most_keys(&self) -> usize {
        lua::most_keys(self.rule.strategy())
    }

    /// Tells those who run the service what the server has against this rule, once in a second. A server that is away
    /// is its breaker's to tell.
    #[cfg(feature = "tracing")]
    pub(super) fn report(&self, failure: &Failure) {
        static START: once_cell::sync::Lazy<std::time::Instant> =
            once_cell::sync::Lazy::new(std::time::Instant::now);
        let second = START.elapsed().as_secs() + 1;
        if matches!(failure, Failure::NoWrites(_) | Failure::Refused(_) | Failure::Strange)
            && self.reported.swap(second, std::sync::atomic::Ordering::Relaxed) != second
        {
            tracing::warn!(target: "limiter", rule = self.rule.name(), %failure, "calls of this limit go by their on_error");
        }
    }

    #[cfg(not(feature = "tracing"))]
    #[expect(clippy::unused_self, reason = "there is nobody to tell")]
    pub(super) fn report(&self, _: &Failure) {}
}

/// A command, the hash of a script, and two numbers.
const LONGEST_WORDS: usize = 90;

/// The script call for several keys of one rule, or what else one key is asked for.
pub(super) fn command<'a, A: AsRef<Question> + 'a>(keys: &[impl AsRef<[A]>], with_source: bool) -> Cmd {
    let first = keys[0].as_ref()[0].as_ref();
    let Prepared { script, source, terms, .. } = &*first.rule;
    let names_length: usize = keys.iter().map(|key| key.as_ref()[0].as_ref().name.len() + 4).sum();
    let numbers = 1 + 4 * terms.len() + 4 * keys.len();
    // For all of it but a source.
    let mut command = Cmd::with_capacity(
        5 + keys.len() * terms.len(),
        LONGEST_WORDS + names_length * terms.len() + 8 * numbers,
    );
    if first.what == What::Forget {
        command.arg("UNLINK");
        names(&mut command, &first.name, terms.len());
        return command;
    }
    if with_source {
        command.arg("EVAL").arg(source);
    } else {
        command.arg("EVALSHA").arg(script.get_hash());
    }
    command.arg(keys.len() * terms.len());
    let mut argument = Argument::new(keys.len(), terms);
    let mut time = None;
    for key in keys {
        let questions = key.as_ref();
        names(&mut command, &questions[0].as_ref().name, terms.len());
        argument.runs(runs(questions).count());
        for run in runs(questions) {
            if let What::Take { cost, longest_wait, now } = run[run.len() - 1].as_ref().what {
                argument.run(run.len(), cost, longest_wait);
                time = now;
            }
        }
    }
    command.arg(argument.as_bytes());
    if let Some(now) = time {
        command.arg(now);
    }
    command
}

/// Questions for one key, in parts that are alike.
pub(super) fn runs<A: AsRef<Question>>(questions: &[A]) -> impl Iterator<Item = &[A]> {
    questions.chunk_by(|one, next| one.as_ref().what.is_like(next.as_ref().what))
}

fn names(command: &mut Cmd, name: &str, quotas: usize) {
    command.arg(name);
    for quota in 1..quotas {
        command.arg(format!("{name}:{quota}"));
    }
}

/// The reply of a script, read call by call.
pub(super) struct Reply {
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(super) fn new(reply: Value) -> Result<Self, Failure> {
        match reply {
            Value::Array(values) => Ok(Self { values: values.into_iter() }),
            _ => Err(Failure::Strange),
        }
    }

    /// What the script has against the next key, if anything.
    pub(super) fn refusal(&mut self) -> Option<Failure> {
        match self.values.as_slice().first() {
            Some(Value::ServerError(error)) => {
                let refusal = Failure::of_answer(error, None);
                self.values.next();
                Some(refusal)
            }
            _ => None,
        }
    }

    /// The decisions about the next calls, which are alike.
    pub(super) fn decisions(
        &mut self,
        question: &Question,
        calls: usize,
        outcomes: &mut Vec<Result<Decision, Failure>>,
    ) -> Result<(), Failure> {
        let What::Take { cost, .. } = question.what else { return Err(Failure::Strange) };
        let quotas = question.rule.terms.len();
        let mut left = calls as u64;
        while left > 0 {
            let alike = if calls > 1 { self.natural()? } else { 1 };
            let (answer, remaining, reset_after) = (self.number()?, self.natural()?, self.natural()?);
            let quota = if quotas > 1 { self.natural()? } else { 0 };
            let step = if calls > 1 { self.natural()? } else { 0 };
            let quota = u8::try_from(quota).map_err(|_| Failure::Strange)?;
            if usize::from(quota) >= quotas || alike == 0 || alike > left {
                return Err(Failure::Strange);
            }
            for call in 0..alike {
                let (cost, step) = (call.saturating_mul(cost), call.saturating_mul(step));
                let reset_after = nanos(reset_after.saturating_add(step));
                let standing = |remaining| Standing::whole(remaining, reset_after);
                let decision = match u64::try_from(answer) {
                    // The turn is counted from the answer: the server's clock is not ours.
                    Ok(delay) if question.would_wait(delay) => {
                        Decision::allowed(quota, 0, nanos(delay), standing(remaining.saturating_sub(cost)))
                    }
                    Ok(_) => return Err(Failure::Strange),
                    Err(_) if answer == -1 => Decision::too_costly(quota, standing(remaining)),
                    Err(_) => {
                        let retry_after = nanos((answer + 2).unsigned_abs());
                        Decision::exceeded(quota, retry_after, standing(remaining))
                    }
                };
                outcomes.push(Ok(decision.by(DecidedBy::Shared)));
            }
            left -= alike;
        }
        Ok(())
    }

    /// Whether there is nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.values.as_slice().is_empty()
    }

    fn number(&mut self) -> Result<i64, Failure> {
        match self.values.next() {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(Failure::Strange),
        }
    }

    fn natural(&mut self) -> Result<u64, Failure> {
        u64::try_from(self.number()?).map_err(|_| Failure::Strange)
    }
}

fn nanos(micros: u64) -> u64 {
    micros.saturating_mul(1_000)
}
