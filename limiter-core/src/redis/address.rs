//! Where the server is: one, a primary behind sentinels, or a cluster.

use std::fmt;
use std::path::PathBuf;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo};

/// An address as it was understood.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) kind: Kind,
    /// What every server of this address is told when it is connected to.
    pub(super) login: Login,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    One(Host),
    Sentinel { sentinels: Vec<Host>, primary: String },
    Cluster(Vec<Host>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Host {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// It has no `Debug`: a password does not belong in a log.
#[derive(Clone, Default)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
    database: i64,
    tls: bool,
}

impl Login {
    /// A client for one server of the address.
    pub(super) fn client(&self, host: &Host) -> redis::RedisResult<Client> {
        let mut settings = RedisConnectionInfo::default().set_db(self.database).set_skip_set_lib_name();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        Client::open(self.info(host)?.set_redis_settings(settings))
    }

    /// A client for a sentinel, which has neither the users nor the databases of the servers it watches.
    pub(super) fn sentinel_client(&self, host: &Host) -> redis::RedisResult<Client> {
        Client::open(
            self.info(host)?.set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name()),
        )
    }

    fn info(&self, host: &Host) -> redis::RedisResult<ConnectionInfo> {
        let address = match host.clone() {
            Host::Unix(path) => ConnectionAddr::Unix(path),
            Host::Tcp(host, port) if self.tls => {
                ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
            }
            Host::Tcp(host, port) => ConnectionAddr::Tcp(host, port),
        };
        // Without it a decision waits for the acknowledgement of the one before. Sockets without TLS are ours: connection.rs.
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(address.into_connection_info()?.set_tcp_settings(tcp))
    }
}

/// What is wrong with an address. It never holds the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {FORMS}", self.0)
    }
}

const FORMS: &str = "write it like redis://user:password@host:6379/0, rediss://host, unix:///path/to/socket, \
                     redis+sentinel://host:26379,host:26379/primary, or redis+cluster://host:6379,host:6379";

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, AddressError> {
        let wrong = |what: String| Err(AddressError(what));
        let Some((scheme, rest)) = url.split_once("://") else {
            return wrong("the address has no scheme".to_owned());
        };
        let (scheme, tls) = match scheme {
            "redis" | "valkey" => ("one", false),
            "rediss" | "valkeys" => ("one", true),
            "redis+sentinel" | "valkey+sentinel" => ("sentinel", false),
            "rediss+sentinel" | "valkeys+sentinel" => ("sentinel", true),
            "redis+cluster" | "valkey+cluster" => ("cluster", false),
            "rediss+cluster" | "valkeys+cluster" => ("cluster", true),
            "unix" | "redis+unix" => ("unix", false),
            other => return wrong(format!("the address has an unknown scheme {other:?}")),
        };
        if tls && !cfg!(feature = "tls") {
            return wrong("the address asks for TLS, which the feature \"tls\" of limiter brings".to_owned());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if scheme == "unix" {
            return Self::unix(rest, query);
        }
        if !query.is_empty() {
            return wrong("the address has options behind a `?`, which only unix sockets have".to_owned());
        }
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let mut login = credentials(login)?;
        login.tls = tls;
        let (hosts, mut path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').map(|host| self::host(host, default_port(scheme)));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let kind = match scheme {
            "sentinel" => {
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                if primary.is_empty() {
                    return wrong(
                        "the address of sentinels has no name of a primary behind the hosts".to_owned(),
                    );
                }
                path = database;
                Kind::Sentinel { sentinels: hosts, primary: decoded(primary, "name of the primary")? }
            }
            "cluster" if !path.is_empty() => {
                return wrong(
                    "the address of a cluster has a database, and a cluster has only one".to_owned(),
                );
            }
            "cluster" => Kind::Cluster(hosts),
            _ => match <[Host; 1]>::try_from(hosts) {
                Ok([host]) => Kind::One(host),
                Err(_) => {
                    return wrong(
                        "the address has several hosts, but is neither of sentinels nor a cluster".to_owned(),
                    );
                }
            },
        };
        login.database = database(path)?;
        Ok(Self { kind, login })
    }

    fn unix(path: &str, query: &str) -> Result<Self, AddressError> {
        if !path.starts_with('/') {
            return Err(AddressError("the path of a unix socket must start with a `/`".to_owned()));
        }
        let mut login = Login::default();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("db", number)) => login.database = database(number)?,
                Some(("user", user)) => login.user = Some(decoded(user, "user")?),
                Some(("pass", password)) => login.password = Some(decoded(password, "password")?),
                _ => {
                    let what =
                        "the address of a unix socket has an unknown option; there are db, user and pass";
                    return Err(AddressError(what.to_owned()));
                }
            }
        }
        Ok(Self { kind: Kind::One(Host::Unix(decoded(path, "path")?.into())), login })
    }
}

fn default_port(scheme: &str) -> u16 {
    if scheme == "sentinel" { 26_379 } else { 6379 }
}

fn credentials(login: &str) -> Result<Login, AddressError> {
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password, "password")?)),
        None => (login, None),
    };
    let user = (!user.is_empty()).then(|| decoded(user, "user")).transpose()?;
    if user.is_some() && password.is_none() {
        let what = "the address has a user without a password; write user:password@, or :password@";
        return Err(AddressError(what.to_owned()));
    }
    Ok(Login { user, password, ..Login::default() })
}

/// `host`, `host:port`, `[::1]:port`.
pub(super) fn host(text: &str, default_port: u16) -> Result<Host, AddressError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(AddressError("the address has an empty host".to_owned()));
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            // What stands there may be a password whose host was forgotten.
            _ => {
                return Err(AddressError(
                    "the address has a port that is no number from 1 to 65535".to_owned(),
                ));
            }
        },
    };
    Ok(Host::Tcp(host.to_owned(), port))
}

fn database(text: &str) -> Result<i64, AddressError> {
    match text.trim_end_matches('/') {
        "" => Ok(0),
        number => match number.parse() {
            Ok(database) if database >= 0 => Ok(database),
            _ => Err(AddressError("the address has a database that is no number from 0".to_owned())),
        },
    }
}

/// `%40` is `@`.
fn decoded(text: &str, part: &str) -> Result<String, AddressError> {
    let wrong =
        || AddressError(format!("the {part} of the address is not well encoded; write %25 for a `%`"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits =
                rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(wrong)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Host {
        Host::Tcp(host.to_owned(), port)
    }

    #[test]
    fn addresses_are_read() {
        let cases = [
            ("redis://localhost", Kind::One(tcp("localhost", 6379))),
            ("valkey://h:7000/3", Kind::One(tcp("h", 7000))),
            ("redis://[::1]:7000", Kind::One(tcp("::1", 7000))),
            ("redis://:p%40ss@h", Kind::One(tcp("h", 6379))),
            ("unix:///run/redis.sock?db=2", Kind::One(Host::Unix("/run/redis.sock".into()))),
            (
                "redis+sentinel://a,b:7/main/4",
                Kind::Sentinel { sentinels: vec![tcp("a", 26_379), tcp("b", 7)], primary: "main".to_owned() },
            ),
            ("redis+cluster://a,b:7", Kind::Cluster(vec![tcp("a", 6379), tcp("b", 7)])),
        ];
        for (url, kind) in cases {
            assert_eq!(Address::parse(url).map(|address| address.kind), Ok(kind), "{url}");
        }
        let login = |url| Address::parse(url).unwrap_or_else(|error| panic!("{error}")).login;
        assert_eq!(login("redis://ann:p%40s:s@h/5").password.as_deref(), Some("p@s:s"));
        assert_eq!(login("redis://ann:p@h/5").user.as_deref(), Some("ann"));
        assert_eq!(login("redis://ann:p@h/5").database, 5);
        assert_eq!(login("redis+sentinel://h/main/4").database, 4);
        assert_eq!(login("unix:///s?db=2&pass=x").database, 2);
    }

    #[test]
    fn a_wrong_part_is_named_and_a_password_never() {
        let cases = [
            ("localhost:6379", "the address has no scheme"),
            ("http://h", "the address has an unknown scheme \"http\""),
            ("redis://", "the address has an empty host"),
            ("redis://h:x", "the address has a port that is no number"),
            ("redis://user:secret", "the address has a port that is no number"),
            ("redis://h:0", "the address has a port that is no number"),
            ("redis://h/x", "the address has a database that is no number"),
            ("redis://h/-1", "the address has a database that is no number"),
            ("redis://a,b", "the address has several hosts"),
            ("redis://user@h", "the address has a user without a password"),
            ("redis://:%zz@h", "the password of the address is not well encoded"),
            ("redis://:secret@h:x", "the address has a port that is no number"),
            ("redis+sentinel://h", "the address of sentinels has no name of a primary"),
            ("redis+cluster://h/1", "the address of a cluster has a database"),
            ("redis://h?x=1", "the address has options behind a `?`"),
            ("unix://socket", "the path of a unix socket must start with a `/`"),
        ];
        for (url, start) in cases {
            let Err(error) = Address::parse(url) else { panic!("{url} was read") };
            let text = error.to_string();
            assert!(text.starts_with(start), "{url}: {text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
