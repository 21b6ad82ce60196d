//! The servers of one kind, and for each worker a way of its own to them, with a proxy before each server.

use crate::load;
use crate::support::proxy::Proxy;
use crate::support::servers::{Cluster, Sentinel, Server};

pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) servers: Servers,
    ports: Vec<u16>,
    /// For each worker, a proxy before each server.
    pub(crate) ways: Vec<Vec<Proxy>>,
}

#[expect(clippy::large_enum_variant, reason = "there are three of them")]
pub(crate) enum Servers {
    Standalone(Server),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// Whoever is killed loses nothing that it answered: the kernel has it before the answer is sent.
const LASTING: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"];

impl Stage {
    pub(crate) fn standalone() -> Self {
        Self::new("standalone", Servers::Standalone(Server::with(&LASTING)))
    }

    /// The pair keeps nothing on disk: what a primary did not pass on is lost with it.
    pub(crate) fn sentinel() -> Self {
        let sentinel = Sentinel::start();
        sentinel.hasten();
        Self::new("sentinel", Servers::Sentinel(sentinel))
    }

    pub(crate) fn cluster() -> Self {
        Self::new("cluster", Servers::Cluster(Cluster::with(&LASTING)))
    }

    fn new(name: &'static str, servers: Servers) -> Self {
        let ports = servers.ports();
        let way = || {
            let proxies: Vec<Proxy> = ports.iter().map(|port| Proxy::start(*port)).collect();
            let translations: Vec<(u16, u16)> =
                ports.iter().zip(&proxies).map(|(port, proxy)| (*port, proxy.port())).collect();
            for proxy in &proxies {
                proxy.translate(&translations);
            }
            proxies
        };
        let ways = (0..load::WORKERS).map(|_| way()).collect();
        Self { name, servers, ports, ways }
    }

    /// The address for a worker, along its way.
    pub(crate) fn url(&self, worker: usize) -> String {
        let translate = |url: String, (port, proxy): (&u16, &Proxy)| {
            url.replace(&format!(":{port}"), &format!(":{}", proxy.port()))
        };
        self.ports.iter().zip(&self.ways[worker]).fold(self.direct_url(), translate)
    }

    /// The address for who is not disturbed.
    pub(crate) fn direct_url(&self) -> String {
        match &self.servers {
            Servers::Standalone(server) => server.url(),
            Servers::Sentinel(sentinel) => sentinel.url(),
            Servers::Cluster(cluster) => cluster.url(),
        }
    }

    /// Into how many parts of which each can be away by itself the keys are divided.
    pub(crate) fn shards(&self) -> usize {
        if let Servers::Cluster(cluster) = &self.servers { cluster.nodes().len() } else { 1 }
    }
}

impl Servers {
    fn ports(&self) -> Vec<u16> {
        match self {
            Self::Standalone(server) => vec![server.port()],
            Self::Sentinel(sentinel) => {
                [sentinel.sentinel(), sentinel.primary(), sentinel.replica()].map(Server::port).to_vec()
            }
            Self::Cluster(cluster) => cluster.nodes().iter().map(Server::port).collect(),
        }
    }
}
