//! Callers that ask one after the other, many at once.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::contenders::{self, Contender, Peers};

/// How long one contender is measured before it is the next one's turn.
const ROUND: Duration = Duration::from_millis(150);

pub(crate) struct Load<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) peers: Arc<Peers>,
}

/// What one round showed.
pub(crate) struct Round {
    pub(crate) per_second: f64,
    /// The median time that a call took, in microseconds.
    pub(crate) latency: f64,
}

impl Load<'_> {
    /// So many callers ask `contender` about so many keys.
    pub(crate) fn round(&self, contender: Contender, callers: u64, keys: u64) -> Round {
        let peers = &self.peers;
        match contender {
            Contender::Limiter => {
                self.run(callers, keys, |id| async move { contenders::token_bucket(id).await.is_some() })
            }
            Contender::Throttled => {
                let peers = Arc::clone(peers);
                self.run(callers, keys, move |id| {
                    let peers = Arc::clone(&peers);
                    async move { peers.throttled(id).await }
                })
            }
            Contender::Trypema => {
                let peers = Arc::clone(peers);
                self.run(callers, keys, move |id| {
                    let peers = Arc::clone(&peers);
                    async move { peers.trypema(id).await }
                })
            }
            Contender::Bare => {
                let peers = Arc::clone(peers);
                self.run(callers, keys, move |id| {
                    let peers = Arc::clone(&peers);
                    async move { peers.bare(id).await }
                })
            }
        }
    }

    fn run<F, A>(&self, callers: u64, keys: u64, ask: F) -> Round
    where
        F: Fn(u64) -> A + Clone + Send + 'static,
        A: Future<Output = bool> + Send,
    {
        self.runtime.block_on(async {
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for caller in 0..callers {
                let ask = ask.clone();
                tasks.spawn(async move {
                    let (mut asked, mut times) = (start, Vec::with_capacity(10_000));
                    let mut draw = caller;
                    while asked - start < ROUND {
                        draw = draw
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        assert!(ask((draw >> 33) % keys).await, "nobody is to be rejected");
                        let answered = Instant::now();
                        times.push(answered - asked);
                        asked = answered;
                    }
                    times
                });
            }
            let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
            let elapsed = start.elapsed();
            times.sort_unstable();
            #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
            let per_second = times.len() as f64 / elapsed.as_secs_f64();
            Round { per_second, latency: times[times.len() / 2].as_secs_f64() * 1e6 }
        })
    }
}
