//! Where the time of a local limiter comes from.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A clock that a [`LocalLimiter`](crate::LocalLimiter) can go by.
///
/// Time is counted in nanoseconds from any fixed point. A clock should never run backwards; where one does, an older
/// time counts as the newest one seen.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> u64;

    /// Ends when the clock says `time`, or later.
    fn sleep_until(&self, time: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A clock that stands still until it is told to move on, so that limits can be tested without sleeping.
///
/// Its clones show the same time. Calls that wait for their turn go on when the clock is advanced to it.
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{LocalLimiter, ManualClock, Quota, Rule, Strategy};
/// use std::time::Duration;
///
/// let rule = Rule::new("orders", Strategy::SlidingLog, Quota::new(1, Duration::from_secs(4)));
/// let clock = ManualClock::new();
/// let limiter = LocalLimiter::builder().clock(clock.clone()).build();
///
/// assert!(limiter.check_sync(&rule, "alice", 1).is_allowed());
/// assert!(!limiter.check_sync(&rule, "alice", 1).is_allowed());
/// clock.advance(Duration::from_secs(4));
/// assert!(limiter.check_sync(&rule, "alice", 1).is_allowed());
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    now: AtomicU64,
    sleepers: Mutex<Sleepers>,
}

#[derive(Default)]
struct Sleepers {
    /// Until when, and whom to wake.
    list: HashMap<u64, (u64, Waker)>,
    next_id: u64,
}

impl ManualClock {
    /// A clock that stands still.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock, and wakes the calls whose turn has come.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let mut sleepers = self.sleepers();
        let now = self.now().saturating_add(by);
        self.shared.now.store(now, Ordering::Release);
        let due: Vec<_> = sleepers.list.extract_if(|_, (time, _)| *time <= now).collect();
        drop(sleepers);
        for (_, (_, waker)) in due {
            waker.wake();
        }
    }

    /// How far the clock has been advanced in all.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now())
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.shared.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.shared.now.load(Ordering::Acquire)
    }

    fn sleep_until(&self, time: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let id = {
            let mut sleepers = self.sleepers();
            sleepers.next_id += 1;
            sleepers.next_id
        };
        Box::pin(ManualSleep { clock: self.clone(), time, id })
    }
}

struct ManualSleep {
    clock: ManualClock,
    time: u64,
    id: u64,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The lock is taken first, so that the clock cannot move between the look and the entry in the list.
        let mut sleepers = self.clock.sleepers();
        if self.clock.now() >= self.time {
            return Poll::Ready(());
        }
        sleepers.list.insert(self.id, (self.time, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        self.clock.sleepers().list.remove(&self.id);
    }
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ManualClock({:?})", self.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A task that only counts how often it was woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn finds_ready(self: &Arc<Self>, sleep: &mut Sleep) -> bool {
            let waker = Waker::from(Arc::clone(self));
            sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        }

        fn woken(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn waiting(clock: &ManualClock) -> usize {
        clock.sleepers().list.len()
    }

    #[test]
    fn all_who_wait_for_one_time_are_woken_then_and_not_before() {
        let clock = ManualClock::new();
        let tasks = [(); 3].map(|()| Arc::<Task>::default());
        let mut sleeps = [100, 100, 101].map(|time| clock.sleep_until(time));
        for (task, sleep) in tasks.iter().zip(&mut sleeps) {
            assert!(!task.finds_ready(sleep));
        }
        clock.advance(Duration::from_nanos(99));
        assert_eq!(tasks.each_ref().map(|task| task.woken()), [0, 0, 0]);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(tasks.each_ref().map(|task| task.woken()), [1, 1, 0]);
        let ready = tasks.iter().zip(&mut sleeps).map(|(task, sleep)| task.finds_ready(sleep));
        assert_eq!(ready.collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn a_sleep_leaves_nothing_behind() {
        let clock = ManualClock::new();
        let task = Arc::<Task>::default();
        let mut sleeps = [10, 20, 20].map(|time| clock.sleep_until(time));
        for sleep in &mut sleeps {
            assert!(!task.finds_ready(sleep));
        }
        assert_eq!(waiting(&clock), 3);
        let [finished, dropped, kept] = sleeps;
        clock.advance(Duration::from_nanos(10));
        assert_eq!(waiting(&clock), 2, "the finished one is still there");
        drop((finished, dropped));
        assert_eq!(waiting(&clock), 1, "only the one that still waits is in the list");
        drop(kept);
        assert_eq!(waiting(&clock), 0);
        clock.advance(Duration::from_nanos(10));
        assert_eq!(task.woken(), 1, "nobody is woken for a sleep that is gone");
    }

    #[test]
    fn a_sleep_that_moved_to_another_task_wakes_that_one() {
        let clock = ManualClock::new();
        let [first, second] = [(); 2].map(|()| Arc::<Task>::default());
        let mut sleep = clock.sleep_until(10);
        assert!(!first.finds_ready(&mut sleep) && !second.finds_ready(&mut sleep));
        assert_eq!(waiting(&clock), 1, "it waits once, however often it is asked");
        clock.advance(Duration::from_nanos(10));
        assert_eq!((first.woken(), second.woken()), (0, 1));
        assert!(second.finds_ready(&mut sleep));
    }
}
