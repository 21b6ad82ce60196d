//! Keys that are known to be over their limit, which need no round trip until that ends.
//!
//! Sound, because the server's answer is exact and nothing but time gives permits back: who asked for `cost` permits and
//! was told to come back at `until`, does not get them before.

use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::question::Prepared;
use crate::{Clock as _, Decision, Key, SystemClock};

pub(super) struct Blocked {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
    clock: SystemClock,
}

#[derive(Default)]
struct Shard {
    keys: HashTable<Known>,
    /// When permits of any of these keys were last given back: answers to questions from before say nothing any more.
    reset: Option<u64>,
    /// Looking for keys whose block has ended is worth it again from then on.
    search_after: u64,
}

/// This cost was rejected for this key under this rule. Higher ones are too, but for longer. Times are the clock's.
struct Known {
    rule: Arc<Prepared>,
    key: Box<[u8]>,
    hash: u64,
    asked: u64,
    /// The server is asked again from then on.
    until: u64,
    cost: u64,
    decision: Decision,
}

const SHARDS: usize = 64;
/// With these, about 100,000 keys are remembered at most; others cost a round trip.
const MOST_PER_SHARD: usize = 1_600;
/// After so long the server is asked again all the same: others may have given permits back, or the key may be gone.
const LONGEST_BLOCK: Duration = Duration::from_secs(10);
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

impl Blocked {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: DefaultHashBuilder::default(), clock: SystemClock::default() }
    }

    /// The time, as rejections are remembered by it.
    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The rejection that is known to await this call, as of now. Nothing is allocated, since there may be many.
    pub(super) fn rejection(
        &self,
        rule: &Arc<Prepared>,
        key: &Key,
        cost: u64,
        longest_wait: Duration,
    ) -> Option<Decision> {
        let hash = self.hash(rule, key.as_bytes());
        let shard = self.shard(hash);
        let known = shard.keys.find(hash, |known| known.is_about(rule, key.as_bytes()))?;
        if cost != known.cost || !Arc::ptr_eq(&known.rule, rule) {
            return None;
        }
        let now = self.now();
        if now >= known.until {
            return None;
        }
        let rejection = known.decision.after(Duration::from_nanos(now.saturating_sub(known.asked)));
        (rejection.retry_after()? > longest_wait).then_some(rejection)
    }

    /// Remembers a rejection of a call that was asked at `asked`. The server decided no earlier, so the block ends here
    /// no later than there.
    pub(super) fn remember(
        &self,
        rule: &Arc<Prepared>,
        key: &Key,
        cost: u64,
        asked: u64,
        decision: Decision,
    ) {
        let Some(retry_after) = decision.retry_after() else { return };
        let until = asked.saturating_add(nanos(retry_after.min(LONGEST_BLOCK)));
        let (hash, now) = (self.hash(rule, key.as_bytes()), self.now());
        let mut shard = self.shard(hash);
        if shard.reset.is_some_and(|reset| reset >= asked) {
            return;
        }
        let new = || Known {
            rule: Arc::clone(rule),
            key: key.as_bytes().into(),
            hash,
            asked,
            until,
            cost,
            decision,
        };
        match shard.keys.find_mut(hash, |known| known.is_about(rule, key.as_bytes())) {
            // A call of lower cost is the more likely to come again; of the same cost, the newest knows best.
            Some(known) if Arc::ptr_eq(&known.rule, rule) && known.cost < cost && known.until > now => {}
            Some(known) => *known = new(),
            None => {
                if shard.has_room(now) {
                    shard.keys.insert_unique(hash, new(), |known| known.hash);
                }
            }
        }
    }

    /// All permits of the key are given back now.
    pub(super) fn forget(&self, rule: &Arc<Prepared>, key: &Key) {
        let hash = self.hash(rule, key.as_bytes());
        let mut shard = self.shard(hash);
        if let Ok(known) = shard.keys.find_entry(hash, |known| known.is_about(rule, key.as_bytes())) {
            known.remove();
        }
        shard.reset = Some(self.now());
    }

    /// The same for all rules whose keys are the same on the server.
    fn hash(&self, rule: &Prepared, key: &[u8]) -> u64 {
        self.hasher.hash_one((rule.names_hash, key))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let place = usize::try_from(hash >> 48).expect("16 bits fit");
        self.shards[place % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_about(&self, rule: &Arc<Prepared>, key: &[u8]) -> bool {
        *self.key == *key && (Arc::ptr_eq(&self.rule, rule) || self.rule.has_names_of(rule))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Shard {
    /// Whether one more key fits, after those have gone whose block has ended.
    fn has_room(&mut self, now: u64) -> bool {
        if self.keys.len() >= MOST_PER_SHARD && now >= self.search_after {
            self.search_after = now + nanos(SEARCH_PAUSE);
            self.keys.retain(|known| known.until > now);
        }
        self.keys.len() < MOST_PER_SHARD
    }
}
