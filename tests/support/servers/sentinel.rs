//! A primary with a replica, under a sentinel.

use super::eventually;
use super::server::Server;

const NAME: &str = "mymaster";

pub struct Sentinel {
    sentinel: Server,
    pair: [Server; 2],
}

impl Sentinel {
    /// One sentinel, which takes the primary for dead after a second, and then decides alone. Less, and it does so on a
    /// busy machine with primaries that are well.
    pub fn start() -> Self {
        let primary = Server::start();
        let port = primary.port().to_string();
        let replica = Server::with(&["--replicaof", "127.0.0.1", &port]);
        // A sentinel asks a primary for its replicas when it meets it, and then only every ten seconds.
        eventually("the replica to follow its primary", || following(&replica, &primary));
        let sentinel = Server::sentinel(&format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds {NAME} 1000\n\
             sentinel failover-timeout {NAME} 2000\n"
        ));
        let sentinel = Self { sentinel, pair: [primary, replica] };
        sentinel.calm();
        eventually("the sentinel to know the replica", || {
            let replicas = sentinel.sentinel.cli(&["SENTINEL", "REPLICAS", NAME]);
            match value(&replicas, "master-link-status") {
                Some("ok") => Ok(()),
                other => Err(format!("the replica's link to the primary is {other:?}")),
            }
        });
        sentinel
    }

    /// `redis+sentinel://127.0.0.1:port/mymaster`
    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/{NAME}", self.sentinel.port())
    }

    /// The sentinel itself.
    pub fn sentinel(&self) -> &Server {
        &self.sentinel
    }

    /// Starts the sentinel again. It knows what it knew.
    pub fn restart_sentinel(&self) {
        self.sentinel.restart();
        self.calm();
    }

    /// When it is not scheduled for two seconds, as on a busy machine, a sentinel trusts nothing for half a minute.
    fn calm(&self) {
        self.sentinel.cli(&["SENTINEL", "DEBUG", "TILT-TRIGGER", "60000"]);
    }

    /// The server that is the primary now by the word of the sentinel.
    pub fn primary(&self) -> &Server {
        let (port, _) = self.opinion();
        self.pair.iter().find(|server| server.port() == port).expect("one of the two")
    }

    /// The other one, also where it is down or still takes itself for the primary.
    pub fn replica(&self) -> &Server {
        let (port, _) = self.opinion();
        self.pair.iter().find(|server| server.port() != port).expect("one of the two")
    }

    /// Makes the replica the primary, with both alive, and returns when the sentinel names it.
    ///
    /// The old primary hears of it eight seconds later. Until then it takes writes from whoever is still connected to
    /// it, and they are lost; then it refuses them with READONLY. [`hasten`](Self::hasten) shortens that.
    pub fn fail_over(&self) {
        let before = self.primary().port();
        eventually("the sentinel to fail over", || match self.opinion() {
            (port, _) if port != before => Ok(()),
            (_, flags) if flags.contains("failover_in_progress") => Err(flags),
            // It has not begun, or gave up: as long as it has not heard of the replica lately, it refuses.
            _ => Err(self
                .sentinel
                .command(&["SENTINEL", "FAILOVER", NAME])
                .map_or_else(|error| error.to_string(), |reply| reply.to_string())),
        });
    }

    /// Waits until the sentinel names another primary than `before`, as after its death.
    pub fn await_switch(&self, before: &Server) {
        eventually("the sentinel to name another primary", || match self.opinion() {
            (port, _) if port != before.port() => Ok(()),
            (_, flags) => Err(format!("the primary is {flags}")),
        });
    }

    /// Waits until the replica follows the primary, as after a switch or a restart.
    pub fn await_replica(&self) {
        eventually("the replica to follow its primary", || following(self.replica(), self.primary()));
    }

    /// From now on an old primary becomes a replica in less than a second, and replicas are heard of twice a second: for
    /// tests of what comes after. Not how a sentinel behaves in production, hence not from the start; a restart of the
    /// sentinel ends it.
    pub fn hasten(&self) {
        self.sentinel.cli(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500"]);
    }

    /// A number that grows with every failover.
    pub fn epoch(&self) -> u64 {
        let text = self.sentinel.cli(&["SENTINEL", "MASTER", NAME]);
        value(&text, "config-epoch").and_then(|epoch| epoch.parse().ok()).expect("an epoch")
    }

    /// Waits until the replica has all that the primary has now.
    pub fn await_level(&self) {
        let offset = |server: &Server, name: &str| {
            let info =
                server.command(&["INFO", "replication"]).map_err(|error| error.to_string())?.to_string();
            let value = info.lines().find_map(|line| line.trim().strip_prefix(name)?.parse::<u64>().ok());
            value.ok_or(format!("no {name} on port {}:\n{info}", server.port()))
        };
        let wanted = eventually("the primary's offset", || offset(self.primary(), "master_repl_offset:"));
        eventually("the replica to be level", || match offset(self.replica(), "slave_repl_offset:")? {
            reached if reached >= wanted => Ok(()),
            reached => Err(format!("{reached} of {wanted}")),
        });
    }

    /// The port of the primary, and what the sentinel thinks of it.
    fn opinion(&self) -> (u16, String) {
        let text = self.sentinel.cli(&["SENTINEL", "MASTER", NAME]);
        let port = value(&text, "port").and_then(|port| port.parse().ok()).expect("a port");
        (port, value(&text, "flags").expect("flags").to_owned())
    }
}

/// Both must say so: a primary sends a replica nothing new until the replica has confirmed what it got at first.
fn following(replica: &Server, primary: &Server) -> Result<(), String> {
    let online = format!("port={},state=online", replica.port());
    for (server, sign) in [(replica, "master_link_status:up"), (primary, &online)] {
        let info = server.command(&["INFO", "replication"]).map_err(|error| error.to_string())?.to_string();
        if !info.contains(sign) {
            return Err(format!("no {sign} on port {}:\n{info}", server.port()));
        }
    }
    Ok(())
}

/// A sentinel answers with a list of names, each before its value.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().skip_while(|line| *line != name).nth(1)
}
