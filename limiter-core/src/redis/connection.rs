//! One connection to a server, whose owner also drives it.

use std::pin::{Pin, pin};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisError, RedisResult};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::resolver::first_answer;

pub(super) struct Connection {
    /// Where commands go in, and replies come out.
    pub(super) commands: MultiplexedConnection,
    driver: Driver,
    longest_answer: Duration,
}

/// Who writes commands to the socket, and reads replies.
enum Driver {
    /// The owner of the connection, who waits for replies anyway.
    Owner(Driving),
    /// A task of its own, until it is recalled.
    Task { task: JoinHandle<Option<Driving>>, recall: Option<oneshot::Sender<()>> },
    /// A task of the client crate, which keeps TLS to itself.
    Client,
    /// The connection has ended, or changes hands.
    Nobody,
}

type Driving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Commands that wait to be written.
const BUFFER: usize = 1024;

impl Connection {
    /// Replies to [`with`](Self::with) may be so late.
    pub(super) async fn open(client: &Client, longest_answer: Duration) -> RedisResult<Self> {
        // Whoever sends commands looks after the time.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(BUFFER);
        let info = client.get_connection_info();
        let (commands, driver) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                driven(MultiplexedConnection::new_with_config(
                    info.redis_settings(),
                    tcp(host, *port).await?,
                    config,
                ))
                .await?
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                driven(MultiplexedConnection::new_with_config(
                    info.redis_settings(),
                    tokio::net::UnixStream::connect(path).await?,
                    config,
                ))
                .await?
            }
            _ => {
                #[cfg(feature = "tls")]
                choose_cryptography();
                (client.get_multiplexed_async_connection_with_config(&config).await?, Driver::Client)
            }
        };
        Ok(Self { commands, driver, longest_answer })
    }

    /// Writes and reads as long as the connection holds, or somebody else does so.
    pub(super) async fn drive(&mut self) {
        self.driver = match &mut self.driver {
            Driver::Owner(driving) => {
                driving.await;
                Driver::Nobody
            }
            Driver::Task { task, .. } => match task.await {
                Ok(Some(driving)) => Driver::Owner(driving),
                _ => Driver::Nobody,
            },
            Driver::Client | Driver::Nobody => std::future::pending().await,
        };
    }

    /// Lets a task of its own drive it: to write takes long, and its owner has more to do meanwhile.
    pub(super) fn lend(&mut self) {
        self.driver = match std::mem::replace(&mut self.driver, Driver::Nobody) {
            Driver::Owner(mut driving) => {
                let (recall, recalled) = oneshot::channel();
                let task = tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = &mut driving => None,
                        _ = recalled => Some(driving),
                    }
                });
                Driver::Task { task, recall: Some(recall) }
            }
            other => other,
        };
    }

    /// Lets its owner drive it again: there is less to do than it takes to wake a task.
    pub(super) fn recall(&mut self) {
        if let Driver::Task { recall, .. } = &mut self.driver
            && let Some(recall) = recall.take()
        {
            let _ = recall.send(());
        }
    }

    /// Whether there are no more replies than those that are there.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.driver, Driver::Nobody)
    }

    /// Sends commands by it, and drives it until they are answered.
    pub(super) async fn with<T>(
        &mut self,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let (mut commands, longest_answer) = (self.commands.clone(), self.longest_answer);
        let mut asking = pin!(ask(&mut commands));
        let answer = async {
            loop {
                tokio::select! {
                    biased;
                    answer = &mut asking => break answer,
                    () = self.drive() => {}
                }
            }
        };
        let late = |_| RedisError::from((ErrorKind::Io, "the server is too slow"));
        tokio::time::timeout(longest_answer, answer).await.map_err(late)?
    }
}

async fn driven<D: Future<Output = ()> + Send + 'static>(
    connected: impl Future<Output = RedisResult<(MultiplexedConnection, D)>>,
) -> RedisResult<(MultiplexedConnection, Driver)> {
    let (commands, driver) = connected.await?;
    Ok((commands, Driver::Owner(Box::pin(driver))))
}

/// To the first address of a name that answers.
async fn tcp(host: &str, port: u16) -> RedisResult<TcpStream> {
    let addresses = lookup_host((host, port)).await?;
    let stream = first_answer(addresses, async |address| Ok(TcpStream::connect(address).await?)).await?;
    // Or a decision waits for the acknowledgement of the one before.
    stream.set_nodelay(true)?;
    Ok(stream)
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
