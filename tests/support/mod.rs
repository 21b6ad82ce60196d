//! What the tests of limiters share: a clock to set, numbers to draw, rules to try, models to compare with.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test target uses its part")]

pub mod clock;
#[cfg(feature = "redis")]
pub mod history;
#[cfg(feature = "redis")]
mod locate;
pub mod model;
#[cfg(feature = "redis")]
pub mod proxy;
pub mod random;
#[cfg(feature = "redis")]
pub mod servers;
#[cfg(feature = "redis")]
pub mod shared;
pub mod trace;

/// Where something stands that a test cannot do without.
#[cfg(feature = "redis")]
fn needed(found: Result<std::path::PathBuf, String>) -> std::path::PathBuf {
    found.unwrap_or_else(|missing| {
        panic!(
            "{missing}\n`cargo xtask test` installs what the tests need; by hand, on Debian and Ubuntu: \
             `apt-get install redis-server openssl`"
        )
    })
}

/// The value of a future that is ready at once.
pub fn now<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future is not ready at once"),
    }
}
