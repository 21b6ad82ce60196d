//! Which server to connect to, and connecting to it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, ErrorKind, Pipeline, RedisError, RedisResult, Value, cmd};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::address::{Host, Login};
use super::connection::Connection;
use super::node::Tell;
use crate::Strategy;
use crate::strategy::lua;

/// How a server is found whenever a connection to it is made.
#[derive(Clone)]
pub(super) struct Resolver {
    pub(super) target: Target,
    /// Where the connection goes that is used.
    pub(super) current: Current,
    pub(super) login: Login,
    /// How long a call may take.
    pub(super) timeout: Duration,
    pub(super) clock: lua::ScriptClock,
}

/// What came of an attempt to connect.
pub(super) enum Found {
    Connection(Connection, Host),
    Not(RedisError),
}

pub(super) type Current = Arc<Mutex<Option<Host>>>;

#[derive(Clone)]
pub(super) enum Target {
    Fixed(Host),
    Sentinel { sentinels: Vec<Host>, primary: String },
}

/// How long a connection may take to make, at the least.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one server or sentinel is waited for before the next is asked too.
const PATIENCE: Duration = Duration::from_millis(100);
/// A sentinel, or a server that is asked about a cluster, may take so many times as long as a call may.
const LONGEST_ANSWER: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);
/// An attempt to connect that takes longer, and longer than a call may take, does not keep others from being made.
const OVERDUE_ATTEMPT: Duration = Duration::from_millis(200);
const MOST_UNDER_WAY: usize = 3;
/// How often the sentinels are asked whether the primary is still the same: a primary that was replaced may go on
/// answering for long.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

impl Resolver {
    /// Where the server is, or how it is found.
    pub(super) fn place(&self) -> String {
        match &self.target {
            Target::Fixed(host) => host.to_string(),
            Target::Sentinel { primary, .. } => format!("the primary {primary:?}"),
        }
    }

    /// A connection to the server as it is found now, with the scripts on it.
    pub(super) async fn connect(&self) -> RedisResult<(Connection, Host)> {
        let host = match &self.target {
            Target::Fixed(host) => host.clone(),
            Target::Sentinel { sentinels, primary } => self.primary(sentinels, primary).await?,
        };
        let mut connection = self.open(&self.login.client(&host)?).await?;
        if matches!(self.target, Target::Sentinel { .. }) {
            connection.with(must_be_primary).await?;
        }
        connection
            .with(async |commands: &mut MultiplexedConnection| self.load_scripts(commands).await)
            .await?;
        Ok((connection, host))
    }

    /// The connection to this host is the one that is used. Others may have been made at the same time.
    pub(super) fn settle_on(&self, host: Host) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
    }

    /// Tries until there is a connection, and tells of every failure. After `attempts` failures in a row it pauses
    /// before it tries, for a time that grows and that differs from client to client. Where nobody so much as refuses, it
    /// does not wait for the end of one attempt to begin the next: the server may be back long before that.
    pub(super) async fn find(&self, mut attempts: u32, tell: Tell) {
        let mut under_way = JoinSet::new();
        loop {
            let next = Instant::now() + pause(attempts);
            if let Some((connection, host)) = first_success(&mut under_way, next, &tell).await {
                tell.found(Found::Connection(connection, host));
                return;
            }
            tokio::time::sleep_until(next).await;
            attempts = attempts.saturating_add(1);
            if under_way.len() < MOST_UNDER_WAY {
                let resolver = self.clone();
                under_way.spawn(async move { resolver.connect_and_probe().await });
            }
            let overdue = Instant::now() + OVERDUE_ATTEMPT.max(self.timeout);
            if let Some((connection, host)) = first_success(&mut under_way, overdue, &tell).await {
                tell.found(Found::Connection(connection, host));
                return;
            }
        }
    }

    async fn connect_and_probe(&self) -> RedisResult<(Connection, Host)> {
        let (mut connection, host) = self.connect().await?;
        // Neither a server that is too slow to answer a call is back yet, nor one that runs no script which may write,
        // be it a replica, out of memory, or paused.
        let mut probe = cmd("EVAL");
        probe.arg("#!lua\nreturn 1").arg(0);
        let ask = async |commands: &mut MultiplexedConnection| commands.send_packed_command(&probe).await;
        match tokio::time::timeout(self.timeout, connection.with(ask)).await {
            Ok(answer) => answer.and_then(Value::extract_error).map(|_| (connection, host)),
            Err(_) => Err((ErrorKind::Io, "the server is too slow").into()),
        }
    }

    /// The primary that the sentinels name, once it is another than the one we are connected to.
    pub(super) async fn switched(&self) -> Host {
        let Target::Sentinel { sentinels, primary } = &self.target else {
            return std::future::pending().await;
        };
        let mut sentinels = sentinels.iter().cycle();
        loop {
            let Some(sentinel) = sentinels.next() else { return std::future::pending().await };
            tokio::time::sleep(WATCH_PAUSE).await;
            // One connection for as long as this sentinel answers, then the next one.
            let Ok(client) = self.login.sentinel_client(sentinel) else { continue };
            let Ok(mut connection) = self.open(&client).await else { continue };
            while let Ok(Some(named)) =
                connection.with(async |commands| ask_sentinel(commands, primary).await).await
            {
                if self.host().is_some_and(|current| current != named) {
                    return named;
                }
                tokio::time::sleep(WATCH_PAUSE).await;
            }
        }
    }

    /// Where the connection goes that is used.
    pub(super) fn host(&self) -> Option<Host> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn open(&self, client: &Client) -> RedisResult<Connection> {
        let longest = CONNECT_TIMEOUT.max(self.timeout);
        match tokio::time::timeout(longest, Connection::open(client, self.timeout * LONGEST_ANSWER)).await {
            Ok(connection) => connection,
            Err(_) => Err((ErrorKind::Io, "the server does not answer").into()),
        }
    }

    /// So that the first decision over the connection is one command already.
    async fn load_scripts(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let mut pipeline = Pipeline::new();
        for strategy in Strategy::ALL {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(lua::source(*strategy, self.clock));
        }
        let count = pipeline.len();
        let replies = connection.send_packed_commands(&pipeline, 0, count).await?;
        match replies.into_iter().find_map(|reply| reply.extract_error().err()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Asks the sentinels who the primary is.
    async fn primary(&self, sentinels: &[Host], primary: &str) -> RedisResult<Host> {
        let ask = |sentinel: Host| {
            let (resolver, primary) = (self.clone(), primary.to_owned());
            async move {
                let mut connection = resolver.open(&resolver.login.sentinel_client(&sentinel)?).await?;
                let unknown = || {
                    let what = "no sentinel knows a primary of this name";
                    RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, what))
                };
                let ask = async |commands: &mut MultiplexedConnection| ask_sentinel(commands, &primary).await;
                connection.with(ask).await?.ok_or_else(unknown)
            }
        };
        first_answer(sentinels.to_vec(), ask).await
    }
}

/// How long to wait before the next attempt: longer each time, and never the same for two clients.
pub(super) fn pause(attempts: u32) -> Duration {
    if attempts == 0 {
        return Duration::ZERO;
    }
    let pause = FIRST_PAUSE.saturating_mul(1 << attempts.min(5)).min(LONGEST_PAUSE);
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    let random = RandomState::new().hash_one(attempts) as u32 % 512;
    pause / 2 + pause * random / 1024
}

/// The first attempt that succeeds by `deadline`, or none as soon as all have failed.
async fn first_success(
    attempts: &mut JoinSet<RedisResult<(Connection, Host)>>,
    deadline: Instant,
    tell: &Tell,
) -> Option<(Connection, Host)> {
    while let Some(ended) = tokio::time::timeout_at(deadline, attempts.join_next()).await.ok()? {
        match ended {
            Ok(Ok(connected)) => return Some(connected),
            Ok(Err(error)) => tell.found(Found::Not(error)),
            Err(_) => {}
        }
    }
    None
}

/// Asks one after the other, until one has an answer. Who does not answer soon is not waited for alone.
pub(super) async fn first_answer<H, T, A>(
    hosts: impl IntoIterator<Item = H>,
    ask: impl Fn(H) -> A,
) -> RedisResult<T>
where
    T: Send + 'static,
    A: Future<Output = RedisResult<T>> + Send + 'static,
{
    let mut last_error = RedisError::from((ErrorKind::Client, "there is nobody to ask"));
    let mut asked = JoinSet::new();
    let mut hosts = hosts.into_iter();
    loop {
        let patience = match hosts.next() {
            Some(host) => {
                asked.spawn(ask(host));
                PATIENCE
            }
            None if asked.is_empty() => return Err(last_error),
            None => Duration::MAX,
        };
        match tokio::time::timeout(patience, asked.join_next()).await {
            Ok(Some(Ok(Ok(answer)))) => return Ok(answer),
            Ok(Some(Ok(Err(error)))) => last_error = error,
            _ => {}
        }
    }
}

async fn ask_sentinel(connection: &mut MultiplexedConnection, primary: &str) -> RedisResult<Option<Host>> {
    let answer: Option<(String, u16)> =
        cmd("SENTINEL").arg("get-master-addr-by-name").arg(primary).query_async(connection).await?;
    Ok(answer.map(|(host, port)| Host::Tcp(host, port)))
}

/// A sentinel may be the last to hear that a primary has become a replica.
async fn must_be_primary(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let role: Vec<Value> = cmd("ROLE").query_async(connection).await?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => Err((ErrorKind::Client, "the server that the sentinel named is not a primary").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fleet that lost its server does not come back all at once.
    #[test]
    fn pauses_grow_and_differ() {
        assert_eq!(pause(0), Duration::ZERO);
        for attempts in [1, 2, 3, 4, 5, 6, 40, u32::MAX] {
            let longest = FIRST_PAUSE.saturating_mul(1 << attempts.min(5)).min(LONGEST_PAUSE);
            let pauses: Vec<Duration> = (0..100).map(|_| pause(attempts)).collect();
            assert!(pauses.iter().all(|pause| *pause >= longest / 2 && *pause <= longest), "{attempts}");
            let (shortest, longest_drawn) = (*pauses.iter().min().unwrap(), *pauses.iter().max().unwrap());
            let spread = longest_drawn.saturating_sub(shortest);
            assert!(spread > longest / 4, "attempt {attempts} of a hundred clients: within {spread:?}");
        }
    }
}
