//! What two threads get done, beside one and beside a peer's.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use limiter::rate_limit;

use crate::annotated::{PLENTY, now};
use crate::peers;
use crate::report::{Report, Target};
use crate::rounds::{float, median};

const ROUNDS: usize = 21;
/// By each thread: enough for the system to give each a processor.
const CALLS: usize = 1_000_000;
const KEYS: u64 = 5000;
/// Of two threads over one.
const SPEEDUP: f64 = 1.7;

#[rate_limit(strategy = "token_bucket", qps = PLENTY)]
async fn unkeyed() -> Option<()> {
    Some(())
}

#[rate_limit(strategy = "token_bucket", key = id, qps = PLENTY)]
async fn token_bucket(id: u64) -> Option<()> {
    black_box(id);
    Some(())
}

/// What two threads cannot do without: a clock, and a word for each of as many keys as both have. Beside that, what a table
/// makes them share.
struct Floor {
    words: Vec<AtomicU64>,
    locks: Vec<Line>,
    clock: quanta::Clock,
}

#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

impl Floor {
    /// Numbers of words in 64 bytes, and in the 48 that a key may take.
    const LINE: usize = 8;
    const KEY: usize = 6;
    /// A prime.
    const PLACES: u64 = 10_007;

    fn new() -> Self {
        Self {
            words: (0..10_007 * Self::LINE).map(|_| AtomicU64::new(0)).collect(),
            locks: (0..256).map(|_| Line::default()).collect(),
            clock: quanta::Clock::new(),
        }
    }

    /// A key of this thread's.
    fn key(thread: usize, number: u64) -> u64 {
        KEYS * thread as u64 + ((number * KEYS) >> 32)
    }

    /// Writes the time to the word of a key: so many words from its neighbours, which may be the other thread's.
    fn write(&self, apart: usize, key: u64) {
        let place = usize::try_from(key * 7_919 % Self::PLACES).expect("few places");
        let word = &self.words[place * apart];
        let last = word.load(Ordering::Relaxed);
        let now = self.clock.raw();
        let _ = black_box(word.compare_exchange(last, now, Ordering::AcqRel, Ordering::Relaxed));
    }

    /// The same behind one of 256 locks: that of the key, which guards keys of both threads.
    fn write_behind_lock(&self, apart: usize, key: u64) {
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let Line(lock) = &self.locks[usize::try_from(spread).expect("eight bits")];
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin_loop();
        }
        self.write(apart, key);
        lock.store(0, Ordering::Release);
    }
}

/// Some threads that make calls, each with its number and that of the call.
struct Crowd<'a> {
    threads: usize,
    call: &'a (dyn Fn(usize, u64) + Sync),
}

impl<'a> Crowd<'a> {
    fn of(threads: usize, call: &'a (dyn Fn(usize, u64) + Sync)) -> Self {
        Self { threads, call }
    }

    /// Calls in a nanosecond, by all threads together.
    fn throughput(&self) -> f64 {
        let ready = AtomicUsize::new(0);
        let work = |thread: usize| {
            // Whose keys were another thread's before.
            let mut number: u64 = 0;
            for _ in 0..CALLS / 10 {
                number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
                (self.call)(thread, number >> 32);
            }
            // Nobody sleeps here, so that nobody has to be woken.
            ready.fetch_add(1, Ordering::AcqRel);
            while ready.load(Ordering::Acquire) < self.threads {
                spin_loop();
            }
            let start = Instant::now();
            // A number of its own for each call, spread so that neighbours are not neighbours in memory.
            let mut number: u64 = 0;
            for _ in 0..CALLS {
                number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
                (self.call)(thread, number >> 32);
            }
            (start, Instant::now())
        };
        let times: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no call panics")).collect()
        });
        let start = times.iter().map(|(start, _)| *start).min().expect("a thread");
        let end = times.iter().map(|(_, end)| *end).max().expect("a thread");
        float(self.threads * CALLS) / (end - start).as_secs_f64() / 1e9
    }
}

/// What the second gets done beside the first: the median of all rounds, in which they take turns.
fn ratio(first: Crowd<'_>, second: Crowd<'_>) -> f64 {
    let round = |round: usize| {
        if round.is_multiple_of(2) {
            let first = first.throughput();
            second.throughput() / first
        } else {
            second.throughput() / first.throughput()
        }
    };
    // The first round only warms up.
    round(0);
    median((1..=ROUNDS).map(round))
}

pub(crate) fn measure(report: &mut Report) {
    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::plenty());
    let direct: DefaultDirectRateLimiter = RateLimiter::direct(peers::plenty());

    // Both threads have a range of keys; a key of one thread is none of the other's.
    let own_key = |thread: usize, _: u64| 1_000_000 * thread as u64;
    let own_keys = |thread: usize, number: u64| 1_000_000 * thread as u64 + ((number * KEYS) >> 32);
    let ours = |id: u64| _ = black_box(now(token_bucket(id)));
    let theirs = |id: u64| _ = black_box(governor.check_key(&id));

    let clock = quanta::Clock::new();
    // As many instructions as a decision has, and nothing that two threads share. Where the two processors of a machine are two
    // halves of one, as guests of a host are given them, they get little more done than one.
    let call = |_: usize, number: u64| {
        let mut lanes = [number, !number, number << 1, number >> 1];
        for _ in 0..12 {
            for lane in &mut lanes {
                *lane = black_box(*lane ^ number).rotate_left(7);
            }
        }
        black_box((lanes, clock.raw()));
    };
    let machine = ratio(Crowd::of(1, &call), Crowd::of(2, &call));
    let path = "two threads that compute, each for itself";
    report.row(path, machine, "x one thread", Target::None);
    // Threads that have no processor each neither help nor disturb one another.
    let at_least = |least| if machine < SPEEDUP { Target::Untold(least) } else { Target::AtLeast(least) };

    let call = |thread, number| ours(own_key(thread, number));
    let speedup = ratio(Crowd::of(1, &call), Crowd::of(2, &call));
    report.row("two threads, a key each", speedup, "x one thread", at_least(SPEEDUP));

    let call = |thread, number| ours(own_keys(thread, number));
    let speedup = ratio(Crowd::of(1, &call), Crowd::of(2, &call));
    report.row("two threads, 5,000 keys each", speedup, "x one thread", at_least(SPEEDUP));

    let floor = Floor::new();
    let mut floor_row = |what: &str, call: &(dyn Fn(usize, u64) + Sync)| {
        let speedup = ratio(Crowd::of(1, call), Crowd::of(2, call));
        report.row(
            format!("two threads, a clock and 5,000 words each, {what}"),
            speedup,
            "x one thread",
            Target::None,
        );
    };
    floor_row("a cache line for each", &|thread, number| {
        floor.write(Floor::LINE, Floor::key(thread, number));
    });
    floor_row("48 bytes for each", &|thread, number| floor.write(Floor::KEY, Floor::key(thread, number)));
    let behind_lock = |thread, number| floor.write_behind_lock(Floor::KEY, Floor::key(thread, number));
    floor_row("48 bytes for each, behind 256 locks", &behind_lock);

    let call = |thread, number| theirs(own_keys(thread, number));
    let speedup = ratio(Crowd::of(1, &call), Crowd::of(2, &call));
    report.row("two threads, 5,000 keys each, governor", speedup, "x one thread", Target::None);

    let calls = (
        |thread: usize, number: u64| theirs(own_keys(thread, number)),
        |thread: usize, number: u64| ours(own_keys(thread, number)),
    );
    let beside = ratio(Crowd::of(2, &calls.0), Crowd::of(2, &calls.1));
    report.row("two threads, 5,000 keys each, beside governor's two", beside, "x governor", Target::None);

    let calls = (|_: usize, _: u64| theirs(7), |_: usize, _: u64| ours(7));
    let beside = ratio(Crowd::of(2, &calls.0), Crowd::of(2, &calls.1));
    report.row("two threads on one key", beside, "x governor", at_least(2.0));

    let calls =
        (|_: usize, _: u64| _ = black_box(direct.check()), |_: usize, _: u64| _ = black_box(now(unkeyed())));
    let beside = ratio(Crowd::of(2, &calls.0), Crowd::of(2, &calls.1));
    report.row("two threads, unkeyed", beside, "x governor, direct", Target::None);
}
