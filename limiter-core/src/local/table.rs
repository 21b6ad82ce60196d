//! The keys of one rule, spread over shards.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use once_cell::sync::OnceCell;

use super::door::DoorOf;
use super::lock::{Held, Lock};
use super::shard::{Shard, States};
use super::shared::Shared;
use super::slots::Secret;
use crate::entry::{Door, Own};
use crate::stored_key::StoredKey;
use crate::strategy::{self, Question, Room, Terms, Visitor, sliding_window, token_bucket};
use crate::{Decision, Rule};

/// The table of a rule, whatever its strategy.
pub(crate) trait AnyTable: Send + Sync + 'static {
    /// Where the calls of an annotated function are decided.
    fn door(&'static self, own: Own) -> Box<dyn Door>;
    fn decide(&self, key: StoredKey, now: u64, question: Question) -> Decision;
    fn look(&self, key: StoredKey, now: u64) -> Decision;
    fn forget(&self, key: StoredKey);
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
        } else if R::HAS_SAMPLES && terms.iter().all(sliding_window::packed::Room::suits) {
            self.build::<sliding_window::packed::Room>(terms)
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

pub(crate) struct Table<R: Room, S: States<R::State>> {
    pub(super) terms: S::Terms,
    max_keys: usize,
    /// How many keys all shards hold together, or are about to.
    keys: AtomicUsize,
    shards: OnceCell<Box<[Lock<Shard<S>>]>>,
    pub(super) secret: Secret,
    /// From this time on, some places are looked at for idle keys.
    sweep_after: AtomicU64,
    /// How many shards in a row had no idle key.
    fruitless: AtomicUsize,
    /// Which shard is looked through next.
    next_swept: AtomicUsize,
    /// Looking for idle keys is worth it again from this time on.
    search_after: AtomicU64,
    /// All keys that found no room.
    crowd: Lock<Shared<S>>,
    /// Whether the crowd has spent anything since it was last idle: new keys need not look at it before.
    crowded: AtomicBool,
    /// For calls without a key.
    pub(super) keyless: Lock<Shared<S>>,
    room: PhantomData<fn() -> R>,
}

/// A shard is one cache line, with its lock.
const _: () = assert!(size_of::<Lock<Shard<u64>>>() == 64);

/// About how many keys a shard is meant for: few enough to grow without a pause that anybody notices. There are not more of
/// them because a rule pays for all with its first key.
const KEYS_IN_A_SHARD: usize = 4096;
const MOST_SHARDS: usize = 4096;
/// Where there is no room, as many other shards are looked through for idle keys.
const SHARDS_SEARCHED: usize = 4;
/// All keys of a full table are looked through at most so many times while a key gets all its permits back.
const SEARCHES_PER_FILL: u64 = 16;
/// A search that found as many idle keys was worth it, and the next one need not wait.
const WORTH_IT: usize = 64;
/// Where sweeps found no idle key in any shard, the next comes after as many nanoseconds.
const BETWEEN_SWEEPS: u64 = 100_000_000;
/// A year, in nanoseconds: no search is put off for longer.
const LONGEST_PAUSE: u64 = 365 * 24 * 3600 * 1_000_000_000;

impl<R: Room, S: States<R::State>> Table<R, S> {
    fn new(terms: Box<[Terms]>, max_keys: usize) -> Self {
        Self {
            keys: AtomicUsize::new(0),
            shards: OnceCell::new(),
            secret: Secret::new(),
            sweep_after: AtomicU64::new(0),
            fruitless: AtomicUsize::new(0),
            next_swept: AtomicUsize::new(0),
            search_after: AtomicU64::new(0),
            crowd: Lock::new(Shared::new(S::fresh::<R>(&terms))),
            crowded: AtomicBool::new(false),
            keyless: Lock::new(Shared::new(S::fresh::<R>(&terms))),
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
    pub(super) fn shards(&self) -> &[Lock<Shard<S>>] {
        self.shards.get_or_init(|| {
            let count = (self.max_keys / KEYS_IN_A_SHARD).next_power_of_two().min(MOST_SHARDS);
            (0..count).map(|_| Lock::new(Shard::new())).collect()
        })
    }

    /// None before the first key.
    pub(super) fn shards_so_far(&self) -> &[Lock<Shard<S>>] {
        self.shards.get().map_or(&[], |shards| shards)
    }

    /// Counts one more key, if there is room for it, or can be made without hurting anybody.
    fn reserve(&self, home: usize, shard: &mut Shard<S>, now: u64) -> bool {
        let reserved = || {
            let more = |keys| (keys < self.max_keys).then_some(keys + 1);
            self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        };
        reserved() || (self.search(home, shard, now) && reserved())
    }

    /// Looks for idle keys in this shard and some others, unless that was done just before, and says whether it found any.
    fn search(&self, home: usize, shard: &mut Shard<S>, now: u64) -> bool {
        let after = self.search_after.load(Ordering::Relaxed);
        let searched = SHARDS_SEARCHED.min(self.shards().len());
        let pause = self.longest_fill() / SEARCHES_PER_FILL / self.shards().len().div_ceil(searched) as u64;
        // Before the search, so that nobody else begins the same one meanwhile.
        let claim =
            |old, new| self.search_after.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        if now < after || claim(after, now + pause.max(1)).is_err() {
            return false;
        }
        let remove = |shard: &mut Shard<S>| shard.remove_idle::<R>(now, self.terms(), &self.secret);
        let mut removed = remove(shard);
        for _ in 0..searched {
            if removed >= WORTH_IT {
                break;
            }
            let next = self.next();
            if next != home {
                removed += self.shards()[next].try_lock().map_or(0, |mut other| remove(&mut other));
            }
        }
        self.keys.fetch_sub(removed, Ordering::Relaxed);
        if removed >= WORTH_IT {
            self.search_after.store(0, Ordering::Relaxed);
        }
        removed > 0
    }

    /// How long a key takes to get all its permits back.
    fn longest_fill(&self) -> u64 {
        let fill = |terms: &Terms| {
            let fill = u128::from(terms.capacity) * u128::from(terms.window) / u128::from(terms.permits);
            u64::try_from(fill).unwrap_or(u64::MAX).min(LONGEST_PAUSE)
        };
        self.terms().iter().map(fill).max().unwrap_or_default()
    }

    /// The shard of a key, and which it is.
    #[inline]
    fn shard(&self, hash: u64) -> (usize, Held<'_, Shard<S>>) {
        let shards = self.shards();
        let home = home(hash, shards.len() - 1);
        (home, shards[home].lock())
    }

    /// Decides for a key that has no place yet, and gives it one if it takes anything.
    #[cold]
    fn decide_new(
        &self,
        home: usize,
        shard: &mut Shard<S>,
        key: StoredKey,
        now: u64,
        question: Question,
    ) -> Decision {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let mut states = self.first_states(now, crowded);
        let decision = strategy::decide::<R>(states.as_mut(), self.terms(), now, question);
        if question.cost == 0 || (!decision.is_allowed() && !crowded) {
            return decision;
        }
        // The copy knows how much the crowd has spent, but only the crowd itself knows since when.
        if !decision.is_allowed() || !self.reserve(home, shard, now) {
            return self.decide_in_crowd(now, question);
        }
        shard.insert(&self.secret, key, states);
        decision
    }

    /// Decides at what `now` says behind the lock: who waited for it is not told of the past.
    pub(super) fn decide_by(
        &self,
        now: impl FnOnce() -> u64,
        key: StoredKey,
        question: Question,
    ) -> Decision {
        if key == StoredKey::NONE {
            let mut keyless = self.keyless.lock();
            let (states, now) = keyless.at(now());
            return strategy::decide::<R>(states.as_mut(), self.terms(), now, question);
        }
        let hash = self.secret.hash(key);
        let (home, mut shard) = self.shard(hash);
        let now = shard.advance(now());
        let decision = match shard.find(hash, key) {
            Some(states) => strategy::decide::<R>(states.as_mut(), self.terms(), now, question),
            None => self.decide_new(home, &mut shard, key, now, question),
        };
        let sweeps = self.is_to_sweep(&mut shard, now);
        drop(shard);
        if sweeps {
            self.sweep(now);
        }
        decision
    }

    fn decide_in_crowd(&self, now: u64, question: Question) -> Decision {
        let mut crowd = self.crowd.lock();
        let (states, now) = crowd.at(now);
        let decision = strategy::decide::<R>(states.as_mut(), self.terms(), now, question);
        if decision.is_allowed() {
            // Whoever asks for this key next has the lock of its shard after us, and sees it.
            self.crowded.store(true, Ordering::Relaxed);
        }
        decision
    }

    /// What a key without a place starts with: all permits, or what the crowd has left, since it may have been part of it. So
    /// nobody gets more than the limit by leaving the crowd.
    fn first_states(&self, now: u64, crowded: bool) -> S {
        let mut states = S::fresh::<R>(self.terms());
        if crowded {
            let mut crowd = self.crowd.lock();
            let (others, now) = crowd.at(now);
            if strategy::is_idle::<R>(others.as_ref(), self.terms(), now) {
                self.crowded.store(false, Ordering::Relaxed);
            } else {
                strategy::spend_as::<R>(states.as_mut(), others.as_ref(), self.terms(), now);
            }
        }
        states
    }

    /// Whether it is time to look for idle keys. A shard remembers until when it is not.
    #[inline]
    pub(super) fn is_to_sweep(&self, shard: &mut Shard<S>, now: u64) -> bool {
        if now >= shard.sweep_after {
            shard.sweep_after = self.sweep_after.load(Ordering::Relaxed);
        }
        now >= shard.sweep_after
    }

    /// Gives idle keys back while there is no hurry, all over the table, wherever calls come in. The next call goes on, until no
    /// shard had any.
    #[cold]
    fn sweep(&self, now: u64) {
        let Some(mut shard) = self.shards()[self.next()].try_lock() else { return };
        let removed = shard.sweep::<R>(now, self.terms(), &self.secret);
        drop(shard);
        if removed > 0 {
            self.keys.fetch_sub(removed, Ordering::Relaxed);
            self.fruitless.store(0, Ordering::Relaxed);
        } else if self.fruitless.fetch_add(1, Ordering::Relaxed) + 1 >= self.shards().len() {
            self.fruitless.store(0, Ordering::Relaxed);
            self.sweep_after.store(now + BETWEEN_SWEEPS, Ordering::Relaxed);
        }
    }

    /// The shard whose turn it is to be looked through.
    fn next(&self) -> usize {
        self.next_swept.fetch_add(1, Ordering::Relaxed) % self.shards().len()
    }
}

/// Which shard has the key, by bits that the shard itself does not place it by: there are as many as the mask, and one.
#[inline]
pub(super) fn home(hash: u64, mask: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the lower bits will do")]
    return hash as usize & mask;
}

impl<R: Room, S: States<R::State>> AnyTable for Table<R, S> {
    fn door(&'static self, own: Own) -> Box<dyn Door> {
        Box::new(DoorOf::new(self, own))
    }

    fn decide(&self, key: StoredKey, now: u64, question: Question) -> Decision {
        self.decide_by(|| now, key, question)
    }

    fn look(&self, key: StoredKey, now: u64) -> Decision {
        let look = |states: &mut S, now| strategy::look::<R>(states.as_ref(), self.terms(), now);
        if key == StoredKey::NONE {
            let mut keyless = self.keyless.lock();
            let (states, now) = keyless.at(now);
            return look(states, now);
        }
        let hash = self.secret.hash(key);
        let (_, mut shard) = self.shard(hash);
        let now = shard.advance(now);
        match shard.find(hash, key) {
            Some(states) => look(states, now),
            None if self.crowded.load(Ordering::Relaxed) => {
                let mut crowd = self.crowd.lock();
                let (states, now) = crowd.at(now);
                look(states, now)
            }
            None => look(&mut S::fresh::<R>(self.terms()), now),
        }
    }

    fn forget(&self, key: StoredKey) {
        if key == StoredKey::NONE {
            *self.keyless.lock().at(0).0 = S::fresh::<R>(self.terms());
            return;
        }
        let hash = self.secret.hash(key);
        let (_, mut shard) = self.shard(hash);
        // It keeps its place: without one it might have to go with the crowd.
        if let Some(states) = shard.find(hash, key) {
            *states = S::fresh::<R>(self.terms());
            // It has become idle out of turn.
            self.search_after.store(0, Ordering::Relaxed);
        }
    }

    fn live_keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LimitKey as _, Quota, Strategy};

    const SECOND: u64 = 1_000_000_000;

    fn table<R: Room>(strategy: Strategy, max_keys: usize) -> Table<R, [R::State; 1]> {
        let quota = Quota::new(3, std::time::Duration::from_secs(4));
        Table::new(Terms::of(&Rule::new("table", strategy, quota)), max_keys)
    }

    impl<R: Room, S: States<R::State>> Table<R, S> {
        fn admits(&self, key: &[u8], now: u64, cost: u64) -> bool {
            self.decide(key.stored(), now, Question { cost, longest_wait: 0 }).is_allowed()
        }

        fn home_of(&self, key: &[u8]) -> usize {
            home(self.secret.hash(key.stored()), self.shards().len() - 1)
        }

        fn has_place(&self, key: &[u8]) -> bool {
            let hash = self.secret.hash(key.stored());
            let (_, mut shard) = self.shard(hash);
            shard.find(hash, key.stored()).is_some()
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
            for (max_keys, shards) in [(0, 1), (4_096, 1), (8_192, 2), (1_000_000, 256), (usize::MAX, 4096)] {
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
            // A sweep would find room as well, by and by.
            table.sweep_after.store(u64::MAX, Ordering::Relaxed);
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

    struct CrowdOfTwoShards(Strategy);

    impl Visitor for CrowdOfTwoShards {
        type Output = ();

        fn visit<R: Room>(self) {
            let Self(strategy) = self;
            let quota = Quota::new(1_000_000, std::time::Duration::from_secs(1_000));
            let terms = Terms::of(&Rule::new("table", strategy, quota));
            let table = Table::<R, [R::State; 1]>::new(terms, 2 * KEYS_IN_A_SHARD);
            let mut keys = keys();
            for key in keys.by_ref().take(table.max_keys) {
                assert!(table.admits(&key, SECOND, 1_000), "{strategy}");
            }
            // Nobody looks at the second shard meanwhile, or its clock would be read.
            table.sweep_after.store(u64::MAX, Ordering::Relaxed);
            table.search_after.store(u64::MAX, Ordering::Relaxed);
            let mut newcomer = |home| keys.find(|key| table.home_of(key) == home).unwrap();
            assert!(table.admits(&newcomer(0), SECOND + 2, 1), "{strategy}");
            let late = newcomer(1);
            let decision = table.decide(late.stored(), SECOND + 1, Question { cost: 1, longest_wait: 0 });
            assert!(decision.goes_now(), "{strategy}: {decision:?}");
            assert!(!table.has_place(&late), "{strategy}");
        }
    }

    #[test]
    fn an_older_time_counts_as_the_newest_that_the_crowd_has_seen() {
        for &strategy in Strategy::ALL {
            strategy.enter(CrowdOfTwoShards(strategy));
        }
    }

    struct ReadsBehindTheLock;

    impl Visitor for ReadsBehindTheLock {
        type Output = ();

        fn visit<R: Room>(self) {
            let table = table::<R>(Strategy::TokenBucket, 1);
            let is_held: [(_, &dyn Fn() -> bool); 2] = [
                (StoredKey::NONE, &|| table.keyless.try_lock().is_none()),
                (7_u64.stored(), &|| table.shards()[0].try_lock().is_none()),
            ];
            for (key, is_held) in is_held {
                // The permit comes back while one waits for the lock.
                let now = || if is_held() { 4 * SECOND } else { 0 };
                let question = Question { cost: 3, longest_wait: 0 };
                assert!(table.decide(key, 0, question).goes_now());
                assert!(table.decide_by(now, key, question).goes_now());
            }
        }
    }

    #[test]
    fn who_waits_for_a_lock_is_not_told_of_the_past() {
        Strategy::TokenBucket.enter(ReadsBehindTheLock);
    }

    struct Searches;

    impl Visitor for Searches {
        type Output = ();

        fn visit<R: Room>(self) {
            let table = table::<R>(Strategy::TokenBucket, 1_000);
            for key in keys().take(1_000) {
                assert!(table.admits(&key, SECOND, 3));
            }
            let search = |now| {
                let (home, mut shard) = table.shard(0);
                table.search(home, &mut shard, now)
            };
            let paused_until = || table.search_after.load(Ordering::Relaxed);
            assert!(!search(2 * SECOND), "all of them are busy");
            let next = paused_until();
            assert_eq!(
                next,
                2 * SECOND + SECOND / 4,
                "a sixteenth of the four seconds that a bucket takes to fill"
            );
            assert!(!search(next - 1) && paused_until() == next, "nobody looks again before");
            assert!(!search(next) && paused_until() > next);
            assert!(search(6 * SECOND) && paused_until() == 0, "a thousand idle keys are worth it");
        }
    }

    #[test]
    fn a_table_full_of_busy_keys_is_not_searched_by_every_call() {
        Strategy::TokenBucket.enter(Searches);
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

    struct Sweeps;

    impl Visitor for Sweeps {
        type Output = ();

        fn visit<R: Room>(self) {
            let table = table::<R>(Strategy::TokenBucket, 8 * KEYS_IN_A_SHARD);
            for key in keys().take(10_000) {
                assert!(table.admits(&key, SECOND, 3));
            }
            let call = |now| assert!(!table.admits(b"too costly", now, 4));
            // All permits are back by now, and not for a second yet.
            for _ in table.shards() {
                assert!(table.is_to_sweep(&mut table.shards()[0].lock(), 6 * SECOND - 1));
                call(6 * SECOND - 1);
            }
            assert!(
                !table.is_to_sweep(&mut table.shards()[0].lock(), 6 * SECOND),
                "sweeps that found nothing are not repeated at once"
            );
            assert_eq!(table.live_keys(), 10_000);
            call(7 * SECOND);
            assert!(table.live_keys() < 10_000);
            assert!(
                table.is_to_sweep(&mut table.shards()[0].lock(), 7 * SECOND),
                "where there are idle keys, the next call looks for more"
            );
            for _ in 0..500 {
                call(7 * SECOND);
            }
            assert!(table.live_keys() < 1_000, "{} keys are left", table.live_keys());
        }
    }

    #[test]
    fn idle_keys_are_swept_out() {
        Strategy::TokenBucket.enter(Sweeps);
    }
}
