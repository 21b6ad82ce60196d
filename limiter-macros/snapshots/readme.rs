async fn get_order(p: Person) -> String {
    let _ = {
        let __limiter_entry = ::limiter::__private::enter(
            {
                static __LIMITER_SITE: ::limiter::__private::Site = ::limiter::__private::Site::new(
                    ::limiter::__private::Rule::new(
                        ::core::concat!(::core::module_path!(), "::", "get_order"),
                        ::limiter::__private::Strategy::SlidingWindow,
                        ::limiter::__private::Quota::new(3, ::core::time::Duration::from_millis(4000)),
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
            &(p.id),
            1u64,
        );
        match __limiter_entry.await {
            ::core::result::Result::Ok(__limiter_decision) => __limiter_decision,
            ::core::result::Result::Err(__limiter_rejected) => {
                let __limiter_answer = ::limiter::__private::Answered(busy(p, __limiter_rejected));
                return {
                    use ::limiter::__private::{FutureAnswer as _, ValueAnswer as _};
                    (&__limiter_answer).kind().resolve(__limiter_answer).await
                };
            }
        }
    };
    format!("the order of {}", p.name)
}
