//! Keys that are known to be over their limit, which need no round trip until that ends.
//!
//! Sound, because the server's answer is exact and nothing but time gives permits back: who asked for `cost` permits and
//! was told to come back at `until`, gets neither `cost` nor more before.

use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::{Decision, Rule};

pub(super) struct Blocked {
    shards: Box<[Mutex<Keys>]>,
    hasher: DefaultHashBuilder,
}

/// What is known of a key, by its name.
type Keys = HashMap<Box<str>, Known>;

#[derive(Clone, Copy)]
enum Known {
    /// This cost, and any higher one, is rejected under this rule until then, as this decision was.
    Until { until: Instant, rule: u64, cost: u64, decision: Decision },
    /// All permits were given back then: what was asked before says nothing any more.
    Reset(Instant),
}

const SHARDS: usize = 64;
/// With these, about 100,000 keys are remembered at most; others cost a round trip.
const MOST_PER_SHARD: usize = 1_600;

impl Blocked {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect();
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
        let Known::Until { until, rule: known, cost: rejected, decision } = *shard.get(name)? else {
            return None;
        };
        if cost < rejected || rule.fingerprint() != known {
            return None;
        }
        let left = until.checked_duration_since(Instant::now())?;
        let passed = decision.retry_after()?.saturating_sub(left);
        (left > longest_wait).then(|| decision.after(passed))
    }

    /// Remembers a rejection of a call that was asked at `asked`. The server decided no earlier, so the block ends here
    /// no later than there.
    pub(super) fn remember(&self, name: &str, rule: &Rule, cost: u64, asked: Instant, decision: Decision) {
        let Some(until) = decision.retry_after().and_then(|time| asked.checked_add(time)) else { return };
        let mut shard = self.shard(name);
        match shard.get(name) {
            Some(Known::Reset(at)) if *at >= asked => return,
            // What blocks more calls for longer is worth more.
            Some(Known::Until { until: known, cost: rejected, rule: same, .. })
                if *rejected <= cost && *known >= until && *same == rule.fingerprint() =>
            {
                return;
            }
            Some(_) => {}
            None => make_room(&mut shard),
        }
        if shard.len() < MOST_PER_SHARD {
            shard.insert(name.into(), Known::Until { until, rule: rule.fingerprint(), cost, decision });
        }
    }

    /// All permits of the key are given back now.
    pub(super) fn forget(&self, name: &str) {
        let mut shard = self.shard(name);
        make_room(&mut shard);
        shard.insert(name.into(), Known::Reset(Instant::now()));
    }

    fn shard(&self, name: &str) -> MutexGuard<'_, Keys> {
        let hash = usize::try_from(self.hasher.hash_one(name) >> 48).expect("16 bits fit");
        self.shards[hash % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a reset is remembered: longer than any answer can be under way.
const RESET_KEPT: Duration = Duration::from_secs(60);

fn make_room(shard: &mut Keys) {
    if shard.len() >= MOST_PER_SHARD {
        let now = Instant::now();
        shard.retain(|_, known| match known {
            Known::Until { until, .. } => *until > now,
            Known::Reset(at) => now.duration_since(*at) < RESET_KEPT,
        });
    }
}
