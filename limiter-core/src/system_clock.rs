//! The monotonic clock of the machine.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use once_cell::sync::{Lazy, OnceCell};

use crate::Clock;

/// The monotonic clock of the machine: the default.
///
/// All of them show one time, which begins when one is first made. Where the processor has a counter that can be trusted,
/// it is read, because that takes a third of the time. The operating system's clock is right: the counter is set by it
/// every millisecond. So the two differ by a few microseconds, and by at most a millisecond for a moment where the
/// counter changes its pace, as when a virtual machine moves.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    counter: &'static Counter,
}

impl Default for SystemClock {
    fn default() -> Self {
        static COUNTER: Lazy<Counter> = Lazy::new(Counter::new);
        let counter = &*COUNTER;
        counter.calibrate_once();
        Self { counter }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> u64 {
        self.counter.now()
    }

    fn sleep_until(&self, time: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let until = self.counter.start.checked_add(Duration::from_nanos(time));
        Box::pin(async move {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        })
    }
}

#[derive(Debug)]
struct Counter {
    /// The right time is counted from here.
    start: Instant,
    /// Once it is known how fast the processor counts.
    source: OnceCell<Source>,
    calibrating: AtomicBool,
    /// The right time less the counter's, when they were last compared; it wraps around.
    ahead: AtomicU64,
    /// The counter's time when they were last compared.
    compared: AtomicU64,
    /// Somebody is writing the two.
    setting: AtomicBool,
}

#[derive(Debug)]
struct Source {
    clock: quanta::Clock,
    /// How long it takes to count to 2^32, in nanoseconds.
    pace: u64,
}

/// How long the counter is believed, in nanoseconds. It drifts by far less than a thousandth of that.
const BELIEVED: u64 = 1_000_000;
/// A comparison that took longer says little: the thread was interrupted in the middle.
const LONGEST_COMPARISON: u64 = 2_000;

impl Counter {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            source: OnceCell::new(),
            calibrating: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
            // Yet to come, so that the first reading compares.
            compared: AtomicU64::new(u64::MAX / 2),
            setting: AtomicBool::new(false),
        }
    }

    /// Finds out how fast the counter runs. That takes a millisecond, on a busy machine up to 200, so nobody waits for it;
    /// where no thread can be had, the system's clock goes on alone.
    fn calibrate_once(&'static self) {
        if !self.calibrating.swap(true, Ordering::Relaxed) {
            let thread = std::thread::Builder::new().name("limiter-clock".to_owned());
            let _ = thread.spawn(|| self.calibrate());
        }
    }

    fn calibrate(&self) {
        let clock = quanta::Clock::new();
        let _ = self.source.set(Source::new(clock));
    }

    #[inline]
    fn now(&self) -> u64 {
        let Some(source) = self.source.get() else { return self.right() };
        let counted = source.counted();
        // Far beyond as well where the counter went back, as it may from one processor to another.
        if counted.wrapping_sub(self.compared.load(Ordering::Acquire)) < BELIEVED {
            counted.wrapping_add(self.ahead.load(Ordering::Relaxed))
        } else {
            self.compare(source, counted)
        }
    }

    /// The time of the operating system.
    fn right(&self) -> u64 {
        let elapsed = self.start.elapsed();
        // 584 years of nanoseconds fit.
        elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
    }

    /// The right time. What was counted is before it.
    #[cold]
    fn compare(&self, source: &Source, before: u64) -> u64 {
        let right = self.right();
        let after = source.counted();
        let took = after.wrapping_sub(before);
        // A counter that stands still is not believed.
        if 0 < took && took <= LONGEST_COMPARISON && !self.setting.swap(true, Ordering::Acquire) {
            // By the later reading, so that the counter shows no time that is yet to come.
            self.ahead.store(right.wrapping_sub(after), Ordering::Relaxed);
            self.compared.store(after, Ordering::Release);
            self.setting.store(false, Ordering::Release);
        }
        right
    }
}

impl Source {
    fn new(clock: quanta::Clock) -> Self {
        Self { pace: clock.delta_as_nanos(0, 1 << 32), clock }
    }

    /// Nanoseconds since the counter began.
    #[inline]
    fn counted(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
        return ((u128::from(self.clock.raw()) * u128::from(self.pace)) >> 32) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever interrupts this thread, the clock's time lies between those of the operating system before and after.
    #[test]
    fn it_shows_the_time_of_the_operating_system() {
        const DRIFT: u64 = 5_000;

        let counter = Counter::new();
        let right = || u64::try_from(counter.start.elapsed().as_nanos()).unwrap();
        let (start, mut readings) = (Instant::now(), 0_u64);
        while start.elapsed() < Duration::from_millis(300) || readings < 3_000 {
            let (before, shown, after) = (right(), counter.now(), right());
            assert!(before <= shown + DRIFT && shown <= after + DRIFT, "{before} <= {shown} <= {after}");
            readings += 1;
            // At first there is no counter, and the same must hold.
            if readings == 1_000 {
                counter.calibrate();
            }
        }
        assert!(counter.source.get().is_some(), "the counter was not read");
    }

    #[test]
    fn a_counter_that_jumps_is_set_right() {
        const HOUR: u64 = 3_600_000_000_000;

        let counter = Counter::new();
        counter.calibrate();
        let last = counter.source.get().unwrap().counted();
        // Since the last comparison it seems to have gone back, or far ahead, by an hour.
        for compared in [last + HOUR, last.wrapping_sub(HOUR)] {
            counter.compared.store(compared, Ordering::Relaxed);
            counter.ahead.store(HOUR, Ordering::Relaxed);
            let (shown, after) = (counter.now(), counter.start.elapsed());
            assert!(Duration::from_nanos(shown) <= after, "{shown} is yet to come at {after:?}");
        }
    }

    /// As when a machine sleeps, or is moved: what the processor counts starts anew, far below what it said before.
    #[test]
    fn a_counter_that_begins_anew_does_not_stop_the_clock() {
        let counter = Counter::new();
        counter.calibrate();
        counter.compared.store(u64::MAX / 4, Ordering::Relaxed);
        counter.ahead.store((u64::MAX / 4).wrapping_neg(), Ordering::Relaxed);
        for _ in 0..10 {
            let before = counter.right();
            assert!(counter.now() + 5_000 >= before, "the clock stands still");
        }
    }
}
