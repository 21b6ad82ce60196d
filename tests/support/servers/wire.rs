//! As much of the protocol as tests need to talk to a server past the client crate.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that hangs must not hang its test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Nil,
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Array(Vec<Value>),
}

/// As `redis-cli` shows it to a script: one line for each element.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => Ok(()),
            Self::Status(text) | Self::Error(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    write!(f, "{separator}{value}")?;
                }
                Ok(())
            }
        }
    }
}

/// A connection.
pub struct Wire(BufReader<TcpStream>);

impl Wire {
    pub fn connect(port: u16, password: Option<&str>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut wire = Self(BufReader::new(stream));
        if let Some(password) = password {
            wire.ask(&["AUTH", password])?;
        }
        Ok(wire)
    }

    /// Sends one command and returns its reply, which may be [`Value::Error`].
    pub fn ask<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Value> {
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for argument in command {
            let argument = argument.as_ref();
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request)?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Value> {
        let line = self.line()?;
        let mut characters = line.chars();
        let kind = characters.next();
        let rest = characters.as_str();
        let number = || {
            rest.parse::<i64>().map_err(|_| io::Error::other(format!("not a number in a reply: {line:?}")))
        };
        Ok(match kind {
            Some('+') => Value::Status(rest.to_owned()),
            Some('-') => Value::Error(rest.to_owned()),
            Some(':') => Value::Integer(number()?),
            Some('$') => match usize::try_from(number()?) {
                Err(_) => Value::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Value::Bulk(bytes)
                }
            },
            Some('*') => match usize::try_from(number()?) {
                Err(_) => Value::Nil,
                Ok(length) => Value::Array((0..length).map(|_| self.reply()).collect::<io::Result<_>>()?),
            },
            _ => return Err(io::Error::other(format!("not a reply: {line:?}"))),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

/// Everything that the server is asked, from [`Monitor::start`] on.
///
/// The server keeps the lines for this connection until they are read, so that nothing needs to read them meanwhile.
pub struct Monitor {
    lines: Wire,
    control: Wire,
}

impl Monitor {
    /// `control` is a second connection to the same server.
    pub fn start(mut lines: Wire, control: Wire) -> io::Result<Self> {
        match lines.ask(&["MONITOR"])? {
            Value::Status(_) => Ok(Self { lines, control }),
            refused => Err(io::Error::other(refused.to_string())),
        }
    }

    /// The lines so far, in the server's order, such as `1700000000.000000 [0 127.0.0.1:5000] "GET" "key"`. What a
    /// script called stands there too, as `[0 lua]`.
    ///
    /// All that was answered before this call is among them. A server that is gone has no more to say than it said.
    pub fn stop(mut self) -> Vec<String> {
        const END: &str = "the end of what the monitor collects";
        let _ = self.control.ask(&["ECHO", END]);
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.line() {
            if line.contains(END) {
                break;
            }
            lines.push(line.strip_prefix('+').unwrap_or(&line).to_owned());
        }
        lines
    }
}
