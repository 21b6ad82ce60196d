//! Stands between a client and a server, and does what a network does on a bad day.
//!
//! It reads as much of the protocol as it takes to count whole commands and to know which reply answers a script: what
//! happens to "the next reply" happens to a decision, never to a greeting or a probe. It has a thread of its own, so
//! that a test which blocks does not stop it, and allocations of the test are its own.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    /// Dropped with this value, and the thread ends.
    _end: oneshot::Sender<()>,
}

/// What happens to who knocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Connected to the server.
    Open,
    /// Reset at once.
    Slammed,
    /// Let in, and never answered.
    Silent,
}

/// What happens to a reply. The command that it answers has been executed.
#[derive(Clone, Copy)]
pub enum Harm {
    /// Half of it arrives, and the connection is reset.
    Cut,
    /// These bytes arrive in its place.
    Replace(&'static [u8]),
}

struct Shared {
    server: u16,
    state: Mutex<State>,
}

struct State {
    door: Door,
    delay: Duration,
    next_reply: Option<Harm>,
    every_reply: Option<Harm>,
    /// Connections with a lower number are half-open: what they say is lost, and nobody tells them.
    half_open_below: u64,
    /// Ports that servers name as theirs, and those that clients are to hear of instead.
    translations: Vec<(u16, u16)>,
    /// How many connections there have been, and the tasks of all.
    connections: u64,
    tasks: Vec<AbortHandle>,
    scripts: u64,
}

impl Proxy {
    /// In front of the server at this port of 127.0.0.1.
    pub fn start(server: u16) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("it is ours");
        let port = listener.local_addr().expect("it is bound").port();
        let state = State {
            door: Door::Open,
            delay: Duration::ZERO,
            next_reply: None,
            every_reply: None,
            half_open_below: 0,
            translations: Vec::new(),
            connections: 0,
            tasks: Vec::new(),
            scripts: 0,
        };
        let shared = Arc::new(Shared { server, state: Mutex::new(state) });
        let (end, ended) = oneshot::channel();
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                serve(TcpListener::from_std(listener).expect("it is ready"), serving, ended).await;
            });
        });
        Self { port, shared, _end: end }
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where a server names an address in a reply, as sentinels and servers of a cluster do, clients hear of the proxy
    /// in front of it: `(server, proxy)`. All ports have five digits, so that no length changes.
    pub fn translate(&self, ports: &[(u16, u16)]) {
        assert!(ports.iter().all(|(server, proxy)| *server >= 10_000 && *proxy >= 10_000), "{ports:?}");
        self.shared.state().translations = ports.to_vec();
    }

    /// What happens to new connections from now on.
    pub fn door(&self, door: Door) {
        self.shared.state().door = door;
    }

    /// Every reply takes this much longer from now on.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Harms the next reply to a script.
    pub fn harm_next(&self, harm: Harm) {
        self.shared.state().next_reply = Some(harm);
    }

    /// Harms every reply to a script from now on, or none any more.
    pub fn harm_all(&self, harm: Option<Harm>) {
        self.shared.state().every_reply = harm;
    }

    /// The other end of all connections is gone, and nobody says so. New ones are well.
    pub fn half_open(&self) {
        let mut state = self.shared.state();
        state.half_open_below = state.connections;
    }

    /// Resets all connections.
    pub fn reset(&self) {
        for task in self.shared.state().tasks.drain(..) {
            task.abort();
        }
    }

    /// How many connections were made so far, also those that the door kept out.
    pub fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// How many connections the client has not closed yet.
    pub fn open(&self) -> usize {
        self.shared.state().tasks.iter().filter(|task| !task.is_finished()).count()
    }

    /// How many decisions, each an `EVALSHA` or `EVAL`, were passed on to the server so far.
    pub fn scripts(&self) -> u64 {
        self.shared.state().scripts
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_half_open(&self, connection: u64) -> bool {
        connection < self.state().half_open_below
    }

    fn translate(&self, reply: &mut [u8]) {
        for (server, proxy) in &self.state().translations {
            // As an integer, as a string, and in an error.
            for before in ["127.0.0.1\r\n:", "127.0.0.1\r\n$5\r\n", "127.0.0.1:"] {
                let [named, instead] = [server, proxy].map(|port| format!("{before}{port}\r\n"));
                let mut from = 0;
                while let Some(at) =
                    reply[from..].windows(named.len()).position(|window| window == named.as_bytes())
                {
                    from += at + named.len();
                    reply[from - named.len()..from].copy_from_slice(instead.as_bytes());
                }
            }
        }
    }

    /// What happens to the reply to a script.
    fn harm(&self) -> Option<Harm> {
        let mut state = self.state();
        state.next_reply.take().or(state.every_reply)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut ended: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            _ = &mut ended => return,
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => client,
                Err(_) => continue,
            },
        };
        // However it ends, it ends with a reset.
        let _ = client.set_zero_linger();
        let mut state = shared.state();
        let number = state.connections;
        state.connections += 1;
        match state.door {
            Door::Slammed => continue,
            Door::Silent => state.half_open_below = number + 1,
            Door::Open => {}
        }
        let task = connections.spawn(connect(number, client, Arc::clone(&shared)));
        state.tasks.push(task);
    }
}

async fn connect(number: u64, client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.server)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    // Which of the commands that were not answered yet are scripts.
    let asked = Mutex::new(VecDeque::new());
    tokio::select! {
        () = pass_commands(number, &client, &server, &asked, &shared) => {}
        () = pass_replies(number, &server, &client, &asked, &shared) => {}
    }
}

type Asked = Mutex<VecDeque<bool>>;

async fn pass_commands(number: u64, client: &TcpStream, server: &TcpStream, asked: &Asked, shared: &Shared) {
    let mut buffer = Vec::new();
    while read(client, &mut buffer).await {
        if shared.is_half_open(number) {
            buffer.clear();
        }
        while let Some(length) = length(&buffer) {
            let command: Vec<u8> = buffer.drain(..length).collect();
            let is_script = is_script(&command);
            asked.lock().unwrap().push_back(is_script);
            if !write(server, &command).await {
                return;
            }
            shared.state().scripts += u64::from(is_script);
        }
    }
}

async fn pass_replies(number: u64, server: &TcpStream, client: &TcpStream, asked: &Asked, shared: &Shared) {
    let mut buffer = Vec::new();
    while read(server, &mut buffer).await {
        let delay = shared.state().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        while let Some(length) = length(&buffer) {
            let mut reply: Vec<u8> = buffer.drain(..length).collect();
            shared.translate(&mut reply);
            let is_script = asked.lock().unwrap().pop_front().unwrap_or(false);
            if shared.is_half_open(number) {
                continue;
            }
            let passed = match is_script.then(|| shared.harm()).flatten() {
                None => write(client, &reply).await,
                Some(Harm::Replace(bytes)) => write(client, bytes).await,
                Some(Harm::Cut) => {
                    write(client, &reply[..reply.len() / 2]).await;
                    false
                }
            };
            if !passed {
                return;
            }
        }
    }
    if shared.is_half_open(number) {
        std::future::pending::<()>().await;
    }
}

/// Adds what has come. False at the end.
async fn read(from: &TcpStream, buffer: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 4 << 10];
    loop {
        if from.readable().await.is_err() {
            return false;
        }
        match from.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(length) => {
                buffer.extend_from_slice(&bytes[..length]);
                return true;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
}

/// False where nobody takes it.
async fn write(to: &TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if to.writable().await.is_err() {
            return false;
        }
        match to.try_write(bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}

/// The length of the first command or reply, once all of it is there.
fn length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|end| end == b"\r\n")? + 2;
    let count =
        || std::str::from_utf8(&bytes[1..line - 2]).ok().and_then(|count| count.parse::<usize>().ok());
    match (bytes[0], count()) {
        (b'$', Some(count)) => Some(line + count + 2).filter(|length| *length <= bytes.len()),
        (b'*', Some(count)) => (0..count)
            .try_fold(line, |length_so_far, _| Some(length_so_far + length(&bytes[length_so_far..])?)),
        _ => Some(line),
    }
}

/// Whether a command is a decision: `EVALSHA` or `EVAL`, with keys. A script without keys is a probe.
fn is_script(command: &[u8]) -> bool {
    let name = argument(command, 0).to_ascii_uppercase();
    (name == b"EVALSHA" || name == b"EVAL") && argument(command, 2) != b"0"
}

/// `*3 $7 EVALSHA $2 ab $1 2`: the first argument is what stands behind `$7`.
fn argument(command: &[u8], index: usize) -> &[u8] {
    let after_line =
        |bytes: &[u8]| bytes.windows(2).position(|end| end == b"\r\n").map_or(bytes.len(), |end| end + 2);
    let mut rest = &command[after_line(command)..];
    for _ in 0..index {
        rest = &rest[length(rest).unwrap_or(rest.len())..];
    }
    let argument = &rest[..length(rest).unwrap_or(0)];
    argument[after_line(argument)..].trim_ascii_end()
}
