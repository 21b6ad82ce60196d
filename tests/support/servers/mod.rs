//! Real servers for the tests: Redis or Valkey, alone, as a cluster, or under a sentinel.
//!
//! Each has free ports of 127.0.0.1 and a folder of its own. It ends, and its folder with it, when its value is dropped,
//! when the test panics, and when the process of the test is killed: see [`process`].

mod certificate;
mod cluster;
mod port;
mod process;
mod sentinel;
mod server;
mod wire;
mod wrong_clock;

use std::time::{Duration, Instant};

pub use cluster::{Cluster, Migration};
pub use process::alive;
pub use sentinel::Sentinel;
pub use server::Server;
pub use wire::{Monitor, Value, Wire};
pub use wrong_clock::WrongClock;

/// Far more than any server takes, so that only a hang meets it, also on a machine with much else to do.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks again until the answer is `Ok`. Past the deadline it panics with `what` was awaited, and why it is not so yet.
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(value) => return value,
            Err(reason) if start.elapsed() > DEADLINE => {
                panic!("waited {DEADLINE:?} in vain for {what}: {reason}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
