//! What the web tests share: a client that speaks plain HTTP/1.1, and a reader of fields that is not ours.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sfv::{BareItem, List, ListEntry, Parser};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One connection, which is kept for all requests.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to a service.
    ///
    /// # Panics
    ///
    /// If nobody listens there.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the service listens");
        stream.set_nodelay(true).expect("a socket can be told not to wait");
        Self { stream: BufReader::new(stream) }
    }

    /// Asks for a page.
    pub async fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    /// Asks for a page, with fields.
    pub async fn get_with(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send("GET", path, fields, "").await
    }

    /// Sends JSON.
    pub async fn post(&mut self, path: &str, json: &str) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], json).await
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Panics
    ///
    /// If the service does not answer as HTTP/1.1 wants it.
    pub async fn send(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in fields {
            request.extend([*name, ": ", *value, "\r\n"]);
        }
        request.extend(["\r\n", body]);
        self.stream.write_all(request.as_bytes()).await.expect("the service reads");

        let status = self.line().await;
        let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let mut reply = Reply { status: status.expect("a status"), fields: Vec::new(), body: String::new() };
        loop {
            let line = self.line().await;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a name and a value");
            reply.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = reply.field("content-length").map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.expect("the whole body");
        reply.body = String::from_utf8(body).expect("a text");
        reply
    }

    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await.expect("the service answers");
        assert!(line.ends_with(b"\r\n"), "the service closed the connection: {line:?}");
        line.truncate(line.len() - 2);
        String::from_utf8(line).expect("a field is ASCII")
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The status, such as 200.
    pub status: u16,
    /// All fields, with their names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

/// A policy or a limit: its name, and its parameters.
pub type Item = (String, BTreeMap<String, i64>);

impl Reply {
    /// The value of a field that comes once at the most.
    ///
    /// # Panics
    ///
    /// If it comes twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let values: Vec<_> =
            self.fields.iter().filter(|field| field.0 == name).map(|field| &*field.1).collect();
        assert!(values.len() <= 1, "{name} comes more than once: {values:?}");
        values.first().copied()
    }

    /// `RateLimit-Policy`, as the parser of others reads it.
    pub fn policies(&self) -> Vec<Item> {
        self.items("ratelimit-policy")
    }

    /// `RateLimit`, as the parser of others reads it.
    pub fn limits(&self) -> Vec<Item> {
        self.items("ratelimit")
    }

    /// `Retry-After` in seconds.
    ///
    /// # Panics
    ///
    /// If it is not a number.
    pub fn retry_after(&self) -> Option<u64> {
        self.field("retry-after").map(|seconds| seconds.parse().expect("whole seconds"))
    }

    /// The body, as JSON.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Checks all that a request must be told that was rejected by one limit of one quota, and returns the seconds after
    /// which it may come back.
    ///
    /// # Panics
    ///
    /// If anything is missing or wrong.
    pub fn rejected_by(&self, name: &str, quota: i64, window: i64) -> u64 {
        assert_eq!(self.status, 429, "{self:?}");
        assert_eq!(self.policies(), [item(name, &[("q", quota), ("w", window)])]);
        let retry_after = self.retry_after().expect("a time to come back");
        let seconds = i64::try_from(retry_after).expect("a time of this life");
        assert_eq!(self.limits(), [item(name, &[("r", 0), ("t", seconds)])]);
        assert!(retry_after >= 1, "a client that comes back at once is none that waits");
        assert_eq!(self.field("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!(problem["status"], 429);
        assert_eq!(problem["violated-policies"], serde_json::json!([name]));
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        retry_after
    }

    fn items(&self, name: &str) -> Vec<Item> {
        let Some(value) = self.field(name) else { return Vec::new() };
        let list: List =
            Parser::new(value).parse().unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
        let entries = list.into_iter().map(|entry| match entry {
            ListEntry::Item(item) => item,
            ListEntry::InnerList(list) => panic!("{name} holds a list in a list: {list:?}"),
        });
        let entries = entries.map(|item| {
            let BareItem::String(policy) = item.bare_item else { panic!("{name}: {value}") };
            let parameters = item.params.into_iter().map(|(key, value)| match value {
                BareItem::Integer(number) => (key.as_str().to_owned(), number.into()),
                other => panic!("{name} has a parameter that is no integer: {other:?}"),
            });
            (policy.as_str().to_owned(), parameters.collect())
        });
        entries.collect()
    }
}

/// A policy or a limit that is expected.
pub fn item(name: &str, parameters: &[(&str, i64)]) -> Item {
    (name.to_owned(), parameters.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect())
}
