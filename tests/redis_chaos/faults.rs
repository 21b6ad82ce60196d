//! Who breaks things, and mends them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::load;
use crate::record::Clock;
use crate::stage::{Servers, Stage};
use crate::support::proxy::{Door, Harm, Proxy};
use crate::support::random::Random;
use crate::support::servers::{Cluster, Sentinel, Server, eventually};
use crate::worker::Worker;

/// Far longer than any worker takes to find a server again.
const PATIENT: Duration = Duration::from_secs(30);

/// No decision, whatever one asked for.
const GARBAGE: [&[u8]; 8] = [
    b"+OK\r\n",
    b"*0\r\n",
    b"*6\r\n:1\r\n:9\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
    b"*6\r\n:1\r\n:0\r\n:-5\r\n:0\r\n:0\r\n:0\r\n",
    b"*6\r\n:1\r\n:1\r\n:5\r\n:7\r\n:0\r\n:0\r\n",
    b"*6\r\n:1\r\n:0\r\n:9000000\r\n:0\r\n:0\r\n:0\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x00\xff\xfe\r\n",
];

type Act<'a> = &'a dyn Fn(&Proxy);

/// What a fault took from the memory of the servers.
pub(crate) struct Loss {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) what: Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// What a primary counted in this time may not have reached the one that replaced it.
    Unreplicated,
    /// All that the limits counted before. The ledger was spared.
    Evicted,
}

pub(crate) struct Breaker<'a> {
    stage: &'a Stage,
    workers: &'a [Worker],
    clock: Clock,
    random: Random,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) worst_recovery: Duration,
    /// Of a pair under a sentinel: how many failovers there were, and when its replica was last known to be level.
    epoch: u64,
    level: u64,
}

impl<'a> Breaker<'a> {
    pub(crate) fn new(stage: &'a Stage, workers: &'a [Worker], seed: u64) -> Self {
        let (clock, random) = (Clock::new(), Random::new(seed));
        let mut breaker = Self {
            stage,
            workers,
            clock,
            random,
            faults: BTreeMap::new(),
            losses: Vec::new(),
            worst_recovery: Duration::ZERO,
            epoch: 0,
            level: 0,
        };
        if let Servers::Sentinel(sentinel) = &stage.servers {
            breaker.epoch = sentinel.epoch();
            breaker.level = breaker.level(sentinel);
        }
        breaker.await_recovery("the start");
        breaker.worst_recovery = Duration::ZERO;
        breaker
    }

    /// One fault after the other, or two at once, until the time is up and all is well again.
    pub(crate) fn run(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            let ways = self.random.chance(60).then(|| self.break_ways());
            let server = (ways.is_none() || self.random.chance(50)).then(|| self.break_server());
            if server.is_none() {
                self.pause(100, 1_500);
            }
            self.mend_ways();
            self.watch_failovers();
            let what = [ways, server].into_iter().flatten().collect::<Vec<_>>().join(" and ");
            // Sometimes the next fault does not wait until this one is over.
            if self.random.chance(75) || start.elapsed() >= time {
                self.await_recovery(&what);
                self.pause(0, 800);
            }
        }
        self.watch_failovers();
    }

    /// Something happens to the ways of one worker, or of all, to one server, or to all.
    fn break_ways(&mut self) -> &'static str {
        let ways = &self.stage.ways;
        let (one_way, one_server) = (self.random.chance(50), self.random.chance(50));
        let [way, server] = [ways.len(), ways[0].len()].map(|count| self.random.below(count));
        let proxies: Vec<&Proxy> = ways
            .iter()
            .enumerate()
            .filter(|(index, _)| !one_way || *index == way)
            .flat_map(|(_, proxies)| proxies.iter().enumerate())
            .filter(|(index, _)| !one_server || *index == server)
            .map(|(_, proxy)| proxy)
            .collect();
        let delay = Duration::from_millis(self.random.between(10, 500));
        let garbage = self.random.one_of(&GARBAGE);
        let acts: [(&str, Act<'_>); 7] = [
            ("slow network", &|proxy| proxy.delay(delay)),
            ("replies cut", &|proxy| proxy.harm_all(Some(Harm::Cut))),
            ("replies garbled", &|proxy| proxy.harm_all(Some(Harm::Replace(garbage)))),
            ("half-open sockets", &|proxy| proxy.half_open()),
            ("connections reset", &|proxy| proxy.reset()),
            ("connections refused", &|proxy| {
                proxy.door(Door::Slammed);
                proxy.reset();
            }),
            ("black hole", &|proxy| {
                proxy.door(Door::Silent);
                proxy.half_open();
            }),
        ];
        let (name, act) = self.random.one_of(&acts);
        proxies.into_iter().for_each(act);
        self.count(name)
    }

    fn mend_ways(&self) {
        for proxy in self.stage.ways.iter().flatten() {
            proxy.door(Door::Open);
            proxy.delay(Duration::ZERO);
            proxy.harm_all(None);
        }
    }

    fn break_server(&mut self) -> &'static str {
        let name = match &self.stage.servers {
            Servers::Standalone(server) => self.break_standalone(server),
            Servers::Sentinel(sentinel) => self.break_pair(sentinel),
            Servers::Cluster(cluster) => self.break_cluster(cluster),
        };
        self.count(name)
    }

    fn break_standalone(&mut self, server: &Server) -> &'static str {
        match self.random.between(0, 9) {
            0 | 1 => {
                server.kill();
                self.pause(0, 1_500);
                server.restart();
                "server killed"
            }
            2 => {
                // It takes itself for a replica of nobody, and keeps what it has.
                server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
                self.pause(50, 800);
                server.cli(&["REPLICAOF", "NO", "ONE"]);
                "read-only"
            }
            3 => self.evict(|_| server),
            _ => self.disturb(server),
        }
    }

    fn break_pair(&mut self, sentinel: &Sentinel) -> &'static str {
        self.watch_failovers();
        let old = sentinel.primary();
        match self.random.between(0, 7) {
            0 | 1 => {
                old.kill();
                let killed = self.clock.now();
                sentinel.await_switch(old);
                self.switched(sentinel, killed);
                // It stays away until the calls have found the new one, which is what is measured.
                self.mend_ways();
                self.await_recovery("a killed primary");
                old.restart();
                sentinel.await_replica();
                "primary killed"
            }
            2 | 3 => {
                sentinel.fail_over();
                eventually("the old primary to follow", || {
                    let role = old.command(&["ROLE"]).map_err(|error| error.to_string())?.to_string();
                    if role.starts_with("slave") { Ok(()) } else { Err(role) }
                });
                self.switched(sentinel, self.clock.now());
                "failover"
            }
            4 => {
                sentinel.sentinel().kill();
                self.pause(0, 1_500);
                sentinel.restart_sentinel();
                sentinel.hasten();
                "sentinel killed"
            }
            _ => self.disturb(old),
        }
    }

    fn break_cluster(&mut self, cluster: &Cluster) -> &'static str {
        let nodes = cluster.nodes();
        let limits = load::limits();
        let rule = &limits[self.random.below(limits.len())];
        match self.random.between(0, 9) {
            0 | 1 => {
                let node = &nodes[self.random.below(nodes.len())];
                node.kill();
                self.pause(0, 1_500);
                node.restart();
                cluster.settle();
                "server killed"
            }
            2..=4 => {
                let slot = cluster.slot(&load::names(rule)[0]);
                let away = 1 + self.random.below(nodes.len() - 1);
                let migration = cluster.migrate_slot(slot, (cluster.owner(slot) + away) % nodes.len());
                self.pause(0, 200);
                migration.move_keys();
                self.pause(0, 200);
                migration.finish();
                "slot migrated"
            }
            5 => self.evict(|name| &nodes[cluster.owner(cluster.slot(name))]),
            _ => {
                let node = self.random.below(nodes.len());
                self.disturb(&nodes[node])
            }
        }
    }

    /// What can happen to any server.
    fn disturb(&mut self, server: &Server) -> &'static str {
        match self.random.between(0, 5) {
            0 => {
                server.pause();
                self.pause(50, 800);
                server.resume();
                "server frozen"
            }
            1 => {
                let (time, kind) = (self.random.between(50, 800), self.random.one_of(&["WRITE", "ALL"]));
                server.cli(&["CLIENT", "PAUSE", &time.to_string(), kind]);
                std::thread::sleep(Duration::from_millis(time));
                "CLIENT PAUSE"
            }
            2 => {
                server.cli(&["SCRIPT", "FLUSH"]);
                "SCRIPT FLUSH"
            }
            3 => {
                server.cli(&["CONFIG", "SET", "lua-time-limit", "10"]);
                let script = "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end \
                              local start = now() repeat until now() > start + ARGV[1]";
                let time = self.random.between(50, 600).to_string();
                // A sentinel ends it when it takes too long.
                let _ = server.command(&["EVAL", script, "0", &time]);
                "busy script"
            }
            4 => {
                server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
                self.pause(50, 800);
                server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
                "out of memory"
            }
            _ => {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
                "CLIENT KILL"
            }
        }
    }

    /// The server forgets what the limits counted, as by eviction, or as one that starts without its data.
    fn evict<'s>(&mut self, owner: impl Fn(&str) -> &'s Server) -> &'static str {
        let from = self.clock.now();
        for rule in load::limits() {
            for name in load::names(&rule) {
                owner(&name).cli(&["UNLINK", &name]);
            }
        }
        self.lose(from, Lost::Evicted);
        "keys evicted"
    }

    fn count(&mut self, fault: &'static str) -> &'static str {
        *self.faults.entry(fault).or_default() += 1;
        fault
    }

    fn pause(&mut self, least: u64, most: u64) {
        std::thread::sleep(Duration::from_millis(self.random.between(least, most)));
    }

    fn lose(&mut self, from: u64, what: Lost) {
        let to = self.clock.now();
        self.losses.push(Loss { from, to, what });
    }

    /// Waits until the replica is level. All that was answered before the time that is returned has reached it.
    fn level(&self, sentinel: &Sentinel) -> u64 {
        sentinel.await_replica();
        let now = self.clock.now();
        sentinel.await_level();
        now
    }

    /// The primary was replaced, and the old one counted nothing any more after `end`.
    fn switched(&mut self, sentinel: &Sentinel, end: u64) {
        let epoch = sentinel.epoch();
        // Unless there was more than one failover.
        let to = if epoch == self.epoch + 1 { end } else { self.clock.now() };
        self.losses.push(Loss { from: self.level, to, what: Lost::Unreplicated });
        self.epoch = epoch;
    }

    /// On a busy machine a sentinel may think of a failover by itself.
    fn watch_failovers(&mut self) {
        if let Servers::Sentinel(sentinel) = &self.stage.servers {
            let level = self.level(sentinel);
            let epoch = sentinel.epoch();
            if epoch != self.epoch {
                self.lose(self.level, Lost::Unreplicated);
                self.count("failover by itself");
            }
            (self.epoch, self.level) = (epoch, level);
        }
    }

    /// Waits until the servers decide again for every worker, in every part of the keys.
    fn await_recovery(&mut self, what: &str) {
        let (start, since, shards) = (Instant::now(), self.clock.now(), self.stage.shards());
        let is_back = |worker: &Worker| {
            let said = worker.said();
            if let Some(wrong) = &said.wrong {
                panic!("{}: a worker, after {what}: {wrong}", self.stage.name);
            }
            said.last_admitted.iter().filter(|asked| **asked >= since).count() >= shards
        };
        while !self.workers.iter().all(is_back) {
            assert!(start.elapsed() < PATIENT, "{}: no decision {PATIENT:?} after {what}", self.stage.name);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.worst_recovery = self.worst_recovery.max(start.elapsed());
    }
}
