//! What goes together: questions for one key, and keys of one rule, in one script call.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::failure::Failure;
use super::question::{self, Question, Reply, What};
use crate::{DecidedBy, Decision};

/// Questions for one key in one script call, so that no other key waits long for it.
const MOST_FOR_ONE_KEY: usize = 1024;

/// A question and who waits for its answer.
pub(super) struct Asked {
    pub(super) question: Question,
    /// For a cluster: the key is on its way here, and this server is asked for this once.
    pub(super) asking: bool,
    /// When whoever asks waits no more.
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<Decision, Failure>>,
}

/// The questions for one key.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiting: Vec<Asked>,
    /// Listed as ready, or with a script call under way.
    pub(super) busy: bool,
}

/// Questions for one key whose turn it is.
pub(super) struct Turn {
    pub(super) name: Arc<str>,
    pub(super) asked: Vec<Asked>,
}

/// Turns that go in one script call. None of them is empty when it is sent.
pub(super) struct Batch {
    pub(super) turns: Vec<Turn>,
    pub(super) with_source: bool,
}

/// What became of each question of a batch, in their order, or of all.
pub(super) type Outcome = Result<Vec<Result<Decision, Failure>>, Failure>;

impl Queue {
    /// The questions that can go together next, in the order in which they came.
    pub(super) fn next_turn(&mut self) -> Option<Turn> {
        self.waiting.retain(|asked| !asked.answer.is_closed());
        let first = self.waiting.first()?;
        let alike = |asked: &Asked| {
            Arc::ptr_eq(&asked.question.rule, &first.question.rule)
                && asked.asking == first.asking
                && asked.question.what != What::Forget
        };
        let count = match first.question.what {
            What::Forget => 1,
            What::Take { .. } => {
                self.waiting.iter().take(MOST_FOR_ONE_KEY).take_while(|asked| alike(asked)).count()
            }
        };
        let name = Arc::clone(&first.question.name);
        let rest = self.waiting.split_off(count);
        Some(Turn { name, asked: std::mem::replace(&mut self.waiting, rest) })
    }
}

impl Turn {
    fn first(&self) -> &Asked {
        &self.asked[0]
    }
}

impl Batch {
    pub(super) fn of(turn: Turn) -> Self {
        Self { turns: vec![turn], with_source: false }
    }

    /// Whether this turn can go with it, in a script call for so many keys at most.
    pub(super) fn has_room_for(&self, turn: &Turn, most_keys: usize) -> bool {
        let (first, next) = (self.turns[0].first(), turn.first());
        let rule = &first.question.rule;
        let takes = |asked: &Asked| asked.question.what != What::Forget && !asked.asking;
        self.turns.len() < most_keys.min(rule.most_keys())
            && Arc::ptr_eq(rule, &next.question.rule)
            && takes(first)
            && takes(next)
            && !self.with_source
    }

    /// Whether the server is told first that it is asked for this once.
    pub(super) fn is_asking(&self) -> bool {
        self.turns[0].first().asking
    }

    pub(super) fn is_one_question(&self) -> bool {
        matches!(&*self.turns, [turn] if turn.asked.len() == 1)
    }

    /// When the first of those who ask waits no more.
    pub(super) fn deadline(&self) -> Instant {
        self.turns[0].first().deadline
    }

    pub(super) fn command(&self) -> Cmd {
        question::command(&self.turns, self.with_source)
    }

    /// What a reply says about each question.
    pub(super) fn outcomes(&self, reply: Value) -> Outcome {
        if self.turns[0].first().question.what == What::Forget {
            return Ok(vec![Ok(Decision::exempt().by(DecidedBy::Shared))]);
        }
        let mut reply = Reply::new(reply)?;
        let mut outcomes = Vec::with_capacity(self.turns.iter().map(|turn| turn.asked.len()).sum());
        for turn in &self.turns {
            if let Some(refusal) = reply.refusal() {
                outcomes.extend(turn.asked.iter().map(|_| Err(refusal.clone())));
                continue;
            }
            for run in question::runs(&turn.asked) {
                reply.decisions(&run[0].question, run.len(), &mut outcomes)?;
            }
        }
        if reply.is_over() { Ok(outcomes) } else { Err(Failure::Strange) }
    }
}

impl AsRef<Question> for Asked {
    fn as_ref(&self) -> &Question {
        &self.question
    }
}

impl AsRef<[Asked]> for Turn {
    fn as_ref(&self) -> &[Asked] {
        &self.asked
    }
}
