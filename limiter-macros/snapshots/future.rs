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
            let mut __limiter_told = __limiter::Told::Nothing;
            let __limiter_entry = __limiter::pass(&__LIMITER_SITE, &(id), 1u64, &mut __limiter_told);
            if let __limiter::Some(__limiter_why) = match __limiter_entry {
                __limiter::Entry::Told => __limiter_told.settled().await.rejected(),
                __limiter_entry => __limiter_entry.refused(&__LIMITER_SITE, &__limiter_told),
            } {
                __limiter::unreachable!("no call is rejected in shadow mode, but this was: {}", __limiter_why)
            }
        }
        (move || {
            let next = id + 1;
            async move { next }
        })()
        .await
    })
}
