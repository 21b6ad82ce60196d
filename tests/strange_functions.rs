//! Strange functions are functions too: each passes once, and is rejected the second time.

#![expect(clippy::boxed_local, reason = "users write functions of all kinds")]
#![deny(unreachable_code)]

mod support;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use limiter::{LimitKey, LocalLimiter, ManualClock, Rejected, rate_limit, scope, scope_sync};
use support::now;

fn frozen() -> LocalLimiter {
    LocalLimiter::builder().clock(ManualClock::new()).build()
}

#[rate_limit(key = "r#type", qps = 1, fallback = r#mod::r#impl)]
async fn r#match(r#type: u8) -> u8 {
    r#type
}

mod r#mod {
    pub(super) fn r#impl(r#type: u8, _: limiter::Rejected) -> u8 {
        r#type + 100
    }
}

#[rate_limit(key = "match &id { Some(id) => *id, None => 0 }", qps = 1, fallback = rebinds_busy)]
async fn rebinds((id, _): (Option<u64>, u8)) -> u64 {
    id.unwrap_or(7)
}

fn rebinds_busy((id, _): (Option<u64>, u8), _: Rejected) -> u64 {
    id.unwrap_or(7) + 100
}

#[derive(LimitKey)]
struct Named {
    id: u64,
}

struct Person {
    id: u64,
    name: String,
}

#[rate_limit(key = "Named { id }", cost = "[1, 2].map(|id: u64| id).len() / 2", qps = 1, fallback = shorthand_busy)]
async fn shorthand(Person { id, .. }: Person) -> u64 {
    id
}

fn shorthand_busy(p: Person, _: Rejected) -> u64 {
    p.id + p.name.len() as u64
}

#[rate_limit(key = "n", qps = 1, fallback = "bound_busy")]
async fn bound(n @ 0..=255: u8, ref text: String, &mut ref more: &mut String) -> usize {
    usize::from(n) + text.len() + more.len()
}

fn bound_busy(n: u8, _: String, _: &mut String, _: Rejected) -> usize {
    usize::from(n) + 100
}

/// A parameter that is there, one that is not, and lints of parameters.
#[rate_limit(key = id, qps = 1, fallback = "attributes_busy")]
async fn attributes(
    #[cfg(not(any()))] id: u64,
    #[cfg(any())] gone: Missing,
    #[allow(unused_mut)] mut more: u8,
    #[expect(unused_variables, reason = "it is the point")] (y, z): (u8, u8),
) -> u64 {
    id + u64::from(more)
}

fn attributes_busy(id: u64, _: u8, _: (u8, u8), _: Rejected) -> u64 {
    id + 100
}

/// What is not there does not count: `id` is that of the only parameter.
#[rate_limit(key = id, qps = 1)]
async fn only_one(p: Person, #[cfg(any())] gone: Missing) -> Option<u64> {
    Some(p.id)
}

#[rate_limit(key = "*n", qps = 1, fallback = "through_busy")]
async fn through(n: &mut u64) -> u64 {
    *n += 1;
    *n
}

async fn through_busy(n: &mut u64, _: Rejected) -> u64 {
    *n + 100
}

#[rate_limit(key = "map[\"user\"]", qps = 1)]
async fn indexed(map: HashMap<&'static str, u64>) -> Option<usize> {
    Some(map.len())
}

#[rate_limit(key = (first.clone(), &second), qps = 1, fallback = "moved_busy")]
async fn moved(first: String, second: String) -> String {
    first + &second
}

fn moved_busy(first: String, second: String, _: Rejected) -> String {
    second + &first
}

#[rate_limit(qps = 1, store = "local", fallback = "range_busy")]
fn range(end: u32) -> impl Iterator<Item = u32> {
    0..end
}

fn range_busy(end: u32, _: Rejected) -> Range<u32> {
    end..end
}

#[rate_limit(qps = 1)]
async fn runs(run: impl AsyncFnOnce(u8) -> u8) -> Option<u8> {
    Some(run(1).await)
}

#[rate_limit(key = "value.to_string()", qps = 1)]
async fn dynamic(value: &(dyn std::fmt::Display + Sync)) -> Option<String> {
    Some(value.to_string())
}

macro_rules! made {
    ($name:ident, $key:expr, $parameter:ident : $ty:ty, $limit:literal) => {
        #[rate_limit(key = $key, qps = $limit)]
        async fn $name($parameter: $ty) -> Option<$ty> {
            Some($parameter)
        }
    };
}
made!(by_macro, user / 2, user: u64, 1);

#[test]
fn patterns_attributes_and_keys() {
    now(scope(frozen(), async {
        assert_eq!((r#match(1).await, r#match(1).await), (1, 101));
        assert_eq!((rebinds((None, 1)).await, rebinds((None, 1)).await), (7, 107));
        assert_eq!(rebinds((Some(3), 1)).await, 3);
        let person = || Person { id: 1, name: "alice".into() };
        assert_eq!((shorthand(person()).await, shorthand(person()).await), (1, 6));
        let mut text = String::from("bc");
        assert_eq!(bound(1, "a".into(), &mut text).await, 4);
        assert_eq!(bound(1, "a".into(), &mut text).await, 101);
        assert_eq!((attributes(1, 2, (3, 4)).await, attributes(1, 2, (3, 4)).await), (3, 101));
        assert_eq!((only_one(person()).await, only_one(person()).await), (Some(1), None));
        let mut number = 1;
        assert_eq!(through(&mut number).await, 2);
        assert_eq!(through(&mut number).await, 3, "another key");
        assert_eq!(through(&mut 1).await, 101);
        let map = || HashMap::from([("user", 1)]);
        assert_eq!((indexed(map()).await, indexed(map()).await), (Some(1), None));
        assert_eq!(moved("a".into(), "b".into()).await, "ab");
        assert_eq!(moved("a".into(), "b".into()).await, "ba");
        assert_eq!((range(3).count(), range(3).count()), (3, 0));
        assert_eq!((runs(async |x| x).await, runs(async |x| x).await), (Some(1), None));
        assert_eq!((dynamic(&1).await, dynamic(&"1").await), (Some("1".into()), None));
        assert_eq!((by_macro(4).await, by_macro(5).await, by_macro(6).await), (Some(4), None, Some(6)));
    }));
}

struct Service {
    id: u64,
}

impl Service {
    #[rate_limit(key = "self.id", qps = 1)]
    async fn counted(self: &Arc<Self>) -> Option<u64> {
        Some(self.id)
    }

    #[rate_limit(key = "self.id", qps = 1)]
    async fn pinned(self: Pin<&mut Self>) -> Option<u64> {
        Some(self.id)
    }

    #[rate_limit(key = "self.id", qps = 1, fallback = "Self::boxed_busy")]
    async fn boxed(mut self: Box<Self>, (by, _): (u64, u64)) -> u64 {
        self.id += by;
        self.id
    }

    fn boxed_busy(self: Box<Self>, _: (u64, u64), _: Rejected) -> u64 {
        self.id + 100
    }
}

struct Ring<const SIZE: usize>;

impl<const SIZE: usize> Ring<SIZE> {
    const COST: u64 = 2;

    #[rate_limit(key = SIZE, cost = SIZE, qps = 5)]
    async fn push(&self) -> Option<usize> {
        Some(SIZE)
    }

    #[rate_limit(cost = "Self::COST", qps = 3)]
    async fn pop() -> Option<usize> {
        Some(SIZE)
    }
}

trait Provided {
    fn id(&self) -> u64;

    #[rate_limit(key = "self.id()", qps = 1, store = "local")]
    fn provided(&self) -> Option<u64> {
        Some(self.id())
    }
}

impl Provided for Service {
    fn id(&self) -> u64 {
        self.id
    }
}

#[test]
fn receivers_and_constants_of_types() {
    now(scope(frozen(), async {
        let service = || Service { id: 1 };
        assert_eq!(
            (Arc::new(service()).counted().await, Arc::new(service()).counted().await),
            (Some(1), None)
        );
        let (mut one, mut other) = (service(), service());
        assert_eq!((Pin::new(&mut one).pinned().await, Pin::new(&mut other).pinned().await), (Some(1), None));
        assert_eq!(Box::new(service()).boxed((2, 0)).await, 3);
        assert_eq!(Box::new(service()).boxed((2, 0)).await, 101);
        assert_eq!((service().provided(), service().provided()), (Some(1), None));
        assert_eq!((Ring::<3>.push().await, Ring::<3>.push().await), (Some(3), None), "two cost 6 of 5");
        assert_eq!((Ring::<2>.push().await, Ring::<2>.push().await), (Some(2), Some(2)), "two cost 4 of 5");
        assert_eq!((Ring::<1>::pop().await, Ring::<1>::pop().await), (Some(1), None), "two cost 4 of 3");
    }));
}

/// Not a key itself.
struct Marker;

#[derive(LimitKey)]
struct Tagged<Tag>(u64, PhantomData<Tag>);

trait HasId {
    type Id;
}

impl HasId for Marker {
    type Id = u64;
}

#[derive(LimitKey)]
struct Associated<H: HasId> {
    id: H::Id,
    others: Vec<H::Id>,
}

#[derive(LimitKey)]
enum Tree<T> {
    Leaf(T),
    Node(Box<Tree<T>>, Box<Tree<T>>),
}

#[rate_limit(key = key, qps = 1)]
async fn by_key<K: LimitKey>(key: K) -> Option<()> {
    drop(key);
    Some(())
}

#[test]
fn derived_keys_ask_only_for_what_they_hold() {
    now(scope(frozen(), async {
        let tagged = |id| by_key(Tagged::<Marker>(id, PhantomData));
        assert_eq!((tagged(1).await, tagged(1).await, tagged(2).await), (Some(()), None, Some(())));
        assert_eq!(by_key(2).await, None, "a wrapper has the key of what it holds");
        let associated = |id| by_key(Associated::<Marker> { id, others: vec![1] });
        assert_eq!(
            (associated(1).await, associated(1).await, associated(2).await),
            (Some(()), None, Some(()))
        );
        let tree = |right| by_key(Tree::Node(Box::new(Tree::Leaf(1)), Box::new(Tree::Leaf(right))));
        assert_eq!((tree(1).await, tree(1).await, tree(2).await), (Some(()), None, Some(())));
    }));
}

macro_rules! written_by_a_macro {
    ($of_block:ident $block:block, $of_type:ident -> $answer:ty, $of_future:ident -> $future:ty) => {
        #[rate_limit(qps = 1, store = "local")]
        fn $of_block() -> Option<u8> $block

        #[rate_limit(qps = 1)]
        async fn $of_type() -> $answer $block

        #[rate_limit(qps = 1)]
        fn $of_future() -> $future {
            Box::pin(async $block)
        }
    };
}

written_by_a_macro! {
    of_block { Some(1) },
    of_type -> Option<u8>,
    of_future -> Pin<Box<dyn Future<Output = Option<u8>> + Send>>
}

#[test]
fn bodies_and_types_handed_on_by_macros() {
    now(scope(frozen(), async {
        assert_eq!((of_block(), of_block()), (Some(1), None));
        assert_eq!((of_type().await, of_type().await), (Some(1), None));
        assert_eq!((of_future().await, of_future().await), (Some(1), None));
    }));
}

/// The user's names for what the check is made of, also for the types of the language.
mod names {
    #![allow(dead_code, non_camel_case_types, reason = "none of them is wanted")]

    pub(super) struct Some;
    pub(super) struct Err;
    pub(super) struct bool;
    pub(super) struct i128;
    pub(super) struct u32;
    pub(super) struct u64;

    const MOST: ::std::primitive::u8 = 2;

    trait Blanket {
        fn kind(&self) -> Some {
            Some
        }

        fn resolve(self, _: Err) -> Some
        where
            Self: Sized,
        {
            Some
        }
    }

    impl<T> Blanket for T {}

    #[limiter::rate_limit(key = n, qps = MOST, samples = MOST, cost = MOST, unless = "n == 0", fallback = busy)]
    pub(super) async fn hidden(n: ::std::primitive::u8) -> ::std::primitive::u8 {
        n
    }

    async fn busy(n: ::std::primitive::u8, _: limiter::Rejected) -> ::std::primitive::u8 {
        n + 100
    }
}

#[test]
fn names_of_the_users_do_not_meet_ours() {
    now(scope(frozen(), async {
        assert_eq!((names::hidden(1).await, names::hidden(1).await), (1, 101));
        assert_eq!((names::hidden(0).await, names::hidden(0).await), (0, 0));
    }));
}

#[rate_limit(qps = 1, store = "local", fallback = "panics")]
fn or_panics(n: u8) -> u8 {
    n
}

fn panics(_: u8, why: Rejected) -> ! {
    panic!("{why}")
}

#[rate_limit(qps = 1, fallback = "panics_async")]
async fn or_panics_async(n: u8) -> u8 {
    n
}

async fn panics_async(_: u8, why: Rejected) -> ! {
    panic!("{why}")
}

#[test]
fn fallbacks_that_never_return() {
    let limiter = frozen();
    let call = |call: fn() -> u8| catch_unwind(AssertUnwindSafe(|| scope_sync(limiter.clone(), call))).ok();
    assert_eq!((call(|| or_panics(1)), call(|| or_panics(1))), (Some(1), None));
    let async_call = || now(or_panics_async(1));
    assert_eq!((call(async_call), call(async_call)), (Some(1), None));
}

macro_rules! shops {
    ($($shop:ident $name:literal)*) => {$(
        struct $shop;

        impl $shop {
            #[rate_limit(name = $name, qps = 1)]
            async fn look() -> Option<()> {
                Some(())
            }
        }
    )*};
}

shops!(Books "books" Shoes "shoes");

#[test]
fn methods_that_one_macro_call_writes_have_limits_of_their_own_by_name() {
    now(scope(frozen(), async {
        assert_eq!((Books::look().await, Books::look().await), (Some(()), None));
        assert_eq!((Shoes::look().await, Shoes::look().await), (Some(()), None));
    }));
    let names = limiter::sites().iter().map(|site| site.rule().name());
    assert_eq!(names.filter(|name| ["books", "shoes"].contains(name)).count(), 2);
}
