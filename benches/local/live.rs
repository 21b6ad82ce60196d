//! A limit under which a key stays in use: a permit takes more than a minute to come back, so that no limiter can forget
//! anybody while it is measured.

use std::hint::black_box;
use std::time::Duration;

use limiter::{Quota, Rule, Strategy, rate_limit};

/// One permit.
pub(crate) const EVERY: Duration = Duration::from_millis(86_400);
/// More than any key asks for.
pub(crate) const BURST: u32 = 10_000_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) const TOKEN_BUCKET: Rule =
    Rule::new("live, token_bucket", Strategy::TokenBucket, Quota::new(1000, DAY).burst(BURST as u64));

pub(crate) const SLIDING_WINDOW: Rule =
    Rule::new("live, sliding_window", Strategy::SlidingWindow, Quota::new(100_000, DAY));

/// One of ten.
pub(crate) const SAMPLE: Duration = Duration::from_secs(24 * 60 * 6);

#[rate_limit(strategy = "token_bucket", key = id, qps = 1000, window = "1d", burst = BURST)]
pub(crate) async fn by_id(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = name, qps = 1000, window = "1d", burst = BURST)]
pub(crate) async fn by_name(name: &str) -> Option<()> {
    black_box(name);
    Some(())
}
