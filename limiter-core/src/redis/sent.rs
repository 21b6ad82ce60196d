//! Pipelines under way on one connection, which are answered in the order in which they were sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};

use super::batch::Batch;

/// The oldest first.
#[derive(Default)]
pub(super) struct Sent(VecDeque<(Replies, Vec<Batch>)>);

type Replies = Pin<Box<dyn Future<Output = RedisResult<Vec<Value>>> + Send>>;

impl Sent {
    /// Sends a pipeline, of which this is what it asks.
    pub(super) fn send(
        &mut self,
        mut connection: MultiplexedConnection,
        pipeline: Pipeline,
        batches: Vec<Batch>,
    ) {
        // However many are sent at once, each is: a task that has done much would be told to wait.
        let mut replies: Replies = Box::pin(tokio::task::unconstrained(async move {
            let count = pipeline.len();
            connection.send_packed_commands(&pipeline, 0, count).await
        }));
        // Sent when it is first polled, which must not wait until those before it are answered. Who is to be woken is
        // said later, when it is the oldest.
        if let Poll::Ready(ended) = replies.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            replies = Box::pin(std::future::ready(ended));
        }
        self.0.push_back((replies, batches));
    }

    /// What the oldest asked, and the replies to it.
    pub(super) async fn answered(&mut self) -> (Vec<Batch>, RedisResult<Vec<Value>>) {
        let replies = poll_fn(|context| match self.0.front_mut() {
            Some((replies, _)) => replies.as_mut().poll(context),
            None => Poll::Pending,
        });
        let replies = replies.await;
        (self.0.pop_front().map(|(_, batches)| batches).unwrap_or_default(), replies)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for none of them any more.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Batch> + use<> {
        std::mem::take(&mut self.0).into_iter().flat_map(|(_, batches)| batches)
    }
}
