//! Under its limit, an annotated function is what the plain one is: each is written twice, and both are compared.

#![allow(
    dead_code,
    clippy::items_after_statements,
    clippy::manual_async_fn,
    clippy::needless_borrow,
    clippy::trivially_copy_pass_by_ref,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "users write functions of all kinds"
)]

use std::cell::RefCell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use limiter::{LocalLimiter, Rejected, rate_limit, scope, scope_sync};

/// Makes a module `plain` and a module `limited` of the same functions.
macro_rules! twins {
    ($($module:ident [$($limit:tt)*] { $($function:tt)* })*) => {$(
        mod $module {
            pub(super) mod plain {
                #[allow(unused_imports, reason = "not every function needs some")]
                use super::super::*;
                $($function)*
            }
            pub(super) mod limited {
                #[allow(unused_imports, reason = "not every function needs some")]
                use super::super::*;
                #[rate_limit($($limit)*)]
                $($function)*
            }
        }
    )*};
}

/// Runs the same for both, and compares what came of it.
macro_rules! same {
    ($module:ident, |$function:ident| $run:expr) => {{
        let run_plain = || {
            use $module::plain::$function;
            $run
        };
        let run_limited = || {
            use $module::limited::$function;
            $run
        };
        let plain = scope_sync(LocalLimiter::new(), || observed(run_plain));
        let limited = scope_sync(LocalLimiter::new(), || observed(run_limited));
        assert_eq!(limited, plain, "{}", stringify!($module));
        plain
    }};
}

thread_local!(static DROPS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

/// A value that notes when it is dropped.
struct Loud(u8);

impl Drop for Loud {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops.push(self.0));
    }
}

/// What came out, or the panic; and what was dropped in which order.
fn observed<T>(run: impl FnOnce() -> T) -> (Result<T, String>, Vec<u8>) {
    DROPS.take();
    let result = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        panic
            .downcast::<String>()
            .map_or_else(|panic| panic.downcast_ref::<&str>().unwrap().to_string(), |text| *text)
    });
    (result, DROPS.take())
}

/// Polls until it is done.
fn finished<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

/// Polls once, then drops.
fn abandoned<F: Future>(future: F) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

twins! {
    drops_async [qps = 9, fallback = "never"] {
        pub(crate) async fn run((a, _): (Loud, Loud), b: Loud, _: Loud, _c: Loud, mut d: Loud, whole @ (_, _): (Loud, Loud)) -> u8 {
            let inner = Loud(20);
            tokio::task::yield_now().await;
            d.0 += 10;
            a.0 + b.0 + inner.0 + whole.0.0
        }

        fn never(_: (Loud, Loud), _: Loud, _: Loud, _: Loud, _: Loud, _: (Loud, Loud), _: Rejected) -> u8 {
            unreachable!()
        }
    }
    drops_sync [qps = 9, store = "local", fallback = "never"] {
        pub(crate) fn run((_, a): (Loud, Loud), _: Loud, [b, ..]: [Loud; 2], c: Loud) -> u8 {
            let _moved = c;
            a.0 + b.0
        }

        fn never(_: (Loud, Loud), _: Loud, _: [Loud; 2], _: Loud, _: Rejected) -> u8 {
            unreachable!()
        }
    }
    drops_by_type [key = a.0, qps = 9, window = "1h"] {
        pub(crate) async fn run(a: Loud, (b, _): (Loud, Loud), _: Loud) -> Option<u8> {
            drop(b);
            Some(a.0)
        }
    }
    panics_async [qps = 9, fallback = "never"] {
        pub(crate) async fn run(a: Loud, (b, _): (Loud, Loud), index: usize) -> u8 {
            let _inner = Loud(9);
            tokio::task::yield_now().await;
            [a.0, b.0][index]
        }

        async fn never(_: Loud, _: (Loud, Loud), _: usize, _: Rejected) -> u8 {
            unreachable!()
        }
    }
    panics_sync [qps = 9, store = "local"] {
        pub(crate) fn run(a: Loud, divisor: u8) -> Option<u8> {
            Some(a.0.checked_div(divisor).expect("divided by zero"))
        }
    }
}

#[test]
fn arguments_are_dropped_in_the_same_order() {
    let l = Loud;
    let (result, drops) =
        same!(drops_async, |run| finished(run((l(0), l(1)), l(2), l(3), l(4), l(5), (l(6), l(7)))));
    assert_eq!((result, drops.len()), (Ok(28), 9));
    // Dropped before it was polled, and dropped half way.
    _ = same!(drops_async, |run| drop(run((l(0), l(1)), l(2), l(3), l(4), l(5), (l(6), l(7)))));
    let (pending, _) =
        same!(drops_async, |run| abandoned(run((l(0), l(1)), l(2), l(3), l(4), l(5), (l(6), l(7)))));
    assert_eq!(pending, Ok(true));
    let (_, drops) = same!(drops_sync, |run| run((l(0), l(1)), l(2), [l(3), l(4)], l(5)));
    assert_eq!(drops.len(), 6);
    _ = same!(drops_by_type, |run| finished(run(l(0), (l(1), l(2)), l(3))));
}

#[test]
fn panics_are_the_same() {
    let (result, drops) = same!(panics_async, |run| finished(run(Loud(1), (Loud(2), Loud(3)), 7)));
    assert_eq!(result.unwrap_err(), "index out of bounds: the len is 2 but the index is 7");
    assert_eq!(drops.len(), 4);
    let (result, drops) = same!(panics_sync, |run| run(Loud(1), 0));
    assert_eq!((result.unwrap_err().as_str(), drops), ("divided by zero", vec![1]));
}

twins! {
    typed [qps = 9, store = "local", fallback = "never"] {
        pub(crate) extern "C" fn run(a: u8, b: &u8) -> u8 {
            a + *b
        }

        fn never(_: u8, _: &u8, _: Rejected) -> u8 {
            unreachable!()
        }
    }
    borrows [key = left, qps = 9, window = "1h", store = "local", fallback = "never"] {
        pub(crate) fn run<'a>(left: &'a str, _right: &str) -> &'a str {
            left
        }

        fn never<'a>(_: &'a str, _: &str, _: Rejected) -> &'a str {
            unreachable!()
        }
    }
    borrows_async [key = text, qps = 9, fallback = "never"] {
        pub(crate) async fn run(text: &str) -> &str {
            tokio::task::yield_now().await;
            text
        }

        async fn never(_: &str, _: Rejected) -> &str {
            unreachable!()
        }
    }
    mutates [qps = 9, window = "1h"] {
        pub(crate) async fn run(list: &mut Vec<u8>) -> Option<&mut u8> {
            list.push(1);
            list.last_mut()
        }
    }
    located [qps = 9, store = "local"] {
        #[track_caller]
        pub(crate) fn run() -> Option<&'static Location<'static>> {
            Some(Location::caller())
        }
    }
    generic [key = (key, N), qps = 9, fallback = "never"] {
        pub(crate) async fn run<K, const N: usize>(key: K, list: [impl Display; N]) -> String
        where
            K: limiter::LimitKey + Display,
        {
            format!("{key}{}", list.iter().map(ToString::to_string).collect::<String>())
        }

        fn never<K, T, const N: usize>(_: K, _: [T; N], _: Rejected) -> String {
            unreachable!()
        }
    }
    flows [key = text, qps = 9] {
        pub(crate) async fn run(text: &str) -> Result<u32, Box<dyn std::error::Error>> {
            if text.is_empty() {
                return Ok(0);
            }
            let number = 'found: {
                for part in text.split(' ') {
                    if part.starts_with(char::is_numeric) {
                        break 'found part;
                    }
                }
                return Err("no number".into());
            };
            Ok(number.parse::<u32>()?)
        }
    }
}

#[test]
fn types_and_lifetimes_are_the_same() {
    // One type for both: the array would not compile otherwise.
    let functions: [extern "C" fn(u8, &u8) -> u8; 2] = [typed::plain::run, typed::limited::run];
    assert!(functions.iter().all(|run| run(1, &2) == 3));
    let functions: [for<'a> fn(&'a str, &str) -> &'a str; 2] = [borrows::plain::run, borrows::limited::run];
    assert!(functions.iter().all(|run| run("a", &String::from("b")) == "a"));

    async fn with<F: AsyncFn(&str) -> &str>(run: F) -> String {
        let text = String::from("t");
        run(&text).await.to_owned()
    }
    _ = same!(borrows_async, |run| finished(with(run)));
    _ = same!(mutates, |run| {
        let mut list = vec![0];
        *finished(run(&mut list)).unwrap() += 1;
        finished(run(&mut list));
        list
    });
    let (result, _) = same!(located, |run| (run().unwrap().file(), run().unwrap().line()));
    assert_eq!(result.unwrap().0, file!());
    _ = same!(generic, |run| finished(run(1, ["a", "b"])) + &finished(run("x", [1.5])));
    for text in ["", "a", "a 12", "a 1x"] {
        _ = same!(flows, |run| finished(run(text)).map_err(|error| error.to_string()));
    }
}

/// `is_send!(value)`: whether its type is `Send`, found out by the compiler.
struct Probe<'a, T>(&'a T);
trait NotSend {
    fn is_send(&self) -> bool {
        false
    }
}
impl<T> NotSend for &Probe<'_, T> {}
impl<T: Send> Probe<'_, T> {
    fn is_send(&self) -> bool {
        true
    }
}

twins! {
    send [key = text, qps = 9, wait = "1s"] {
        pub(crate) async fn run(text: Arc<str>) -> Option<usize> {
            tokio::task::yield_now().await;
            Some(text.len())
        }
    }
    not_send [key = text, qps = 9] {
        pub(crate) async fn run(text: Rc<str>) -> Option<usize> {
            tokio::task::yield_now().await;
            Some(text.len())
        }
    }
    send_with_a_fallback [qps = 9, fallback = "never"] {
        pub(crate) async fn run() -> Rc<str> {
            tokio::task::yield_now().await;
            "a".into()
        }

        fn never(_: Rejected) -> Rc<str> {
            unreachable!()
        }
    }
    send_with_an_async_fallback [qps = 9, fallback = "never"] {
        pub(crate) async fn run() -> Rc<str> {
            tokio::task::yield_now().await;
            "a".into()
        }

        async fn never(_: Rejected) -> Rc<str> {
            unreachable!()
        }
    }
    send_after_all [key = text.len(), qps = 9] {
        pub(crate) async fn run(text: &str) -> Option<usize> {
            let length = Rc::<str>::from(text).len();
            tokio::task::yield_now().await;
            Some(length)
        }
    }
    boxed [key = text, qps = 9] {
        pub(crate) fn run(text: &str) -> Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>> {
            Box::pin(async move { Some(text.len()) })
        }
    }
    opaque [qps = 9] {
        pub(crate) fn run(text: &str) -> impl Future<Output = Option<usize>> {
            async move { Some(text.len()) }
        }
    }
    opaque_later [qps = 9] {
        pub(crate) fn run(text: &str) -> impl Future<Output = Option<usize>> + use<'_> {
            let text = Rc::<str>::from(text);
            async move { Some(text.len()) }
        }
    }
}

#[test]
fn futures_are_send_where_the_plain_ones_are() {
    assert_eq!(same!(send, |run| (&Probe(&run("a".into()))).is_send()).0, Ok(true));
    assert_eq!(same!(not_send, |run| (&Probe(&run("a".into()))).is_send()).0, Ok(false));
    assert_eq!(same!(send_with_a_fallback, |run| (&Probe(&run())).is_send()).0, Ok(true));
    assert_eq!(same!(send_with_an_async_fallback, |run| (&Probe(&run())).is_send()).0, Ok(true));
    assert_eq!(same!(send_after_all, |run| (&Probe(&run("a"))).is_send()).0, Ok(true));
    assert_eq!(same!(boxed, |run| (&Probe(&run("a"))).is_send()).0, Ok(true));
    assert_eq!(same!(opaque, |run| (&Probe(&run("a"))).is_send()).0, Ok(true));
    assert_eq!(same!(opaque_later, |run| (&Probe(&run("a"))).is_send()).0, Ok(false));
    finished(scope(LocalLimiter::new(), async {
        assert_eq!(boxed::limited::run("abc").await, Some(3));
        assert_eq!(opaque_later::limited::run("abc").await, Some(3));
    }));
}
