//! What a rejection is made of: the least that each of its parts takes, without the rest.

use std::array;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use limiter::rate_limit;

use crate::annotated::now;
use crate::peers;
use crate::report::Report;
use crate::rounds::{Contender, Workload, nameless};

/// Locks, each in a cache line of its own, as a table has them.
struct Locks(Vec<Lock>);

#[derive(Default)]
#[repr(align(64))]
struct Lock(AtomicBool);

impl Locks {
    fn new() -> Self {
        Self((0..256).map(|_| Lock::default()).collect())
    }

    /// Works behind the lock of a key, once it is free.
    fn with<T>(&self, id: u64, work: impl FnOnce() -> T) -> T {
        let spread = usize::try_from(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).expect("eight bits");
        let Lock(taken) = &self.0[spread];
        while taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        let result = work();
        taken.store(false, Ordering::Release);
        result
    }
}

/// As much memory as the states of all keys take, each in a cache line of its own.
struct States(Vec<State>);

#[derive(Default)]
#[repr(align(64))]
struct State(AtomicU64);

impl States {
    fn new() -> Self {
        Self((0..KEYS).map(|_| State::default()).collect())
    }

    fn look(&self, id: u64) -> u64 {
        self.0[usize::try_from(id).expect("few keys")].0.load(Ordering::Relaxed)
    }
}

const KEYS: u64 = 10_000;

// A function of its own: one that is called from several places is compiled apart, and those who measure it elsewhere would
// measure another.
#[rate_limit(strategy = "token_bucket", key = id, qps = 1, window = "1d")]
async fn rejected(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

pub(crate) fn measure(report: &mut Report) {
    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::one_a_day());
    let (clock, locks, states) = (quanta::Clock::new(), Locks::new(), States::new());
    let words: [AtomicU64; 20] = array::from_fn(|_| AtomicU64::new(0));
    let write =
        |count: usize, id: u64| words[..count].iter().for_each(|word| word.store(id, Ordering::Relaxed));
    let contenders = [
        Contender::by_id("governor", |id| governor.check_key(&id)),
        Contender::by_id("a clock", |_| clock.raw()),
        Contender::by_id("a clock, one of 10,000 states", |id| (states.look(id), clock.raw())),
        Contender::by_id("a clock, one of 10,000 states, 20 writes", |id| {
            write(20, id);
            (states.look(id), clock.raw())
        }),
        Contender::by_id("a clock, one of 10,000 states, behind a lock", |id| {
            locks.with(id, || (states.look(id), clock.raw()))
        }),
        Contender::by_id("a clock, one of 10,000 states, behind a lock, 20 writes", |id| {
            write(20, id);
            locks.with(id, || (states.look(id), clock.raw()))
        }),
        Contender::by_id("limiter", |id| now(rejected(id))),
    ];
    let workload = Workload { keys: KEYS, name: nameless, rounds: 61, calls: 60_000 };
    workload.fill(0, &contenders);
    report.parts = workload.compare(&contenders);
}
