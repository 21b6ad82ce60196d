//! The servers that other tests run on: each kind starts, answers and ends, however the test ends.

#![cfg(feature = "redis")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use support::servers::{Cluster, Sentinel, Server, Value, WrongClock, alive, eventually};

#[test]
fn a_server_answers_and_ends_with_its_value() {
    let server = Server::start();
    assert_eq!(server.cli(&["SET", "key", "two\nlines"]), "OK");
    assert_eq!(server.cli(&["GET", "key"]), "two\nlines");
    assert_eq!(server.cli(&["GET", "none"]), "");
    assert_eq!(server.cli(&["MGET", "key", "none", "key"]), "two\nlines\n\ntwo\nlines");
    assert!(matches!(server.command(&["NONSENSE"]), Ok(Value::Error(error)) if error.starts_with("ERR")));
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));

    let (id, folder) = (server.id(), server.folder().to_owned());
    assert!(is_there(id, &folder));
    drop(server);
    assert!(is_gone(id, &folder));
}

#[test]
fn servers_are_strangers_to_each_other() {
    let servers = [Server::start(), Server::start()];
    servers[0].cli(&["SET", "key", "value"]);
    assert_eq!(servers[1].cli(&["DBSIZE"]), "0");
}

#[test]
fn a_password_is_asked_for() {
    let server = Server::with(&["--requirepass", "secret"]);
    assert_eq!(server.cli(&["PING"]), "PONG");
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stranger.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"-NOAUTH");
}

#[test]
fn a_server_that_is_stopped_or_killed_comes_back_on_its_port() {
    let server = Server::start();
    let (port, first) = (server.port(), server.id());
    for end in [Server::stop, Server::kill] {
        server.cli(&["SET", "key", "value"]);
        end(&server);
        assert!(server.command(&["PING"]).is_err());
        server.restart();
        assert_eq!(server.cli(&["GET", "key"]), "");
    }
    assert_eq!(server.port(), port);
    assert_ne!(server.id(), first);
}

#[test]
fn a_server_that_is_paused_answers_when_it_goes_on() {
    let server = Server::start();
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    server.pause();
    client.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    assert!(client.read(&mut answer).is_err());
    server.resume();
    client.set_read_timeout(None).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    server.pause();
    server.stop();
    assert!(server.command(&["PING"]).is_err());
}

#[test]
fn a_monitor_collects_what_clients_and_scripts_ask() {
    let server = Server::start();
    server.cli(&["GET", "before"]);
    let monitor = server.monitor();
    server.cli(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "inside"]);
    let lines = monitor.stop();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("\"EVAL\""), "{lines:#?}");
    assert!(lines[1].contains("lua] \"GET\" \"inside\""), "{lines:#?}");
}

#[test]
fn a_monitor_of_a_killed_server_keeps_what_it_heard() {
    let server = Server::start();
    let monitor = server.monitor();
    server.cli(&["GET", "key"]);
    server.kill();
    assert_eq!(monitor.stop().len(), 1);
}

#[test]
fn a_server_listens_on_its_socket() {
    let server = Server::start();
    let url = server.socket_url();
    let mut client = UnixStream::connect(url.strip_prefix("redis+unix://").unwrap()).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn a_server_with_tls_shows_a_certificate_of_its_authority() {
    let server = Server::tls();
    let address = server.tls_url().strip_prefix("rediss://").unwrap().to_owned();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-verify_ip", "127.0.0.1"])
        .args(["-connect", &address, "-CAfile"])
        .arg(server.ca_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client.stdin.as_mut().unwrap().write_all(b"PING\r\nQUIT\r\n").unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("+PONG"), "{output:?}");
    assert_eq!(server.cli(&["PING"]), "PONG");
}

#[test]
fn a_start_that_fails_shows_what_the_server_said() {
    let failed = std::thread::spawn(|| Server::with(&["--nonsense", "yes"])).join();
    let message = failed.err().expect("such a server does not start");
    let message = message.downcast_ref::<String>().expect("a message");
    assert!(message.contains("ended at its start") && message.contains("nonsense"), "{message}");
}

#[test]
fn a_cluster_serves_all_slots_and_moves_one() {
    let cluster = Cluster::start();
    assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));
    assert_eq!([0, 8_000, 16_383].map(|slot| cluster.owner(slot)), [0, 1, 2]);

    let slot = cluster.slot("key");
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let nodes = cluster.nodes();
    let refusal = |node: usize, key: &str| match nodes[node].command(&["GET", key]).unwrap() {
        Value::Error(error) => error.split(' ').next().unwrap().to_owned(),
        other => other.to_string(),
    };
    nodes[from].cli(&["SET", "key", "value"]);
    assert_eq!(refusal(to, "key"), "MOVED");

    let migration = cluster.migrate_slot(slot, to);
    assert_eq!(refusal(from, "key"), "value");
    assert_eq!(refusal(from, "{key}other"), "ASK");
    migration.move_keys();
    assert_eq!(refusal(from, "key"), "ASK");
    migration.finish();
    assert_eq!(refusal(from, "key"), "MOVED");
    assert_eq!(refusal(to, "key"), "value");
    assert_eq!(cluster.owner(slot), to);

    nodes[from].kill();
    assert_eq!(refusal(to, "key"), "value");
    nodes[from].restart();
    cluster.settle();
}

#[test]
fn a_sentinel_fails_over_when_asked_and_when_the_primary_dies() {
    let sentinel = Sentinel::start();
    let (first, second) = (sentinel.primary(), sentinel.replica());
    sentinel.hasten();
    // A client waits for its own writes only.
    let mut client = first.wire().unwrap();
    client.ask(&["SET", "key", "value"]).unwrap();
    assert_eq!(client.ask(&["WAIT", "1", "5000"]).unwrap(), Value::Integer(1));

    sentinel.fail_over();
    assert_eq!(sentinel.primary().port(), second.port());
    assert_eq!(second.cli(&["GET", "key"]), "value");
    sentinel.await_replica();
    assert!(
        matches!(first.command(&["SET", "key", "2"]), Ok(Value::Error(error)) if error.starts_with("READONLY"))
    );

    second.kill();
    sentinel.await_switch(second);
    assert_eq!(sentinel.primary().port(), first.port());
    assert_eq!(first.cli(&["SET", "key", "2"]), "OK");
    second.restart();
    sentinel.await_replica();
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let (send, receive) = mpsc::channel();
    let failed = std::thread::spawn(move || {
        let server = Server::start();
        send.send((server.id(), server.folder().to_owned())).unwrap();
        panic!("as a test that fails");
    });
    assert!(failed.join().is_err());
    let (id, folder) = receive.recv().unwrap();
    assert!(is_gone(id, &folder));
}

/// Set in the process that is there to be killed.
const VICTIM: &str = "LIMITER_TEST_VICTIM";

#[test]
fn a_killed_process_leaves_nothing_behind() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let servers: Vec<(u32, PathBuf)> = lines
        .map(Result::unwrap)
        .take_while(|line| line != "waiting")
        .filter_map(|line| {
            let (id, folder) = line.strip_prefix("server ")?.split_once(' ')?;
            Some((id.parse().unwrap(), folder.into()))
        })
        .collect();
    assert_eq!(servers.len(), 2);
    assert!(servers.iter().all(|(id, folder)| is_there(*id, folder)));

    victim.kill().unwrap();
    victim.wait().unwrap();
    for (id, folder) in servers {
        eventually("the watchdog to do its work", || {
            if is_gone(id, &folder) { Ok(()) } else { Err(format!("server {id} or {}", folder.display())) }
        });
    }
}

/// One server as it is, and one that would not even hear of a gentler signal.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let servers = [Server::start(), Server::start()];
    servers[1].restart();
    servers[1].pause();
    println!();
    for server in &servers {
        println!("server {} {}", server.id(), server.folder().display());
    }
    println!("waiting");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_wrong_clock_is_wrong_as_long_as_it_is_told_to_be() {
    let clock = WrongClock::new();
    let shown_less_true = || {
        let date = Command::new("date").arg("+%s").envs(clock.environment()).output().unwrap();
        let shown = String::from_utf8_lossy(&date.stdout).trim().parse::<i64>().unwrap();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        shown - i64::try_from(now).unwrap()
    };
    for wrong_by in [0, 86_400, -3_600] {
        clock.set(wrong_by);
        assert!((shown_less_true() - wrong_by).abs() < 600, "{wrong_by}");
    }
}

fn is_there(id: u32, folder: &Path) -> bool {
    alive(id) && folder.exists()
}

fn is_gone(id: u32, folder: &Path) -> bool {
    !alive(id) && !folder.exists()
}
