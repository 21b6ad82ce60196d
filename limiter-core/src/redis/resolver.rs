//! Which server to connect to, and connecting to it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, Pipeline, RedisError, RedisResult, Value, cmd};

use super::address::{Host, Login};
use crate::Strategy;
use crate::strategy::lua;

/// How a server is found whenever a connection to it is made.
#[derive(Clone)]
pub(super) struct Resolver {
    pub(super) target: Target,
    /// Where the last connection goes.
    pub(super) current: Current,
    pub(super) login: Login,
    /// How long a call may take.
    pub(super) timeout: Duration,
    pub(super) clock: lua::ScriptClock,
}

pub(super) type Current = Arc<Mutex<Option<Host>>>;

#[derive(Clone)]
pub(super) enum Target {
    Fixed(Host),
    Sentinel { sentinels: Vec<Host>, primary: String },
}

/// How long a connection may take to make, at the least.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection whose answer is this many times overdue is given up: its other end may be long gone.
const OVERDUE: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often the sentinels are asked whether the primary is still the same: a primary that was replaced may go on
/// answering for long.
const WATCH_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

impl Resolver {
    /// Where the server is, or how it is found.
    pub(super) fn place(&self) -> String {
        match &self.target {
            Target::Fixed(host) => host.to_string(),
            Target::Sentinel { primary, .. } => format!("the primary {primary:?}"),
        }
    }

    /// A connection to the server as it is found now, with the scripts on it.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let host = match &self.target {
            Target::Fixed(host) => host.clone(),
            Target::Sentinel { sentinels, primary } => self.primary(sentinels, primary).await?,
        };
        let mut connection = self.open(&self.login.client(&host)?).await?;
        if matches!(self.target, Target::Sentinel { .. }) {
            must_be_primary(&mut connection).await?;
        }
        self.load_scripts(&mut connection).await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
        Ok(connection)
    }

    /// The same after `attempts` failures in a row, with a pause that grows and that differs from client to client.
    pub(super) async fn connect_again(&self, attempts: u32) -> RedisResult<MultiplexedConnection> {
        if attempts > 0 {
            let pause = FIRST_PAUSE.saturating_mul(1 << attempts.min(5)).min(LONGEST_PAUSE);
            #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
            let random = RandomState::new().hash_one(attempts) as u32 % 512;
            tokio::time::sleep(pause / 2 + pause * random / 1024).await;
        }
        let mut connection = self.connect().await?;
        // A server that is too slow to answer a call is not back yet.
        let probe = cmd("PING");
        match tokio::time::timeout(self.timeout, connection.send_packed_command(&probe)).await {
            Ok(answer) => answer.and_then(Value::extract_error).map(|_| connection),
            Err(_) => Err((ErrorKind::Io, "the server is too slow").into()),
        }
    }

    /// Ends when the sentinels name another primary than the one we are connected to.
    pub(super) async fn switched(&self) {
        let Target::Sentinel { sentinels, primary } = &self.target else {
            return std::future::pending().await;
        };
        for sentinel in sentinels.iter().cycle() {
            tokio::time::sleep(WATCH_PAUSE).await;
            // One connection for as long as this sentinel answers, then the next one.
            let Ok(client) = self.login.sentinel_client(sentinel) else { continue };
            let Ok(mut connection) = self.open(&client).await else { continue };
            while let Ok(Some(named)) = ask_sentinel(&mut connection, primary).await {
                if self.host().is_some_and(|current| current != named) {
                    return;
                }
                tokio::time::sleep(WATCH_PAUSE).await;
            }
        }
    }

    /// Where the last connection goes.
    pub(super) fn host(&self) -> Option<Host> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn open(&self, client: &Client) -> RedisResult<MultiplexedConnection> {
        #[cfg(feature = "tls")]
        if let redis::ConnectionAddr::TcpTls { .. } = client.get_connection_info().addr() {
            choose_cryptography();
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT.max(self.timeout)))
            .set_response_timeout(Some(self.timeout * OVERDUE))
            .set_pipeline_buffer_size(1024);
        client.get_multiplexed_async_connection_with_config(&config).await
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

    /// Asks one sentinel after the other who the primary is.
    async fn primary(&self, sentinels: &[Host], primary: &str) -> RedisResult<Host> {
        let mut last_error = RedisError::from((ErrorKind::EmptySentinelList, "there is no sentinel to ask"));
        for sentinel in sentinels {
            let answer = async {
                let mut connection = self.open(&self.login.sentinel_client(sentinel)?).await?;
                ask_sentinel(&mut connection, primary).await
            };
            match answer.await {
                Ok(Some(host)) => return Ok(host),
                Ok(None) => {
                    let what = "no sentinel knows a primary of this name";
                    last_error = (ErrorKind::MasterNameNotFoundBySentinel, what).into();
                }
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }
}

async fn ask_sentinel(connection: &mut MultiplexedConnection, primary: &str) -> RedisResult<Option<Host>> {
    let answer: Option<(String, u16)> =
        cmd("SENTINEL").arg("get-master-addr-by-name").arg(primary).query_async(connection).await?;
    Ok(answer.map(|(host, port)| Host::Tcp(host, port)))
}

/// The client crate asks rustls for the cryptography of the process, and rustls panics where several were built in and
/// none was chosen. What the program chose stays.
#[cfg(feature = "tls")]
fn choose_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};

    if CryptoProvider::get_default().is_none() {
        // Somebody may have chosen in this moment.
        let _ = ring::default_provider().install_default();
    }
}

/// A sentinel may be the last to hear that a primary has become a replica.
async fn must_be_primary(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let role: Vec<Value> = cmd("ROLE").query_async(connection).await?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => Err((ErrorKind::Client, "the server that the sentinel named is not a primary").into()),
    }
}
