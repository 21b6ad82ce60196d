//! All servers of an address: who is asked, and who is asked next.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use tokio::time::Instant;

use super::address::{Address, Kind};
use super::cluster::{self, Cluster};
use super::failure::{ConnectError, Failure};
use super::health::Health;
use super::node::Node;
use super::question::Question;
use super::resolver::{Current, Resolver, Target};
use crate::Decision;
use crate::strategy::lua::ScriptClock;

pub(super) enum Fleet {
    One(Node),
    Cluster(Arc<Cluster>),
}

/// How long to wait before a server that cannot answer just now is asked again.
const MOMENT: Duration = Duration::from_millis(5);

impl Fleet {
    pub(super) async fn connect(
        address: Address,
        timeout: Duration,
        clock: ScriptClock,
    ) -> Result<Self, ConnectError> {
        let place = place(&address.kind);
        let failed = |error: RedisError| ConnectError(format!("cannot connect to {place}: {error}"));
        let fleet = match address.kind {
            Kind::Cluster(seeds) => {
                let target = Target::Fixed(seeds[0].clone());
                let resolver =
                    Resolver { target, login: address.login, current: Current::default(), timeout, clock };
                let cluster = Arc::new(Cluster::new(seeds, resolver));
                cluster.refresh().await.map_err(failed)?;
                Self::Cluster(cluster)
            }
            kind => {
                let resolver = Resolver {
                    target: target(kind),
                    login: address.login,
                    current: Current::default(),
                    timeout,
                    clock,
                };
                let (connection, host) = resolver.connect().await.map_err(failed)?;
                resolver.settle_on(host);
                Self::One(Node::new(resolver, Some(connection)))
            }
        };
        Ok(fleet)
    }

    pub(super) fn connect_lazy(address: Address, timeout: Duration, clock: ScriptClock) -> Self {
        match address.kind {
            Kind::Cluster(seeds) => {
                let target = Target::Fixed(seeds[0].clone());
                let resolver =
                    Resolver { target, login: address.login, current: Current::default(), timeout, clock };
                let cluster = Arc::new(Cluster::new(seeds, resolver));
                cluster.refresh_soon();
                Self::Cluster(cluster)
            }
            kind => Self::One(Node::new(
                Resolver {
                    target: target(kind),
                    login: address.login,
                    current: Current::default(),
                    timeout,
                    clock,
                },
                None,
            )),
        }
    }

    /// The decision of the server that has the key. Asks again only what surely did not run.
    pub(super) async fn ask(&self, question: Question, deadline: Instant) -> Result<Decision, Failure> {
        match self {
            Self::One(node) => ask_one(node, question, deadline).await,
            Self::Cluster(cluster) => ask_cluster(cluster, question, deadline).await,
        }
    }

    /// Every server that is known, and how it is.
    pub(super) fn health(&self) -> Vec<(String, Health)> {
        let nodes = match self {
            Self::One(node) => vec![node.clone()],
            Self::Cluster(cluster) => cluster.nodes(),
        };
        nodes.iter().map(|node| (node.breaker.place().to_owned(), node.breaker.health())).collect()
    }
}

async fn ask_one(node: &Node, question: Question, deadline: Instant) -> Result<Decision, Failure> {
    // A replica that was asked to write is dropped, and the primary is found while we wait.
    let mut finding_primary = false;
    loop {
        match node.ask(question.clone(), false, deadline).await {
            Err(Failure::ReadOnly) => finding_primary = true,
            Err(Failure::NotNow) => {}
            Err(Failure::Away) if finding_primary => {}
            answer => return answer,
        }
        if !moment(deadline).await {
            node.ran_out_of_time();
            return Err(Failure::Away);
        }
    }
}

async fn ask_cluster(
    cluster: &Arc<Cluster>,
    question: Question,
    deadline: Instant,
) -> Result<Decision, Failure> {
    let slot = cluster::slot(&question.name);
    let Some(mut node) = cluster.node(slot) else {
        cluster.refresh_soon();
        return Err(Failure::Away);
    };
    let mut asking = false;
    loop {
        let answer = node.ask(question.clone(), asking, deadline).await;
        asking = false;
        match answer {
            Err(Failure::Moved(host)) => {
                node = cluster.moved(slot, &host);
                cluster.refresh_soon();
            }
            Err(Failure::Ask(host)) => {
                node = cluster.node_at(&host);
                asking = true;
            }
            Err(failure @ (Failure::NotNow | Failure::TryAgain)) => {
                cluster.refresh_soon();
                if !moment(deadline).await {
                    if let Failure::NotNow = failure {
                        node.ran_out_of_time();
                    }
                    return Err(failure);
                }
                node = cluster.node(slot).unwrap_or(node);
            }
            Err(failure @ (Failure::Away | Failure::ReadOnly | Failure::Unknown)) => {
                cluster.refresh_soon();
                return Err(failure);
            }
            answer => return answer,
        }
    }
}

/// Waits a moment before a server is asked again. Says whether there is time for that.
async fn moment(deadline: Instant) -> bool {
    let until = Instant::now() + MOMENT;
    if until < deadline {
        tokio::time::sleep_until(until).await;
    }
    until < deadline
}

fn target(kind: Kind) -> Target {
    match kind {
        Kind::One(host) => Target::Fixed(host),
        Kind::Sentinel { sentinels, primary } => Target::Sentinel { sentinels, primary },
        Kind::Cluster(_) => unreachable!("a cluster has many targets"),
    }
}

fn place(kind: &Kind) -> String {
    let list =
        |hosts: &[super::address::Host]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::One(host) => format!("the server at {host}"),
        Kind::Sentinel { sentinels, primary } => {
            format!("the primary {primary:?} of the sentinels at {}", list(sentinels))
        }
        Kind::Cluster(hosts) => format!("the cluster at {}", list(hosts)),
    }
}
