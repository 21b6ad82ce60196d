//! A lock that is mostly held for some nanoseconds.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

use spin::mutex::SpinMutex;

/// Unlike std's, it is given back by a plain store, which spares an atomic exchange where nobody waits. And its guard is one
/// word, which is one register less than that of `spin` alone.
///
/// Who holds it decides one call; now and then it also makes room, which takes up to some hundred microseconds. Others try for
/// a moment, and then let other threads run, one of which may be the one that holds it.
///
/// It has cache lines of its own with what it guards, so that threads at different locks do not slow each other down.
#[repr(align(64))]
pub(super) struct Lock<T>(lock_api::Mutex<SpinMutex<()>, T>);

/// What a lock guards, while it is ours.
pub(super) type Held<'a, T> = lock_api::MutexGuard<'a, SpinMutex<()>, T>;

/// A pause is twice as long as the one before, up to the longest. Who looks all the time takes the cache line away from who
/// holds the lock; who stays away for a while lets it make many calls in a row, which is faster for both.
const FIRST_PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 64;
/// After as many turns of others it sleeps: a thread of a higher priority would else never let the holder run, and schedulers
/// put off who yields often.
const YIELDS: u32 = 10;
const SLEEP: Duration = Duration::from_micros(50);

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(lock_api::Mutex::new(value))
    }

    #[inline]
    pub(super) fn lock(&self) -> Held<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<Held<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn wait(&self) -> Held<'_, T> {
        let (mut pause, mut yields) = (FIRST_PAUSE, 0);
        loop {
            if pause <= LONGEST_PAUSE {
                (0..pause).for_each(|_| spin_loop());
                pause *= 2;
            } else if yields < YIELDS {
                yields += 1;
                thread::yield_now();
            } else {
                thread::sleep(SLEEP);
            }
            // A look does not take the cache line away; an attempt does.
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_take_turns() {
        const THREADS: usize = 8;
        const TURNS: usize = 20_000;

        let lock = Lock::new((0, 0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        let mut both = lock.lock();
                        both.0 += 1;
                        assert_eq!(both.0, both.1 + 1, "somebody else is in here");
                        both.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), (THREADS * TURNS, THREADS * TURNS));
    }

    #[test]
    fn who_waits_long_gets_it_in_the_end() {
        let lock = Lock::new(0);
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        let (started, has_started) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                started.send(()).unwrap();
                *lock.lock() += 1;
            });
            has_started.recv().unwrap();
            // Long enough for the other to be past its tries and its yields on any machine that runs it at all.
            (0..1_000).for_each(|_| thread::yield_now());
            drop(held);
        });
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn a_panic_leaves_it_open() {
        let lock = Lock::new(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("in the middle");
        }));
        assert!(panicked.is_err() && lock.try_lock().is_some());
    }
}
