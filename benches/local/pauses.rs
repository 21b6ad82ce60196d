//! The longest call while ten million keys come, and while they go.
//!
//! Measured in time on the processor: a thread that has to wait for one is not held up by us. What interrupts and other
//! guests of the machine take is still in it, so it is done several times.

use std::time::Duration;

use limiter::{LocalLimiter, ManualClock};
use rustix::time::{ClockId, clock_gettime};

use crate::live;
use crate::report::{Report, Target};

const KEYS: u64 = 10_000_000;
/// Calls after all keys have expired.
const LATER: u64 = 1_000_000;
/// Every table places its keys by a secret of its own, and grows within some ten thousand calls of where another did.
const STRETCH: u64 = 100_000;
const REPETITIONS: usize = 4;

/// The longest call of each stretch.
type Longest = Vec<Duration>;

pub(crate) fn measure(report: &mut Report) {
    let (growing, expiring): (Vec<Longest>, Vec<Longest>) = (0..REPETITIONS).map(|_| repetition()).unzip();
    for (what, repetitions) in [("come", growing), ("expire", expiring)] {
        let [likely, bound] = [in_quiet_stretches(&repetitions), in_a_quiet_repetition(&repetitions)];
        let path = format!("the longest call while 10,000,000 keys {what}");
        let bound_path = format!("{path}, of the quietest of {REPETITIONS} times");
        report.row(bound_path, bound, "ms", Target::None);
        report.row(format!("{path}, as in all {REPETITIONS}"), likely, "ms", Target::AtMost(1.0));
    }
}

/// Tables grow in the same stretch of every repetition; what the machine does comes anywhere. A pause of ours that came
/// anywhere as well would be missed here, and be in the other figure.
fn in_quiet_stretches(repetitions: &[Longest]) -> f64 {
    let stretches = 0..repetitions[0].len();
    let quietest = stretches.filter_map(|stretch| repetitions.iter().map(|longest| longest[stretch]).min());
    millis(quietest.max())
}

/// The longest call of the repetition that had the least of it.
fn in_a_quiet_repetition(repetitions: &[Longest]) -> f64 {
    millis(repetitions.iter().filter_map(|stretches| stretches.iter().max().copied()).min())
}

fn millis(time: Option<Duration>) -> f64 {
    time.expect("something was measured").as_secs_f64() * 1e3
}

fn repetition() -> (Longest, Longest) {
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().max_keys(10_000_000).clock(clock.clone()).build();
    let call = |id: u64| assert!(limiter.check_sync(&live::TOKEN_BUCKET, &id, 1).is_allowed());
    let growing = longest(KEYS, call);
    // All permits are back. Some keys come again, and new ones need room.
    clock.advance(live::EVERY * 2);
    let expiring = longest(LATER, |number| {
        call(if number.is_multiple_of(2) { number } else { KEYS + number });
    });
    (growing, expiring)
}

fn longest(calls: u64, call: impl Fn(u64)) -> Longest {
    let mut last = on_the_processor();
    let mut timed = |number| {
        call(number);
        let now = on_the_processor();
        let time = now.saturating_sub(last);
        last = now;
        time
    };
    let stretches = (0..calls / STRETCH).map(|stretch| stretch * STRETCH..(stretch + 1) * STRETCH);
    stretches.filter_map(|numbers| numbers.map(&mut timed).max()).collect()
}

/// How long this thread has been running.
fn on_the_processor() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("it starts at 0")
}
