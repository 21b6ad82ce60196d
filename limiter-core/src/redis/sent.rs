//! Pipelines under way on one connection, which are answered in the order in which they were sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::time::Instant;

use super::batch::Batch;

/// The oldest first.
#[derive(Default)]
pub(super) struct Sent(VecDeque<UnderWay>);

struct UnderWay {
    replies: Replies,
    batches: Vec<Batch>,
    /// When there should be an answer, at the latest.
    due: Instant,
}

/// What was asked, and the replies to it.
pub(super) type Answered = (Vec<Batch>, RedisResult<Vec<Value>>);

type Replies = Pin<Box<dyn Future<Output = RedisResult<Vec<Value>>> + Send>>;

impl Sent {
    /// Sends a pipeline, of which this is what it asks.
    pub(super) fn send(
        &mut self,
        mut connection: MultiplexedConnection,
        pipeline: Pipeline,
        batches: Vec<Batch>,
        due: Instant,
    ) {
        // However many are sent at once, each is: a task that has done much would be told to wait.
        let mut replies: Replies = Box::pin(tokio::task::unconstrained(async move {
            let count = pipeline.len();
            match pipeline.cmd_iter().next() {
                // Which takes the client crate less time.
                Some(only) if count == 1 => {
                    connection.send_packed_command(only).await.map(|reply| vec![reply])
                }
                _ => connection.send_packed_commands(&pipeline, 0, count).await,
            }
        }));
        // Sent when it is first polled, which must not wait until those before it are answered. Who is to be woken is
        // said later, when it is the oldest.
        if let Poll::Ready(ended) = replies.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            replies = Box::pin(std::future::ready(ended));
        }
        self.0.push_back(UnderWay { replies, batches, due });
    }

    /// What the oldest asked, and the replies to it.
    pub(super) async fn answered(&mut self) -> Answered {
        let replies = poll_fn(|context| match self.0.front_mut() {
            Some(oldest) => oldest.replies.as_mut().poll(context),
            None => Poll::Pending,
        });
        let replies = replies.await;
        (self.0.pop_front().map(|oldest| oldest.batches).unwrap_or_default(), replies)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether somebody waits for an answer.
    pub(super) fn has_questions(&self) -> bool {
        self.0.iter().any(|under_way| !under_way.batches.is_empty())
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.0.front().is_some_and(|oldest| oldest.due < now)
    }

    /// Waits for none of them any more.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Batch> + use<> {
        std::mem::take(&mut self.0).into_iter().flat_map(|under_way| under_way.batches)
    }
}
