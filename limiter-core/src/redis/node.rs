//! One server, and the one task that talks to it.
//!
//! The task takes all questions that are there, puts those for one key into one script call, several keys of one rule as
//! well, and all script calls into pipelines. A key whose script call is under way is not asked again until the answer is here: questions for it gather
//! meanwhile, and go together in the next. Nobody waits for anybody else's key.
//!
//! A question whose asker has gone is not sent. One that was sent without an answer is never sent again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::batch::{Asked, Batch, Outcome, Queue, Turn};
use super::failure::Failure;
use super::health::{Breaker, Health};
use super::question::Question;
use super::resolver::{Found, Resolver};
use super::sent::Sent;
use crate::Decision;

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

/// Keys in one pipeline: enough to save work, few enough that the first does not wait for the last.
const MOST_IN_A_PIPELINE: usize = 64;
/// Batches that are looked through for one that a key can go with.
const OPEN_BATCHES: usize = 4;
/// Messages that are taken at once.
const MOST_AT_ONCE: usize = 1024;
/// How often a connection that nobody uses is tried.
const HEARTBEAT: Duration = Duration::from_secs(1);

impl Node {
    /// Talks over `connection`, and makes new ones when it breaks.
    pub(super) fn new(resolver: Resolver, connection: Option<MultiplexedConnection>) -> Self {
        Self::with(resolver, connection, usize::MAX)
    }

    /// One of several, between which keys may move: each key has a script call of its own.
    pub(super) fn of_cluster(resolver: Resolver, connection: Option<MultiplexedConnection>) -> Self {
        Self::with(resolver, connection, 1)
    }

    fn with(resolver: Resolver, connection: Option<MultiplexedConnection>, most_keys: usize) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let breaker = Breaker::new(resolver.place());
        tokio::spawn(Talk::new(resolver, connection, breaker.clone(), most_keys).run(inbox));
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
    /// How many keys the server may be asked about in one script call.
    most_keys: usize,
    /// Script calls to be sent next.
    batches: Vec<Batch>,
    /// Pipelines under way.
    sent: Sent,
    /// The search for a server, while there is no connection, and what it tells.
    finding: JoinSet<()>,
    tell: mpsc::UnboundedSender<Found>,
    news: mpsc::UnboundedReceiver<Found>,
    /// How many connections were tried since one brought a decision.
    attempts: u32,
}

impl Talk {
    fn new(
        resolver: Resolver,
        connection: Option<MultiplexedConnection>,
        breaker: Breaker,
        most_keys: usize,
    ) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let mut talk = Self {
            resolver: Arc::new(resolver),
            breaker,
            connection: None,
            keys: HashMap::new(),
            ready: Vec::new(),
            most_keys,
            batches: Vec::new(),
            sent: Sent::default(),
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
                count = inbox.recv_many(&mut arrived, MOST_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    // Whoever else runs now may ask meanwhile, and go along. It also saves waking another thread: a
                    // runtime that goes from task to task for too long without a pause calls for help.
                    tokio::task::yield_now().await;
                    while let Ok(message) = inbox.try_recv() {
                        arrived.push(message);
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
                (batches, replies) = self.sent.answered() => self.receive(batches, replies.ok()),
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
        if let (Some(connection), true) = (self.connection.clone(), self.sent.is_empty()) {
            let mut pipeline = Pipeline::new();
            pipeline.cmd("PING");
            self.sent.send(connection, pipeline, Vec::new());
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
            for batch in self.sent.give_up() {
                self.finish(batch, Err(Failure::Unknown));
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
        let name = &asked.question.name;
        let queue = match self.keys.get_mut(name) {
            Some(queue) => queue,
            None => self.keys.entry(Arc::clone(name)).or_default(),
        };
        if !queue.busy {
            queue.busy = true;
            self.ready.push(Arc::clone(name));
        }
        queue.waiting.push(asked);
    }

    /// Sends all that can be sent. Who has gone may have left questions of others behind.
    fn send(&mut self) {
        while !(self.ready.is_empty() && self.batches.is_empty())
            && self.breaker.health() != Health::Connecting
        {
            self.send_ready();
        }
    }

    fn send_ready(&mut self) {
        for name in std::mem::take(&mut self.ready) {
            let Some(queue) = self.keys.get_mut(&name) else { continue };
            match queue.next_turn() {
                Some(turn) => self.join(turn),
                None => _ = self.keys.remove(&name),
            }
        }
        let Some(connection) = self.connection.clone() else {
            for batch in std::mem::take(&mut self.batches) {
                self.finish(batch, Err(Failure::Away));
            }
            return;
        };
        let mut batches = std::mem::take(&mut self.batches).into_iter().peekable();
        while batches.peek().is_some() {
            let (mut keys, mut in_pipeline, mut pipeline) = (0, Vec::new(), Pipeline::new());
            while let Some(batch) =
                batches.next_if(|batch| keys == 0 || keys + batch.turns.len() <= MOST_IN_A_PIPELINE)
            {
                let Some(batch) = self.still_wanted(batch) else { continue };
                keys += batch.turns.len();
                if batch.is_asking() {
                    pipeline.cmd("ASKING");
                }
                pipeline.add_command(batch.command());
                in_pipeline.push(batch);
            }
            if !in_pipeline.is_empty() {
                self.sent.send(connection.clone(), pipeline, in_pipeline);
            }
        }
    }

    /// Puts a turn into a script call with others of its rule, or into one of its own.
    fn join(&mut self, turn: Turn) {
        let open = self.batches.iter_mut().rev().take(OPEN_BATCHES);
        match open.into_iter().find(|batch| batch.has_room_for(&turn, self.most_keys)) {
            Some(batch) => batch.turns.push(turn),
            None => self.batches.push(Batch::of(turn)),
        }
    }

    /// What was sent in vain may have waited for a connection, and its askers may have gone since.
    fn still_wanted(&mut self, mut batch: Batch) -> Option<Batch> {
        for turn in &mut batch.turns {
            turn.asked.retain(|asked| !asked.answer.is_closed());
        }
        if batch.turns.iter().any(|turn| turn.asked.is_empty()) {
            let (wanted, gone) = batch.turns.into_iter().partition(|turn| !turn.asked.is_empty());
            self.finish(Batch { turns: gone, ..batch }, Err(Failure::Unknown));
            batch.turns = wanted;
        }
        (!batch.turns.is_empty()).then_some(batch)
    }

    /// Answers what was in a pipeline. Without replies, the connection broke or its answer is long overdue: what was sent
    /// may have been done.
    fn receive(&mut self, batches: Vec<Batch>, replies: Option<Vec<Value>>) {
        let Some(replies) = replies else {
            self.disconnect();
            for batch in batches {
                self.finish(batch, Err(Failure::Unknown));
            }
            return;
        };
        let mut replies = replies.into_iter();
        // Behind a reply that makes no sense, nobody knows which one answers what.
        let mut in_order = true;
        for mut batch in batches {
            if batch.is_asking() {
                replies.next();
            }
            let outcome = match replies.next() {
                _ if !in_order => Err(Failure::Unknown),
                Some(Value::ServerError(error)) => {
                    Err(Failure::of_answer(&error, self.resolver.host().as_ref()))
                }
                Some(reply) => batch.outcomes(reply),
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
                Err(Failure::CrossSlot) if batch.turns.len() > 1 => {
                    // It did not run. This server is one of a cluster, though the address does not say so.
                    self.most_keys = 1;
                    self.batches.extend(batch.turns.into_iter().map(Batch::of));
                    continue;
                }
                Err(Failure::NoWrites(_)) if batch.turns.len() > 1 => {
                    // Nothing was written. Who is rejected needs no write, and shall hear it from the server.
                    self.batches.extend(batch.turns.into_iter().map(Batch::of));
                    continue;
                }
                Err(Failure::ReadOnly | Failure::Strange) => self.disconnect(),
                Ok(_) => self.attempts = 0,
                Err(_) => {}
            }
            self.finish(batch, outcome);
        }
    }

    /// Answers the questions of a batch; those for the same keys that came meanwhile are next.
    fn finish(&mut self, batch: Batch, outcome: Outcome) {
        let mut outcomes = outcome.map(Vec::into_iter);
        for turn in batch.turns {
            for asked in turn.asked {
                let answer = match &mut outcomes {
                    Ok(outcomes) => outcomes.next().unwrap_or(Err(Failure::Strange)),
                    Err(failure) => Err(failure.clone()),
                };
                // Whoever has gone does not want to know.
                let _ = asked.answer.send(answer);
            }
            let Some(queue) = self.keys.get_mut(&turn.name) else { continue };
            if queue.waiting.is_empty() {
                self.keys.remove(&turn.name);
            } else {
                self.ready.push(turn.name);
            }
        }
    }
}
