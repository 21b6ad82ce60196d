//! The longest call while ten million keys come, and while they go.

use std::time::{Duration, Instant};

use limiter::{LocalLimiter, ManualClock};

use crate::live;
use crate::report::{Report, Target};

const KEYS: u64 = 10_000_000;
/// Calls after all keys have expired.
const LATER: u64 = 2_000_000;
/// Every table places its keys by a secret of its own, and grows within some thousand calls of where another did.
const STRETCH: u64 = 100_000;
const REPETITIONS: usize = 5;

/// The longest call of each stretch.
type Longest = Vec<Duration>;

pub(crate) fn measure(report: &mut Report) {
    let (growing, expiring): (Vec<Longest>, Vec<Longest>) = (0..REPETITIONS).map(|_| repetition()).unzip();
    for (path, repetitions) in [
        ("the longest call while 10,000,000 keys come", growing),
        ("the longest call while 10,000,000 keys expire", expiring),
    ] {
        let whole: Vec<_> =
            repetitions.iter().map(|stretches| stretches.iter().max().expect("one")).collect();
        eprintln!("({path}, with what the machine did meanwhile: {whole:.0?})");
        report.row(path, quiet(&repetitions).as_secs_f64() * 1e3, "ms", Target::AtMost(1.0));
    }
}

/// A pause of ours comes again in every repetition, one of the machine's does not.
fn quiet(repetitions: &[Longest]) -> Duration {
    let stretches = 0..repetitions[0].len();
    let quietest = stretches.map(|stretch| repetitions.iter().map(|longest| longest[stretch]).min());
    quietest.flatten().max().expect("there are stretches")
}

fn repetition() -> (Longest, Longest) {
    let clock = ManualClock::new();
    let limiter = LocalLimiter::builder().max_keys(10_000_000).clock(clock.clone()).build();
    let call = |id: u64| assert!(limiter.check_sync(&live::TOKEN_BUCKET, &id, 1).is_allowed());
    let growing = longest(0..KEYS, call);
    // All permits are back. Some keys come again, and new ones need room.
    clock.advance(live::EVERY * 2);
    let expiring = longest(0..LATER, |number| {
        call(if number.is_multiple_of(2) { number } else { KEYS + number });
    });
    (growing, expiring)
}

fn longest(numbers: std::ops::Range<u64>, call: impl Fn(u64)) -> Longest {
    let mut stretches = Vec::new();
    let mut last = Instant::now();
    for first in numbers.clone().step_by(usize::try_from(STRETCH).expect("it is small")) {
        let mut longest = Duration::ZERO;
        for number in first..numbers.end.min(first + STRETCH) {
            call(number);
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        stretches.push(longest);
    }
    stretches
}
