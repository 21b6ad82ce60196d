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
            let mut __limiter_entry = __limiter::pass(&__LIMITER_SITE, &(()), 1u64);
            if __limiter_entry.stops() {
                __limiter_entry.settled().await;
                if let __limiter::Entry::Rejected(__limiter_rejected) = __limiter_entry {
                    return __limiter::from_rejected(__limiter_rejected);
                }
            }
        }
        { self.load().await }
    })
}
