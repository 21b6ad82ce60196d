//! One server, as it is asked: a handle to the [task](super::talk) that talks to it, and what that is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::address::Host;
use super::batch::Asked;
use super::connection::Connection;
use super::failure::Failure;
use super::health::{Breaker, Health};
use super::in_place::InPlace;
use super::question::Question;
use super::resolver::{Found, Resolver};
use super::talk::Talk;
use crate::Decision;

/// A handle to the task.
#[derive(Clone)]
pub(super) struct Node {
    inbox: mpsc::UnboundedSender<Message>,
    pub(super) breaker: Breaker,
}

pub(super) enum Message {
    Asked(Asked),
    /// Too many calls ran out of time: the connection is not to be trusted.
    Late,
    /// This server is to be asked from now on.
    Switched(Host),
    /// It is time to look after the connection.
    Beat,
    /// What came of the search for a server.
    Found(Found),
}

impl Node {
    /// Talks over `connection`, and makes new ones when it breaks.
    pub(super) fn new(resolver: Resolver, connection: Option<Connection>) -> Self {
        Self::with(resolver, connection, usize::MAX)
    }

    /// One of several, between which keys may move: each key has a script call of its own.
    pub(super) fn of_cluster(resolver: Resolver, connection: Option<Connection>) -> Self {
        Self::with(resolver, connection, 1)
    }

    fn with(resolver: Resolver, connection: Option<Connection>, most_keys: usize) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let breaker = Breaker::new(resolver.place());
        let talk = Talk::new(resolver, connection, breaker.clone(), most_keys, Tell(sender.downgrade()));
        tokio::spawn(InPlace::new(talk.run(inbox)));
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
        let asked = Asked { question, asking, deadline, answer };
        self.inbox.send(Message::Asked(asked)).map_err(|_| Failure::Away)?;
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

/// Tells the task, if it is still there.
#[derive(Clone)]
pub(super) struct Tell(mpsc::WeakUnboundedSender<Message>);

impl Tell {
    pub(super) fn found(&self, found: Found) {
        self.tell(Message::Found(found));
    }

    fn tell(&self, message: Message) {
        if let Some(inbox) = self.0.upgrade() {
            let _ = inbox.send(message);
        }
    }

    pub(super) async fn beats(self, pause: Duration) {
        loop {
            tokio::time::sleep(pause).await;
            self.tell(Message::Beat);
        }
    }

    pub(super) async fn switches(self, resolver: Arc<Resolver>) {
        loop {
            let host = resolver.switched().await;
            self.tell(Message::Switched(host));
        }
    }
}
