//! Here only `limiter_renamed_tests::limits` leads to the crate.

use std::pin::Pin;

use limiter_renamed_tests::limits::{LocalLimiter, ManualClock, rate_limit, scope};
use limiter_renamed_tests::{User, renamed};

/// Limited by what another crate hands on.
#[rate_limit(crate = "limiter_renamed_tests::limits", qps = 1, window = "1h")]
fn handed_on() -> Pin<Box<dyn Future<Output = Option<u8>>>> {
    let answer = 1;
    Box::pin(async move { Some(answer) })
}

mod deep {
    pub(super) use limiter_renamed_tests::limits as limiter;

    /// Limited by a module of this crate.
    #[super::rate_limit(crate = self::limiter, qps = 1, window = "1h", store = "local")]
    pub(super) fn in_a_module() -> Option<u8> {
        Some(2)
    }
}

#[tokio::test]
async fn any_name_will_do() {
    scope(LocalLimiter::builder().clock(ManualClock::new()).build(), async {
        let user = |id| (User { tenant: 1, id }, 0);
        assert_eq!(renamed(user(1)).await, "passed");
        assert_eq!(renamed(user(1)).await, "busy");
        assert_eq!(renamed(user(2)).await, "passed");
        assert_eq!(renamed(user(3)).await, "closed");
        assert_eq!((handed_on().await, handed_on().await), (Some(1), None));
        assert_eq!((deep::in_a_module(), deep::in_a_module()), (Some(2), None));
    })
    .await;
}
