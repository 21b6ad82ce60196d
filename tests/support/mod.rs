//! What the tests of limiters share: a clock to set, numbers to draw, rules to try, models to compare with.

#![allow(dead_code, unreachable_pub, reason = "each test target uses its part")]

pub mod clock;
pub mod model;
pub mod random;
pub mod trace;

/// The value of a future that is ready at once.
pub fn now<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future is not ready at once"),
    }
}
