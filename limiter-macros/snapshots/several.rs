#[inline]
fn get(&mut self, id: Path<u64>, _1: u8) -> Option<u64> {
    {
        {
            use ::limiter::__private as __limiter;
            static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::new(
                __limiter::concat!(__limiter::module_path!(), "::get"),
                __limiter::Strategy::SlidingWindow,
                __limiter::quota(3, 1000),
            ))
            .local();
            __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
            let mut __limiter_told = __limiter::Told::Nothing;
            let __limiter_entry = {
                let Path(id) = &id;
                __limiter::pass_sync(&__LIMITER_SITE, &(*id), 1u64, &mut __limiter_told)
            };
            if let __limiter::Some(__limiter_why) =
                __limiter_entry.rejected(&__LIMITER_SITE, &mut __limiter_told)
            {
                return __limiter::from_rejected(__limiter_why);
            }
        }
        {
            use shop::limiter::__private as __limiter;
            const __LIMITER_QUOTAS: &[__limiter::Quota] = &[__limiter::quota(
                __limiter::positive(
                    ((MAX) | 0) as __limiter::i128,
                    18446744073709551615u64,
                    "\"qps\" must be above 0",
                    "\"qps\" is too large; write a smaller number",
                ),
                1000,
            )];
            const __LIMITER_COST: __limiter::u64 = __limiter::affordable(__LIMITER_QUOTAS, 2);
            static __LIMITER_SITE: __limiter::Site = __limiter::Site::new(__limiter::Rule::with_limits(
                "second",
                __limiter::Strategy::SlidingWindow,
                __LIMITER_QUOTAS,
            ))
            .of(__limiter::concat!(__limiter::module_path!(), "::get#2"))
            .local();
            __limiter::submit! { __limiter :: Registered (& __LIMITER_SITE) }
            let mut __limiter_told = __limiter::Told::Nothing;
            let __limiter_entry =
                __limiter::pass_sync(&__LIMITER_SITE, &(()), __LIMITER_COST, &mut __limiter_told);
            if let __limiter::Some(__limiter_why) =
                __limiter_entry.rejected(&__LIMITER_SITE, &mut __limiter_told)
            {
                #[allow(unreachable_code, clippy::diverging_sub_expression)]
                return busy(self, id, _1, __limiter_why);
            }
        }
        let __limiter_whole = id;
        let Path(id) = __limiter_whole;
        let __limiter_whole = _1;
        let _ = __limiter_whole;
        let _ = &id;
        { Some(id) }
    }
}
