//! Keys that are known to be over their limit, which need no round trip until that ends.
//!
//! Sound, because the server's answer is exact and nothing but time gives permits back: who asked for `cost` permits and
//! was told to come back at `until`, does not get them before.

use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::{Decision, Rule};

pub(super) struct Blocked {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
}

#[derive(Default)]
struct Shard {
    keys: HashMap<Box<str>, Known>,
    /// When permits of any of these keys were last given back: answers to questions from before say nothing any more.
    reset: Option<Instant>,
    /// Looking for keys whose block has ended is worth it again from then on.
    search_after: Option<Instant>,
}

/// This cost was rejected under this rule. Higher ones are too, but for longer.
struct Known {
    asked: Instant,
    /// The server is asked again from then on.
    until: Instant,
    rule: u64,
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
        Self { shards, hasher: DefaultHashBuilder::default() }
    }

    /// The rejection that is known to await this call, as of now.
    pub(super) fn rejection(
        &self,
        name: &str,
        rule: &Rule,
        cost: u64,
        longest_wait: Duration,
    ) -> Option<Decision> {
        let shard = self.shard(name);
        let known = shard.keys.get(name)?;
        if cost != known.cost || rule.fingerprint() != known.rule {
            return None;
        }
        let now = Instant::now();
        if now >= known.until {
            return None;
        }
        let rejection = known.decision.after(now.duration_since(known.asked));
        (rejection.retry_after()? > longest_wait).then_some(rejection)
    }

    /// Remembers a rejection of a call that was asked at `asked`. The server decided no earlier, so the block ends here
    /// no later than there.
    pub(super) fn remember(&self, name: &str, rule: &Rule, cost: u64, asked: Instant, decision: Decision) {
        let Some(retry_after) = decision.retry_after() else { return };
        let until = asked + retry_after.min(LONGEST_BLOCK);
        let mut shard = self.shard(name);
        if shard.reset.is_some_and(|reset| reset >= asked) {
            return;
        }
        let new = Known { asked, until, rule: rule.fingerprint(), cost, decision };
        match shard.keys.get_mut(name) {
            // A call of lower cost is the more likely to come again; of the same cost, the newest knows best.
            Some(known) if known.rule == new.rule && known.cost < cost && known.until > Instant::now() => {}
            Some(known) => *known = new,
            None => {
                if shard.has_room() {
                    shard.keys.insert(name.into(), new);
                }
            }
        }
    }

    /// All permits of the key are given back now.
    pub(super) fn forget(&self, name: &str) {
        let mut shard = self.shard(name);
        shard.keys.remove(name);
        shard.reset = Some(Instant::now());
    }

    fn shard(&self, name: &str) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hasher.hash_one(name) >> 48).expect("16 bits fit");
        self.shards[hash % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Whether one more key fits, after those have gone whose block has ended.
    fn has_room(&mut self) -> bool {
        if self.keys.len() >= MOST_PER_SHARD {
            let now = Instant::now();
            if self.search_after.is_none_or(|after| now >= after) {
                self.search_after = Some(now + SEARCH_PAUSE);
                self.keys.retain(|_, known| known.until > now);
            }
        }
        self.keys.len() < MOST_PER_SHARD
    }
}
