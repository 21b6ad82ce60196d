//! The monotonic clock of the machine.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;

use crate::Clock;

/// The monotonic clock of the machine: the default.
///
/// All of them show one time, which begins when one is first made. Where the processor has a fast counter that can be
/// trusted, it is read, because that takes a third of the time. The operating system's clock is right: the counter is set by it
/// every millisecond. So the two differ by a few microseconds, and by at most a millisecond for a moment where the
/// counter changes its pace, as when a virtual machine moves.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock {
    _private: (),
}

/// A clock that mostly shows its time at a glance.
pub(crate) trait Glance: Clock {
    /// What it says now, and when that was: nothing where that takes more than a few instructions. The two apart, since the first
    /// takes long, and there are things that a processor does meanwhile, if they come in between.
    fn read(&self) -> u64;
    fn time_of(&self, reading: u64) -> Option<u64>;

    #[inline]
    fn at_a_glance(&self) -> Option<u64> {
        self.time_of(self.read())
    }
}

impl Glance for SystemClock {
    #[inline]
    fn read(&self) -> u64 {
        COUNTER.read()
    }

    #[inline]
    fn time_of(&self, reading: u64) -> Option<u64> {
        COUNTER.time_of(reading)
    }
}

static COUNTER: Counter = Counter::new();

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> u64 {
        COUNTER.now()
    }

    fn sleep_until(&self, time: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let until = COUNTER.start().checked_add(Duration::from_nanos(time));
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
    start: OnceCell<Instant>,
    /// How fast the processor counts: [`Pace`], once that is known, if it counts at all; 0 before.
    pace: AtomicU64,
    calibrating: AtomicBool,
    /// The right time less the counter's, when they were last compared; it wraps around.
    ahead: AtomicU64,
    /// The right time when they were last compared.
    compared: AtomicU64,
}

/// How many nanoseconds a count takes, in units of 2^-64 for the fast counters of x86-64: so the upper half of a product is the
/// time, and nothing has to be shifted. Elsewhere counters are slow, and units 2^6 times as large.
#[derive(Clone, Copy, Debug)]
struct Pace(u64);

/// A count takes less than 2 to this power in nanoseconds.
const SLOWNESS: u32 = if IS_INSTRUCTION { 0 } else { 6 };

/// How long the counter is believed, in nanoseconds. It drifts by far less than a thousandth of that.
const BELIEVED: u64 = 1_000_000;
/// A comparison that took longer says little: the thread was interrupted in the middle.
const LONGEST_COMPARISON: u64 = 2_000;

impl Counter {
    const fn new() -> Self {
        Self {
            start: OnceCell::new(),
            pace: AtomicU64::new(0),
            calibrating: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
            // Yet to come, so that the first reading compares.
            compared: AtomicU64::new(u64::MAX / 2),
        }
    }

    fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    #[inline]
    fn now(&'static self) -> u64 {
        self.time_of(self.read()).unwrap_or_else(|| self.at_length())
    }

    #[inline]
    fn read(&self) -> u64 {
        // Where it is no instruction it takes some preparation, and may be in vain.
        if IS_INSTRUCTION || self.pace.load(Ordering::Relaxed) > 0 { counter() } else { 0 }
    }

    /// The time of a reading, if the counter is still believed.
    #[inline]
    fn time_of(&self, reading: u64) -> Option<u64> {
        // At no pace it counts nothing, which is not believed either.
        let pace = Pace(self.pace.load(Ordering::Relaxed));
        // Others may set the two anew between the reading and our looks at them. Where the counter did not jump, old and new ones
        // go together; where it did, they make a time far from `compared`, which is not believed.
        let time = pace.nanos(reading).wrapping_add(self.ahead.load(Ordering::Relaxed));
        let since = time.wrapping_sub(self.compared.load(Ordering::Relaxed));
        (since < BELIEVED).then_some(time)
    }

    /// The right time, by which the counter is set.
    #[cold]
    fn at_length(&'static self) -> u64 {
        let pace = match self.pace.load(Ordering::Relaxed) {
            0 => return self.without_counter(),
            known => Pace(known),
        };
        let before = pace.nanos(counter());
        let right = self.right();
        let after = pace.nanos(counter());
        let took = after.wrapping_sub(before);
        // A counter that stands still is not believed.
        if 0 < took && took <= LONGEST_COMPARISON {
            // By the later reading, so that the counter shows no time that is yet to come.
            self.ahead.store(right.wrapping_sub(after), Ordering::Relaxed);
            self.compared.store(right, Ordering::Relaxed);
        }
        right
    }

    /// The time as long as nobody knows how fast the counter runs, or where there is none to be trusted.
    fn without_counter(&'static self) -> u64 {
        // Finding out takes a millisecond, on a busy machine up to 200, so nobody waits for it; where no thread can be had,
        // the system's clock goes on alone.
        if !self.calibrating.swap(true, Ordering::Relaxed) {
            let thread = std::thread::Builder::new().name("limiter-clock".to_owned());
            let _ = thread.spawn(|| self.calibrate());
        }
        self.right()
    }

    fn calibrate(&self) {
        if let Some(Pace(pace)) = Pace::measured() {
            self.pace.store(pace, Ordering::Relaxed);
        }
    }

    /// The time of the operating system.
    fn right(&self) -> u64 {
        let elapsed = self.start().elapsed();
        // 584 years of nanoseconds fit.
        elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
    }
}

impl Pace {
    /// That of the processor's counter, if it can be trusted.
    fn measured() -> Option<Self> {
        let clock = quanta::Clock::new();
        let (before, trusted, after) = (counter(), clock.raw(), counter());
        // Else it reads something else, because the counter changes its pace, or stops.
        let is_trusted = before <= trusted && trusted <= after;
        Self::of(clock.delta_as_nanos(0, 1 << 32)).filter(|_| is_trusted)
    }

    /// That of a counter that takes so many nanoseconds to count to 2^32, unless it is too slow.
    fn of(nanos: u64) -> Option<Self> {
        (nanos < 1 << (32 + SLOWNESS)).then_some(Self(nanos << (32 - SLOWNESS)))
    }

    /// Nanoseconds since the counter began.
    #[inline]
    fn nanos(self, reading: u64) -> u64 {
        ((u128::from(reading << SLOWNESS) * u128::from(self.0)) >> 64) as u64
    }
}

/// Whether reading the counter is one instruction, which needs no preparation.
const IS_INSTRUCTION: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// The counter of the processor, which `quanta` would read by a call: without that, a decision takes 3 to 8% less.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn counter() -> u64 {
    #[expect(unsafe_code, reason = "a measured gain")]
    // SAFETY: every processor of this architecture has the instruction, and it touches no memory. (Where the system forbids
    // it, the process ends, as it would in `quanta`.)
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn counter() -> u64 {
    static CLOCK: once_cell::sync::Lazy<quanta::Clock> = once_cell::sync::Lazy::new(quanta::Clock::new);
    CLOCK.raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that does not find out by itself how fast it runs.
    fn counter() -> &'static Counter {
        Box::leak(Box::new(Counter { calibrating: AtomicBool::new(true), ..Counter::new() }))
    }

    fn knows_its_pace(counter: &Counter) -> bool {
        counter.pace.load(Ordering::Relaxed) > 0
    }

    /// Whatever interrupts this thread, the clock's time lies between those of the operating system before and after.
    #[test]
    fn it_shows_the_time_of_the_operating_system() {
        const DRIFT: u64 = 5_000;

        let counter = counter();
        let (start, mut readings) = (Instant::now(), 0_u64);
        while start.elapsed() < Duration::from_millis(300) || readings < 3_000 {
            let (before, shown, after) = (counter.right(), counter.now(), counter.right());
            assert!(before <= shown + DRIFT && shown <= after + DRIFT, "{before} <= {shown} <= {after}");
            readings += 1;
            // At first there is no counter, and the same must hold.
            if readings == 1_000 {
                counter.calibrate();
            }
        }
        assert_eq!(knows_its_pace(counter), Pace::measured().is_some(), "the counter is not read");
    }

    #[test]
    fn a_counter_that_is_too_slow_is_not_read() {
        const SECOND: u64 = 1_000_000_000;
        let Pace(half) = Pace::of(1 << (31 + SLOWNESS)).unwrap();
        assert_eq!(half, 1 << 63, "half of what a counter may take at the most");
        assert!(Pace::of(1 << (32 + SLOWNESS)).is_none() && Pace::of(u64::MAX).is_none());
        // 2.6 GHz, as of a server.
        let Pace(pace) = Pace::of((SECOND << 32) / (26 * SECOND / 10)).unwrap();
        let shown = (u128::from((26 * SECOND / 10) << SLOWNESS) * u128::from(pace)) >> 64;
        assert!(shown.abs_diff(u128::from(SECOND)) <= 2, "{shown} is not a second");
    }

    /// As when a machine is moved or sleeps: the counter has gone back since it was set, or far ahead.
    #[test]
    fn a_counter_that_jumps_is_set_right() {
        const HOUR: u64 = 3_600_000_000_000;

        let counter = counter();
        counter.calibrate();
        for jump in [HOUR, HOUR.wrapping_neg(), 2 * BELIEVED, (2 * BELIEVED).wrapping_neg()] {
            // Some machines have none that can be trusted.
            while knows_its_pace(counter) && counter.time_of(counter.read()).is_none() {
                counter.at_length();
            }
            counter.ahead.fetch_add(jump, Ordering::Relaxed);
            assert_eq!(counter.time_of(counter.read()), None, "after a jump of {jump}");
            let (before, shown, after) = (counter.right(), counter.now(), counter.right());
            assert!(before <= shown && shown <= after, "{before} <= {shown} <= {after}");
        }
    }

    /// Threads write the two at once, and may be held up between them, also while the counter jumps.
    #[test]
    fn no_mixture_of_two_comparisons_shows_a_wrong_time() {
        const HOUR: u64 = 3_600_000_000_000;

        let (start, jumps) = (1_000 * HOUR, [0, 1, BELIEVED / 2, 2 * BELIEVED, HOUR, 999 * HOUR]);
        for jump in jumps.into_iter().flat_map(|jump| [jump, jump.wrapping_neg()]) {
            // Compared before the jump and after it; both may still be written, and the reading may be of either time.
            let (early, late) = (start, start + 1_000);
            let aheads = [0, jump.wrapping_neg()];
            for (ahead, compared) in aheads.into_iter().flat_map(|ahead| [(ahead, early), (ahead, late)]) {
                for (right, reading) in [(late, late), (late + 10, (late + 10).wrapping_add(jump))] {
                    let counter = counter();
                    // A count is half a nanosecond.
                    counter.pace.store(Pace::of(1 << 31).unwrap().0, Ordering::Relaxed);
                    counter.ahead.store(ahead, Ordering::Relaxed);
                    counter.compared.store(compared, Ordering::Relaxed);
                    let Some(shown) = counter.time_of(2 * reading) else { continue };
                    assert!(shown.abs_diff(right) <= BELIEVED, "{shown} at {right}, after a jump of {jump}");
                }
            }
        }
    }

    #[test]
    fn nobody_waits_for_the_counter() {
        let counter: &'static Counter = Box::leak(Box::new(Counter::new()));
        let before = counter.right();
        assert!(counter.now() >= before);
        // Some machines have none that can be trusted; there the system's clock goes on alone.
        while Pace::measured().is_some() && !knows_its_pace(counter) {
            std::thread::yield_now();
        }
    }
}
