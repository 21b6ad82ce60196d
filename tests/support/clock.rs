//! A clock that shows whatever it is told, also less than before.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use limiter::Clock;

#[derive(Clone, Default)]
pub struct SetClock(Arc<AtomicU64>);

impl SetClock {
    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, _: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        unreachable!("these tests ask and do not wait")
    }
}
