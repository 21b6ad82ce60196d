//! One server, and the one task that talks to it.
//!
//! The task takes all questions that are there, puts those for one key into one script call and all script calls into
//! pipelines. A key whose script call is under way is not asked again until the answer is here: questions for it gather
//! meanwhile, and go together in the next. Nobody waits for anybody else's key.
//!
//! A question whose asker has gone is not sent. One that was sent without an answer is never sent again.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};
use tokio::time::Instant;

use super::failure::Failure;
use super::health::{Breaker, Health};
use super::question::{self, Question, What};
use super::resolver::{Found, Resolver};
use crate::{DecidedBy, Decision};

/// A handle to the task.
#[derive(Clone)]
pub(super) struct Node {
    inbox: mpsc::UnboundedSender<Message>,
    pub(super) breaker: Breaker,
}

enum Message {
    Asked(Asked),
    /// Too many calls ran out of time: the connection is not to be trusted.
    Late,
}

/// A question and who waits for its answer.
struct Asked {
    question: Question,
    /// For a cluster: the key is on its way here, and this server is asked for this once.
    asking: bool,
    answer: oneshot::Sender<Result<Decision, Failure>>,
}

/// Script calls in one pipeline: enough to save work, few enough that the first does not wait for the last.
const MOST_IN_A_PIPELINE: usize = 64;
/// How often a connection that nobody uses is tried.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Questions in one script call, so that no other key waits long for it.
const MOST_IN_A_SCRIPT: usize = 1024;

impl Node {
    /// Talks over `connection`, and makes new ones when it breaks.
    pub(super) fn new(resolver: Resolver, connection: Option<MultiplexedConnection>) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let breaker = Breaker::new(resolver.place());
        tokio::spawn(Talk::new(resolver, connection, breaker.clone()).run(inbox));
        Self { inbox: sender, breaker }
    }

    /// The answer to a question, or why there is none by `deadline`.
    pub(super) async fn ask(
        &self,
        question: Question,
        asking: bool,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        if self.breaker.health() == Health::Down {
            return Err(Failure::Away);
        }
        let (answer, answered) = oneshot::channel();
        self.inbox.send(Message::Asked(Asked { question, asking, answer })).map_err(|_| Failure::Away)?;
        match tokio::time::timeout_at(deadline, answered).await {
            Ok(answer) => {
                let answer = answer.unwrap_or(Err(Failure::Unknown));
                let unanswered = matches!(
                    answer,
                    Err(Failure::Away | Failure::Unknown | Failure::NotNow | Failure::ReadOnly)
                );
                if !unanswered {
                    self.breaker.in_time();
                }
                answer
            }
            Err(_) => {
                self.ran_out_of_time();
                Err(Failure::Unknown)
            }
        }
    }
}

impl Node {
    /// A call got no answer in its time.
    pub(super) fn ran_out_of_time(&self) {
        if self.breaker.too_late() {
            self.breaker.down(&"calls run out of time");
            let _ = self.inbox.send(Message::Late);
        }
    }
}

/// What the task knows.
struct Talk {
    resolver: Arc<Resolver>,
    breaker: Breaker,
    connection: Option<MultiplexedConnection>,
    /// Keys that somebody asks about.
    keys: HashMap<Arc<str>, Queue>,
    /// Keys among them that can be asked about next.
    ready: Vec<Arc<str>>,
    /// Script calls to be sent next.
    batches: Vec<Batch>,
    /// Pipelines under way, and what is in each.
    sent: JoinSet<RedisResult<Vec<Value>>>,
    under_way: HashMap<task::Id, Vec<Batch>>,
    /// The search for a server, while there is no connection, and what it tells.
    finding: JoinSet<()>,
    tell: mpsc::UnboundedSender<Found>,
    news: mpsc::UnboundedReceiver<Found>,
    /// How many connections were tried since one brought a decision.
    attempts: u32,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Asked>,
    /// Listed as ready, or with a script call under way.
    busy: bool,
}

/// Questions for one key that go in one script call. There is always one when it is sent.
struct Batch {
    name: Arc<str>,
    asked: Vec<Asked>,
    with_source: bool,
}

impl Talk {
    fn new(resolver: Resolver, connection: Option<MultiplexedConnection>, breaker: Breaker) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let mut talk = Self {
            resolver: Arc::new(resolver),
            breaker,
            connection: None,
            keys: HashMap::new(),
            ready: Vec::new(),
            batches: Vec::new(),
            sent: JoinSet::new(),
            under_way: HashMap::new(),
            finding: JoinSet::new(),
            tell,
            news,
            attempts: 0,
        };
        match connection {
            Some(connection) => talk.connected(connection),
            None => talk.connect(),
        }
        talk
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
        let mut arrived = Vec::new();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let resolver = Arc::clone(&self.resolver);
        let mut switched = pin!(resolver.switched());
        loop {
            tokio::select! {
                count = inbox.recv_many(&mut arrived, MOST_IN_A_SCRIPT) => {
                    if count == 0 {
                        return;
                    }
                    for message in arrived.drain(..) {
                        match message {
                            Message::Asked(asked) => self.accept(asked),
                            Message::Late => {
                                // Others of the fleet were late at the same moment: do not all come back at once.
                                self.attempts = self.attempts.max(1);
                                self.disconnect();
                            }
                        }
                    }
                }
                Some(sent) = self.sent.join_next_with_id() => {
                    let (id, replies) = match sent {
                        Ok((id, replies)) => (id, replies.ok()),
                        Err(ended) => (ended.id(), None),
                    };
                    // What was under way when the connection was given up has been answered then.
                    if let Some(batches) = self.under_way.remove(&id) {
                        self.receive(batches, replies);
                    }
                }
                _ = heartbeat.tick() => self.beat(),
                () = &mut switched => {
                    self.disconnect();
                    switched.set(resolver.switched());
                }
                Some(found) = self.news.recv() => match found {
                    Found::Connection(connection, host) => {
                        self.resolver.settle_on(host);
                        self.connected(connection);
                    }
                    Found::Not(error) => {
                        self.attempts = self.attempts.saturating_add(1);
                        self.breaker.down(&error);
                    }
                },
            }
            self.send();
        }
    }

    /// Finds out whether a connection that nobody uses still holds, so that the next call need not.
    fn beat(&mut self) {
        if let (Some(connection), true) = (&self.connection, self.under_way.is_empty()) {
            let mut connection = connection.clone();
            let sent = self.sent.spawn(async move {
                let mut pipeline = Pipeline::new();
                connection.send_packed_commands(pipeline.cmd("PING"), 0, 1).await
            });
            self.under_way.insert(sent.id(), Vec::new());
        }
    }

    fn connected(&mut self, connection: MultiplexedConnection) {
        self.connection = Some(connection);
        self.breaker.set(Health::Up);
    }

    fn connect(&mut self) {
        let (resolver, attempts, tell) = (Arc::clone(&self.resolver), self.attempts, self.tell.clone());
        self.attempts = attempts.saturating_add(1);
        while self.finding.try_join_next().is_some() {}
        self.finding.spawn(async move { resolver.find(attempts, tell).await });
    }

    fn disconnect(&mut self) {
        if self.connection.take().is_some() {
            // Nobody waits for a connection that is given up. What was sent over it may have been done.
            self.sent.abort_all();
            for batch in std::mem::take(&mut self.under_way).into_values().flatten() {
                self.finish(batch, &Err(Failure::Unknown));
            }
            // Down already, if calls ran out of time. Else calls wait for the first attempt to connect, which may be in
            // time for them; but not where the last connection brought nothing either.
            if self.breaker.health() == Health::Up {
                if self.attempts == 0 {
                    self.breaker.set(Health::Connecting);
                } else {
                    self.breaker.down(&"one connection after the other breaks");
                }
            }
            self.connect();
        }
    }

    fn accept(&mut self, asked: Asked) {
        let name = Arc::clone(&asked.question.name);
        let queue = self.keys.entry(Arc::clone(&name)).or_default();
        queue.waiting.push_back(asked);
        if !queue.busy {
            queue.busy = true;
            self.ready.push(name);
        }
    }

    /// Sends all that can be sent.
    fn send(&mut self) {
        if self.breaker.health() == Health::Connecting {
            return;
        }
        for name in std::mem::take(&mut self.ready) {
            let Some(queue) = self.keys.get_mut(&name) else { continue };
            match queue.next_batch() {
                Some(batch) => self.batches.push(batch),
                None => _ = self.keys.remove(&name),
            }
        }
        let Some(connection) = self.connection.clone() else {
            for batch in std::mem::take(&mut self.batches) {
                self.finish(batch, &Err(Failure::Away));
            }
            return;
        };
        // A script that was not there may have waited for a connection, and its askers may have gone since.
        for batch in &mut self.batches {
            batch.asked.retain(|asked| !asked.answer.is_closed());
        }
        for batch in self.batches.extract_if(.., |batch| batch.asked.is_empty()).collect::<Vec<_>>() {
            self.finish(batch, &Err(Failure::Unknown));
        }
        while !self.batches.is_empty() {
            let rest = self.batches.split_off(self.batches.len().min(MOST_IN_A_PIPELINE));
            let batches = std::mem::replace(&mut self.batches, rest);
            let mut pipeline = Pipeline::with_capacity(batches.len());
            for batch in &batches {
                if batch.asked[0].asking {
                    pipeline.cmd("ASKING");
                }
                pipeline.add_command(batch.command());
            }
            let mut connection = connection.clone();
            let sent = self.sent.spawn(async move {
                let count = pipeline.len();
                connection.send_packed_commands(&pipeline, 0, count).await
            });
            self.under_way.insert(sent.id(), batches);
        }
    }

    /// Answers what was in a pipeline. Without replies, the connection broke or its answer is long overdue: what was sent
    /// may have been done.
    fn receive(&mut self, batches: Vec<Batch>, replies: Option<Vec<Value>>) {
        let Some(replies) = replies else {
            self.disconnect();
            for batch in batches {
                self.finish(batch, &Err(Failure::Unknown));
            }
            return;
        };
        let asked_host = self.resolver.host();
        let mut replies = replies.into_iter();
        // Behind a reply that makes no sense, nobody knows which one answers what.
        let mut in_order = true;
        for mut batch in batches {
            if batch.asked[0].asking {
                replies.next();
            }
            let outcome = match replies.next() {
                _ if !in_order => Err(Failure::Unknown),
                Some(Value::ServerError(error)) => Err(Failure::of_answer(&error, asked_host.as_ref())),
                Some(reply) => batch.decisions(reply),
                None => Err(Failure::Strange),
            };
            in_order &= !matches!(outcome, Err(Failure::Strange));
            match outcome {
                Err(Failure::NoScript) if !batch.with_source => {
                    // It did not run. Sent with its source, it stays on the server.
                    batch.with_source = true;
                    self.batches.push(batch);
                    continue;
                }
                Err(Failure::ReadOnly | Failure::Strange) => self.disconnect(),
                Ok(_) => self.attempts = 0,
                Err(_) => {}
            }
            self.finish(batch, &outcome);
        }
    }

    /// Answers the questions of a batch; those for the same key that came meanwhile are next.
    fn finish(&mut self, batch: Batch, outcome: &Result<Vec<Decision>, Failure>) {
        let name = batch.name;
        for (i, asked) in batch.asked.into_iter().enumerate() {
            let answer = match outcome {
                Ok(decisions) => Ok(decisions[i]),
                Err(failure) => Err(failure.clone()),
            };
            // Whoever has gone does not want to know.
            let _ = asked.answer.send(answer);
        }
        let Some(queue) = self.keys.get_mut(&name) else { return };
        if queue.waiting.is_empty() {
            self.keys.remove(&name);
        } else {
            self.ready.push(name);
        }
    }
}

impl Queue {
    /// The questions that can go together next, in the order in which they came.
    fn next_batch(&mut self) -> Option<Batch> {
        self.waiting.retain(|asked| !asked.answer.is_closed());
        let first = self.waiting.front()?;
        let alike = |asked: &Asked| {
            Arc::ptr_eq(&asked.question.rule, &first.question.rule)
                && asked.asking == first.asking
                && asked.question.what != What::Forget
        };
        let count = match first.question.what {
            What::Forget => 1,
            What::Take { .. } => {
                self.waiting.iter().take(MOST_IN_A_SCRIPT).take_while(|asked| alike(asked)).count()
            }
        };
        let name = Arc::clone(&first.question.name);
        Some(Batch { name, asked: self.waiting.drain(..count).collect(), with_source: false })
    }
}

impl Batch {
    fn command(&self) -> redis::Cmd {
        question::command(self.asked.iter().map(|asked| &asked.question), self.with_source)
    }

    fn decisions(&self, reply: Value) -> Result<Vec<Decision>, Failure> {
        match self.asked[0].question.what {
            What::Take { .. } => question::decisions(reply, self.asked.iter().map(|asked| &asked.question)),
            What::Forget => Ok(vec![Decision::exempt().by(DecidedBy::Shared)]),
        }
    }
}
