//! Peers, as their documentation says to use them.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use governor::Quota;
use trypema::local::LocalRateLimiterProvider;
use trypema::{BucketSize, RateLimit, RateLimiterBuilder as _, WindowSize};

pub(crate) const PLENTY_U32: NonZeroU32 = NonZeroU32::new(1_000_000_000).expect("it is not 0");
const PLENTY_USIZE: NonZeroUsize = NonZeroUsize::new(1_000_000_000).expect("it is not 0");
const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As many as our functions have.
pub(crate) fn plenty() -> Quota {
    Quota::per_second(PLENTY_U32)
}

/// For calls that are rejected.
pub(crate) fn one_a_day() -> Quota {
    Quota::with_period(DAY).expect("it is not 0")
}

/// As [`crate::live`] has it.
pub(crate) fn live() -> Quota {
    let burst = NonZeroU32::new(crate::live::BURST).expect("it is not 0");
    Quota::with_period(crate::live::EVERY).expect("it is not 0").allow_burst(burst)
}

pub(crate) fn shot_limit() -> shot_limit::Gcra {
    shot_limit::Gcra::new(PLENTY_USIZE, SECOND)
}

pub(crate) fn leaky_bucket() -> leaky_bucket::RateLimiter {
    let plenty = PLENTY_USIZE.get();
    leaky_bucket::RateLimiter::builder().max(plenty).initial(plenty).refill(plenty).interval(SECOND).build()
}

pub(crate) fn rate_net() -> rate_net::RateLimiter {
    rate_net::RateLimiter::per_second(PLENTY_U32.get())
}

/// A window in ten parts, as our default. Its sweeper would be a thread beside the others.
pub(crate) fn trypema() -> (Arc<LocalRateLimiterProvider>, RateLimit) {
    let limiter = LocalRateLimiterProvider::builder()
        .window_size(WindowSize::seconds_or_panic(1))
        .bucket_size(BucketSize::milliseconds_or_panic(100))
        .cleanup_enabled(false)
        .build()
        .expect("a limiter");
    (limiter, RateLimit::max())
}

pub(crate) type Throttled = throttled::StoreLimiter<throttled::MemoryStore<u64>>;

pub(crate) fn throttled() -> (Throttled, throttled::Quota) {
    // It counts in microseconds.
    let second = NonZeroU32::new(1_000_000).expect("it is not 0");
    let quota = throttled::Quota::per_second(second).with_burst(PLENTY_U32);
    (throttled::StoreLimiter::new(throttled::MemoryStore::new()), quota)
}

#[sentinel_macros::flow(threshold = 1_000_000_000.0)]
pub(crate) fn sentinel() {}
