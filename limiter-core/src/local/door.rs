//! The short way of an annotated call through the table of its rule.

use super::lock::{Held, Lock};
use super::shard::{Shard, States};
use super::shared::Shared;
use super::slots::Secret;
use super::table::{AnyTable as _, Table, home};
use crate::entry::{Door, Own, Told, Verdict};
use crate::stored_key::StoredKey;
use crate::strategy::{self, Room, Settled};
use crate::system_clock::Glance;
use crate::{Clock, Counts, SystemClock};

/// The table of a rule, as one annotated function enters it.
///
/// What counts here is not only how many instructions there are, but how many of them write: taking a lock waits until the
/// processor has written all that came before.
pub(super) struct DoorOf<R: Room, S: States<R::State>> {
    /// Those of the table, beside each other. Without shards where there are no keys.
    secret: Secret,
    shards: &'static [Lock<Shard<S>>],
    /// One less than there are, for [`home`].
    mask: usize,
    terms: S::Terms,
    own: Own,
    table: &'static Table<R, S>,
}

impl<R: Room, S: States<R::State>> DoorOf<R, S> {
    pub(super) fn new(table: &'static Table<R, S>, own: Own) -> Self {
        let shards = if own.has_keys() { table.shards() } else { &[] };
        let mask = shards.len().saturating_sub(1);
        // The first reading may start a thread, which nobody should do behind a lock.
        SystemClock::default().now();
        Self { secret: table.secret, shards, mask, terms: table.terms.clone(), own, table }
    }
}

impl<R: Room, S: States<R::State>> Door for DoorOf<R, S> {
    fn enter(&self, key: StoredKey, cost: u64, told: &mut Told) -> Verdict {
        self.enter_by(&SystemClock::default(), key, cost, told)
    }

    fn enter_keyless(&self, cost: u64, told: &mut Told) -> Verdict {
        self.enter_keyless_by(&SystemClock::default(), cost, told)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // One lock at a time.
        let keyless = self.table.keyless.lock().tally;
        let in_shards = self.table.shards_so_far().iter().map(|shard| shard.lock().tally);
        for tally in in_shards.chain([keyless]) {
            counts.passed += tally.passed;
            counts.rejected += tally.rejected;
        }
        counts
    }

    #[cfg(test)]
    fn enter_at(&self, now: u64, key: StoredKey, cost: u64, told: &mut Told) -> Verdict {
        let clock = tests::Stopped(now);
        if key == StoredKey::NONE {
            self.enter_keyless_by(&clock, cost, told)
        } else {
            self.enter_by(&clock, key, cost, told)
        }
    }
}

impl<R: Room, S: States<R::State>> DoorOf<R, S> {
    /// All that most calls do, in one piece.
    #[inline]
    fn enter_by(&self, clock: &impl Glance, key: StoredKey, cost: u64, told: &mut Told) -> Verdict {
        let hash = self.secret.hash(key);
        let Some(lock) = self.shards.get(home(hash, self.mask)) else {
            return self.enter_slowly(clock, key, cost, told);
        };
        // Reading the clock takes about as long as taking the lock, and what comes behind both. So it is done meanwhile.
        let reading = clock.read();
        let Some(mut shard) = lock.try_lock() else {
            return self.enter_slowly(clock, key, cost, told);
        };
        let now = clock.time_of(reading).filter(|&now| !self.table.is_to_sweep(&mut shard, now));
        let Some(now) = now else {
            drop(shard);
            return self.enter_slowly(clock, key, cost, told);
        };
        let now = shard.time_of(now);
        let Some(states) = shard.find_at_home(hash, key) else {
            shard.set_newest(now);
            return self.enter_further(shard, key, cost, told);
        };
        match strategy::settle::<R>(states.as_mut(), self.terms.as_ref(), now, cost) {
            Settled::Goes => {
                shard.set_newest(now);
                shard.tally.passed += 1;
                drop(shard);
                Verdict::Goes
            }
            // It changed nothing, so that nobody else has to know what time it was.
            Settled::Refused(retry_after, standing) if self.own.is_plain() => {
                shard.tally.rejected += 1;
                drop(shard);
                Verdict::refused::<R>(retry_after, standing, told)
            }
            Settled::Refused(..) | Settled::Unclear => {
                shard.set_newest(now);
                self.enter_further(shard, key, cost, told)
            }
        }
    }

    /// The verdict on a call that goes now, or gets a plain no.
    fn settle(&self, states: &mut S, now: u64, cost: u64, told: &mut Told) -> Option<Verdict> {
        match strategy::settle_at_length::<R>(states.as_mut(), self.terms.as_ref(), now, cost) {
            Settled::Goes => Some(Verdict::Goes),
            Settled::Refused(retry_after, standing) if self.own.is_plain() => {
                Some(Verdict::refused::<R>(retry_after, standing, told))
            }
            Settled::Refused(..) | Settled::Unclear => None,
        }
    }

    /// For a key that is not where most are, or is new, or is told more than a plain no.
    #[inline(never)]
    fn enter_further(
        &self,
        mut shard: Held<'_, Shard<S>>,
        key: StoredKey,
        cost: u64,
        told: &mut Told,
    ) -> Verdict {
        let now = shard.newest();
        let question = self.own.question(cost);
        let Some(states) = shard.find(self.secret.hash(key), key) else {
            drop(shard);
            return self.own.settles(self.table.decide(key, now, question), told);
        };
        if let Some(verdict) = self.settle(states, now, cost, told) {
            shard.tally.count(verdict);
            return verdict;
        }
        let decision = strategy::decide::<R>(states.as_mut(), self.terms.as_ref(), now, question);
        drop(shard);
        self.own.settles(decision, told)
    }

    #[cold]
    fn enter_slowly(&self, clock: &impl Clock, key: StoredKey, cost: u64, told: &mut Told) -> Verdict {
        self.own.settles(self.table.decide_by(|| clock.now(), key, self.own.question(cost)), told)
    }

    #[inline]
    fn enter_keyless_by(&self, clock: &impl Glance, cost: u64, told: &mut Told) -> Verdict {
        // Before the lock: nothing has to come from memory, and what was written is there when the lock waits for it.
        let Some(now) = clock.at_a_glance() else {
            return self.enter_slowly(clock, StoredKey::NONE, cost, told);
        };
        let Some(mut shared) = self.table.keyless.try_lock() else {
            return self.enter_slowly(clock, StoredKey::NONE, cost, told);
        };
        let (states, now) = shared.at(now);
        match strategy::settle::<R>(states.as_mut(), self.terms.as_ref(), now, cost) {
            Settled::Goes => {
                shared.tally.passed += 1;
                Verdict::Goes
            }
            Settled::Refused(..) | Settled::Unclear => self.enter_keyless_further(shared, cost, told),
        }
    }

    /// For a call that does not go at a glance.
    #[inline(never)]
    fn enter_keyless_further(&self, mut shared: Held<'_, Shared<S>>, cost: u64, told: &mut Told) -> Verdict {
        // At the same time, the newest seen.
        let (states, now) = shared.at(0);
        if let Some(verdict) = self.settle(states, now, cost, told) {
            shared.tally.count(verdict);
            return verdict;
        }
        let question = self.own.question(cost);
        let decision = strategy::decide::<R>(states.as_mut(), self.terms.as_ref(), now, question);
        drop(shared);
        self.own.settles(decision, told)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::super::table::of;
    use super::*;
    use crate::draw::Draw;
    use crate::entry::Entry;
    use crate::strategy::Question;
    use crate::{LimitKey as _, Quota, Rejected, Rule, Site, Strategy, observe};

    const SECOND: u64 = 1_000_000_000;

    /// A clock that stands still. At some times one has to look closer.
    pub(super) struct Stopped(pub(super) u64);

    impl Clock for Stopped {
        fn now(&self) -> u64 {
            self.0
        }

        fn sleep_until(&self, _: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
    }

    impl Glance for Stopped {
        fn read(&self) -> u64 {
            self.0
        }

        fn time_of(&self, reading: u64) -> Option<u64> {
            (!reading.is_multiple_of(5)).then_some(reading)
        }
    }

    /// Whether a call goes now.
    fn goes(door: &dyn Door, now: u64, key: StoredKey, cost: u64) -> bool {
        matches!(door.enter_at(now, key, cost, &mut Told::Nothing), Verdict::Goes)
    }

    /// What is known of a call that does not go now.
    fn seen(rejected: &Rejected) -> String {
        format!("{rejected:?} {:?} {:?}", rejected.remaining(), rejected.reset_after())
    }

    /// The short way of annotated functions decides as the long one, and counts every call once.
    #[test]
    fn the_short_way_decides_as_the_long_one() {
        let mut keys = vec![().stored(), "a key that is longer than what is stored whole".stored()];
        // So many that some are not where they are looked for first.
        keys.extend((0..200_u64).map(|key| key.stored()));
        for &strategy in Strategy::ALL {
            for quotas in [&["3/4s"][..], &["4/4s"], &["4/4s", "9/20s"]] {
                let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
                let rule = Rule::try_new("table", strategy, quotas).unwrap();
                for longest_wait in [0, SECOND / 2] {
                    compare(&rule, &keys, longest_wait);
                }
            }
        }
    }

    fn compare(rule: &Rule, keys: &[StoredKey], longest_wait: u64) {
        let site: &'static Site = Box::leak(Box::new(Site::new(rule.clone())));
        let table = Box::leak(of(rule, 1_000));
        let (short, long) = (table.door(Own::new(site, longest_wait, true)), of(rule, 1_000));
        let (mut now, mut passed, mut rejected, mut waited) = (0, 0, 0, 0);
        let mut draw = Draw::new(1);
        for call in 0..400_u64 {
            now += draw.below(3) * draw.below(SECOND);
            let cost = draw.below(6);
            for &key in keys {
                let decision = long.decide(key, now, Question { cost, longest_wait });
                let place = format!("{rule:?}, call {call}");
                let mut told = Told::Nothing;
                let entry = short.enter_at(now, key, cost, &mut told).at_cost(cost);
                if matches!(entry, Entry::Goes) {
                    assert!(decision.goes_now(), "{place}: {decision:?}");
                    passed += 1;
                } else if matches!(told, Told::Later(_)) {
                    assert!(decision.waits(), "{place}: {decision:?}");
                    waited += 1;
                } else {
                    let why = entry.rejected(site, &mut told).expect("it is told why");
                    let expected = decision.into_result(rule).unwrap_err();
                    assert_eq!(seen(&why), seen(&expected), "{place}");
                    rejected += 1;
                }
            }
        }
        assert!(passed > 100 && rejected > 100, "{rule:?}: {passed} passed, {rejected} did not");
        assert_eq!(waited > 100, longest_wait > 0, "{rule:?}: {waited} waited");
        // What is counted here took the short way: not new keys, not calls that cost too much, not times of a sweep.
        let counted_here = short.counts();
        let is_plain = longest_wait == 0 && rule.quotas().len() == 1 && !observe::HEARS_OF_REJECTIONS;
        assert!(4 * counted_here.passed > passed, "{rule:?}: {counted_here:?} of {passed} that passed");
        assert!(
            !is_plain || 4 * counted_here.rejected > rejected,
            "{rule:?}: {counted_here:?} of {rejected}"
        );
        // One that waits is counted once somebody waits for it.
        let counts = site.counted(counted_here);
        assert_eq!((counts.passed, counts.rejected), (passed, rejected), "{rule:?}");
    }

    /// The clock of another processor may be behind, and what is there by the newest time is there.
    #[test]
    fn an_older_time_counts_as_the_newest_at_which_a_call_went() {
        let rule =
            Rule::new("table", Strategy::TokenBucket, Quota::new(4, std::time::Duration::from_secs(4)));
        let site: &'static Site = Box::leak(Box::new(Site::new(rule.clone())));
        // Few keys, so that all are in one shard.
        let door = Box::leak(of(&rule, 100)).door(Own::new(site, 0, true));
        let [one, other] = [7_u64, 8].map(|key| key.stored());
        assert!(goes(&*door, 1, other, 1) && goes(&*door, 1, one, 4));
        let (behind, ahead) = (SECOND - 2, SECOND + 2);
        assert!(!goes(&*door, behind, one, 1), "nothing is back yet");
        assert!(goes(&*door, ahead, other, 1));
        assert!(goes(&*door, behind, one, 1), "a permit is back");
        assert!(!goes(&*door, ahead, one, 1));
    }

    /// Calls that are decided on the short way look for idle keys too, whatever else the process does.
    #[test]
    fn idle_keys_are_swept_out_by_known_keys() {
        let quota = Quota::new(4, std::time::Duration::from_secs(4));
        let rule = Rule::new("table", Strategy::TokenBucket, quota);
        let site: &'static Site = Box::leak(Box::new(Site::new(rule.clone())));
        let table = Box::leak(of(&rule, 100_000));
        let door = table.door(Own::new(site, 0, true));
        for key in 0..5_000_u64 {
            assert!(goes(&*door, 1, key.stored(), 1));
        }
        // One of them goes on, at times that are seen at a glance.
        for call in 0..2_000 {
            assert!(goes(&*door, 10 * SECOND + 10 * call + 1, 7_u64.stored(), 0));
        }
        assert!(table.live_keys() < 500, "{} keys are left", table.live_keys());
    }

    /// A call that costs nothing takes nothing, not even the place of another.
    #[test]
    fn a_call_that_costs_nothing_keeps_no_key() {
        for &strategy in Strategy::ALL {
            let rule = Rule::new("table", strategy, Quota::new(4, std::time::Duration::from_secs(4)));
            let site: &'static Site = Box::leak(Box::new(Site::new(rule.clone())));
            let table = Box::leak(of(&rule, 1_000));
            let door = table.door(Own::new(site, 0, true));
            for call in 0..200_u64 {
                for key in 0..20_u64 {
                    let (now, cost) = (call * SECOND / 2 + 1, u64::from(call == 0));
                    assert!(goes(&*door, now, key.stored(), cost), "{strategy}");
                }
            }
            assert_eq!(table.live_keys(), 0, "{strategy}");
        }
    }

    /// Another site of the same rule may have keys where this one has none.
    #[test]
    fn a_door_without_keys_counts_for_all() {
        let rule =
            Rule::new("table", Strategy::TokenBucket, Quota::new(4, std::time::Duration::from_secs(4)));
        let site: &'static Site = Box::leak(Box::new(Site::new(rule.clone())));
        let table = Box::leak(of(&rule, 1_000));
        let [with, without] = [true, false].map(|has_keys| table.door(Own::new(site, 0, has_keys)));
        for call in 1..4 {
            assert!(goes(&*with, call, 7_u64.stored(), 1));
        }
        assert!(goes(&*without, 4, 7_u64.stored(), 1), "the long way, and the same key");
        assert!(!goes(&*with, 6, 7_u64.stored(), 1));
        let counts = site.counted(without.counts());
        assert_eq!((counts.passed, counts.rejected), (4, 1));
    }
}
