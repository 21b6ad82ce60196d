//! A cluster of three primaries.

use super::eventually;
use super::port::Port;
use super::server::Server;
use super::wire::Value;

const SLOTS: usize = 16_384;
const NODES: usize = 3;

pub struct Cluster {
    nodes: Vec<Server>,
    /// The nodes talk to each other on these.
    _bus: Vec<Port>,
}

impl Cluster {
    /// Three nodes with a third of the slots each. The loss of one does not take the slots of the others with it.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// With arguments for each node.
    pub fn with(arguments: &[&str]) -> Self {
        let bus: Vec<Port> = (0..NODES).map(|_| Port::claim()).collect();
        let nodes: Vec<Server> = bus
            .iter()
            .map(|bus| {
                let bus = bus.number.to_string();
                let own = [
                    ["--cluster-enabled", "yes"],
                    ["--cluster-config-file", "nodes.conf"],
                    ["--cluster-port", &bus],
                    ["--cluster-announce-ip", "127.0.0.1"],
                    ["--cluster-node-timeout", "2000"],
                    ["--cluster-require-full-coverage", "no"],
                ];
                Server::with(&[own.as_flattened(), arguments].concat())
            })
            .collect();
        for (index, node) in nodes.iter().enumerate() {
            let (first, end) = (SLOTS * index / NODES, SLOTS * (index + 1) / NODES);
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]);
            // Otherwise they begin with the same epoch, and settle that among themselves over seconds.
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for (node, bus) in nodes.iter().zip(&bus).skip(1) {
            let (port, bus) = (node.port().to_string(), bus.number.to_string());
            nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Self { nodes, _bus: bus };
        cluster.settle();
        cluster
    }

    /// `redis+cluster://127.0.0.1:p1,127.0.0.1:p2,127.0.0.1:p3`
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Waits until every node says that all slots are served, as after a restart.
    pub fn settle(&self) {
        let signs = ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"];
        for node in &self.nodes {
            eventually("the cluster to be well", || {
                let info = node.command(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?.to_string();
                match signs.iter().find(|sign| !info.lines().any(|line| line == **sign)) {
                    None => Ok(()),
                    Some(sign) => Err(format!("no {sign} on port {}:\n{info}", node.port())),
                }
            });
        }
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        match self.ask(&["CLUSTER", "KEYSLOT", key]) {
            Value::Integer(slot) => u16::try_from(slot).expect("a slot"),
            other => panic!("not a slot: {other}"),
        }
    }

    /// Which of [`nodes`](Self::nodes) serves a slot.
    pub fn owner(&self, slot: u16) -> usize {
        let Value::Array(ranges) = self.ask(&["CLUSTER", "SLOTS"]) else { panic!("not a list of slots") };
        let port = ranges.iter().find_map(|range| {
            let Value::Array(range) = range else { return None };
            let [Value::Integer(first), Value::Integer(last), Value::Array(node), ..] = range.as_slice()
            else {
                return None;
            };
            let (true, Some(Value::Integer(port))) = ((*first..=*last).contains(&slot.into()), node.get(1))
            else {
                return None;
            };
            Some(*port)
        });
        self.nodes.iter().position(|node| Some(i64::from(node.port())) == port).expect("the slot is served")
    }

    /// Begins to move a slot to another node: from here on its old node answers `ASK` for keys that it does not have,
    /// and `TRYAGAIN` for several keys of which it has some.
    pub fn migrate_slot(&self, slot: u16, to: usize) -> Migration<'_> {
        let from = self.owner(slot);
        assert_ne!(from, to, "node {to} has slot {slot} already");
        self.agree_on_epoch();
        let (from_id, to_id) = (self.id(from), self.id(to));
        self.nodes[to].cli(&["CLUSTER", "SETSLOT", &slot.to_string(), "IMPORTING", &from_id]);
        self.nodes[from].cli(&["CLUSTER", "SETSLOT", &slot.to_string(), "MIGRATING", &to_id]);
        Migration { cluster: self, slot, from, to }
    }

    /// A new owner claims its slot with a newer epoch than any it knows of. Before it knows the last one, two nodes
    /// could claim with the same, and the others never agree.
    fn agree_on_epoch(&self) {
        eventually("the nodes to agree on the epoch", || {
            let epochs: Vec<String> = self.nodes.iter().map(current_epoch).collect::<Result<_, _>>()?;
            if epochs.windows(2).all(|pair| pair[0] == pair[1]) { Ok(()) } else { Err(epochs.join(", ")) }
        });
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].cli(&["CLUSTER", "MYID"])
    }

    /// The answer of the first node that gives one.
    fn ask(&self, command: &[&str]) -> Value {
        let mut replies = self.nodes.iter().filter_map(|node| node.command(command).ok());
        replies.next().expect("a node of the cluster is up")
    }
}

fn current_epoch(node: &Server) -> Result<String, String> {
    let info = node.command(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?.to_string();
    let epoch = info.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"));
    epoch.map(str::to_owned).ok_or(info)
}

/// A slot on its way. Dropped before [`finish`](Self::finish), it stays half-way.
pub struct Migration<'a> {
    cluster: &'a Cluster,
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

impl Migration<'_> {
    /// Moves the keys that the slot has now.
    pub fn move_keys(&self) {
        let [from, to] = [self.from, self.to].map(|node| &self.cluster.nodes[node]);
        let (slot, port) = (self.slot.to_string(), to.port().to_string());
        let Ok(Value::Array(keys)) = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100000"]) else {
            panic!("no list of the keys in slot {slot}");
        };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("not a key: {key}") };
            let command: [&[u8]; 6] = [b"MIGRATE", b"127.0.0.1", port.as_bytes(), &key, b"0", b"5000"];
            match from.command(&command).expect("the node answers") {
                Value::Error(error) => panic!("a key of slot {slot} does not move: {error}"),
                _moved => {}
            }
        }
    }

    /// Moves what is left, and tells all nodes that the slot has moved.
    pub fn finish(self) {
        self.move_keys();
        let (slot, id) = (self.slot.to_string(), self.cluster.id(self.to));
        let others = (0..NODES).filter(|node| *node != self.to);
        // The new owner first: otherwise there is a moment in which nobody takes the slot for its own.
        for node in std::iter::once(self.to).chain(others) {
            self.cluster.nodes[node].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }
}
