//! Some of the keys of a rule, and their states, behind one lock.
//!
//! A key is removed only when it is idle, that is when its state is as good as a fresh one. Where the table is full of
//! busy keys, new keys go by the one state of the `crowd`. A key that comes while the crowd is busy starts with what the
//! crowd has spent, since it may have been part of it: so nobody gets more than the limit by leaving the crowd.

use hashbrown::HashTable;

use super::stored_key::StoredKey;
use crate::strategy::{self, Room, Terms};

pub(super) struct Shard<S> {
    slots: HashTable<Slot<S>>,
    /// The state of all keys that found no room.
    pub(super) crowd: S,
    /// The newest time seen here: an older one counts as this.
    pub(super) newest: u64,
    /// Where the next sweep begins.
    hand: usize,
    /// Looking through all keys is worth it again from this time on.
    search_after: u64,
    calls: u32,
}

struct Slot<S> {
    key: StoredKey,
    states: S,
}

/// The states of one key, one for each quota: in place where there is one quota, as there mostly is.
pub(super) trait States<T>: AsRef<[T]> + AsMut<[T]> + Send + 'static {
    /// As many, so that the compiler knows how many there are.
    type Terms: AsRef<[Terms]> + Send + Sync;

    fn terms(terms: Box<[Terms]>) -> Self::Terms;

    fn collect(states: impl Iterator<Item = T>) -> Self;

    fn fresh<R: Room<State = T>>(terms: &[Terms]) -> Self
    where
        Self: Sized,
    {
        Self::collect(terms.iter().map(R::fresh))
    }

    /// All of them as one word, where that is possible.
    fn to_word<R: Room<State = T>>(&self) -> Option<u64> {
        None
    }

    fn from_word<R: Room<State = T>>(_: u64) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

impl<T: Send + 'static> States<T> for [T; 1] {
    type Terms = [Terms; 1];

    fn terms(terms: Box<[Terms]>) -> [Terms; 1] {
        [terms[0]]
    }

    #[inline]
    fn to_word<R: Room<State = T>>(&self) -> Option<u64> {
        R::to_word(&self[0])
    }

    #[inline]
    fn from_word<R: Room<State = T>>(word: u64) -> Option<Self> {
        R::from_word(word).map(|state| [state])
    }

    fn collect(mut states: impl Iterator<Item = T>) -> Self {
        [states.next().expect("a rule has at least one quota")]
    }
}

impl<T: Send + 'static> States<T> for Box<[T]> {
    type Terms = Box<[Terms]>;

    fn terms(terms: Box<[Terms]>) -> Box<[Terms]> {
        terms
    }

    fn collect(states: impl Iterator<Item = T>) -> Self {
        states.collect()
    }
}

/// How many places a sweep looks at.
const SWEEP: usize = 32;
/// How many keys a shard may hold without being swept: they may well call again.
const KEPT: usize = 64;
/// For how long, in nanoseconds, an idle key is kept while there is no need of its place: it may well call again.
const GRACE: u64 = 1_000_000_000;
/// In a full shard, all keys are looked through at most so many times in the longest window.
const SEARCHES_PER_WINDOW: u64 = 64;

impl<S> Shard<S> {
    pub(super) fn new<R: Room>(terms: &[Terms]) -> Self
    where
        S: States<R::State>,
    {
        let crowd = S::fresh::<R>(terms);
        Self { slots: HashTable::new(), crowd, newest: 0, hand: 0, search_after: 0, calls: 0 }
    }

    #[inline]
    pub(super) fn find(&mut self, hash: u64, key: StoredKey) -> Option<&mut S> {
        self.slots.find_mut(hash, |slot| slot.key == key).map(|slot| &mut slot.states)
    }

    pub(super) fn insert(&mut self, hash: u64, key: StoredKey, states: S, rehash: impl Fn(StoredKey) -> u64) {
        self.slots.insert_unique(hash, Slot { key, states }, |slot| rehash(slot.key));
    }

    /// Counts a call, and says whether it is one of every so many.
    pub(super) fn counts_to(&mut self, calls: u32) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(calls)
    }

    /// What a key without a place starts with: all permits, or what the crowd has left.
    pub(super) fn first_states<R: Room>(&self, terms: &[Terms]) -> S
    where
        S: States<R::State>,
    {
        let mut states = S::fresh::<R>(terms);
        if !strategy::is_idle::<R>(self.crowd.as_ref(), terms, self.newest) {
            strategy::spend_as::<R>(states.as_mut(), self.crowd.as_ref(), terms, self.newest);
        }
        states
    }

    /// A key has become idle out of turn.
    pub(super) fn search_again(&mut self) {
        self.search_after = 0;
    }

    /// Looks at a few places and removes the idle keys among them. Returns how many that were.
    pub(super) fn sweep<R: Room>(&mut self, terms: &[Terms], rehash: impl Fn(StoredKey) -> u64) -> usize
    where
        S: States<R::State>,
    {
        if self.slots.len() <= KEPT {
            return 0;
        }
        self.look_at::<R>(SWEEP, self.newest.saturating_sub(GRACE), terms, rehash)
    }

    /// Looks at all places and removes all idle keys, unless that was done just before. Returns how many that were.
    pub(super) fn remove_idle<R: Room>(&mut self, terms: &[Terms], rehash: impl Fn(StoredKey) -> u64) -> usize
    where
        S: States<R::State>,
    {
        if self.newest < self.search_after {
            return 0;
        }
        let longest = terms.iter().map(|terms| terms.window).max().unwrap_or_default();
        self.search_after = self.newest + longest.div_ceil(SEARCHES_PER_WINDOW);
        self.look_at::<R>(usize::MAX, self.newest, terms, rehash)
    }

    /// Removes the keys that have been idle since `time`.
    fn look_at<R: Room>(
        &mut self,
        places: usize,
        time: u64,
        terms: &[Terms],
        rehash: impl Fn(StoredKey) -> u64,
    ) -> usize
    where
        S: States<R::State>,
    {
        let (all, before) = (self.slots.num_buckets(), self.slots.len());
        for _ in 0..places.min(all) {
            self.hand = if self.hand + 1 < all { self.hand + 1 } else { 0 };
            if let Ok(slot) = self.slots.get_bucket_entry(self.hand)
                && strategy::is_idle::<R>(slot.get().states.as_ref(), terms, time)
            {
                slot.remove();
            }
        }
        let left = self.slots.len();
        if left < all / 4 {
            self.slots.shrink_to(left + left / 2, |slot| rehash(slot.key));
        }
        before - left
    }
}
