pub async fn get_order(&self, id: Path<u64>, p: Person) -> String {
    {
        let d = {
            use ::limiter::__private::{self as __limiter, FutureAnswer as _, ValueAnswer as _};
            const __LIMITER_QUOTAS: &[__limiter::Quota] =
                &[__limiter::quota(3, 1000), __limiter::quota(100, 60000)];
            static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::with_limits(
                __limiter::concat!(__limiter::module_path!(), "::get_order"),
                __limiter::Strategy::SlidingWindow,
                __LIMITER_QUOTAS,
            ));
            __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
            let __limiter_exempt: __limiter::bool = {
                let Path(id) = &id;
                (*id) == 0
            };
            if __limiter_exempt {
                __limiter::Decision::exempt()
            } else {
                let __limiter_entry = {
                    let Path(id) = &id;
                    __limiter::enter(&__LIMITER_SITE, &(*id), 1u64)
                };
                match __limiter_entry.await {
                    __limiter::Ok(__limiter_decision) => __limiter_decision,
                    __limiter::Err(__limiter_why) => {
                        let __limiter_later =
                            match __limiter::Answered::new(Self::busy(self, id, p, __limiter_why))
                                .__limiter_resolve()
                            {
                                __limiter::Ok(__limiter_answer) => return __limiter_answer,
                                __limiter::Err(__limiter_later) => __limiter_later,
                            };
                        #[allow(unreachable_code, clippy::diverging_sub_expression)]
                        return __limiter_later.await;
                    }
                }
            }
        };
        let __limiter_whole = id;
        let Path(mut id) = __limiter_whole;
        let mut p = p;
        let _ = &id;
        { p.name }
    }
}
