//! The one task that talks to a server.
//!
//! The task takes all questions that are there, puts those for one key into one script call, several keys of one rule as
//! well, and all script calls into pipelines. A key whose script call is under way is not asked again until the answer is
//! here: questions for it gather meanwhile, and go together in the next. Nobody waits for anybody else's key.
//!
//! A question whose asker has gone is not sent. One that was sent without an answer is never sent again.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use redis::{Pipeline, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::batch::{Asked, Batch, Outcome, Queue, Turn};
use super::connection::Connection;
use super::failure::Failure;
use super::health::{Breaker, Health};
use super::node::{Message, Tell};
use super::resolver::{Found, Resolver};
use super::sent::Sent;

/// Keys in one pipeline: enough to save work, few enough that the first does not wait for the last.
const MOST_IN_A_PIPELINE: usize = 64;
/// Batches that are looked through for one that a key can go with.
const OPEN_BATCHES: usize = 4;
/// Messages that are taken at once.
const MOST_AT_ONCE: usize = 1024;
/// How often a connection that nobody uses is tried.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A connection whose answer is this many times overdue is given up: its other end may be long gone.
const OVERDUE: u32 = 4;
/// It is not looked at more often.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// What the task knows.
pub(super) struct Talk {
    resolver: Arc<Resolver>,
    breaker: Breaker,
    connection: Option<Connection>,
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
    /// Whether many ask lately: then each waits a little for others. Who is alone does not.
    is_crowded: bool,
    /// Whether many asked since the last beat.
    met_a_crowd: bool,
    /// Whether an answer was overdue at the last beat.
    is_overdue: bool,
    /// When the connection is tried next, if nobody uses it.
    next_try: Instant,
    /// What goes on beside the talk, and tells it, such as the search for a server while there is no connection. It ends
    /// with it.
    beside: JoinSet<()>,
    tell: Tell,
    /// How many connections were tried since one brought a decision.
    attempts: u32,
}

impl Talk {
    pub(super) fn new(
        resolver: Resolver,
        connection: Option<Connection>,
        breaker: Breaker,
        most_keys: usize,
        tell: Tell,
    ) -> Self {
        let mut talk = Self {
            resolver: Arc::new(resolver),
            breaker,
            connection: None,
            keys: HashMap::new(),
            ready: Vec::new(),
            most_keys,
            batches: Vec::new(),
            sent: Sent::default(),
            is_crowded: false,
            met_a_crowd: false,
            is_overdue: false,
            next_try: Instant::now(),
            beside: JoinSet::new(),
            tell,
            attempts: 0,
        };
        let pause = (talk.resolver.timeout * OVERDUE).clamp(SHORTEST_PAUSE, HEARTBEAT);
        talk.beside.spawn(talk.tell.clone().beats(pause));
        talk.beside.spawn(talk.tell.clone().switches(Arc::clone(&talk.resolver)));
        match connection {
            Some(connection) => talk.connected(connection),
            None => talk.connect(),
        }
        talk
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
        let mut arrived = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = drive(&mut self.connection) => {}
                (batches, replies) = self.sent.answered() => self.receive(batches, replies.ok()),
                count = inbox.recv_many(&mut arrived, MOST_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    let asked = arrived.iter().filter(|message| matches!(message, Message::Asked(_))).count();
                    if asked > 1 || (asked == 1 && self.sent.has_questions()) {
                        self.meet_a_crowd();
                    }
                    if self.is_crowded {
                        // Whoever else runs now may ask meanwhile, and go along.
                        tokio::task::yield_now().await;
                        while let Ok(message) = inbox.try_recv() {
                            arrived.push(message);
                        }
                    }
                    for message in arrived.drain(..) {
                        self.hear(message);
                    }
                }
            }
            if self.connection.as_ref().is_some_and(Connection::has_ended) {
                if !self.sent.is_empty() {
                    // All replies that it brought are there.
                    continue;
                }
                self.disconnect();
            }
            self.send();
        }
    }

    /// Several ask at once.
    fn meet_a_crowd(&mut self) {
        (self.is_crowded, self.met_a_crowd) = (true, true);
        if let Some(connection) = &mut self.connection {
            connection.lend();
        }
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Asked(asked) => self.accept(asked),
            Message::Late => {
                // Others of the fleet were late at the same moment: do not all come back at once.
                self.attempts = self.attempts.max(1);
                self.disconnect();
            }
            Message::Switched(host) => {
                if self.resolver.host() != Some(host) {
                    self.disconnect();
                }
            }
            Message::Beat => self.beat(),
            Message::Found(Found::Connection(connection, host)) => {
                self.resolver.settle_on(host);
                self.connected(connection);
            }
            Message::Found(Found::Not(error)) => {
                self.attempts = self.attempts.saturating_add(1);
                self.breaker.down(&error);
            }
        }
    }

    /// Gives up a connection that owes an answer for too long, and finds out whether one that nobody uses still holds, so
    /// that the next call need not.
    fn beat(&mut self) {
        let now = Instant::now();
        // Twice: where the whole process stood still, answers that are there may not have been seen yet.
        let was_overdue = std::mem::replace(&mut self.is_overdue, self.sent.is_overdue(now));
        if was_overdue && self.is_overdue {
            return self.disconnect();
        }
        self.is_crowded = std::mem::take(&mut self.met_a_crowd);
        if let (false, Some(connection)) = (self.is_crowded, &mut self.connection) {
            connection.recall();
        }
        if let (Some(connection), true) = (&self.connection, self.sent.is_empty() && now >= self.next_try) {
            self.next_try = now + HEARTBEAT;
            let mut pipeline = Pipeline::new();
            pipeline.cmd("PING");
            let due = now + self.resolver.timeout * OVERDUE;
            self.sent.send(connection.commands.clone(), pipeline, Vec::new(), due);
        }
    }

    fn connected(&mut self, connection: Connection) {
        self.connection = Some(connection);
        self.is_overdue = false;
        if self.is_crowded {
            self.meet_a_crowd();
        }
        self.breaker.set(Health::Up);
    }

    fn connect(&mut self) {
        let (resolver, attempts, tell) = (Arc::clone(&self.resolver), self.attempts, self.tell.clone());
        self.attempts = attempts.saturating_add(1);
        while self.beside.try_join_next().is_some() {}
        self.beside.spawn(async move { resolver.find(attempts, tell).await });
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
        let mut ready = std::mem::take(&mut self.ready);
        for name in ready.drain(..) {
            let Some(queue) = self.keys.get_mut(&name) else { continue };
            match queue.next_turn() {
                Some(turn) => self.join(turn),
                None => _ = self.keys.remove(&name),
            }
        }
        self.ready = ready;
        let Some(commands) = self.connection.as_ref().map(|connection| connection.commands.clone()) else {
            for batch in std::mem::take(&mut self.batches) {
                self.finish(batch, Err(Failure::Away));
            }
            return;
        };
        let mut all = std::mem::take(&mut self.batches);
        let mut batches = all.drain(..).peekable();
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
            if let Some(batch) = in_pipeline.last() {
                let due = batch.deadline() + self.resolver.timeout * (OVERDUE - 1);
                self.sent.send(commands.clone(), pipeline, in_pipeline, due);
            }
        }
        drop(batches);
        self.batches = all;
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

    /// Answers what was in a pipeline. Without replies, the connection broke: what was sent
    /// may have been done.
    fn receive(&mut self, batches: Vec<Batch>, replies: Option<Vec<Value>>) {
        let Some(replies) = replies else {
            self.disconnect();
            for batch in batches {
                self.finish(batch, Err(Failure::Unknown));
            }
            return;
        };
        if batches.len() > 1 || batches.iter().any(|batch| !batch.is_one_question()) {
            self.meet_a_crowd();
        }
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

async fn drive(connection: &mut Option<Connection>) {
    match connection {
        Some(connection) => connection.drive().await,
        None => std::future::pending().await,
    }
}
