//! What a limit costs a web service: the same handler of axum with and without one, in one run.
//!
//! A client of our own keeps several connections busy with one request each. Rounds of all handlers are interleaved, so
//! that noise hits them alike; each round is compared with the round of the plain handler beside it.
//!
//! `cargo bench -p limiter-benches --bench web --features web`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use limiter::web::RateLimitFields;
use limiter::{Rejected, rate_limit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const ROUNDS: usize = 101;
const CONTENDERS: usize = 4;
const SERVICE: &str = "service";
const CONNECTIONS: usize = 16;
/// In each round, by each connection.
const REQUESTS: usize = 100;

async fn plain(Path(user): Path<u64>) -> Result<String, Rejected> {
    Ok(format!("the order of {user}"))
}

#[rate_limit(key = "user", qps = 1_000_000_000)]
async fn limited(Path(user): Path<u64>) -> Result<String, Rejected> {
    Ok(format!("the order of {user}"))
}

fn main() {
    // The service has a thread of its own.
    let service = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(SERVICE)
        .enable_all()
        .build()
        .expect("a runtime");
    let client = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let address = service.block_on(open());
    let contenders =
        ["/plain", "/plain-again", "/limited", "/fields"].map(|path| Contender::new(&client, address, path));
    let mut ratios = [const { (Vec::new(), Vec::new()) }; CONTENDERS];
    for round in 0..=ROUNDS {
        let mut costs = [Cost::default(); CONTENDERS];
        // Whoever is first has the caches of somebody else: they take turns.
        for turn in 0..CONTENDERS {
            let place = (turn + round) % CONTENDERS;
            costs[place] = contenders[place].round(&client);
        }
        // The first round only warms up.
        if round > 0 {
            for ((throughputs, loads), cost) in ratios.iter_mut().zip(costs) {
                throughputs.push(costs[0].time.as_secs_f64() / cost.time.as_secs_f64());
                loads.push(cost.cpu.as_secs_f64() / costs[0].cpu.as_secs_f64());
            }
        }
    }
    println!(
        "beside the same handler without a limit, medians of {ROUNDS} rounds    throughput   time on the processor"
    );
    let names = ["the same handler again", "with a limit", "with a limit, and its fields on the response"];
    for (name, (throughputs, loads)) in names.iter().zip(&mut ratios[1..]) {
        println!("{name:<66} {:>8.3}   {:>21.3}", median(throughputs), median(loads));
    }
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// What a round took.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: Duration,
    /// How long the service's thread was on a processor, which other programs on the machine disturb less.
    cpu: Duration,
}

/// How long the service's thread has been on a processor, as Linux counts it.
fn on_the_processor() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let service = threads.map(|thread| thread.path()).find(|path| read(path.join("comm")).trim() == SERVICE);
    let nanos = service.map(|path| read(path.join("schedstat")));
    let nanos = nanos.as_deref().and_then(|line| line.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// Opens the service.
async fn open() -> SocketAddr {
    let router = Router::new()
        .route("/fields/{user}", get(limited))
        .layer(RateLimitFields::new())
        .route("/plain/{user}", get(plain))
        .route("/plain-again/{user}", get(plain))
        .route("/limited/{user}", get(limited));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Connections that ask for one path.
struct Contender(Vec<Arc<Mutex<Connection>>>);

struct Connection {
    stream: TcpStream,
    request: String,
}

impl Contender {
    fn new(client: &Runtime, address: SocketAddr, path: &str) -> Self {
        let connections = (0..CONNECTIONS).map(|user| {
            let stream = client.block_on(TcpStream::connect(address)).expect("the service listens");
            stream.set_nodelay(true).expect("a socket can be told not to wait");
            let request = format!("GET {path}/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", 10 + user);
            Arc::new(Mutex::new(Connection { stream, request }))
        });
        Self(connections.collect())
    }

    /// What it takes until all requests of a round are answered.
    fn round(&self, client: &Runtime) -> Cost {
        let (start, before) = (Instant::now(), on_the_processor());
        client.block_on(async {
            let mut connections = JoinSet::new();
            for connection in &self.0 {
                let connection = connection.clone();
                connections.spawn(async move { connection.lock().await.ask().await });
            }
            connections.join_all().await;
        });
        Cost { time: start.elapsed(), cpu: on_the_processor().saturating_sub(before) }
    }
}

impl Connection {
    async fn ask(&mut self) {
        let mut answer = [0; 1024];
        for _ in 0..REQUESTS {
            self.stream.write_all(self.request.as_bytes()).await.expect("the service reads");
            let mut length = 0;
            while !complete(&answer[..length]) {
                length += self.stream.read(&mut answer[length..]).await.expect("the service answers");
            }
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..length]));
        }
    }
}

/// Whether an answer is there to its end, which is known.
fn complete(answer: &[u8]) -> bool {
    const BODY: &[u8] = b"\r\n\r\nthe order of 10";
    answer.len() >= BODY.len() && answer[answer.len() - BODY.len()..].starts_with(b"\r\n\r\nthe order of ")
}
