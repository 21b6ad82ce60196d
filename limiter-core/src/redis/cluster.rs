//! A cluster: which server has which key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, Value, cmd};

use super::address::Host;
use super::node::Node;
use super::resolver::{Current, Resolver, Target, first_answer, pause};

pub(super) struct Cluster {
    seeds: Vec<Host>,
    /// Its target is replaced by each server in turn.
    resolver: Resolver,
    map: RwLock<Map>,
    refreshing: AtomicBool,
    /// How many times in a row nobody could say who has what.
    failures: AtomicU32,
}

#[derive(Default)]
struct Map {
    nodes: HashMap<Host, Node>,
    /// Who has a slot, by the last slot of a range.
    ranges: Vec<(u16, Host)>,
    /// Slots that were found elsewhere since the ranges were read.
    moved: HashMap<u16, Host>,
}

/// While servers are away, who has what is read no more often than this.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

impl Cluster {
    pub(super) fn new(seeds: Vec<Host>, resolver: Resolver) -> Self {
        Self {
            seeds,
            resolver,
            map: RwLock::default(),
            refreshing: AtomicBool::new(false),
            failures: AtomicU32::new(0),
        }
    }

    /// The server that has the slot, as far as is known.
    pub(super) fn node(&self, slot: u16) -> Option<Node> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let host = map.moved.get(&slot).or_else(|| {
            let range = map.ranges.partition_point(|(last, _)| *last < slot);
            map.ranges.get(range).map(|(_, host)| host)
        })?;
        map.nodes.get(host).cloned()
    }

    pub(super) fn nodes(&self) -> Vec<Node> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).nodes.values().cloned().collect()
    }

    /// The server at `host`, whether it is known or not.
    pub(super) fn node_at(&self, host: &Host) -> Node {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.nodes.entry(host.clone()).or_insert_with(|| Node::of_cluster(self.at(host), None)).clone()
    }

    /// The slot was found at `host`.
    pub(super) fn moved(&self, slot: u16, host: &Host) -> Node {
        let node = self.node_at(host);
        self.map.write().unwrap_or_else(PoisonError::into_inner).moved.insert(slot, host.clone());
        node
    }

    /// Reads anew who has what, in the background, unless that is under way already.
    pub(super) fn refresh_soon(self: &Arc<Self>) {
        if !self.refreshing.swap(true, Ordering::AcqRel) {
            let cluster = Arc::clone(self);
            tokio::spawn(async move {
                // Where nobody answers, the map stays as it is; the next failure tries again.
                let failures = match cluster.refresh().await {
                    Ok(()) => 0,
                    Err(_) => cluster.failures.load(Ordering::Relaxed).saturating_add(1),
                };
                cluster.failures.store(failures, Ordering::Relaxed);
                tokio::time::sleep(REFRESH_PAUSE + pause(failures.saturating_add(1))).await;
                cluster.refreshing.store(false, Ordering::Release);
            });
        }
    }

    /// Reads from the first server that answers who has what.
    pub(super) async fn refresh(&self) -> RedisResult<()> {
        let mut hosts: Vec<Host> =
            self.map.read().unwrap_or_else(PoisonError::into_inner).nodes.keys().cloned().collect();
        hosts.extend(self.seeds.iter().filter(|seed| !hosts.contains(seed)).cloned().collect::<Vec<_>>());
        let ask = |host: Host| {
            let resolver = self.resolver.clone();
            async move {
                let mut connection = resolver.open(&resolver.login.client(&host)?).await?;
                connection.with(async |commands: &mut _| read_ranges(commands, &host).await).await
            }
        };
        self.replace(first_answer(hosts, ask).await?);
        Ok(())
    }

    fn replace(&self, ranges: Vec<(u16, Host)>) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut nodes = HashMap::new();
        for (_, host) in &ranges {
            let known = map.nodes.remove(host);
            nodes
                .entry(host.clone())
                .or_insert_with(|| known.unwrap_or_else(|| Node::of_cluster(self.at(host), None)));
        }
        *map = Map { nodes, ranges, moved: HashMap::new() };
    }

    fn at(&self, host: &Host) -> Resolver {
        let (target, current) = (Target::Fixed(host.clone()), Current::default());
        Resolver { target, current, ..self.resolver.clone() }
    }
}

/// `CLUSTER SLOTS`: first slot, last slot, and the primary before its replicas.
async fn read_ranges(connection: &mut MultiplexedConnection, asked: &Host) -> RedisResult<Vec<(u16, Host)>> {
    let reply: Vec<(u16, u16, Vec<Value>)> = {
        let rows: Vec<Vec<Value>> = cmd("CLUSTER").arg("SLOTS").query_async(connection).await?;
        rows.into_iter().filter_map(row).collect()
    };
    let mut ranges: Vec<(u16, Host)> = reply
        .into_iter()
        .filter_map(|(_, last, primary)| {
            let (Some(Value::Int(port)), port_only) = (primary.get(1), primary.first()) else { return None };
            let port = u16::try_from(*port).ok()?;
            let host = match (port_only, asked) {
                (Some(Value::BulkString(host)), _) if !host.is_empty() && host != b"?" => {
                    String::from_utf8_lossy(host).into_owned()
                }
                // A server that does not know its own name is where it was asked.
                (_, Host::Tcp(host, _)) => host.clone(),
                (_, Host::Unix(_)) => return None,
            };
            Some((last, Host::Tcp(host, port)))
        })
        .collect();
    ranges.sort_by_key(|(last, _)| *last);
    if ranges.is_empty() {
        return Err((ErrorKind::ClusterConnectionNotFound, "the server has no slots of a cluster").into());
    }
    Ok(ranges)
}

fn row(row: Vec<Value>) -> Option<(u16, u16, Vec<Value>)> {
    let mut row = row.into_iter();
    match (row.next()?, row.next()?, row.next()?) {
        (Value::Int(first), Value::Int(last), Value::Array(primary)) => {
            Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?, primary))
        }
        _ => None,
    }
}

/// The slot of a key: CRC-16 of what stands in its braces.
pub(super) fn slot(name: &str) -> u16 {
    let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(name, |(tag, _)| tag);
    let mut crc = 0u16;
    for byte in tag.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_the_server() {
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("limiter:{foo}:1"), slot("foo"));
    }
}
