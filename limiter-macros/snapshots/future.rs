fn get(id: u64) -> impl Future<Output = u64> {
    ::limiter::__private::identity(async move {
        let _ = {
            use ::limiter::__private as __limiter;
            static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::new(
                __limiter::concat!(__limiter::module_path!(), "::get"),
                __limiter::Strategy::SlidingWindow,
                __limiter::quota(3, 1000),
            ))
            .wait(2000)
            .shadow();
            __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
            let __limiter_entry = __limiter::enter(&__LIMITER_SITE, &(id), 1u64);
            match __limiter_entry.await {
                __limiter::Ok(__limiter_decision) => __limiter_decision,
                __limiter::Err(__limiter_rejected) => {
                    __limiter::unreachable!(
                        "no call is rejected in shadow mode, but this was: {}",
                        __limiter_rejected
                    )
                }
            }
        };
        (move || {
            let next = id + 1;
            async move { next }
        })()
        .await
    })
}
