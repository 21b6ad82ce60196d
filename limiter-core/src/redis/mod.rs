//! The limiter that a fleet shares, on Redis or Valkey.

mod address;
mod batch;
mod blocked;
mod cluster;
mod connection;
mod failure;
mod fleet;
mod health;
mod in_place;
mod names;
mod node;
mod question;
mod resolver;
mod sent;
mod talk;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use address::Address;
use blocked::Blocked;
pub use failure::ConnectError;
use failure::Failure;
use fleet::Fleet;
pub use health::Health;
use question::{Prepared, Question, What};

use crate::limiter::{Answer, Call, Limiter, OnError};
use crate::rule_map::RuleMap;
use crate::stored_key::StoredKey;
use crate::strategy::lua::ScriptClock;
use crate::{DecidedBy, Decision, Key, LocalLimiter, Rule};

/// Decides on a Redis or Valkey server that a whole fleet shares.
///
/// ```no_run
/// # extern crate limiter_core as limiter;
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// limiter::install(limiter::RedisLimiter::connect("redis://localhost").await?)?;
/// # Ok(()) }
/// ```
///
/// Addresses: `redis://user:password@host:6379/0`, `rediss://host` (with the feature `tls`), `unix:///path/to/socket`,
/// `redis+sentinel://host:26379,host:26379/primary`, `redis+cluster://host:6379,host:6379`.
///
/// One decision is one atomic script by the server's clock. Calls for one key that come while another is under way go
/// together in the next. A key that is known to be over its limit is rejected here, without a round trip. A call that the
/// server does not answer in time is answered by its `on_error`, and never sent again.
///
/// Clones share everything. It works in the tokio runtime in which it was connected.
#[derive(Clone)]
pub struct RedisLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    fleet: Fleet,
    rules: RuleMap<Arc<Prepared>>,
    blocked: Blocked,
    local: LocalLimiter,
    prefix: String,
    timeout: Duration,
    on_error: OnError,
    instances: u64,
    clock: Option<TestClock>,
}

/// Microseconds, in place of the server's time.
type TestClock = Arc<dyn Fn() -> u64 + Send + Sync>;

impl RedisLimiter {
    /// A limiter on the server at `url`, with the defaults.
    ///
    /// # Errors
    ///
    /// If the address is wrong, or no server answers there.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// A limiter made to measure.
    ///
    /// ```no_run
    /// # extern crate limiter_core as limiter;
    /// # use std::time::Duration;
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = limiter::RedisLimiter::builder("redis://localhost")
    ///     .prefix("shop")
    ///     .timeout(Duration::from_millis(20))
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: &str) -> RedisLimiterBuilder {
        RedisLimiterBuilder {
            url: url.to_owned(),
            prefix: "limiter".to_owned(),
            timeout: Duration::from_millis(50),
            local: None,
            on_error: OnError::Local,
            instances: 1,
            clock: None,
        }
    }

    /// Every server that is known, by its address, and how it is: one, or those of a cluster.
    pub fn health(&self) -> Vec<(String, Health)> {
        self.shared.fleet.health()
    }

    fn prepared(&self, rule: &Rule) -> &Arc<Prepared> {
        let Shared { rules, prefix, clock, instances, .. } = &*self.shared;
        let script_clock = script_clock(clock.as_ref());
        rules.get(rule, |rule| Arc::new(Prepared::new(prefix, rule, script_clock, *instances)))
    }

    fn now(&self) -> Option<u64> {
        self.shared.clock.as_ref().map(|clock| clock())
    }
}

impl Shared {
    /// The server's answer, within the time there is.
    async fn ask(&self, question: Question) -> Result<Decision, Failure> {
        self.fleet.ask(question, tokio::time::Instant::now() + self.timeout).await
    }

    /// The answer where the server has none.
    fn policy(
        &self,
        on_error: Option<OnError>,
        Prepared { rule, own_part, .. }: &Prepared,
        key: &Key,
        cost: u64,
        wait: Duration,
    ) -> Decision {
        match on_error.unwrap_or(self.on_error) {
            // More than the part of this instance, but not more than the fleet may have: nobody here can say.
            OnError::Local if cost > own_part.capacity() && cost <= rule.capacity() => {
                Decision::undecided(false)
            }
            OnError::Local => {
                self.local.decide_sync(own_part, StoredKey::new(key), cost, wait).by(DecidedBy::Degraded)
            }
            OnError::Allow => Decision::undecided(true),
            OnError::Deny => Decision::undecided(false),
        }
    }
}

impl Limiter for RedisLimiter {
    fn decide(&self, call: Call<'_>) -> Answer<Decision> {
        let Call { key, cost, longest_wait, on_error, .. } = call;
        let prepared = self.prepared(call.rule);
        // Under a clock of tests, time here says nothing about time there.
        if self.shared.clock.is_none()
            && let Some(rejection) = self.shared.blocked.rejection(prepared, key, cost, longest_wait)
        {
            return Answer::now(rejection);
        }
        let question = question(prepared, key, What::take(cost, longest_wait, self.now()));
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        Answer::later(async move {
            let (rule, asked) = (Arc::clone(&question.rule), shared.blocked.now());
            match shared.ask(question).await {
                Ok(decision) => {
                    shared.blocked.remember(&rule, &key, cost, asked, decision);
                    decision
                }
                Err(failure) => {
                    rule.report(&failure);
                    shared.policy(on_error, &rule, &key, cost, longest_wait)
                }
            }
        })
    }

    fn look(&self, rule: &Rule, key: &Key) -> Answer<Decision> {
        let question = question(self.prepared(rule), key, What::look(self.now()));
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        Answer::later(async move {
            let rule = Arc::clone(&question.rule);
            match shared.ask(question).await {
                Ok(decision) => decision.as_looked_at(),
                Err(_) => {
                    shared.local.look_sync(&rule.own_part, StoredKey::new(&key)).by(DecidedBy::Degraded)
                }
            }
        })
    }

    fn forget(&self, rule: &Rule, key: &Key) -> Answer<()> {
        let question = question(self.prepared(rule), key, What::Forget);
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        Answer::later(async move {
            let rule = Arc::clone(&question.rule);
            // Before and after: whoever asks meanwhile may hear of the time before.
            shared.blocked.forget(&rule, &key);
            shared.local.forget_sync(&rule.own_part, StoredKey::new(&key));
            // What does not reach the server within its time is not tried again: the permits come back by themselves.
            let _ = shared.ask(question).await;
            shared.blocked.forget(&rule, &key);
        })
    }

    fn local(&self) -> &LocalLimiter {
        &self.shared.local
    }
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("prefix", &self.shared.prefix)
            .field("timeout", &self.shared.timeout)
            .finish_non_exhaustive()
    }
}

/// Makes a [`RedisLimiter`].
#[must_use = "a builder makes nothing until it is told to `connect`"]
pub struct RedisLimiterBuilder {
    url: String,
    prefix: String,
    timeout: Duration,
    local: Option<LocalLimiter>,
    on_error: OnError,
    instances: u64,
    clock: Option<TestClock>,
}

impl RedisLimiterBuilder {
    /// What the names of all keys on the server start with. Two programs with different prefixes share nothing.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// How long a call may take before its `on_error` answers.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.min(LONGEST_TIMEOUT), ..self }
    }

    /// Who answers functions that say `store = "local"`, and calls that the server does not answer.
    pub fn local(self, local: LocalLimiter) -> Self {
        Self { local: Some(local), ..self }
    }

    /// Who answers calls that the server does not, where the function says nothing: this process, unless told otherwise.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// How many instances share the limits. Without the server, each then keeps to its part of them, so that the fleet
    /// still holds them together. An instance always has at least one permit. A call that costs more than the part of one
    /// instance is rejected as [`Reason::Unavailable`](crate::Reason): only all of them together could admit it.
    pub fn instances(self, instances: u32) -> Self {
        Self { instances: u64::from(instances.max(1)), ..self }
    }

    /// The time in microseconds, in place of the server's: for the tests of this project.
    #[doc(hidden)]
    pub fn clock(self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock: Some(Arc::new(clock)), ..self }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// If the address is wrong, or no server answers there.
    pub async fn connect(self) -> Result<RedisLimiter, ConnectError> {
        let address = self.address()?;
        let fleet = Fleet::connect(address, self.timeout, script_clock(self.clock.as_ref())).await?;
        Ok(self.with(fleet))
    }

    /// Starts without waiting for the server: until one is there, calls are answered by their `on_error`.
    ///
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the address is wrong.
    pub fn connect_lazy(self) -> Result<RedisLimiter, ConnectError> {
        let address = self.address()?;
        let fleet = Fleet::connect_lazy(address, self.timeout, script_clock(self.clock.as_ref()));
        Ok(self.with(fleet))
    }

    fn address(&self) -> Result<Address, ConnectError> {
        Address::parse(&self.url).map_err(|error| ConnectError(error.to_string()))
    }

    fn with(self, fleet: Fleet) -> RedisLimiter {
        let Self { prefix, timeout, local, on_error, instances, clock, .. } = self;
        let (rules, blocked, local) = (RuleMap::new(), Blocked::new(), local.unwrap_or_default());
        let shared = Shared { fleet, rules, blocked, local, prefix, timeout, on_error, instances, clock };
        RedisLimiter { shared: Arc::new(shared) }
    }
}

/// No call waits longer for a server, and sums of times do not overflow.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// It shows no address: that may hold a password.
impl fmt::Debug for RedisLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiterBuilder")
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

fn question(rule: &Arc<Prepared>, key: &Key, what: What) -> Question {
    let name = names::name(&rule.start, key, rule.rule.strategy()).into();
    Question { name, rule: Arc::clone(rule), what }
}

fn script_clock(clock: Option<&TestClock>) -> ScriptClock {
    if clock.is_some() { ScriptClock::Argument } else { ScriptClock::Server }
}
