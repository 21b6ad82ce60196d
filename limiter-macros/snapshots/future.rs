fn get(id: u64) -> impl Future<Output = u64> {
    ::limiter::__private::identity(async move {
        {
            use ::limiter::__private as __limiter;
            static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::new(
                __limiter::concat!(__limiter::module_path!(), "::get"),
                __limiter::Strategy::SlidingWindow,
                __limiter::quota(3, 1000),
            ))
            .wait(2000)
            .shadow();
            __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
            let mut __limiter_entry = __limiter::pass(&__LIMITER_SITE, &(id), 1u64);
            if __limiter_entry.stops() {
                __limiter_entry.settled().await;
                if let __limiter::Entry::Rejected(__limiter_rejected) = __limiter_entry {
                    __limiter::unreachable!(
                        "no call is rejected in shadow mode, but this was: {}",
                        __limiter_rejected
                    )
                }
            }
        }
        (move || {
            let next = id + 1;
            async move { next }
        })()
        .await
    })
}
