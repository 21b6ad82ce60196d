//! The limiters behind the crate `limiter`, which is the one to use: it adds the annotation.
//!
//! The way of a call: annotated function → [`Site`] → [`Call`] → [`Limiter`] → [`Strategy`] → [`Decision`] → the body,
//! or the fallback, which gets a [`Rejected`].

mod clock;
mod cost;
mod counters;
mod decision;
#[cfg(test)]
mod draw;
mod entry;
mod installed;
mod key;
#[cfg(any(feature = "redis", feature = "tracing"))]
mod key_text;
mod limiter;
mod local;
mod observe;
#[cfg(any(feature = "metrics", feature = "tracing", feature = "web"))]
mod printable;
mod quota;
#[cfg(feature = "redis")]
mod redis;
mod rejected;
mod rule;
mod rule_map;
mod site;
mod stored_key;
mod strategy;
mod system_clock;
#[cfg(feature = "web")]
pub mod web;

#[doc(hidden)]
pub mod private;

pub use clock::{Clock, ManualClock};
pub use cost::Cost;
pub use decision::{DecidedBy, Decision, Reason};
pub use installed::{AlreadyInstalled, install, scope, scope_sync};
pub use key::{Key, LimitKey};
pub use limiter::{Answer, Call, Limiter, OnError};
pub use local::{LocalLimiter, LocalLimiterBuilder};
#[cfg(feature = "metrics")]
pub use observe::describe_metrics;
#[cfg(feature = "tracing")]
pub use observe::trace_keys;
pub use quota::{Quota, QuotaError};
#[cfg(feature = "redis")]
pub use redis::{ConnectError, Health, RedisLimiter, RedisLimiterBuilder};
pub use rejected::{FromRejected, Rejected};
pub use rule::{Rule, RuleError};
pub use site::{Counts, Place, Site, sites};
pub use strategy::Strategy;
pub use system_clock::SystemClock;
