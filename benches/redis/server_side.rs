//! What the server alone can do: our own scripts, as it was asked to run them, beside lean ones that do one strategy and
//! nothing else.

use std::process::Command;

use redis::{Connection, Pipeline, Value};

use crate::support::servers::Server;

/// One `EVALSHA` for one key, as it went over the wire.
pub(crate) struct Asked {
    words: Vec<Vec<u8>>,
    /// Which word is the key.
    key: usize,
    /// The key's name up to the number, and what follows it.
    name: (String, String),
}

impl Asked {
    /// What `call` asks the server, which is about the key 0.
    pub(crate) fn by(server: &Server, call: impl FnOnce()) -> Self {
        let monitor = server.monitor();
        call();
        Self::seen("\"EVALSHA\"", &monitor.stop())
    }

    /// The same with the argument as part of the script: `redis-benchmark` cannot send a byte that is 0.
    pub(crate) fn without_argument(server: &Server, call: impl FnOnce()) -> Self {
        server.cli(&["SCRIPT", "FLUSH"]);
        let monitor = server.monitor();
        call();
        // The script is gone, so it is sent with its source.
        let Self { mut words, name, .. } = Self::seen("\"EVAL\"", &monitor.stop());
        let argument = words.pop().expect("a script has its argument");
        let argument = argument.iter().fold(String::new(), |text, byte| text + &format!("\\{byte:03}"));
        let source = String::from_utf8(words[1].clone()).expect("scripts are text");
        let sha = server.cli(&["SCRIPT", "LOAD", &format!("local ARGV = {{ '{argument}' }}\n{source}")]);
        words[0] = b"EVALSHA".to_vec();
        words[1] = sha.into_bytes();
        Self { words, key: 3, name }
    }

    fn seen(command: &str, lines: &[String]) -> Self {
        let line = lines.iter().find(|line| line.contains(command)).expect("it asked the server");
        let words = words(line);
        let name = String::from_utf8(words[3].clone()).expect("names are text");
        let (before, after) = name.split_once("#0").expect("the key is the number 0");
        let name = (format!("{before}#"), after.to_owned());
        Self { words, key: 3, name }
    }

    /// A script of the bench, for keys of its own.
    pub(crate) fn lean(connection: &mut Connection, name: &str, source: &str, arguments: &[u64]) -> Self {
        let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(source).query(connection).expect("it is Lua");
        let mut words = vec![b"EVALSHA".to_vec(), sha.into_bytes(), b"1".to_vec(), Vec::new()];
        words.extend(arguments.iter().map(|argument| argument.to_string().into_bytes()));
        Self { words, key: 3, name: (format!("lean:{{{name}:#"), "}".to_owned()) }
    }

    /// The same about another key.
    fn about(&self, id: &str) -> impl Iterator<Item = Vec<u8>> {
        let key = format!("{}{id}{}", self.name.0, self.name.1).into_bytes();
        let words = self.words.iter().enumerate();
        words.map(move |(i, word)| if i == self.key { key.clone() } else { word.clone() })
    }

    /// Microseconds that the server takes for one, by its own count.
    pub(crate) fn server_time(&self, connection: &mut Connection, keys: u64) -> f64 {
        const PIPELINES: u64 = 40;
        const IN_A_PIPELINE: u64 = 50;

        redis::cmd("CONFIG").arg("RESETSTAT").exec(connection).expect("an answer");
        for pipeline in 0..PIPELINES {
            let mut commands = Pipeline::new();
            for call in 0..IN_A_PIPELINE {
                let id = (pipeline * IN_A_PIPELINE + call) % keys;
                let command = commands.add_command(redis::Cmd::new());
                for word in self.about(&id.to_string()) {
                    command.arg(word);
                }
            }
            let replies: Vec<Value> = commands.query(connection).expect("answers");
            assert!(replies.iter().all(|reply| matches!(reply, Value::Array(_))), "{replies:?}");
        }
        let stats: String = redis::cmd("INFO").arg("commandstats").query(connection).expect("an answer");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts ran");
        field(line, "usec_per_call=")
    }

    /// How many of them a second `redis-benchmark` gets through, 512 at a time in pipelines of 64.
    pub(crate) fn benchmark(&self, server: &Server, keys: u64) -> f64 {
        let mut command = Command::new("redis-benchmark");
        command.args(["-q", "-P", "64", "-c", "8", "-n", "100000", "-p", &server.port().to_string()]);
        command.args(["-r", &keys.to_string()]);
        command.args(self.about("__rand_int__").map(|word| String::from_utf8(word).expect("text")));
        let output = command.output().expect("redis-benchmark comes with the server");
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.rsplit_once(" requests per second").and_then(|(before, _)| before.rsplit(' ').next());
        rate.and_then(|rate| rate.parse().ok())
            .unwrap_or_else(|| panic!("redis-benchmark: {text} {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// How many scripts the server has run.
pub(crate) fn scripts(server: &Server) -> f64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    line.map_or(0.0, |line| field(line, "calls="))
}

fn field(line: &str, name: &str) -> f64 {
    let value = line.split([':', ',']).find_map(|field| field.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// The words of a line of the monitor: `1700000000.000000 [0 127.0.0.1:5000] "GET" "key\\x00"`.
fn words(line: &str) -> Vec<Vec<u8>> {
    let quoted = line.split_once("] \"").expect("a command").1.trim_end();
    quoted.strip_suffix('"').expect("quoted words").split("\" \"").map(unescaped).collect()
}

fn unescaped(word: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), word.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digit = |rest: &mut std::str::Bytes<'_>| {
            rest.next().and_then(|digit| char::from(digit).to_digit(16)).expect("a digit")
        };
        match rest.next().expect("a byte is escaped") {
            b'x' => bytes.push(u8::try_from(digit(&mut rest) * 16 + digit(&mut rest)).expect("two digits")),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            itself => bytes.push(itself),
        }
    }
    bytes
}
