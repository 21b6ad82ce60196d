//! Nothing of ours shows in a crate that forbids and denies all it can, and that has taken every name already.

#![no_implicit_prelude]
#![deny(warnings, unused, future_incompatible, nonstandard_style, rust_2018_idioms, rust_2024_compatibility)]
#![deny(clippy::all, clippy::pedantic, clippy::shadow_unrelated, clippy::used_underscore_binding)]
#![deny(missing_docs, unreachable_pub, unused_qualifications, let_underscore_drop, unused_import_braces)]
#![deny(single_use_lifetimes, trivial_casts, trivial_numeric_casts, variant_size_differences, unit_bindings)]
#![forbid(unsafe_code)]

/// Modules of the user's, where ours could have been meant.
pub mod names {
    /// Nothing.
    pub mod core {}
    /// Nothing.
    pub mod std {}
    /// Nothing.
    pub mod tokio {}
    /// Nothing.
    pub mod alloc {}
    /// Nothing.
    pub mod limiter {}
    /// Nothing.
    pub mod inventory {}

    macro_rules! shadow {
        ($($name:ident)*) => {$(
            /// Not what it looks like.
            #[derive(::core::fmt::Debug)]
            pub struct $name;
        )*};
    }
    shadow!(Result Option Some None Ok Err Box Rule Quota Strategy Site Decision Rejected Send Future Duration Pin);

    macro_rules! shadowed_macro {
        ($($name:ident)*) => {$(
            #[allow(unused_macros, reason = "it is there to be in the way")]
            macro_rules! $name { () => { ::std::compile_error!("the user's own macro") } }
        )*};
    }
    shadowed_macro!(concat module_path unreachable submit assert panic line file column);

    /// A constant of the user's that constant expressions may use.
    pub const RULE: u64 = 1;
    /// Another.
    pub const SITE: u32 = 1;

    /// A wrapper to be destructured.
    #[derive(::core::fmt::Debug)]
    pub struct Path<T>(pub T);

    /// Every parameter has a name that ours could have had.
    #[::limiter::rate_limit(
        qps = RULE,
        cost = SITE,
        window = "1h",
        key = (key, site, core),
        unless = "limiter == 9",
        fallback = busy,
        decision = decision
    )]
    pub async fn every_name(
        key: u8,
        site: u8,
        limiter: u8,
        core: u8,
        std: u8,
        tokio: u8,
    ) -> ::std::string::String {
        let sum = key + site + limiter + core + std + tokio;
        ::std::format!("{sum} {}", decision.remaining())
    }

    // A fallback takes its arguments as the function does that it answers for.
    #[allow(clippy::needless_pass_by_value)]
    fn busy(
        key: u8,
        site: u8,
        limiter: u8,
        core: u8,
        std: u8,
        tokio: u8,
        why: ::limiter::Rejected,
    ) -> ::std::string::String {
        ::std::format!("{key}{site}{limiter}{core}{std}{tokio} {:?}", why.reason())
    }

    /// Here too.
    #[::limiter::rate_limit(qps = 1, key = (entry, whole), unless = "exempt == 9", fallback = answer)]
    pub async fn more_names(entry: u8, rejected: u8, decision: u8, exempt: u8, (whole, _): (u8, u8)) -> u8 {
        entry + rejected + decision + exempt + whole
    }

    fn answer(
        entry: u8,
        rejected: u8,
        decision: u8,
        exempt: u8,
        whole: (u8, u8),
        _: ::limiter::Rejected,
    ) -> u8 {
        (entry + rejected + decision + exempt + whole.0) * 2
    }

    /// Patterns and parameters that nobody uses.
    #[::limiter::rate_limit(qps = 1, window = "1h", key = id, fallback = patterns_busy)]
    pub async fn patterns(
        Path(mut id): Path<u64>,
        _: Ok,
        _unused: Err,
        #[allow(unused_variables)] extra: u8,
        (ref left, right): (u64, u64),
    ) -> u64 {
        use ::std::ops::AddAssign as _;
        const ONE: u64 = 1;
        id.add_assign(ONE);
        id + *left + right
    }

    fn patterns_busy(
        Path(id): Path<u64>,
        _: Ok,
        _: Err,
        _: u8,
        (left, right): (u64, u64),
        _: ::limiter::Rejected,
    ) -> u64 {
        id * 100 + left * right
    }

    /// What only the key reads is used.
    #[::limiter::rate_limit(qps = 1, window = "1h", key = id, fallback = only_the_key_busy)]
    pub async fn only_the_key(Path(id): Path<u64>, (_, tag): (u8, u8)) -> u8 {
        tag
    }

    fn only_the_key_busy(_: Path<u64>, _: (u8, u8), _: ::limiter::Rejected) -> u8 {
        0
    }

    /// A key, with every name taken.
    #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy, ::limiter::LimitKey)]
    pub enum Key<LimitKey, const N: usize> {
        /// Fields called like what the derive writes.
        Fields {
            /// A field.
            key: u8,
            /// A field.
            field0: LimitKey,
        },
        /// A tuple.
        Tuple([u8; N]),
    }

    /// Not async, and answered by its type.
    #[must_use]
    #[::limiter::rate_limit(key = key, limits = ["1/h", "2/d"], store = "local")]
    pub fn not_async<'a>(key: Key<&'a str, 2>, text: &'a str) -> ::std::option::Option<&'a str> {
        let _ = key;
        ::std::option::Option::Some(text)
    }

    /// A future that is made by hand.
    #[::limiter::rate_limit(key = key, qps = 1, window = "1h", mode = "shadow")]
    pub fn by_hand(key: u8) -> impl ::std::future::Future<Output = u8> + ::std::marker::Send {
        let key = key + 1;
        async move { key }
    }
}

#[::core::prelude::v1::test]
fn every_name_is_the_users() {
    use ::limiter::{LocalLimiter, ManualClock, scope};
    use ::std::assert_eq;

    let runtime = ::tokio::runtime::Builder::new_current_thread().build();
    let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
    let calls = async {
        use names::{Err, Key, Ok, Path};
        assert_eq!(names::every_name(1, 2, 3, 4, 5, 6).await, "21 0");
        assert_eq!(names::every_name(1, 2, 3, 4, 5, 6).await, "123456 Exceeded");
        assert_eq!(names::every_name(1, 2, 9, 4, 5, 6).await, "27 18446744073709551615");
        assert_eq!(names::more_names(1, 2, 3, 4, (5, 6)).await, 15);
        assert_eq!(names::more_names(1, 2, 3, 4, (5, 6)).await, 30);
        assert_eq!(names::patterns(Path(1), Ok, Err, 0, (2, 3)).await, 7);
        assert_eq!(names::patterns(Path(1), Ok, Err, 0, (2, 3)).await, 106);
        assert_eq!(names::only_the_key(Path(1), (2, 3)).await, 3);
        assert_eq!(names::only_the_key(Path(1), (2, 3)).await, 0);
        let key = Key::Fields { key: 1, field0: "a" };
        assert_eq!(names::not_async(key, "t"), ::std::option::Option::Some("t"));
        assert_eq!(names::not_async(key, "t"), ::std::option::Option::None);
        assert_eq!(names::not_async(Key::Tuple([1, 2]), "t"), ::std::option::Option::Some("t"));
        assert_eq!((names::by_hand(1).await, names::by_hand(1).await), (2, 2));
    };
    runtime.expect("a runtime starts").block_on(scope(limiter, calls));
}
