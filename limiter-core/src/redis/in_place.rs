//! Futures that wake each other within one task, without the help of the runtime.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled again at once where it was woken while it was polled.
///
/// A runtime puts a task that wakes itself behind all others, and wakes another thread that may take it over. Both take
/// longer than what there is to do.
pub(super) struct InPlace<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// How the future is woken.
struct Bell {
    state: AtomicU8,
    /// The task's.
    task: Mutex<Waker>,
}

/// Nobody polls the future; who wakes it wakes the task.
const OUTSIDE: u8 = 0;
/// It is polled now.
const INSIDE: u8 = 1;
/// It is polled now, and again after that.
const AGAIN: u8 = 2;

impl<F: Future> InPlace<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Arc::new(Bell { state: AtomicU8::new(OUTSIDE), task: Mutex::new(Waker::noop().clone()) });
        Self { future: Box::pin(future), waker: Arc::clone(&bell).into(), bell }
    }
}

impl<F: Future> Future for InPlace<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, bell, waker } = &mut *self;
        bell.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        loop {
            // What was done before a wake that is overwritten here is seen by the poll.
            bell.state.swap(INSIDE, Ordering::AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let outside =
                bell.state.compare_exchange(INSIDE, OUTSIDE, Ordering::AcqRel, Ordering::Acquire).is_ok();
            if outside {
                return Poll::Pending;
            }
            // Nothing is ready for a task that has done much, until it has been elsewhere.
            if !tokio::task::coop::has_budget_remaining() {
                bell.state.store(OUTSIDE, Ordering::Release);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Whoever polls sees it before it goes.
        let inside = |state| (state != OUTSIDE).then_some(AGAIN);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, inside).is_err() {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_wakes_itself_goes_on_at_once() {
        let task = Arc::new(Task::default());
        let mut polls = 0;
        let mut future = InPlace::new(poll_fn(|context| {
            polls += 1;
            if polls < 5 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(polls)
        }));
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&Arc::clone(&task).into()));
        assert_eq!(polled, Poll::Ready(5));
        assert_eq!(task.0.load(Ordering::Relaxed), 0, "the task need not be woken");
    }

    #[test]
    fn who_comes_later_wakes_the_task() {
        let [first, second] = [(); 2].map(|()| Arc::new(Task::default()));
        let mut waker = None;
        let mut future = InPlace::new(poll_fn(|context| {
            waker = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        // Polled by another task in the end, as when it has moved.
        for task in [&first, &second] {
            assert!(
                Pin::new(&mut future).poll(&mut Context::from_waker(&Arc::clone(task).into())).is_pending()
            );
        }
        drop(future);
        waker.expect("it was polled").wake();
        assert_eq!([first, second].map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
    }

    /// A wake comes at any moment of a poll, from another thread, and what was done before it is seen by the next.
    #[test]
    fn no_wake_is_lost() {
        const ROUNDS: u32 = 1_000_000;

        let (done, seen) = (AtomicU32::new(0), AtomicU32::new(0));
        let announced = Mutex::new(None);
        let mut is_new = true;
        let future = InPlace::new(poll_fn(|context| {
            // Only once: a lock, or any other exchange, would put in order what has to be in order without it.
            if std::mem::take(&mut is_new) {
                *announced.lock().unwrap() = Some(context.waker().clone());
            }
            let now = done.load(Ordering::Acquire);
            if seen.swap(now, Ordering::Release) != now {
                // As by what one thing that is ready wakes.
                context.waker().wake_by_ref();
            }
            if now == ROUNDS { Poll::Ready(()) } else { Poll::Pending }
        }));
        thread::scope(|scope| {
            scope.spawn(|| {
                let waker = loop {
                    if let Some(waker) = announced.lock().unwrap().clone() {
                        break waker;
                    }
                    thread::yield_now();
                };
                for round in 1..=ROUNDS {
                    done.store(round, Ordering::Release);
                    waker.wake_by_ref();
                    // Nobody wakes it again before it has seen this.
                    let start = std::time::Instant::now();
                    while seen.load(Ordering::Acquire) != round {
                        std::hint::spin_loop();
                        if start.elapsed() > std::time::Duration::from_secs(60) {
                            done.store(ROUNDS, Ordering::Release);
                            waker.wake_by_ref();
                            panic!("it slept through wake {round}");
                        }
                    }
                }
            });
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(future);
        });
    }

    /// Also where a runtime has no other way to put it off than to wake it.
    #[test]
    fn it_comes_back_to_the_runtime() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .expect("a runtime");
        let busy = InPlace::new(async {
            loop {
                tokio::task::consume_budget().await;
            }
        });
        let short = std::time::Duration::from_millis(10);
        assert!(runtime.block_on(async { tokio::time::timeout(short, busy).await }).is_err());
    }
}
