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
    /// The newest time seen, by those who go by it.
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

    /// Works on the states at `now`, or at the newest time seen.
    pub(super) fn with<R: Room, T>(&self, now: u64, work: impl Fn(&mut S, u64) -> T) -> T
    where
        S: States<R::State>,
    {
        match self {
            Self::Word(held) => {
                let now = now.max(held.newest.fetch_max(now, Ordering::Relaxed));
                held.update::<R, S, T>(held.states.load(Ordering::Relaxed), |states| work(states, now))
            }
            Self::Locked(locked) => {
                let mut locked = locked.lock();
                let (states, now) = locked.at(now);
                work(states, now)
            }
        }
    }

    /// Whether `goes` lets a call go at `now`, as far as that is known at once. A room whose states are one word does not mind
    /// that another was there at a newer time.
    #[inline]
    pub(super) fn goes<R: Room>(&self, now: u64, goes: impl Fn(&mut S, u64) -> bool) -> bool
    where
        S: States<R::State>,
    {
        match self {
            Self::Word(held) => {
                held.update::<R, S, bool>(held.states.load(Ordering::Relaxed), |states| goes(states, now))
            }
            Self::Locked(locked) => locked.try_lock().is_some_and(|mut locked| {
                let (states, now) = locked.at(now);
                goes(states, now)
            }),
        }
    }
}

impl<S> Locked<S> {
    #[inline]
    fn at(&mut self, now: u64) -> (&mut S, u64) {
        self.newest = now.max(self.newest);
        (&mut self.states, self.newest)
    }
}

impl Word {
    /// Works on the states; once more, on the newer ones, where somebody else was faster.
    #[inline]
    fn update<R: Room, S: States<R::State>, T>(&self, mut old: u64, work: impl Fn(&mut S) -> T) -> T {
        loop {
            let mut states = S::from_word::<R>(old).expect("it was made of such states");
            let result = work(&mut states);
            let new = states.to_word::<R>().expect("states of one kind");
            if new == old {
                return result;
            }
            match self.states.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(newer) => old = newer,
            }
        }
    }
}
