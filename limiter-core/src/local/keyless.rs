//! The state of calls without a key.

use std::sync::atomic::{AtomicU64, Ordering};

use super::lock::Lock;
use super::shard::States;
use crate::strategy::{Room, Terms};

/// Without a lock where the states fit one word: many threads meet here.
pub(super) enum Keyless<S> {
    Word(Word),
    Locked(Lock<Locked<S>>),
}

pub(super) struct Word {
    states: AtomicU64,
    /// About the newest time seen: a thread may overwrite what another wrote at the same moment. The room does not mind.
    newest: AtomicU64,
}

pub(super) struct Locked<S> {
    states: S,
    /// The newest time seen: an older one counts as this.
    newest: u64,
}

impl<S> Keyless<S> {
    pub(super) fn new<R: Room>(terms: &[Terms]) -> Self
    where
        S: States<R::State>,
    {
        let states = S::fresh::<R>(terms);
        match states.to_word::<R>() {
            Some(word) => Self::Word(Word { states: AtomicU64::new(word), newest: AtomicU64::new(0) }),
            None => Self::Locked(Lock::new(Locked { states, newest: 0 })),
        }
    }

    /// Works on the states; once more, on the newer ones, where somebody else was faster.
    #[inline]
    pub(super) fn with<R: Room, T>(&self, now: u64, work: impl Fn(&mut S, u64) -> T) -> T
    where
        S: States<R::State>,
    {
        match self {
            Self::Word(Word { states, newest: shared_newest }) => {
                let newest = shared_newest.load(Ordering::Relaxed);
                if now > newest {
                    shared_newest.store(now, Ordering::Relaxed);
                }
                let now = now.max(newest);
                let mut old = states.load(Ordering::Relaxed);
                loop {
                    let mut own = S::from_word::<R>(old).expect("it was made of such states");
                    let result = work(&mut own, now);
                    let new = own.to_word::<R>().expect("states of one kind");
                    if new == old {
                        return result;
                    }
                    match states.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => return result,
                        Err(newer) => old = newer,
                    }
                }
            }
            Self::Locked(locked) => {
                let Locked { states, newest } = &mut *locked.lock();
                *newest = now.max(*newest);
                work(states, *newest)
            }
        }
    }
}
