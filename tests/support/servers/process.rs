//! A server process that cannot outlive the test.
//!
//! `Drop` is not enough: it does not run when the test process is killed, aborts, or exits. So each server has a folder
//! with a watchdog, a shell that reads from a pipe. The kernel closes the pipe however the test ends, and the watchdog
//! then kills the server of whose id it read last, and removes the folder. There is no moment without cover: the server
//! starts as a shell that waits for a word from us, and turns into the server only once the watchdog knows its id.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// $1: the folder. An empty line: no server for now.
const WATCHDOG: &str = r#"
while read -r line; do pid=$line; done
[ -z "$pid" ] || kill -9 "$pid"
PATH=$PATH:/usr/bin:/bin
rm -rf -- "$1"
"#;

/// $@: the server and its arguments. The end of the pipe before the word: the test is gone.
const ON_COMMAND: &str = r#"read -r word && exec "$@" < /dev/null"#;

/// A new folder, gone with this value or with the test process, whichever ends first.
pub struct Folder {
    path: PathBuf,
    watchdog: Child,
    pipe: Option<ChildStdin>,
}

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = loop {
            // Short, since the path of a unix socket is at most about 100 bytes long.
            let name = format!("limiter-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        };
        let mut watchdog = shell(WATCHDOG)
            .arg(&path)
            .stdin(Stdio::piped())
            // It must not keep the output of a dead test open: whoever reads that would wait.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the watchdog starts");
        let pipe = watchdog.stdin.take();
        Self { path, watchdog, pipe }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the watchdog which process to kill, if any.
    fn watch(&self, id: Option<u32>) -> std::io::Result<()> {
        let id = id.map_or_else(String::new, |id| id.to_string());
        writeln!(self.pipe.as_ref().expect("open until the drop"), "{id}")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The server is gone before its folder, and its id may be another's by now.
        let _ = self.watch(None);
        self.pipe = None;
        let _ = self.watchdog.wait();
    }
}

/// A variable of a process's environment.
pub type Variable = (&'static str, String);

/// A running server. Killed on drop, which must come before that of its folder.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(folder: &Folder, program: &Path, arguments: &[String], environment: &[Variable]) -> Self {
        let log = File::options().create(true).append(true).open(log(folder)).expect("the log is ours");
        let child = shell(ON_COMMAND)
            .arg(program)
            .args(arguments)
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("a shell starts");
        let mut process = Self { child };
        folder.watch(Some(process.id())).expect("the watchdog listens");
        let mut word = process.child.stdin.take().expect("asked for");
        word.write_all(b"start\n").expect("the shell listens");
        process
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    pub fn pause(&self) {
        self.signal("STOP");
        // The signal is on its way while the server may still answer.
        super::eventually("the server to pause", || match state(self.id()) {
            Some('T') | None => Ok(()),
            Some(state) => Err(format!("its state is {state}")),
        });
    }

    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Asks it to end, and kills it if it does not.
    pub fn stop(mut self, folder: &Folder) {
        self.resume();
        self.signal("TERM");
        let start = Instant::now();
        while self.ended().is_none() && start.elapsed() < super::DEADLINE {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill(folder);
    }

    pub fn kill(mut self, folder: &Folder) {
        let _ = self.child.kill();
        // Nobody else gets its id before we have waited for it, in the drop.
        let _ = folder.watch(None);
    }

    fn signal(&self, name: &str) {
        let sent = shell(r#"kill -s "$1" "$2""#).args([name, &self.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send {name} to the server");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines that the servers of this folder wrote.
pub fn log_tail(folder: &Folder) -> String {
    let text = fs::read(log(folder)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Whether a process with this id runs. One that ended and that nobody asked about is not alive.
pub fn alive(id: u32) -> bool {
    !matches!(state(id), None | Some('Z' | 'X'))
}

/// Linux's letter for what a process does: `R`uns, `S`leeps, is s`T`opped, a `Z`ombie. Elsewhere: none.
fn state(id: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it, in brackets, may hold anything.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// In a process group of its own: Ctrl-C in the terminal ends the test and not the watchdog, which then does its work.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).process_group(0);
    command
}

fn log(folder: &Folder) -> PathBuf {
    folder.path.join("server.log")
}
