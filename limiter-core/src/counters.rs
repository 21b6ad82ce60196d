//! Counters that many threads count in.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use once_cell::sync::OnceCell;

use crate::{Counts, DecidedBy, Decision};

/// How the calls of a site fared.
///
/// Each thread counts in a stripe of its own: it need not wait for the cache line of another, nor for the processor to see
/// to it that nobody else writes. Threads beyond as many share the last stripes.
pub(crate) struct Counters {
    stripes: OnceCell<Box<Stripes>>,
}

pub(crate) struct Stripes {
    own: [Stripe; OWN],
    shared: [Stripe; SHARED],
}

#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    passed: AtomicU64,
    rejected: AtomicU64,
    waited: AtomicU64,
    degraded: AtomicU64,
}

const OWN: usize = 32;
const SHARED: usize = 8;

impl Counters {
    pub(crate) const fn new() -> Self {
        Self { stripes: OnceCell::new() }
    }

    #[inline]
    pub(crate) fn stripes(&self) -> &Stripes {
        self.stripes.get_or_init(Stripes::boxed)
    }

    pub(crate) fn count(&self, decision: &Decision) {
        let stripes = self.stripes();
        if decision.is_allowed() {
            stripes.count_passed();
            if decision.waits() {
                stripes.count(|stripe| &stripe.waited);
            }
        } else {
            stripes.count(|stripe| &stripe.rejected);
        }
        if decision.decided_by() == DecidedBy::Degraded {
            stripes.count(|stripe| &stripe.degraded);
        }
    }

    pub(crate) fn add_to(&self, mut counts: Counts) -> Counts {
        let stripes =
            self.stripes.get().into_iter().flat_map(|stripes| stripes.own.iter().chain(&stripes.shared));
        for stripe in stripes {
            counts.passed += stripe.passed.load(Ordering::Relaxed);
            counts.rejected += stripe.rejected.load(Ordering::Relaxed);
            counts.waited += stripe.waited.load(Ordering::Relaxed);
            counts.degraded += stripe.degraded.load(Ordering::Relaxed);
        }
        counts
    }
}

impl Stripes {
    /// Counts a call that went at once.
    pub(crate) fn count_passed(&self) {
        self.count(|stripe| &stripe.passed);
    }

    fn count(&self, counter: impl Fn(&Stripe) -> &AtomicU64) {
        let number = thread_number();
        match self.own.get(number) {
            Some(stripe) => count_alone(counter(stripe)),
            None => _ = counter(&self.shared[number % SHARED]).fetch_add(1, Ordering::Relaxed),
        }
    }

    #[cold]
    fn boxed() -> Box<Self> {
        Box::new(Self {
            own: std::array::from_fn(|_| Stripe::default()),
            shared: std::array::from_fn(|_| Stripe::default()),
        })
    }
}

/// Counts where no other thread does.
#[inline]
fn count_alone(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static TAKEN: Taken = Taken::take();
}

/// A thread that has no number yet.
const UNKNOWN: usize = usize::MAX;
/// A thread that is about to end: from now on it shares a stripe.
const ENDING: usize = usize::MAX - 1;

/// A number that no other thread has as long as this one runs, from 0.
fn thread_number() -> usize {
    match NUMBER.get() {
        UNKNOWN => first_number(),
        number => number,
    }
}

fn first_number() -> usize {
    let number = TAKEN.try_with(|taken| taken.0).unwrap_or(ENDING);
    NUMBER.set(number);
    number
}

/// The number of a thread, given back when it ends.
struct Taken(usize);

/// Which numbers are taken.
static NUMBERS: Mutex<Vec<bool>> = Mutex::new(Vec::new());

impl Taken {
    fn take() -> Self {
        let mut taken = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = taken.iter().position(|taken| !taken).unwrap_or_else(|| {
            taken.push(false);
            taken.len() - 1
        });
        taken[number] = true;
        Self(number)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Whatever this thread still calls, somebody else may have its number by then.
        NUMBER.set(ENDING);
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;

    /// More threads at once than there are stripes, and then as many again with the same numbers.
    #[test]
    fn no_call_is_lost() {
        const THREADS: usize = OWN + 2 * SHARED;
        const CALLS: u64 = 1_000;

        let (counters, together) = (Arc::new(Counters::new()), Barrier::new(THREADS));
        for round in 1..=3 {
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        together.wait();
                        for _ in 0..CALLS {
                            counters.stripes().count_passed();
                        }
                        together.wait();
                    });
                }
            });
            let passed = counters.add_to(Counts::default()).passed;
            assert_eq!(passed, round * CALLS * THREADS as u64);
        }
    }

    /// What a thread calls while it ends is counted, and nobody else's count is overwritten.
    #[test]
    fn a_thread_that_ends_shares_a_stripe() {
        struct Last(Arc<Counters>, Arc<AtomicUsize>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.stripes().count_passed();
                self.1.fetch_max(thread_number(), Ordering::Relaxed);
            }
        }
        thread_local! {
            static BEFORE: Cell<Option<Last>> = const { Cell::new(None) };
            static AFTER: Cell<Option<Last>> = const { Cell::new(None) };
        }

        let (counters, number) = (Arc::new(Counters::new()), Arc::<AtomicUsize>::default());
        let last = [(); 2].map(|()| Last(Arc::clone(&counters), Arc::clone(&number)));
        let counted = Arc::clone(&counters);
        let ends = thread::spawn(move || {
            // Nobody says in which order they are dropped: one of them after the number is given back.
            let [before, after] = last;
            BEFORE.set(Some(before));
            counted.stripes().count_passed();
            AFTER.set(Some(after));
        });
        ends.join().unwrap();
        assert_eq!(number.load(Ordering::Relaxed), ENDING);
        assert_eq!(counters.add_to(Counts::default()).passed, 3);
    }
}
