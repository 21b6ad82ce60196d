fn get<'a>(&'a self) -> Pin<Box<dyn Future<Output = Option<u8>> + Send + 'a>> {
    ::std::boxed::Box::pin(async move {
        let _ = {
            let __limiter_entry = ::limiter::__private::enter(
                {
                    static __LIMITER_SITE: ::limiter::__private::Site = ::limiter::__private::Site::new(
                        ::limiter::__private::Rule::new(
                            ::core::concat!(::core::module_path!(), "::", "get"),
                            ::limiter::__private::Strategy::SlidingWindow,
                            ::limiter::__private::Quota::new(
                                3,
                                ::core::time::Duration::from_millis(1000),
                            ),
                        ),
                        ::limiter::__private::Options {
                            cost: 1,
                            longest_wait: ::core::time::Duration::from_millis(0),
                            store: ::limiter::__private::Store::Installed,
                            on_error: ::core::option::Option::None,
                            mode: ::limiter::__private::Mode::Enforce,
                        },
                        ::limiter::__private::Place {
                            file: ::core::file!(),
                            line: ::core::line!(),
                            column: ::core::column!(),
                        },
                    );
                    ::limiter::__private::submit! { ::limiter::__private::Registered(&__LIMITER_SITE) }
                    &__LIMITER_SITE
                },
                &(()),
                1u64,
            );
            match __limiter_entry.await {
                ::core::result::Result::Ok(__limiter_decision) => __limiter_decision,
                ::core::result::Result::Err(__limiter_rejected) => {
                    return ::limiter::__private::from_rejected(__limiter_rejected);
                }
            }
        };
        self.load().await
    })
}
