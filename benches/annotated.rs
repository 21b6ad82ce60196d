//! The annotated functions whose cost is measured, in time and in instructions.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use limiter::{Rejected, rate_limit};

/// In a second: nobody is ever rejected.
pub(crate) const PLENTY: u64 = 1_000_000_000;

#[rate_limit(strategy = "token_bucket", qps = PLENTY)]
pub(crate) async fn unkeyed() -> Option<()> {
    Some(())
}

#[rate_limit(strategy = "token_bucket", qps = PLENTY, store = "local")]
pub(crate) fn unkeyed_sync() -> Option<()> {
    Some(())
}

#[rate_limit(qps = PLENTY)]
pub(crate) async fn unkeyed_sliding_window() -> Option<()> {
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = id, qps = PLENTY)]
pub(crate) async fn token_bucket(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = name, qps = PLENTY)]
pub(crate) async fn token_bucket_by_name(name: &str) -> Option<()> {
    black_box(name);
    Some(())
}

#[rate_limit(key = id, qps = PLENTY)]
pub(crate) async fn sliding_window(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = id, qps = 1, window = "1d")]
pub(crate) async fn rejected(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

/// Its caller hears all there is to know of a rejection.
#[rate_limit(strategy = "token_bucket", key = id, qps = 1, window = "1d")]
pub(crate) async fn rejected_with_reason(id: u64) -> Result<(), Rejected> {
    black_box(id);
    Ok(())
}

#[rate_limit(key = id, qps = 1, window = "1d")]
pub(crate) async fn rejected_sliding_window(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

/// The value of a future that is ready at once.
#[expect(clippy::inline_always, reason = "an executor polls a future where it is")]
#[inline(always)]
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// Names as many services have them.
pub(crate) fn user_name(id: u64) -> String {
    format!("user-{id:06}")
}

/// Names of 36 characters, in the form of a UUID.
pub(crate) fn uuid_name(id: u64) -> String {
    let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-{:04x}-4000-8000-{id:012x}", spread >> 32, spread & 0xffff)
}
