//! The keys of one rule, spread over shards.

use std::hash::BuildHasher as _;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::DefaultHashBuilder;
use once_cell::sync::OnceCell;

use super::keyless::Keyless;
use super::shard::{Shard, States};
use super::stored_key::StoredKey;
use crate::strategy::{self, Question, Room, Terms, Visitor, token_bucket};
use crate::{Decision, Key, Rule};

/// The table of a rule, whatever its strategy.
pub(super) trait AnyTable: Send + Sync {
    /// [`decide`](Self::decide), which says nothing where the call goes now.
    fn pass(&self, key: &Key, question: Question) -> Option<Decision>;
    fn decide(&self, key: &Key, question: Question) -> Decision;
    fn look(&self, key: &Key, now: u64) -> Decision;
    fn forget(&self, key: &Key);
    fn live_keys(&self) -> usize;
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
        if R::HAS_BURST && terms.iter().all(token_bucket::whole::Room::suits) {
            self.build::<token_bucket::whole::Room>(terms)
        } else {
            self.build::<R>(terms)
        }
    }
}

impl Build<'_> {
    fn build<R: Room>(self, terms: Box<[Terms]>) -> Box<dyn AnyTable> {
        match terms.len() {
            1 => Box::new(Table::<R, [R::State; 1]>::new(terms, self.max_keys)),
            _ => Box::new(Table::<R, Box<[R::State]>>::new(terms, self.max_keys)),
        }
    }
}

struct Table<R: Room, S: States<R::State>> {
    terms: S::Terms,
    max_keys: usize,
    /// How many keys all shards hold together, or are about to.
    keys: AtomicUsize,
    shards: OnceCell<Box<[Padded<S>]>>,
    /// Keyed at random: keys are chosen by strangers, who must not be able to choose them into one place.
    hasher: DefaultHashBuilder,
    /// Which shard is looked through next.
    next_swept: AtomicUsize,
    /// For calls without a key.
    keyless: Keyless<S>,
    room: PhantomData<fn() -> R>,
}

/// A shard has cache lines of its own, so that threads in different shards do not slow each other down.
#[repr(align(128))]
struct Padded<S>(Mutex<Shard<S>>);

/// About how many keys a shard is meant for: few enough to grow without a pause that anybody notices.
const KEYS_IN_A_SHARD: usize = 16_384;
const MOST_SHARDS: usize = 1024;
/// How many other shards are looked through for an idle key where one has none.
const SHARDS_ASKED: usize = 8;
/// Every so many calls to a shard, some places of the table are looked at for idle keys.
const CALLS_PER_SWEEP: u32 = 64;

impl<R: Room, S: States<R::State>> Table<R, S> {
    fn new(terms: Box<[Terms]>, max_keys: usize) -> Self {
        Self {
            keyless: Keyless::new::<R>(&terms),
            keys: AtomicUsize::new(0),
            shards: OnceCell::new(),
            hasher: DefaultHashBuilder::default(),
            next_swept: AtomicUsize::new(0),
            room: PhantomData,
            terms: S::terms(terms),
            max_keys,
        }
    }

    #[inline]
    fn terms(&self) -> &[Terms] {
        self.terms.as_ref()
    }

    #[inline]
    fn hash(&self, key: StoredKey) -> u64 {
        key.hash(self.hasher.build_hasher())
    }

    #[inline]
    fn shards(&self) -> &[Padded<S>] {
        self.shards.get_or_init(|| {
            let count = (self.max_keys / KEYS_IN_A_SHARD).next_power_of_two().min(MOST_SHARDS);
            (0..count).map(|_| Padded(Mutex::new(Shard::new::<R>(self.terms())))).collect()
        })
    }

    /// Which shard has the key, by bits that the shard itself does not place it by.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let spread = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        usize::try_from(spread).expect("16 bits fit") & (self.shards().len() - 1)
    }

    /// Counts one more key, if there is room for it, or can be made without hurting anybody.
    fn reserve(&self, home: usize, shard: &mut Shard<S>) -> bool {
        let reserved = || {
            let more = |keys| (keys < self.max_keys).then_some(keys + 1);
            self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        };
        let found_room = |shard: &mut Shard<S>| {
            let removed = shard.remove_idle::<R>(self.terms(), |key| self.hash(key));
            self.keys.fetch_sub(removed, Ordering::Relaxed);
            removed > 0
        };
        if reserved() {
            return true;
        }
        // Other shards are not waited for, so that nobody can deadlock.
        let _ = found_room(shard)
            || (0..SHARDS_ASKED).any(|_| self.with_next(home, shard, found_room) == Some(true));
        reserved()
    }

    /// The shard for a call at `now`.
    #[inline]
    fn enter(&self, home: usize, now: u64) -> MutexGuard<'_, Shard<S>> {
        let mut shard = lock(&self.shards()[home].0);
        shard.newest = now.max(shard.newest);
        if shard.counts_to(CALLS_PER_SWEEP) {
            self.sweep(home, &mut shard);
        }
        shard
    }

    /// Decides for a key that has no place yet, and gives it one if it takes anything.
    #[cold]
    fn decide_new(
        &self,
        home: usize,
        shard: &mut Shard<S>,
        (hash, key): (u64, StoredKey),
        question: Question,
    ) -> Decision {
        let mut states = shard.first_states::<R>(self.terms());
        let decision = strategy::decide::<R>(states.as_mut(), self.terms(), question);
        if question.cost == 0 {
            return decision;
        }
        // The copy knows how much the crowd has spent, but only the crowd itself knows since when.
        if !decision.is_allowed() || !self.reserve(home, shard) {
            return strategy::decide::<R>(shard.crowd.as_mut(), self.terms(), question);
        }
        shard.insert(hash, key, states, |key| self.hash(key));
        decision
    }

    /// Gives idle keys back while there is no hurry, all over the table, wherever calls come in.
    #[cold]
    fn sweep(&self, home: usize, shard: &mut Shard<S>) {
        let sweep = |shard: &mut Shard<S>| {
            let removed = shard.sweep::<R>(self.terms(), |key| self.hash(key));
            self.keys.fetch_sub(removed, Ordering::Relaxed);
        };
        self.with_next(home, shard, sweep);
    }

    /// Works on the shard whose turn it is: this one, whose lock we have, or another that nobody is busy with.
    fn with_next<T>(
        &self,
        home: usize,
        shard: &mut Shard<S>,
        work: impl Fn(&mut Shard<S>) -> T,
    ) -> Option<T> {
        let next = self.next_swept.fetch_add(1, Ordering::Relaxed) % self.shards().len();
        if next == home {
            return Some(work(shard));
        }
        let mut other = self.shards()[next].0.try_lock().ok()?;
        other.newest = other.newest.max(shard.newest);
        Some(work(&mut other))
    }
}

impl<R: Room, S: States<R::State>> AnyTable for Table<R, S> {
    fn pass(&self, key: &Key, question: Question) -> Option<Decision> {
        let Question { now, cost, .. } = question;
        if key.as_bytes().is_empty() {
            let goes = |states: &mut S, now| strategy::goes::<R>(states.as_mut(), self.terms(), now, cost);
            return if self.keyless.with::<R, bool>(now, goes) {
                None
            } else {
                Some(self.decide(key, question))
            };
        }
        let key = StoredKey::new(key);
        let hash = self.hash(key);
        let home = self.home(hash);
        let mut shard = self.enter(home, now);
        let question = Question { now: shard.newest, ..question };
        let Some(states) = shard.find(hash, key) else {
            let decision = self.decide_new(home, &mut shard, (hash, key), question);
            return Some(decision).filter(|decision| !decision.is_allowed() || !decision.delay().is_zero());
        };
        if strategy::goes::<R>(states.as_mut(), self.terms(), question.now, cost) {
            return None;
        }
        Some(strategy::decide::<R>(states.as_mut(), self.terms(), question))
    }

    fn decide(&self, key: &Key, question: Question) -> Decision {
        if key.as_bytes().is_empty() {
            return self.keyless.with::<R, Decision>(question.now, |states, now| {
                strategy::decide::<R>(states.as_mut(), self.terms(), Question { now, ..question })
            });
        }
        let key = StoredKey::new(key);
        let hash = self.hash(key);
        let home = self.home(hash);
        let mut shard = self.enter(home, question.now);
        let question = Question { now: shard.newest, ..question };
        match shard.find(hash, key) {
            Some(states) => strategy::decide::<R>(states.as_mut(), self.terms(), question),
            None => self.decide_new(home, &mut shard, (hash, key), question),
        }
    }

    fn look(&self, key: &Key, now: u64) -> Decision {
        let look = |states: &mut S, now| strategy::look::<R>(states.as_ref(), self.terms(), now);
        if key.as_bytes().is_empty() {
            return self.keyless.with::<R, Decision>(now, look);
        }
        let key = StoredKey::new(key);
        let hash = self.hash(key);
        let mut shard = lock(&self.shards()[self.home(hash)].0);
        shard.newest = shard.newest.max(now);
        let now = shard.newest;
        match shard.find(hash, key) {
            Some(states) => look(states, now),
            None => look(&mut shard.crowd, now),
        }
    }

    fn forget(&self, key: &Key) {
        if key.as_bytes().is_empty() {
            return self.keyless.with::<R, ()>(0, |states, _| *states = S::fresh::<R>(self.terms()));
        }
        let key = StoredKey::new(key);
        let hash = self.hash(key);
        let mut shard = lock(&self.shards()[self.home(hash)].0);
        // It keeps its place: without one it might have to go with the crowd.
        if let Some(states) = shard.find(hash, key) {
            *states = S::fresh::<R>(self.terms());
            shard.search_again();
        }
    }

    fn live_keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }
}

/// A panic in the middle of a decision is a bug of ours; the state is numbers only, and stays usable.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quota, Strategy};

    const SECOND: u64 = 1_000_000_000;

    fn table<R: Room>(strategy: Strategy, max_keys: usize) -> Table<R, [R::State; 1]> {
        let quota = Quota::new(3, std::time::Duration::from_secs(4));
        Table::new(Terms::of(&Rule::new("table", strategy, quota)), max_keys)
    }

    impl<R: Room, S: States<R::State>> Table<R, S> {
        fn admits(&self, key: &[u8], now: u64, cost: u64) -> bool {
            self.decide(&Key::of(key), Question { now, cost, longest_wait: 0 }).is_allowed()
        }

        fn home_of(&self, key: &[u8]) -> usize {
            self.home(self.hash(StoredKey::new(&Key::of(key))))
        }

        fn has_place(&self, key: &[u8]) -> bool {
            let stored = StoredKey::new(&Key::of(key));
            lock(&self.shards()[self.home_of(key)].0).find(self.hash(stored), stored).is_some()
        }
    }

    /// As many keys as anybody likes.
    fn keys() -> impl Iterator<Item = [u8; 8]> {
        (0u64..).map(u64::to_le_bytes)
    }

    struct Spread;

    impl Visitor for Spread {
        type Output = ();

        fn visit<R: Room>(self) {
            for (max_keys, shards) in [(0, 1), (16_384, 1), (32_768, 2), (1_000_000, 64), (usize::MAX, 1024)]
            {
                let table = table::<R>(Strategy::TokenBucket, max_keys);
                assert_eq!(table.shards().len(), shards, "for {max_keys} keys");
                let mut residents = vec![0; shards];
                for key in keys().take(shards * 100) {
                    residents[table.home_of(&key)] += 1;
                }
                assert!(!residents.contains(&0), "of {shards} shards, some have no key");
            }
        }
    }

    #[test]
    fn a_large_table_has_many_shards_and_uses_them_all() {
        Strategy::TokenBucket.enter(Spread);
    }

    struct IdleElsewhere;

    impl Visitor for IdleElsewhere {
        type Output = ();

        fn visit<R: Room>(self) {
            let table = table::<R>(Strategy::TokenBucket, 2 * KEYS_IN_A_SHARD);
            let (here, mut keys) = (0, keys());
            // After two seconds those who took one permit have it back, and those who took three do not.
            for key in keys.by_ref().take(table.max_keys) {
                assert!(table.admits(&key, 0, if table.home_of(&key) == here { 3 } else { 1 }));
            }
            assert_eq!(table.keys.load(Ordering::Relaxed), table.max_keys);
            // A sweep would find room as well, by and by: the next one is far.
            let mut shard = lock(&table.shards()[here].0);
            while !shard.counts_to(CALLS_PER_SWEEP) {}
            drop(shard);
            // Each of them looks into one shard besides its own.
            let newcomers = keys.filter(|key| table.home_of(key) == here).take(table.shards().len());
            let found_room = newcomers
                .filter(|key| {
                    assert!(table.admits(key, 2 * SECOND, 1));
                    table.has_place(key)
                })
                .count();
            assert!(
                found_room > 0,
                "half of the table is idle, in the other shard, where nobody called since"
            );
        }
    }

    #[test]
    fn a_newcomer_finds_room_in_another_shard() {
        Strategy::TokenBucket.enter(IdleElsewhere);
    }

    struct NothingTaken(Strategy);

    impl Visitor for NothingTaken {
        type Output = ();

        fn visit<R: Room>(self) {
            let Self(strategy) = self;
            let table = table::<R>(strategy, 1);
            assert!(table.admits(b"free", 0, 0) && !table.admits(b"too costly", 0, 4));
            assert!(!table.has_place(b"free") && !table.has_place(b"too costly"), "{strategy}");
            assert_eq!(table.keys.load(Ordering::Relaxed), 0, "{strategy}");

            assert!(table.admits(b"resident", 0, 3));
            assert!(table.admits(b"one of the crowd", 3 * SECOND, 3));
            // By now the resident is idle and would make room; the crowd has nothing left.
            assert!(!table.admits(b"rejected", 4 * SECOND, 1), "{strategy}");
            assert!(table.has_place(b"resident") && !table.has_place(b"rejected"), "{strategy}");
        }
    }

    #[test]
    fn a_key_gets_a_place_when_it_takes_something() {
        for &strategy in Strategy::ALL {
            strategy.enter(NothingTaken(strategy));
        }
    }

    /// The short way of annotated functions is the same way: it says nothing of calls that go now, and else the same.
    #[test]
    fn the_short_way_decides_as_the_long_one() {
        let keys = [Key::of(&()), Key::of(&1u64), Key::of("a key that is longer than what is stored whole")];
        for &strategy in Strategy::ALL {
            for quotas in [&["3/4s"][..], &["4/4s"], &["4/4s", "9/20s"]] {
                let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
                let rule = Rule::try_new("table", strategy, quotas).unwrap();
                let (short, long) = (of(&rule, 10), of(&rule, 10));
                let (mut now, mut went, mut stopped) = (0, 0, 0);
                for call in 0..3_000u64 {
                    now += (call * call % 7) * SECOND / 5;
                    let (cost, longest_wait) = (call % 6, (call % 3) * SECOND / 2);
                    let question = Question { now, cost, longest_wait };
                    for key in &keys {
                        let decision = long.decide(key, question);
                        let goes_now = decision.is_allowed() && decision.delay().is_zero();
                        let passed = short.pass(key, question);
                        let expected = (!goes_now).then(|| format!("{decision:?}"));
                        assert_eq!(
                            passed.map(|decision| format!("{decision:?}")),
                            expected,
                            "{rule:?}, call {call}"
                        );
                        if goes_now { went += 1 } else { stopped += 1 }
                    }
                }
                assert!(went > 100 && stopped > 100, "{rule:?}: {went} went, {stopped} did not");
            }
        }
    }
}
