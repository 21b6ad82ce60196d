//! Three processes of one program share a limit on a Redis, and each has another one for itself.
//!
//! `cargo run --example fleet --features redis` uses the server at `redis://127.0.0.1:6379`, or at the address that is
//! named behind ` -- `. Where there is none it starts a `redis-server` of its own, and stops it at the end.

mod server;

use std::error::Error;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use limiter::{DecidedBy, Rejected, rate_limit};
use tokio::time::{Instant, sleep_until};

const LIMIT: u64 = 3;

/// Overall: the fleet admits three calls of each user in four seconds.
#[rate_limit(key = "user", qps = LIMIT, window = "4s", fallback = "busy", decision = d)]
async fn get_order(user: &str) -> String {
    passed(d.remaining(), d.decided_by())
}

/// Per instance: each process admits as many.
#[rate_limit(key = "user", qps = LIMIT, window = "4s", store = "local", fallback = "busy", decision = d)]
async fn get_price(user: &str) -> String {
    passed(d.remaining(), d.decided_by())
}

fn passed(remaining: u64, by: DecidedBy) -> String {
    row("passed", LIMIT - remaining, by)
}

fn busy(_: &str, why: Rejected) -> String {
    let seconds = why.retry_after().unwrap_or_default().as_secs_f64();
    let row = row("rejected", LIMIT - why.remaining(), why.decided_by());
    format!("{row:<27}  try again in {seconds:.1}s")
}

fn row(decision: &str, count: u64, by: DecidedBy) -> String {
    let by = match by {
        DecidedBy::Shared => "the fleet",
        DecidedBy::Local => "itself",
        // The server did not answer in time, and each process went on by itself.
        _ => "on_error",
    };
    format!("{decision:<8}  {count} of {LIMIT}  {by}")
}

/// What runs three times: a service that gets its calls by lines, such as "order alice".
#[tokio::main]
async fn serve(url: &str) -> Result<(), Box<dyn Error>> {
    limiter::install(limiter::RedisLimiter::connect(url).await?)?;
    println!("ready");
    for line in std::io::stdin().lines() {
        match line?.split_once(' ') {
            Some(("order", user)) => println!("{}", get_order(user).await),
            Some(("price", user)) => println!("{}", get_price(user).await),
            _ => println!("what?"),
        }
    }
    Ok(())
}

/// What stands before them: passes calls on, to one process after the other.
#[tokio::main]
async fn balance(url: &str) -> Result<(), Box<dyn Error>> {
    let server = server::find_or_start(url).await?;
    let mut processes =
        [Process::start(&server.url)?, Process::start(&server.url)?, Process::start(&server.url)?];
    let calls = [
        (0.0, 1, "order", "alice"),
        (0.4, 2, "order", "alice"),
        (0.8, 3, "order", "alice"),
        (1.2, 1, "order", "alice"), // her fourth, wherever she asks
        (1.4, 2, "order", "alice"),
        (1.6, 3, "order", "alice"),
        (1.8, 1, "order", "bob"),
        (2.0, 2, "order", "bob"),
        (4.2, 3, "order", "alice"), // four seconds after her first
        (4.3, 1, "order", "alice"), // not yet four seconds after her second
        (4.8, 1, "price", "alice"),
        (4.9, 1, "price", "alice"),
        (5.0, 1, "price", "alice"),
        (5.1, 1, "price", "alice"), // her fourth in this process
        (5.2, 2, "price", "alice"), // her first in that one
        (5.3, 3, "price", "alice"),
    ];

    println!("\n time  process  call   user   decision  count   decided by");
    let start = Instant::now();
    for (seconds, process, call, user) in calls {
        sleep_until(start + Duration::from_secs_f64(seconds)).await;
        let answer = processes[process - 1].ask(call, user)?;
        println!("{seconds:>4.1}s  {process:<7}  {call}  {user:<5}  {answer}");
    }
    println!(
        "\norder: {LIMIT} in 4s for each user, in the whole fleet. price: {LIMIT} in 4s for each user and process."
    );
    Ok(())
}

/// This program, started once more.
struct Process {
    child: Child,
    calls: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(url: &str) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (calls, answers) = pipes.ok_or("a process without pipes")?;
        let mut process = Self { child, calls, answers: BufReader::new(answers).lines() };
        process.hear()?;
        Ok(process)
    }

    fn ask(&mut self, call: &str, user: &str) -> Result<String, Box<dyn Error>> {
        writeln!(self.calls, "{call} {user}")?;
        self.hear()
    }

    fn hear(&mut self) -> Result<String, Box<dyn Error>> {
        Ok(self.answers.next().ok_or("a process of the fleet has ended")??)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", url] => serve(url),
        [] => balance("redis://127.0.0.1:6379"),
        [url] => balance(url),
        _ => Err("usage: fleet [ADDRESS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
