//! The limiter of this process.

mod door;
mod lock;
mod shard;
mod shared;
mod slots;
mod table;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use table::AnyTable;

use crate::limiter::{Answer, Call, Limiter};
use crate::rule_map::RuleMap;
use crate::stored_key::StoredKey;
use crate::strategy::Question;
use crate::{Clock, SystemClock};
use crate::{Cost, Decision, Key, LimitKey, Rule};

/// Decides in this process alone. It needs no set-up, and is the default.
///
/// Clones share their state. It holds at most [`max_keys`](LocalLimiterBuilder::max_keys) keys for each rule. Keys that
/// have all their permits back are idle: they make room for others. New keys that find none to replace share a state until
/// they do; nobody's limit is ever reset to make room.
///
/// In code that is not async, the `_sync` methods do what [`Limiter`]'s do.
#[derive(Clone)]
pub struct LocalLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    clock: AnyClock,
    max_keys: usize,
    tables: RuleMap<Box<dyn AnyTable>>,
}

/// The default clock without a detour, any other behind one.
enum AnyClock {
    System(SystemClock),
    Other(Box<dyn Clock>),
}

impl LocalLimiter {
    /// A limiter with the defaults: 1,000,000 keys for each rule, the machine's monotonic clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A limiter made to measure.
    ///
    /// ```
    /// # extern crate limiter_core as limiter;
    /// use limiter::{LocalLimiter, ManualClock};
    ///
    /// let limiter = LocalLimiter::builder().max_keys(10_000).clock(ManualClock::new()).build();
    /// ```
    pub fn builder() -> LocalLimiterBuilder {
        LocalLimiterBuilder { max_keys: 1_000_000, clock: None }
    }

    /// Takes `cost` permits of `key`, or none.
    #[must_use = "a decision that nobody looks at limits nothing"]
    pub fn check_sync<K: LimitKey + ?Sized>(&self, rule: &Rule, key: &K, cost: impl Cost) -> Decision {
        self.decide_sync(rule, key.stored(), cost.permits(), Duration::ZERO)
    }

    /// How a call of cost 1 would fare. It takes nothing.
    pub fn peek_sync<K: LimitKey + ?Sized>(&self, rule: &Rule, key: &K) -> Decision {
        self.look_sync(rule, key.stored())
    }

    /// Gives `key` all its permits back.
    pub fn reset_sync<K: LimitKey + ?Sized>(&self, rule: &Rule, key: &K) {
        self.forget_sync(rule, key.stored());
    }

    /// How many keys of `rule` it holds: those with permits to get back, and idle ones that nobody needed the room of yet.
    pub fn live_keys(&self, rule: &Rule) -> usize {
        self.table(rule).live_keys()
    }

    pub(crate) fn look_sync(&self, rule: &Rule, key: StoredKey) -> Decision {
        self.table(rule).look(key, self.now())
    }

    pub(crate) fn forget_sync(&self, rule: &Rule, key: StoredKey) {
        self.table(rule).forget(key);
    }

    pub(crate) fn decide_sync(
        &self,
        rule: &Rule,
        key: StoredKey,
        cost: u64,
        longest_wait: Duration,
    ) -> Decision {
        let question = Question { cost, longest_wait: ticks(longest_wait) };
        self.table(rule).decide(key, self.now(), question)
    }

    /// What this limiter keeps for `rule`, and how long calls under it may wait.
    pub(crate) fn own_table(&self, rule: &Rule, longest_wait: Duration) -> (&dyn AnyTable, u64) {
        (self.table(rule), ticks(longest_wait))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether its clock is that of the machine.
    pub(crate) fn goes_by_the_machine(&self) -> bool {
        matches!(self.shared.clock, AnyClock::System(_))
    }

    fn table(&self, rule: &Rule) -> &dyn AnyTable {
        &**self.shared.tables.get(rule, |rule| table::of(rule, self.shared.max_keys))
    }

    fn now(&self) -> u64 {
        let now = match &self.shared.clock {
            AnyClock::System(clock) => clock.now(),
            AnyClock::Other(clock) => clock.now(),
        };
        now.min(FAR_AWAY)
    }
}

fn ticks(wait: Duration) -> u64 {
    if wait.is_zero() { 0 } else { u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX).min(FAR_AWAY) }
}

/// 146 years in nanoseconds: no clock and no wait gets past it, so that sums of times never overflow.
const FAR_AWAY: u64 = 1 << 62;

impl Default for LocalLimiter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLimiter").finish_non_exhaustive()
    }
}

impl Limiter for LocalLimiter {
    fn decide(&self, call: Call<'_>) -> Answer<Decision> {
        Answer::now(self.decide_sync(call.rule, StoredKey::new(call.key), call.cost, call.longest_wait))
    }

    fn look(&self, rule: &Rule, key: &Key) -> Answer<Decision> {
        Answer::now(self.look_sync(rule, StoredKey::new(key)))
    }

    fn forget(&self, rule: &Rule, key: &Key) -> Answer<()> {
        self.forget_sync(rule, StoredKey::new(key));
        Answer::now(())
    }

    fn turn(&self, decision: &Decision) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match (decision.turn(), &self.shared.clock) {
            (None, _) => Box::pin(std::future::ready(())),
            (Some(turn), AnyClock::System(clock)) => clock.sleep_until(turn),
            (Some(turn), AnyClock::Other(clock)) => clock.sleep_until(turn),
        }
    }

    fn local(&self) -> &LocalLimiter {
        self
    }
}

/// Makes a [`LocalLimiter`].
#[must_use = "a builder makes nothing until it is told to `build`"]
pub struct LocalLimiterBuilder {
    max_keys: usize,
    clock: Option<Box<dyn Clock>>,
}

impl LocalLimiterBuilder {
    /// How many keys to hold for each rule, at the most. With 0, all keys of a rule share one state.
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self { max_keys, ..self }
    }

    /// Where the time comes from.
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Some(Box::new(clock)), ..self }
    }

    /// The limiter.
    pub fn build(self) -> LocalLimiter {
        let Self { max_keys, clock } = self;
        let clock = clock.map_or_else(|| AnyClock::System(SystemClock::default()), AnyClock::Other);
        LocalLimiter { shared: Arc::new(Shared { clock, max_keys, tables: RuleMap::new() }) }
    }
}

impl fmt::Debug for LocalLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLimiterBuilder").field("max_keys", &self.max_keys).finish_non_exhaustive()
    }
}
