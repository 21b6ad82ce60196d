//! Before edition 2024, what the last expression of a body borrows from is dropped after the variables of the body. The
//! annotation is of edition 2024, and must not change that.

#![expect(clippy::manual_async_fn, clippy::unnecessary_wraps, reason = "users write functions of all kinds")]

use std::cell::RefCell;
use std::future::Future;
use std::sync::Mutex;

use limiter::{rate_limit, scope, LocalLimiter, Rejected};

thread_local!(static DROPS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) });

/// A value that notes when it is dropped.
struct Loud(&'static str);

impl Loud {
    fn length(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops.push(self.0));
    }
}

fn plain(_argument: Loud) -> Option<usize> {
    let _variable = Loud("variable");
    Loud("last expression").length()
}

#[rate_limit(qps = 9, store = "local")]
fn limited(_argument: Loud) -> Option<usize> {
    let _variable = Loud("variable");
    Loud("last expression").length()
}

#[rate_limit(qps = 9, store = "local", fallback = "busy")]
fn with_fallback(_argument: Loud) -> Option<usize> {
    let _variable = Loud("variable");
    Loud("last expression").length()
}

fn busy(_: Loud, _: Rejected) -> Option<usize> {
    unreachable!()
}

#[rate_limit(qps = 9, decision = d)]
async fn limited_async(_argument: Loud) -> Option<usize> {
    let _variable = Loud("variable");
    Loud(if d.is_allowed() { "last expression" } else { "another" }).length()
}

#[rate_limit(qps = 9)]
fn async_block(argument: Loud) -> impl Future<Output = Option<usize>> {
    async move {
        let _variable = (Loud("variable"), &argument);
        Loud("last expression").length()
    }
}

#[rate_limit(qps = 9)]
fn future(argument: Loud) -> impl Future<Output = Option<usize>> {
    let _variable = (Loud("variable"), &argument);
    std::future::ready(Loud("last expression").length())
}

#[tokio::test]
async fn variables_are_dropped_before_the_last_expression() {
    let dropped = |length: Option<usize>| (length, DROPS.take());
    let plain = dropped(plain(Loud("argument")));
    assert_eq!(plain, (Some(15), vec!["variable", "last expression", "argument"]));
    scope(LocalLimiter::new(), async {
        assert_eq!(dropped(limited(Loud("argument"))), plain);
        assert_eq!(dropped(with_fallback(Loud("argument"))), plain);
        assert_eq!(dropped(limited_async(Loud("argument")).await), plain);
        assert_eq!(dropped(async_block(Loud("argument")).await), plain);
        assert_eq!(dropped(future(Loud("argument")).await), plain);
    })
    .await;
}

struct Path<T>(T);

/// Compiles only if what the last expression borrows is gone before the argument that it borrows from.
#[rate_limit(key = id, qps = 9, store = "local", fallback = "borrows_busy", decision = d)]
fn borrows(Path(list): Path<Mutex<Vec<u64>>>, id: u64) -> usize {
    list.lock().unwrap().push(id + d.remaining());
    list.lock().unwrap().len()
}

fn borrows_busy(_: Path<Mutex<Vec<u64>>>, _: u64, _: Rejected) -> usize {
    unreachable!()
}

#[test]
fn the_last_expression_may_borrow_from_arguments() {
    assert_eq!(borrows(Path(Mutex::default()), 1), 1);
}
