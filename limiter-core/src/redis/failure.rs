//! Why a server did not decide.

use std::fmt;

use redis::{ServerError, ServerErrorKind};

use super::address::{self, Host};

/// Why a server did not decide, by what may be done about it.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// There is no connection: nothing was sent.
    Away,
    /// It was sent and no answer came: it may have been done, so it must not be sent again.
    Unknown,
    /// The answer makes no sense.
    Strange,
    /// The script was not there: it did not run.
    NoScript,
    /// The key belongs to another server: it did not run.
    Moved(Host),
    /// The key is on its way to another server, which can be asked for this once: it did not run.
    Ask(Host),
    /// A replica was asked to write: it did not run.
    ReadOnly,
    /// The keys of the slot are on two servers, as they move: it did not run. Others of this server are well.
    TryAgain,
    /// The keys are not all in one slot: it did not run.
    CrossSlot,
    /// The server cannot answer just now: it did not run.
    NotNow,
    /// The server takes no writes, from the first one on, and says why.
    NoWrites(
        #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "there is nobody to tell"))] String,
    ),
    /// The server will not do it, and says why.
    Refused(
        #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "there is nobody to tell"))] String,
    ),
}

impl Failure {
    /// The answer to one command.
    pub(super) fn of_answer(error: &ServerError, asked: Option<&Host>) -> Self {
        let redirect = || {
            let place = error.details()?.split_ascii_whitespace().nth(1)?;
            // An IPv6 address stands there without brackets.
            let (host, port) = place.rsplit_once(':')?;
            match (host, asked) {
                // A server that does not know its own name is where it was asked.
                ("" | "?", Some(Host::Tcp(asked, _))) => Some(Host::Tcp(asked.clone(), port.parse().ok()?)),
                _ => address::host(&format!("[{host}]:{port}"), 0).ok(),
            }
        };
        match error.kind() {
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            Some(ServerErrorKind::Moved) => redirect().map_or(Self::NotNow, Self::Moved),
            Some(ServerErrorKind::Ask) => redirect().map_or(Self::NotNow, Self::Ask),
            Some(ServerErrorKind::ReadOnly) => Self::ReadOnly,
            Some(ServerErrorKind::CrossSlot) => Self::CrossSlot,
            Some(ServerErrorKind::TryAgain) => Self::TryAgain,
            Some(
                ServerErrorKind::BusyLoading | ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown,
            ) => Self::NotNow,
            _ if error.code() == "BUSY" => Self::NotNow,
            _ if matches!(error.code(), "OOM" | "MISCONF" | "NOREPLICAS") => {
                Self::NoWrites(error.code().to_owned())
            }
            _ => Self::Refused(error.code().to_owned()),
        }
    }
}

#[cfg(feature = "tracing")]
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWrites(code) | Self::Refused(code) => write!(f, "the server refuses it: {code}"),
            Self::Strange => f.write_str("the server's answer makes no sense"),
            _ => f.write_str("the server does not answer"),
        }
    }
}

/// Why a [`RedisLimiter`](crate::RedisLimiter) could not be connected. Its text never holds the password.
#[derive(Clone, Debug)]
pub struct ConnectError(pub(super) String);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectError {}
