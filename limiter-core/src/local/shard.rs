//! Some of the keys of a rule, and their states, behind one lock.
//!
//! A key is removed only when it is idle, that is when its state is as good as a fresh one.

use super::shared::Tally;
use super::slots::{Secret, Slots};
use crate::stored_key::StoredKey;
use crate::strategy::{self, Room, Terms};

pub(super) struct Shard<S> {
    slots: Slots<S>,
    /// The newest time seen here: an older one counts as this.
    newest: u64,
    /// Until this time the table need not be looked through for idle keys.
    pub(super) sweep_after: u64,
    pub(super) tally: Tally,
}

/// The states of one key, one for each quota: in place where there is one quota, as there mostly is.
pub(crate) trait States<T>: AsRef<[T]> + AsMut<[T]> + Default + Send + 'static {
    /// As many, so that the compiler knows how many there are.
    type Terms: AsRef<[Terms]> + Clone + Send + Sync;

    fn terms(terms: Box<[Terms]>) -> Self::Terms;

    fn collect(states: impl Iterator<Item = T>) -> Self;

    fn fresh<R: Room<State = T>>(terms: &[Terms]) -> Self
    where
        Self: Sized,
    {
        Self::collect(terms.iter().map(R::fresh))
    }
}

impl<T: Default + Send + 'static> States<T> for [T; 1] {
    type Terms = [Terms; 1];

    fn terms(terms: Box<[Terms]>) -> [Terms; 1] {
        [terms[0]]
    }

    fn collect(mut states: impl Iterator<Item = T>) -> Self {
        [states.next().expect("a rule has at least one quota")]
    }
}

impl<T: Default + Send + 'static> States<T> for Box<[T]> {
    type Terms = Box<[Terms]>;

    fn terms(terms: Box<[Terms]>) -> Box<[Terms]> {
        terms
    }

    fn collect(states: impl Iterator<Item = T>) -> Self {
        states.collect()
    }
}

/// How many buckets a sweep looks at.
const SWEEP: usize = 25;
/// For how long, in nanoseconds, an idle key is kept while there is no need of its place: it may well call again.
const GRACE: u64 = 1_000_000_000;

impl<S: Default> Shard<S> {
    pub(super) fn new() -> Self {
        Self { slots: Slots::new(), newest: 0, sweep_after: 0, tally: Tally::default() }
    }

    #[inline]
    pub(super) fn find_at_home(&mut self, hash: u64, key: StoredKey) -> Option<&mut S> {
        self.slots.find_at_home(hash, key)
    }

    #[inline]
    pub(super) fn find(&mut self, hash: u64, key: StoredKey) -> Option<&mut S> {
        self.slots.find(hash, key)
    }

    pub(super) fn insert(&mut self, secret: &Secret, key: StoredKey, states: S) {
        self.slots.insert(secret, key, states);
    }

    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// From now on, no call here is earlier.
    #[inline]
    pub(super) fn set_newest(&mut self, time: u64) {
        self.newest = time;
    }

    /// The time of a call that came at `now`.
    #[inline]
    pub(super) fn time_of(&self, now: u64) -> u64 {
        now.max(self.newest)
    }

    /// The time of a call that came at `now`, from which others go on.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) -> u64 {
        self.newest = self.time_of(now);
        self.newest
    }

    /// Looks at a few keys and removes those that have been idle for a while. Returns how many that were.
    pub(super) fn sweep<R: Room>(&mut self, now: u64, terms: &[Terms], secret: &Secret) -> usize
    where
        S: States<R::State>,
    {
        let since = self.advance(now).saturating_sub(GRACE);
        self.slots.remove_some(SWEEP, secret, |states| strategy::is_idle::<R>(states.as_ref(), terms, since))
    }

    /// Looks at all keys and removes those that are idle. Returns how many that were.
    pub(super) fn remove_idle<R: Room>(&mut self, now: u64, terms: &[Terms], secret: &Secret) -> usize
    where
        S: States<R::State>,
    {
        let now = self.advance(now);
        self.slots.remove_all(secret, |states| strategy::is_idle::<R>(states.as_ref(), terms, now))
    }
}
