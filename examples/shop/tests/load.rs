//! The shop at work: a process of its own, under more load than it admits.

#[path = "../../../tests/support/mod.rs"]
mod support;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limiter_web_tests::{Client, Reply, item};
use tokio::time::{sleep, sleep_until};

const LIMIT: usize = 3;
const WINDOW: Duration = Duration::from_secs(4);
/// A permit comes back at most one sample late.
const SAMPLE: Duration = Duration::from_millis(400);

/// A running shop. It ends with this value, or with the process of the test, whichever ends first.
struct Shop {
    shell: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// The pipe ends with the test, however that ends.
const UNTIL_THE_PIPE_ENDS: &str = r#""$0" "$@" & read -r _; kill $!"#;

impl Shop {
    fn open(arguments: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = format!("shop-{}-{}.log", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(log);
        let mut shell = Command::new("sh")
            .args(["-c", UNTIL_THE_PIPE_ENDS, env!("CARGO_BIN_EXE_shop"), "--listen", "127.0.0.1:0"])
            .args(arguments)
            .env("ADMIN_TOKEN", "open sesame")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("a file for the log"))
            .spawn()
            .expect("the shop starts");
        let lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
        let place = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("listening on http://")?.parse()));
        let address = place.expect("the shop opens").expect("an address");
        Self { shell, address, log }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// The lines of the log that tell of rejections, once there are as many.
    async fn rejections_in_log(&self, expected: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let log = std::fs::read_to_string(&self.log).expect("a log");
            let lines: Vec<_> =
                log.lines().filter(|line| line.contains("rejected")).map(str::to_owned).collect();
            if lines.len() >= expected || Instant::now() > deadline {
                return lines;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

async fn order(client: &mut Client, user: &str) -> Reply {
    client.post("/orders", &format!(r#"{{"user":"{user}","item":"tea"}}"#)).await
}

/// Ten times the limit of each user, by several connections at once: how many were admitted, and when the last was.
async fn crowd(shop: &Shop, users: &[String]) -> (Vec<usize>, usize, tokio::time::Instant) {
    let connections: Vec<_> = (0..10)
        .map(|_| {
            let (address, users) = (shop.address, users.to_vec());
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let (mut admitted, mut rejected) = (vec![0; users.len()], 0);
                for _ in 0..LIMIT {
                    for (user, admitted) in users.iter().zip(&mut admitted) {
                        let reply = order(&mut client, user).await;
                        if reply.status == 200 {
                            assert_eq!(reply.policies(), [item("orders", &[("q", 3), ("w", 4)])]);
                            let [(name, standing)] = &*reply.limits() else { panic!("one limit: {reply:?}") };
                            assert_eq!(name, "orders");
                            assert!(
                                (0..3).contains(&standing["r"]) && (1..=5).contains(&standing["t"]),
                                "{reply:?}"
                            );
                            *admitted += 1;
                        } else {
                            let seconds = reply.rejected_by("orders", 3, 4);
                            assert!(seconds <= 5, "no permit is away longer: {reply:?}");
                            assert_eq!(reply.field("x-ratelimit-limit"), Some("3"));
                            assert_eq!(reply.field("x-ratelimit-remaining"), Some("0"));
                            assert_eq!(reply.field("x-ratelimit-reset"), reply.field("retry-after"));
                            rejected += 1;
                        }
                    }
                }
                (admitted, rejected, tokio::time::Instant::now())
            })
        })
        .collect();
    let (mut admitted, mut rejected, mut end) = (vec![0; users.len()], 0, tokio::time::Instant::now());
    for connection in connections {
        let part = connection.await.expect("nobody panicked");
        admitted.iter_mut().zip(part.0).for_each(|(sum, more)| *sum += more);
        rejected += part.1;
        end = end.max(part.2);
    }
    (admitted, rejected, end)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_ten_times_the_limit_each_window_admits_the_limit() {
    let shop = Shop::open(&[]);
    let mut all_rejected = 0;
    for attempt in 0.. {
        let users: Vec<_> = (0..5).map(|user| format!("secret-{attempt}-{user}")).collect();
        let mut slow = false;
        for window in 0..3 {
            let start = tokio::time::Instant::now();
            let (admitted, rejected, end) = crowd(&shop, &users).await;
            all_rejected += rejected;
            // On a machine so slow that a crowd takes longer than a window, there is nothing to compare.
            slow = end - start >= WINDOW;
            if slow {
                break;
            }
            assert_eq!(admitted, vec![LIMIT; users.len()], "in window {window}");
            assert_eq!(rejected, 9 * LIMIT * users.len());
            sleep_until(end + WINDOW + SAMPLE).await;
        }
        if !slow {
            break;
        }
        assert!(attempt < 5, "the machine is too slow to ask 150 times in {WINDOW:?}");
    }
    let log = shop.rejections_in_log(all_rejected).await;
    assert_eq!(log.len(), all_rejected, "one event for each rejection");
    assert!(
        log.iter().all(|line| line.contains("rule=\"orders\"") && !line.contains("secret")),
        "{}",
        log[0]
    );
}

#[tokio::test]
async fn a_client_that_sleeps_as_long_as_it_is_told_is_admitted() {
    let shop = Shop::open(&[]);
    let mut client = shop.client().await;
    for _ in 0..2 {
        let rejected = loop {
            let reply = order(&mut client, "alice").await;
            if reply.status != 200 {
                break reply;
            }
        };
        sleep(Duration::from_secs(rejected.rejected_by("orders", 3, 4))).await;
        assert_eq!(order(&mut client, "alice").await.status, 200);
    }
}

#[tokio::test]
async fn each_page_has_the_limit_it_says() {
    let shop = Shop::open(&[]);
    let mut client = shop.client().await;
    // An exempt admin.
    let fields = [("content-type", "application/json"), ("authorization", "Bearer open sesame")];
    for _ in 0..10 {
        let reply = client.send("POST", "/orders", &fields, r#"{"user":"alice","item":"tea"}"#).await;
        assert_eq!((reply.status, &*reply.body), (200, "alice ordered tea\n"));
        assert_eq!(reply.limits(), [], "it met no limit");
    }
    // A limit by address, whatever the client says of itself.
    for attempt in 0..6 {
        let forged = format!("192.0.2.{attempt}");
        let reply = client.send("POST", "/login", &[("x-forwarded-for", &forged)], "").await;
        if attempt < 5 {
            assert_eq!((reply.status, &*reply.body), (200, "hello 127.0.0.1\n"));
        } else {
            reply.rejected_by("login", 5, 60);
        }
    }
    // A fallback with the last answer. A machine may be so slow that a permit is back, but not every time.
    let mut bodies = Vec::new();
    for _ in 0..20 {
        let reply = client.get("/price/tea").await;
        assert_eq!(reply.status, 200);
        bodies.push(reply.body);
    }
    assert_eq!(bodies[0], "tea costs 103 cents\n");
    assert!(bodies.contains(&"tea costs 103 cents (as last heard)\n".to_owned()), "{bodies:?}");
    // A limit that waits: three reports at once, half a second apart.
    let start = Instant::now();
    let mut clients = [shop.client().await, shop.client().await, shop.client().await];
    let [one, two, three] = &mut clients;
    let replies = tokio::join!(one.get("/report"), two.get("/report"), three.get("/report"));
    assert_eq!([replies.0.status, replies.1.status, replies.2.status], [200; 3]);
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "the third waited for the second, and that for the first"
    );

    let metrics = client.get("/metrics").await.body;
    for line in [
        "# TYPE limiter_passed_total counter",
        "limiter_passed_total{rule=\"login\"} 5",
        "limiter_rejected_total{rule=\"login\"} 1",
        "limiter_passed_total{rule=\"report\"} 3",
        "limiter_waited_total{rule=\"report\"} 2",
        "limiter_live_keys{rule=\"login\"} 1",
        "limiter_wait_duration_seconds_count{rule=\"report\"} 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line:?} in\n{metrics}");
    }
    for line in metrics.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("limiter_") && value.parse::<f64>().is_ok(), "{line:?}");
    }
    assert!(!metrics.contains("alice") && !metrics.contains("127.0.0.1"), "keys are in no measure");
}

/// How many calls the shared limiter could not answer.
async fn degraded(client: &mut Client) -> u64 {
    let metrics = client.get("/metrics").await.body;
    let counts = metrics.lines().filter(|line| line.starts_with("limiter_degraded_total{"));
    counts
        .map(|line| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a count"))
        .sum()
}

#[tokio::test]
async fn two_shops_on_one_redis_share_their_limits() {
    let server = support::servers::Server::start();
    let shops = [(); 2].map(|()| Shop::open(&["--redis", &server.url()]));
    let [mut one, mut other] = [shops[0].client().await, shops[1].client().await];
    for attempt in 0..20 {
        let (user, start) = (format!("user-{attempt}"), Instant::now());
        let before = degraded(&mut one).await + degraded(&mut other).await;
        let mut admitted = 0;
        for _ in 0..LIMIT {
            admitted += usize::from(order(&mut one, &user).await.status == 200);
            admitted += usize::from(order(&mut other, &user).await.status == 200);
        }
        let key = server.cli(&["KEYS", &format!("limiter:{{orders:{user}}}*")]);
        // On a busy machine the server may not answer in time, and then each shop decides by itself.
        if before == degraded(&mut one).await + degraded(&mut other).await && start.elapsed() < WINDOW {
            assert_eq!(admitted, LIMIT, "by both shops together");
            assert!(key.contains(&user), "the limit is on the server: {key:?}");
            return;
        }
    }
    panic!("the machine is too slow for a shared limit");
}
