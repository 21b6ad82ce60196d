//! A crate that has `limiter` under the name `throttle`, and hands it on under a third.

pub use throttle as limits;
use throttle::{LimitKey, Rejected, rate_limit};

/// A key of this crate's own.
#[derive(Clone, Copy, LimitKey)]
#[limit_key(crate = "throttle")]
pub struct User {
    /// Whose user it is.
    pub tenant: u32,
    /// Who it is.
    pub id: u64,
}

/// Limited by a crate of another name.
#[rate_limit(crate = "throttle", key = user, qps = 1, window = "1h", fallback = "busy")]
#[rate_limit(crate = ::throttle, name = "tenants", key = "user.tenant", qps = 2, window = "1h", fallback = "closed")]
pub async fn renamed((user, _): (User, u8)) -> &'static str {
    let _ = user;
    "passed"
}

fn busy(_: (User, u8), _: Rejected) -> &'static str {
    "busy"
}

async fn closed(_: (User, u8), _: Rejected) -> &'static str {
    "closed"
}
