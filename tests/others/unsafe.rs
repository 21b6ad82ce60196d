//! Unsafe functions, and functions for C, can be annotated like others.

use limiter::{LocalLimiter, ManualClock, Rejected, rate_limit, scope};

fn frozen() -> LocalLimiter {
    LocalLimiter::builder().clock(ManualClock::new()).build()
}

#[rate_limit(key = "pointer as usize", qps = 1)]
async unsafe fn read(pointer: *const u8) -> Option<u8> {
    // SAFETY: the caller has promised that it can be read.
    Some(unsafe { *pointer })
}

#[unsafe(no_mangle)]
#[rate_limit(key = "id", qps = 1, store = "local", fallback = "busy")]
pub(crate) unsafe extern "C" fn limiter_test_for_c(id: u32, pointer: *const u8) -> u32 {
    // SAFETY: the caller has promised that it can be read.
    id + u32::from(unsafe { *pointer })
}

fn busy(id: u32, _: *const u8, _: Rejected) -> u32 {
    id * 100
}

#[tokio::test]
async fn they_stay_unsafe() {
    let value = 7;
    scope(frozen(), async {
        // SAFETY: the value is there.
        let (one, other) = unsafe { (read(&raw const value).await, read(&raw const value).await) };
        assert_eq!((one, other), (Some(7), None));
        let function: unsafe extern "C" fn(u32, *const u8) -> u32 = limiter_test_for_c;
        // SAFETY: the value is there.
        assert_eq!(unsafe { (function(1, &raw const value), function(1, &raw const value)) }, (8, 100));
    })
    .await;
}
