//! The keys of one rule, and their states.
//!
//! Keys are spread over shards, each with a lock of its own. A key is removed only when it is idle, that is when its
//! state is as good as a fresh one; a few keys are looked at for that with every call that brings a new key, and now and
//! then with others. Where the table is full of busy keys, a new key goes by the one state of the `crowd`. Once there is
//! room for it, it starts with a copy of that state, so that nothing it took with the crowd is forgotten.

use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};
use once_cell::sync::OnceCell;

use super::stored_key::{StoredKey, digest};
use crate::strategy::{self, Question, Room, Terms, Visitor};
use crate::{Decision, Rule};

/// The table of a rule, whatever its strategy.
pub(super) trait AnyTable: Send + Sync {
    fn decide(&self, key: &[u8], question: Question) -> Decision;
    fn look(&self, key: &[u8], now: u64) -> Decision;
    fn forget(&self, key: &[u8]);
}

/// A table for `rule` that holds at most `max_keys` keys.
pub(super) fn of(rule: &Rule, max_keys: usize) -> Box<dyn AnyTable> {
    rule.strategy().enter(Build { rule, max_keys })
}

struct Build<'a> {
    rule: &'a Rule,
    max_keys: usize,
}

impl Visitor for Build<'_> {
    type Output = Box<dyn AnyTable>;

    fn visit<R: Room>(self) -> Box<dyn AnyTable> {
        let terms = Terms::of(self.rule);
        match terms.len() {
            1 => Box::new(Table::<R, [R::State; 1]>::new(terms, self.max_keys)),
            _ => Box::new(Table::<R, Box<[R::State]>>::new(terms, self.max_keys)),
        }
    }
}

/// The states of one key, one for each quota: in place where there is one quota, as there mostly is.
trait States<S>: AsRef<[S]> + AsMut<[S]> + Clone + Send + 'static {
    fn collect(states: impl Iterator<Item = S>) -> Self;
}

impl<S: Clone + Send + 'static> States<S> for [S; 1] {
    fn collect(mut states: impl Iterator<Item = S>) -> Self {
        [states.next().expect("a rule has at least one quota")]
    }
}

impl<S: Clone + Send + 'static> States<S> for Box<[S]> {
    fn collect(states: impl Iterator<Item = S>) -> Self {
        states.collect()
    }
}

struct Table<R, C> {
    terms: Box<[Terms]>,
    max_keys: usize,
    /// How many keys all shards hold together, or are about to.
    keys: AtomicUsize,
    shards: OnceCell<Box<[Shard<C>]>>,
    hasher: DefaultHashBuilder,
    /// For calls without a key.
    keyless: Mutex<Lone<C>>,
    /// For keys that find no room.
    crowd: Mutex<Lone<C>>,
    /// Whether the crowd's state may be other than fresh. Only changed under the crowd's lock.
    crowded: AtomicBool,
    /// Which shard is asked next whether it has idle keys, when another has none.
    helper: AtomicUsize,
    room: PhantomData<fn() -> R>,
}

/// A shard has cache lines of its own, so that threads in different shards do not slow each other down.
#[repr(align(128))]
struct Shard<C>(Mutex<Keys<C>>);

struct Keys<C> {
    slots: HashTable<Slot<C>>,
    /// Where the next look for idle keys begins.
    hand: usize,
    calls: u32,
    /// The newest time seen here: an older one counts as this.
    newest: u64,
}

struct Slot<C> {
    key: StoredKey,
    states: C,
}

struct Lone<C> {
    states: C,
    newest: u64,
}

impl<C> Lone<C> {
    fn decide<R: Room>(&mut self, terms: &[Terms], question: Question) -> Decision
    where
        C: States<R::State>,
    {
        self.newest = self.newest.max(question.now);
        strategy::decide::<R>(self.states.as_mut(), terms, Question { now: self.newest, ..question })
    }
}

/// About how many keys a shard is meant for: few enough to grow without a pause that anybody notices.
const SHARD: usize = 16_384;
const MOST_SHARDS: usize = 1024;
/// How many places a call that brings a new key looks at for idle ones, with room left and without.
const SWEEP: usize = 4;
const LONG_SWEEP: usize = 64;
/// Every so many calls of known keys, some places are looked at as well.
const CALLS_PER_SWEEP: u32 = 16;
/// How many keys a shard may hold without being looked through.
const KEPT: usize = 64;

impl<R: Room, C: States<R::State>> Table<R, C> {
    fn new(terms: Box<[Terms]>, max_keys: usize) -> Self {
        let lone = || Mutex::new(Lone { states: fresh::<R, C>(&terms), newest: 0 });
        Self {
            keyless: lone(),
            crowd: lone(),
            crowded: AtomicBool::new(false),
            helper: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            shards: OnceCell::new(),
            hasher: DefaultHashBuilder::default(),
            room: PhantomData,
            terms,
            max_keys,
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    fn shards(&self) -> &[Shard<C>] {
        self.shards.get_or_init(|| {
            let count = (self.max_keys / SHARD).next_power_of_two().min(MOST_SHARDS);
            let keys = || Keys { slots: HashTable::new(), hand: 0, calls: 0, newest: 0 };
            (0..count).map(|_| Shard(Mutex::new(keys()))).collect()
        })
    }

    /// The shard of a key, by the high bits of its hash: the low ones place it within the shard.
    fn shard(&self, hash: u64) -> usize {
        let high = (hash >> 48) as usize;
        high & (self.shards().len() - 1)
    }

    /// Makes room for one more key, as far as that is possible without hurting anybody.
    fn reserve(&self, home: usize, keys: &mut Keys<C>) -> bool {
        let reserved = || {
            let more = |keys| (keys < self.max_keys).then_some(keys + 1);
            self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        };
        if reserved() {
            self.sweep_now_and_then(keys);
            return true;
        }
        if self.sweep(keys, LONG_SWEEP) == 0 {
            // All are busy here. Another shard may have idle ones; it is not waited for, so nobody can deadlock.
            let helper = self.helper.fetch_add(1, Ordering::Relaxed) % self.shards().len();
            if helper != home
                && let Ok(mut helper) = self.shards()[helper].0.try_lock()
            {
                helper.newest = helper.newest.max(keys.newest);
                self.sweep(&mut helper, LONG_SWEEP);
            }
        }
        reserved()
    }

    /// Gives idle keys back while there is no hurry. A few are kept: they may well call again.
    fn sweep_now_and_then(&self, keys: &mut Keys<C>) {
        if keys.slots.len() > KEPT {
            self.sweep(keys, SWEEP);
        }
    }

    /// Looks at `places` places and removes the idle keys among them. Returns how many that were.
    fn sweep(&self, keys: &mut Keys<C>, places: usize) -> usize {
        let all = keys.slots.num_buckets();
        let before = keys.slots.len();
        for _ in 0..places.min(all) {
            keys.hand = if keys.hand + 1 < all { keys.hand + 1 } else { 0 };
            if let Ok(slot) = keys.slots.get_bucket_entry(keys.hand)
                && strategy::is_idle::<R>(slot.get().states.as_ref(), &self.terms, keys.newest)
            {
                slot.remove();
            }
        }
        let removed = before - keys.slots.len();
        if removed > 0 {
            self.keys.fetch_sub(removed, Ordering::Relaxed);
            let left = keys.slots.len();
            if left < all / 4 {
                keys.slots.shrink_to(left + left / 2, |slot| self.hash(slot.key.as_bytes()));
            }
        }
        removed
    }

    /// What a key starts with: fresh states, or a copy of the crowd's, to which it may have belonged.
    fn first_states(&self, now: u64) -> C {
        if self.crowded.load(Ordering::Relaxed) {
            let crowd = lock(&self.crowd);
            if !strategy::is_idle::<R>(crowd.states.as_ref(), &self.terms, crowd.newest.max(now)) {
                return crowd.states.clone();
            }
            self.crowded.store(false, Ordering::Relaxed);
        }
        fresh::<R, C>(&self.terms)
    }

    fn decide_in_crowd(&self, question: Question) -> Decision {
        let mut crowd = lock(&self.crowd);
        self.crowded.store(true, Ordering::Relaxed);
        crowd.decide::<R>(&self.terms, question)
    }
}

impl<R: Room, C: States<R::State>> AnyTable for Table<R, C> {
    fn decide(&self, key: &[u8], question: Question) -> Decision {
        if key.is_empty() {
            return lock(&self.keyless).decide::<R>(&self.terms, question);
        }
        with_bounded(key, |key| {
            let hash = self.hash(key);
            let home = self.shard(hash);
            let mut guard = lock(&self.shards()[home].0);
            let keys = &mut *guard;
            keys.newest = keys.newest.max(question.now);
            keys.calls = keys.calls.wrapping_add(1);
            let question = Question { now: keys.newest, ..question };

            if keys.calls.is_multiple_of(CALLS_PER_SWEEP) {
                self.sweep_now_and_then(keys);
            }
            if let Some(slot) = keys.slots.find_mut(hash, |slot| slot.key.as_bytes() == key) {
                return strategy::decide::<R>(slot.states.as_mut(), &self.terms, question);
            }
            if !self.reserve(home, keys) {
                return self.decide_in_crowd(question);
            }
            let slot = Slot { key: StoredKey::new(key), states: self.first_states(question.now) };
            let mut slot = keys.slots.insert_unique(hash, slot, |slot| self.hash(slot.key.as_bytes()));
            strategy::decide::<R>(slot.get_mut().states.as_mut(), &self.terms, question)
        })
    }

    fn look(&self, key: &[u8], now: u64) -> Decision {
        let look = |states: &C, now| strategy::look::<R>(states.as_ref(), &self.terms, now);
        if key.is_empty() {
            let keyless = lock(&self.keyless);
            return look(&keyless.states, keyless.newest.max(now));
        }
        with_bounded(key, |key| {
            let hash = self.hash(key);
            let keys = lock(&self.shards()[self.shard(hash)].0);
            let now = keys.newest.max(now);
            match keys.slots.find(hash, |slot| slot.key.as_bytes() == key) {
                Some(slot) => look(&slot.states, now),
                None => look(&self.first_states(now), now),
            }
        })
    }

    fn forget(&self, key: &[u8]) {
        if key.is_empty() {
            lock(&self.keyless).states = fresh::<R, C>(&self.terms);
            return;
        }
        with_bounded(key, |key| {
            let hash = self.hash(key);
            let mut keys = lock(&self.shards()[self.shard(hash)].0);
            // It keeps its place: without one it might have to go with the crowd.
            if let Some(slot) = keys.slots.find_mut(hash, |slot| slot.key.as_bytes() == key) {
                slot.states = fresh::<R, C>(&self.terms);
            }
        });
    }
}

fn fresh<R: Room, C: States<R::State>>(terms: &[Terms]) -> C {
    C::collect(terms.iter().map(R::fresh))
}

/// Hands on a key that is no longer than a table holds.
fn with_bounded<T>(key: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    if key.len() > StoredKey::LONGEST { then(&digest(key)) } else { then(key) }
}

/// A panic in the middle of a decision is a bug of ours; the state is numbers only, and stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
