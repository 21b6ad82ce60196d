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
    /// Numbers of words in 128 bytes, which processors fetch together, in 64, and in the 48 that a key may take.
    const TWO_LINES: usize = 16;
    const LINE: usize = 8;
    const KEY: usize = 6;
    /// A prime.
    const PLACES: u64 = 10_007;

    fn new() -> Self {
        Self {
            words: (0..10_007 * Self::TWO_LINES).map(|_| AtomicU64::new(0)).collect(),
            locks: (0..256).map(|_| Line::default()).collect(),
            clock: quanta::Clock::new(),
        }
    }

    /// A key of this thread's.
    fn key(thread: usize, number: u64) -> u64 {
        KEYS * thread as u64 + ((number * KEYS) >> 32)
    }

    /// Of all that there are.
    fn any_key(number: u64) -> u64 {
        (number * 2 * KEYS) >> 32
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

/// A call of a thread, of which it has the number and that of the call.
type Call<'a> = &'a (dyn Fn(usize, u64) + Sync);

/// Some threads that make calls.
struct Crowd<'a> {
    threads: usize,
    call: Call<'a>,
}

impl<'a> Crowd<'a> {
    fn of(threads: usize, call: Call<'a>) -> Self {
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

/// What a second crowd gets done beside a first.
struct Row<'a> {
    path: &'static str,
    first: Crowd<'a>,
    second: Crowd<'a>,
    unit: &'static str,
    /// At least so much is wanted.
    wanted: Option<f64>,
    ratios: Vec<f64>,
}

impl<'a> Row<'a> {
    /// Two threads beside one.
    fn speedup(path: &'static str, call: Call<'a>) -> Self {
        Self::new(path, Crowd::of(1, call), Crowd::of(2, call), "x one thread")
    }

    /// Two threads of ours beside two of a peer's.
    fn beside(path: &'static str, theirs: Call<'a>, ours: Call<'a>, unit: &'static str) -> Self {
        Self::new(path, Crowd::of(2, theirs), Crowd::of(2, ours), unit)
    }

    fn new(path: &'static str, first: Crowd<'a>, second: Crowd<'a>, unit: &'static str) -> Self {
        Self { path, first, second, unit, wanted: None, ratios: Vec::with_capacity(ROUNDS) }
    }

    fn at_least(self, least: f64) -> Self {
        Self { wanted: Some(least), ..self }
    }

    /// They take turns in who is first.
    fn round(&mut self, round: usize) {
        let ratio = if round.is_multiple_of(2) {
            let first = self.first.throughput();
            self.second.throughput() / first
        } else {
            self.second.throughput() / self.first.throughput()
        };
        // The first round only warms up.
        if round > 0 {
            self.ratios.push(ratio);
        }
    }

    fn ratio(&self) -> f64 {
        median(self.ratios.iter().copied())
    }
}

pub(crate) fn measure(report: &mut Report) {
    let governor: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(peers::plenty());
    let direct: DefaultDirectRateLimiter = RateLimiter::direct(peers::plenty());
    let (clock, floor) = (quanta::Clock::new(), Floor::new());

    // As many instructions as a decision has, and nothing that two threads share. Where the two processors of a machine are two
    // halves of one, as guests of a host are given them, they get little more done than one.
    let compute = |_: usize, number: u64| {
        let mut lanes = [number, !number, number << 1, number >> 1];
        for _ in 0..12 {
            for lane in &mut lanes {
                *lane = black_box(*lane ^ number).rotate_left(7);
            }
        }
        black_box((lanes, clock.raw()));
    };
    // Both threads have a range of keys; a key of one thread is none of the other's.
    let own_key = |thread: usize, _: u64| 1_000_000 * thread as u64;
    let own_keys = |thread: usize, number: u64| 1_000_000 * thread as u64 + ((number * KEYS) >> 32);
    let ours = |id: u64| _ = black_box(now(token_bucket(id)));
    let theirs = |id: u64| _ = black_box(governor.check_key(&id));
    let words = |apart: usize| {
        let floor = &floor;
        move |thread, number| floor.write(apart, Floor::key(thread, number))
    };
    let [two_lines, a_line, packed] = [Floor::TWO_LINES, Floor::LINE, Floor::KEY].map(words);
    let behind_lock = |thread, number| floor.write_behind_lock(Floor::KEY, Floor::key(thread, number));
    let [one_thread_spread, one_thread_packed] = [Floor::TWO_LINES, Floor::KEY].map(|apart| {
        let floor = &floor;
        move |_: usize, number: u64| floor.write(apart, Floor::any_key(number))
    });
    let (their_only_key, our_only_key) = (|_: usize, _: u64| theirs(7), |_: usize, _: u64| ours(7));
    let their_unkeyed = |_: usize, _: u64| _ = black_box(direct.check());
    let our_unkeyed = |_: usize, _: u64| _ = black_box(now(unkeyed()));
    let our_key = |thread, number| ours(own_key(thread, number));
    let our_keys = |thread, number| ours(own_keys(thread, number));
    let their_keys = |thread, number| theirs(own_keys(thread, number));

    let mut rows = [
        Row::speedup("two threads that compute, each for itself", &compute),
        Row::speedup("two threads, a key each", &our_key).at_least(SPEEDUP),
        Row::speedup("two threads, 5,000 keys each", &our_keys).at_least(SPEEDUP),
        Row::speedup("two threads, a clock and 5,000 words each, two cache lines for each", &two_lines),
        Row::speedup("two threads, a clock and 5,000 words each, a cache line for each", &a_line),
        Row::speedup("two threads, a clock and 5,000 words each, 48 bytes for each", &packed),
        Row::speedup(
            "two threads, a clock and 5,000 words each, 48 bytes for each, behind 256 locks",
            &behind_lock,
        ),
        Row::speedup("two threads, 5,000 keys each, governor", &their_keys),
        Row::beside(
            "two threads, 5,000 keys each, beside governor's two",
            &their_keys,
            &our_keys,
            "x governor",
        ),
        Row::beside("two threads on one key", &their_only_key, &our_only_key, "x governor").at_least(2.0),
        Row::beside("two threads, unkeyed", &their_unkeyed, &our_unkeyed, "x governor, direct"),
        Row::new(
            "one thread, a clock and 10,000 words, two cache lines for each",
            Crowd::of(1, &one_thread_packed),
            Crowd::of(1, &one_thread_spread),
            "x 48 bytes for each",
        ),
    ];
    // All of them in each round, so that noise hits them alike.
    for round in 0..=ROUNDS {
        for row in &mut rows {
            row.round(round);
        }
    }
    let machine = rows[0].ratio();
    for row in &rows {
        // Threads that have no processor each neither help nor disturb one another.
        let target = match row.wanted {
            Some(least) if machine < SPEEDUP => Target::Untold(least),
            Some(least) => Target::AtLeast(least),
            None => Target::None,
        };
        report.row(row.path, row.ratio(), row.unit, target);
    }
}
