//! What only the attribute used or bound is no mistake of its own.

#![deny(warnings)]

use limiter::rate_limit;

#[rate_limit(key = user, qsp = 3, decision = d, unless = "*admin")]
#[rate_limit(key = usr, qps = 3)]
pub async fn get(user: u64, (admin, _): (&bool, u8)) -> Option<u64> {
    Some(d.remaining())
}

#[rate_limit(keys = "self.0", qps = 3)]
#[inline]
pub(crate) fn half(text: &str) -> impl Future<Output = Option<u64>> {
    async { None }
}

fn main() {
    drop((get(1, (&true, 2)), half("")));
}
