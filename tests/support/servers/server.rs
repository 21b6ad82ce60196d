//! One server.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::certificate::Certificate;
use super::eventually;
use super::port::Port;
use super::process::{self, Folder, Process, Variable};
use super::wire::{Monitor, Value, Wire};
use super::wrong_clock::WrongClock;
use crate::support::{locate, needed};

/// A server on a port of its own, which it keeps when it is stopped and started again.
pub struct Server {
    // Before the folder, so that it is dropped, and the process killed, before the folder goes.
    process: Mutex<Option<Process>>,
    folder: Folder,
    port: Port,
    arguments: Vec<String>,
    environment: Vec<Variable>,
    password: Option<String>,
    tls: Option<(Port, Certificate)>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// With arguments as on the command line, which win over ours. A `--requirepass` is also used by
    /// [`cli`](Self::cli), and is not part of the addresses.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let port = Port::claim();
        let number = port.number.to_string();
        let place = folder.path().to_str().expect("a folder with a plain name");
        let socket = format!("{place}/{SOCKET}");
        let own = [
            ["--port", &number],
            ["--bind", "127.0.0.1"],
            ["--unixsocket", &socket],
            ["--dir", place],
            ["--save", ""],
            ["--appendonly", "no"],
            ["--loglevel", "warning"],
            // A primary waits neither to end until its replicas are level, nor to serve until more of them have come.
            ["--shutdown-timeout", "0"],
            ["--repl-diskless-sync-delay", "0"],
        ];
        let password =
            arguments.windows(2).find(|pair| pair[0] == "--requirepass").map(|pair| pair[1].to_owned());
        let all = own.as_flattened().iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        Self::run(folder, port, all, password)
    }

    /// Whose time is that of `clock`.
    pub fn by(clock: &WrongClock) -> Self {
        let mut server = Self::start();
        server.environment.extend(clock.environment());
        server.restart();
        server
    }

    /// Also with TLS, on a port of its own and with a certificate for 127.0.0.1 and localhost.
    pub fn tls() -> Self {
        let (port, certificate) = (Port::claim(), Certificate::new());
        let path = |path: &Path| path.to_str().expect("a plain name").to_owned();
        let mut server = Self::with(&[
            "--tls-port",
            &port.number.to_string(),
            "--tls-cert-file",
            &path(&certificate.chain),
            "--tls-key-file",
            &path(&certificate.key),
            "--tls-ca-cert-file",
            &path(&certificate.ca),
            "--tls-auth-clients",
            "no",
        ]);
        server.tls = Some((port, certificate));
        server
    }

    /// In sentinel mode, with a configuration which the sentinel keeps its memory in.
    pub(super) fn sentinel(configuration: &str) -> Self {
        let (folder, port) = (Folder::new(), Port::claim());
        let file = folder.path().join("sentinel.conf");
        let place = folder.path().display();
        let own = format!("port {}\nbind 127.0.0.1\ndir {place}\nloglevel warning\n", port.number);
        std::fs::write(&file, own + configuration).expect("the folder is ours");
        let arguments = vec![file.to_str().expect("a plain name").to_owned(), "--sentinel".to_owned()];
        Self::run(folder, port, arguments, None)
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// `redis+unix:///path`
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.folder.path().join(SOCKET).display())
    }

    /// `rediss://127.0.0.1:port`, of a server from [`Server::tls`].
    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.certified().0.number)
    }

    /// The certificate that clients are to trust, of a server from [`Server::tls`].
    pub fn ca_path(&self) -> &Path {
        &self.certified().1.ca
    }

    /// Where its files are, `server.log` among them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.running(Process::id)
    }

    /// Ends it in order. Its connections are closed; its port stays its own.
    pub fn stop(&self) {
        if let Some(process) = self.process().take() {
            process.stop(&self.folder);
        }
    }

    /// Ends it with SIGKILL.
    pub fn kill(&self) {
        if let Some(process) = self.process().take() {
            process.kill(&self.folder);
        }
    }

    /// Starts it on the same port with the same arguments, after [`stop`](Self::stop), [`kill`](Self::kill) or a crash,
    /// or ends it first. It has forgotten its keys and scripts, unless its arguments say to save them.
    pub fn restart(&self) {
        self.stop();
        let program = needed(locate::redis_server());
        let mut process = Process::start(&self.folder, &program, &self.arguments, &self.environment);
        // Outside of the lock: where it fails, the panic must not poison it.
        eventually("the server to answer", || {
            if let Some(status) = process.ended() {
                let log = process::log_tail(&self.folder);
                panic!("{} ended at its start: {status}\n{log}", program.display());
            }
            self.ready(process.id())
                .map_err(|reason| format!("{reason}\n{}", process::log_tail(&self.folder)))
        });
        *self.process() = Some(process);
    }

    /// Freezes it (SIGSTOP): connections stay open, also new ones are accepted by the kernel, and nothing is answered.
    pub fn pause(&self) {
        self.running(Process::pause);
    }

    /// Goes on where [`pause`](Self::pause) stopped it, and answers what came meanwhile.
    pub fn resume(&self) {
        self.running(Process::resume);
    }

    /// The reply to one command as text, each element on a line of its own. Panics where the reply is an error.
    pub fn cli(&self, command: &[&str]) -> String {
        match self.command(command) {
            Ok(Value::Error(error)) => panic!("`{}`: {error}", command.join(" ")),
            Ok(value) => value.to_string(),
            Err(error) => panic!("`{}` on port {}: {error}", command.join(" "), self.port()),
        }
    }

    /// The reply to one command, on a connection of its own.
    pub fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> io::Result<Value> {
        self.wire()?.ask(command)
    }

    /// A connection, for several commands in a row.
    pub fn wire(&self) -> io::Result<Wire> {
        Wire::connect(self.port(), self.password.as_deref())
    }

    /// Collects all that it is asked from now on.
    pub fn monitor(&self) -> Monitor {
        let monitor = self.wire().and_then(|lines| Monitor::start(lines, self.wire()?));
        monitor.unwrap_or_else(|error| panic!("cannot monitor port {}: {error}", self.port()))
    }

    fn run(folder: Folder, port: Port, arguments: Vec<String>, password: Option<String>) -> Self {
        let process = Mutex::new(None);
        let server = Self { process, folder, port, arguments, environment: Vec::new(), password, tls: None };
        server.restart();
        server
    }

    /// Whether the process with this id, and no other, answers on the port.
    fn ready(&self, id: u32) -> Result<(), String> {
        let ask = |command: &[&str]| self.command(command).map_err(|error| error.to_string());
        match ask(&["PING"])? {
            Value::Error(error) if error.starts_with("LOADING") => return Err(error),
            // It asks for a password that we do not know, or the like: it is there.
            Value::Error(_) => return Ok(()),
            _ => {}
        }
        let info = ask(&["INFO", "server"])?.to_string();
        match info.lines().find_map(|line| line.strip_prefix("process_id:")) {
            Some(other) if other.trim() != id.to_string() => {
                Err(format!("process {} answers on port {}", other.trim(), self.port()))
            }
            _ => Ok(()),
        }
    }

    fn running<T>(&self, act: impl FnOnce(&Process) -> T) -> T {
        act(self.process().as_ref().expect("the server is stopped"))
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn certified(&self) -> &(Port, Certificate) {
        self.tls.as_ref().expect("the server was started by `Server::tls`")
    }
}

const SOCKET: &str = "server.sock";
