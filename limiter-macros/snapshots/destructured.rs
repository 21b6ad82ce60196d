pub async fn get_order(&self, __limiter_argument0: Path<u64>, p: Person) -> String {
    let d = {
        let __limiter_exempt: bool = {
            let Path(id) = &__limiter_argument0;
            (*id) == 0
        };
        if __limiter_exempt {
            ::limiter::__private::Decision::exempt()
        } else {
            let __limiter_entry = {
                let Path(id) = &__limiter_argument0;
                ::limiter::__private::enter(
                    {
                        static __LIMITER_SITE: ::limiter::__private::Site =
                            ::limiter::__private::Site::new(
                                ::limiter::__private::Rule::with_limits(
                                    ::core::concat!(::core::module_path!(), "::", "get_order"),
                                    ::limiter::__private::Strategy::SlidingWindow,
                                    const {
                                        &[
                                            ::limiter::__private::Quota::new(
                                                3,
                                                ::core::time::Duration::from_millis(1000),
                                            ),
                                            ::limiter::__private::Quota::new(
                                                100,
                                                ::core::time::Duration::from_millis(60000),
                                            ),
                                        ]
                                    },
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
                    &((*id)),
                    1u64,
                )
            };
            match __limiter_entry.await {
                ::core::result::Result::Ok(__limiter_decision) => __limiter_decision,
                ::core::result::Result::Err(__limiter_rejected) => {
                    let __limiter_answer = ::limiter::__private::Answered(Self::busy(
                        self,
                        __limiter_argument0,
                        p,
                        __limiter_rejected,
                    ));
                    return {
                        use ::limiter::__private::{FutureAnswer as _, ValueAnswer as _};
                        (&__limiter_answer).kind().resolve(__limiter_answer).await
                    };
                }
            }
        }
    };
    let __limiter_whole = __limiter_argument0;
    let Path(mut id) = __limiter_whole;
    let mut p = p;
    p.name
}
