fn get<'a>(&'a self) -> Pin<Box<dyn Future<Output = Option<u8>> + Send + 'a>> {
    ::limiter::__private::Box::pin(async move {
        {
            use ::limiter::__private as __limiter;
            static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::new(
                __limiter::concat!(__limiter::module_path!(), "::get"),
                __limiter::Strategy::SlidingWindow,
                __limiter::quota(3, 1000),
            ));
            __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
            let mut __limiter_told = __limiter::Told::Nothing;
            let __limiter_entry = __limiter::pass(&__LIMITER_SITE, &(()), 1u64, &mut __limiter_told);
            if let __limiter::Some(__limiter_why) = match __limiter_entry {
                __limiter::Entry::Told => __limiter_told.settled().await.rejected(),
                __limiter_entry => __limiter_entry.refused(&__LIMITER_SITE, &__limiter_told),
            } {
                return __limiter::from_rejected(__limiter_why);
            }
        }
        { self.load().await }
    })
}
