//! A server to run the example on: one that is there, or one of its own.

use std::error::Error;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limiter::{ConnectError, RedisLimiter};

pub(crate) struct Server {
    pub(crate) url: String,
    _own: Option<Own>,
}

/// A server that the example started, which ends with this value.
struct Own {
    child: Child,
    folder: PathBuf,
}

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// Far more than a server takes to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server at `url`, or else a new one.
pub(crate) async fn find_or_start(url: &str) -> Result<Server, Box<dyn Error>> {
    let Err(why) = RedisLimiter::connect(url).await else {
        return Ok(Server { url: url.to_owned(), _own: None });
    };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut own = Own::start(port, &why)?;
    let url = format!("redis://127.0.0.1:{port}");
    println!("{why}\nstarted a server at {url} for this example");
    let start = Instant::now();
    while let Err(why) = RedisLimiter::connect(&url).await {
        if let Some(status) = own.child.try_wait()? {
            return Err(format!("the server that was started has ended: {status}").into());
        }
        if start.elapsed() > PATIENCE {
            return Err(why.into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Server { url, _own: Some(own) })
}

impl Own {
    fn start(port: u16, why: &ConnectError) -> Result<Self, Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("limiter-fleet-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        for program in PROGRAMS {
            let mut command = Command::new(program);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]);
            command.arg(&folder).stdin(Stdio::null()).stdout(Stdio::null());
            match command.spawn() {
                Ok(child) => return Ok(Self { child, folder }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(format!("cannot start {program}: {error}").into()),
            }
        }
        let _ = std::fs::remove_dir(&folder);
        Err(format!(
            "{why}\nand there is no redis-server to start. Install it (Debian, Ubuntu: apt-get install redis-server; \
             macOS: brew install redis), or name a server:\n\
             cargo run --example fleet --features redis -- redis://user:password@host:6379"
        )
        .into())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
