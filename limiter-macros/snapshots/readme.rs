async fn get_order(p: Person) -> String {
    {
        use ::limiter::__private::{self as __limiter, FutureAnswer as _, ValueAnswer as _};
        static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::new(
            __limiter::concat!(__limiter::module_path!(), "::get_order"),
            __limiter::Strategy::SlidingWindow,
            __limiter::quota(3, 4000),
        ));
        __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
        let mut __limiter_told = __limiter::Told::Nothing;
        let __limiter_entry = __limiter::pass(&__LIMITER_SITE, &(p.id), 1u64, &mut __limiter_told);
        if let __limiter::Some(__limiter_why) = match __limiter_entry {
            __limiter::Entry::Told => __limiter_told.settled().await.rejected(),
            __limiter_entry => __limiter_entry.refused(&__LIMITER_SITE, &__limiter_told),
        } {
            let __limiter_later = match __limiter::Answered::new(busy(p, __limiter_why)).__limiter_resolve() {
                __limiter::Ok(__limiter_answer) => return __limiter_answer,
                __limiter::Err(__limiter_later) => __limiter_later,
            };
            #[allow(unreachable_code, clippy::diverging_sub_expression)]
            return __limiter_later.await;
        }
    }
    { format!("the order of {}", p.name) }
}
