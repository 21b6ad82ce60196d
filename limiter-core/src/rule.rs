//! What a limit says.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::Quota;
use crate::strategy::Strategy;

/// What a limit says: its name, its strategy, its quotas.
///
/// A rule can be a constant, or be built and checked while the program runs:
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{Quota, Rule, Strategy};
/// use std::time::Duration;
///
/// const LOGIN: Rule = Rule::new("login", Strategy::SlidingLog, Quota::new(5, Duration::from_secs(60)));
///
/// let quotas = ["3/s".parse()?, "100/m".parse()?];
/// let orders = Rule::try_new(format!("orders of {}", "acme"), Strategy::TokenBucket, quotas)?;
/// assert_eq!(orders.quotas().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    name: Name,
    strategy: Strategy,
    quotas: Quotas,
    samples: u32,
    fingerprint: u64,
}

impl Rule {
    /// Into how many samples `sliding_window` cuts its window, unless told otherwise.
    pub const DEFAULT_SAMPLES: u32 = 10;
    /// The most samples a window can be cut into.
    pub const MOST_SAMPLES: u32 = 1000;
    /// The most quotas one rule can have.
    pub const MOST_QUOTAS: usize = 8;

    /// A rule with one quota, usable as a constant.
    ///
    /// # Panics
    ///
    /// If the rule is unusable; in a constant that is a compile error. [`Rule::try_new`] returns an error instead.
    pub const fn new(name: &'static str, strategy: Strategy, quota: Quota) -> Self {
        assert_usable(mistake(name, strategy, &[quota]));
        let fingerprint = fingerprint(name, strategy, &[quota]);
        let (name, quotas) = (Name::Static(name), Quotas::One([quota]));
        Self { name, strategy, quotas, samples: Self::DEFAULT_SAMPLES, fingerprint }
    }

    /// A rule with several quotas, usable as a constant: a call passes all of them or takes from none.
    ///
    /// # Panics
    ///
    /// If the rule is unusable; in a constant that is a compile error. [`Rule::try_new`] returns an error instead.
    pub const fn with_limits(name: &'static str, strategy: Strategy, quotas: &'static [Quota]) -> Self {
        assert_usable(mistake(name, strategy, quotas));
        let fingerprint = fingerprint(name, strategy, quotas);
        let (name, quotas) = (Name::Static(name), Quotas::Static(quotas));
        Self { name, strategy, quotas, samples: Self::DEFAULT_SAMPLES, fingerprint }
    }

    /// A rule built while the program runs, or why it cannot be.
    ///
    /// A limiter remembers every rule it has met: make few rules and many keys.
    ///
    /// # Errors
    ///
    /// If the name is empty or too long, there are no quotas or too many, or a burst does not fit the strategy.
    pub fn try_new(
        name: impl Into<Cow<'static, str>>,
        strategy: Strategy,
        quotas: impl AsRef<[Quota]>,
    ) -> Result<Self, RuleError> {
        let (name, quotas) = (name.into(), quotas.as_ref());
        if let Some(mistake) = mistake(&name, strategy, quotas) {
            return Err(mistake);
        }
        let fingerprint = fingerprint(&name, strategy, quotas);
        let name = match name {
            Cow::Borrowed(name) => Name::Static(name),
            Cow::Owned(name) => Name::Shared(name.into()),
        };
        let quotas = match quotas {
            [quota] => Quotas::One([*quota]),
            quotas => Quotas::Shared(quotas.into()),
        };
        Ok(Self { name, strategy, quotas, samples: Self::DEFAULT_SAMPLES, fingerprint })
    }

    /// The same rule with its window cut into `samples` samples (only for `sliding_window`).
    ///
    /// # Panics
    ///
    /// If the rule becomes unusable; in a constant that is a compile error. [`Rule::try_samples`] returns an error
    /// instead.
    #[must_use]
    pub const fn samples(mut self, samples: u32) -> Self {
        assert_usable(samples_mistake(self.strategy, samples));
        self.samples = samples;
        self
    }

    /// The same rule with its window cut into `samples` samples, or why that cannot be.
    ///
    /// # Errors
    ///
    /// If the strategy is not `sliding_window`, or the samples are not from 1 to [`Rule::MOST_SAMPLES`].
    pub fn try_samples(self, samples: u32) -> Result<Self, RuleError> {
        match samples_mistake(self.strategy, samples) {
            None => Ok(Self { samples, ..self }),
            Some(mistake) => Err(mistake),
        }
    }

    /// The name of the limit.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// How the rule is computed.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The quotas, all of which a call must pass.
    pub fn quotas(&self) -> &[Quota] {
        match &self.quotas {
            Quotas::One(quota) => quota,
            Quotas::Static(quotas) => quotas,
            Quotas::Shared(quotas) => quotas,
        }
    }

    /// Into how many samples `sliding_window` cuts its window.
    pub fn sample_count(&self) -> u32 {
        self.samples
    }

    /// The largest cost that a call can ever pay: the smallest capacity of the quotas.
    pub fn capacity(&self) -> u64 {
        least_capacity(self.quotas())
    }

    /// The part of the rule that one of so many instances has, at least one permit of each quota.
    #[cfg(feature = "redis")]
    pub(crate) fn divided(&self, instances: u64) -> Self {
        let part = |permits: u64| (permits / instances).max(1);
        let quotas: Vec<Quota> = self.quotas().iter().map(|quota| quota.with_permits(part)).collect();
        let fingerprint = fingerprint(self.name(), self.strategy, &quotas);
        Self { name: self.name.clone(), quotas: Quotas::Shared(quotas.into()), fingerprint, ..*self }
    }

    /// A number by which rules can be told apart quickly; equal rules have equal ones.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
            && self.strategy == other.strategy
            && self.samples == other.samples
            && self.quotas() == other.quotas()
            && self.name == other.name
    }
}

impl Eq for Rule {}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({:?} {} {:?})", self.name(), self.strategy, self.quotas())
    }
}

/// A name that is cheap to hand on, whether it came from the source or was made at run time.
#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Name {
    fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        let (this, other) = (self.as_str(), other.as_str());
        // A rule mostly meets itself, and then there is nothing to read.
        std::ptr::eq(this, other) || this == other
    }
}

#[derive(Clone)]
enum Quotas {
    One([Quota; 1]),
    Static(&'static [Quota]),
    Shared(Arc<[Quota]>),
}

const LONGEST_NAME: usize = 200;

const fn mistake(name: &str, strategy: Strategy, quotas: &[Quota]) -> Option<RuleError> {
    if name.is_empty() {
        return Some(RuleError::NoName);
    }
    if name.len() > LONGEST_NAME {
        return Some(RuleError::NameTooLong);
    }
    let (bytes, mut i) = (name.as_bytes(), 0);
    while i < bytes.len() {
        if bytes[i].is_ascii_control() {
            return Some(RuleError::ControlCharacter);
        }
        i += 1;
    }
    if quotas.is_empty() {
        return Some(RuleError::NoQuotas);
    }
    if quotas.len() > Rule::MOST_QUOTAS {
        return Some(RuleError::TooManyQuotas);
    }
    let mut i = 0;
    while i < quotas.len() {
        match quotas[i].given_burst() {
            Some(_) if !strategy.has_burst() => return Some(RuleError::BurstWithoutBucket),
            Some(0) => return Some(RuleError::NoBurst),
            _ => i += 1,
        }
    }
    None
}

const fn samples_mistake(strategy: Strategy, samples: u32) -> Option<RuleError> {
    if !strategy.has_samples() {
        Some(RuleError::SamplesWithoutSlidingWindow)
    } else if samples == 0 || samples > Rule::MOST_SAMPLES {
        Some(RuleError::SamplesOutOfRange)
    } else {
        None
    }
}

const fn assert_usable(mistake: Option<RuleError>) {
    if let Some(mistake) = mistake {
        panic!("{}", mistake.text());
    }
}

pub(crate) const fn least_capacity(quotas: &[Quota]) -> u64 {
    let (mut i, mut least) = (0, u64::MAX);
    while i < quotas.len() {
        if quotas[i].capacity() < least {
            least = quotas[i].capacity();
        }
        i += 1;
    }
    least
}

/// FNV-1a: it only has to spread rules over a table, and to be computable in a constant.
const fn fingerprint(name: &str, strategy: Strategy, quotas: &[Quota]) -> u64 {
    const fn mix(hash: u64, value: u64) -> u64 {
        (hash ^ value).wrapping_mul(0x0100_0000_01b3)
    }
    let mut hash = mix(0xcbf2_9ce4_8422_2325, strategy as u64);
    let (name, mut i) = (name.as_bytes(), 0);
    while i < name.len() {
        hash = mix(hash, name[i] as u64);
        i += 1;
    }
    i = 0;
    while i < quotas.len() {
        hash = mix(mix(mix(hash, quotas[i].permits()), quotas[i].window_nanos()), quotas[i].capacity());
        i += 1;
    }
    // The low bits choose a place in the table; FNV leaves its best ones at the top.
    hash ^ (hash >> 32)
}

/// Why a rule is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// The name is empty.
    NoName,
    /// The name has more than 200 bytes.
    NameTooLong,
    /// The name has a control character, which would break a log line.
    ControlCharacter,
    /// There are no quotas.
    NoQuotas,
    /// There are more than [`Rule::MOST_QUOTAS`] quotas.
    TooManyQuotas,
    /// A quota has a burst, but the strategy has no bucket.
    BurstWithoutBucket,
    /// A quota has a burst of 0.
    NoBurst,
    /// Samples were given, but the strategy is not `sliding_window`.
    SamplesWithoutSlidingWindow,
    /// The samples are not from 1 to [`Rule::MOST_SAMPLES`].
    SamplesOutOfRange,
}

impl RuleError {
    const fn text(self) -> &'static str {
        match self {
            Self::NoName => "a rule needs a name",
            Self::NameTooLong => "the name of a rule can have 200 bytes at most; give a shorter one",
            Self::ControlCharacter => "the name of a rule cannot have control characters",
            Self::NoQuotas => "a rule needs at least one quota",
            Self::TooManyQuotas => "a rule can have 8 quotas at most",
            Self::BurstWithoutBucket => {
                "only token_bucket and leaky_bucket have a burst; choose one of them, or leave the burst out"
            }
            Self::NoBurst => "a burst must be at least 1",
            Self::SamplesWithoutSlidingWindow => {
                "only sliding_window has samples; choose it, or leave the samples out"
            }
            Self::SamplesOutOfRange => "a window can be cut into 1 to 1000 samples",
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().unwrap()
    }

    #[test]
    fn an_unusable_rule_is_a_typed_error() {
        use Strategy::{FixedWindow, SlidingWindow, TokenBucket};
        let cases = [
            ("", FixedWindow, vec![quota("3/s")], RuleError::NoName),
            ("a\n", FixedWindow, vec![quota("3/s")], RuleError::ControlCharacter),
            ("a", FixedWindow, vec![], RuleError::NoQuotas),
            ("a", FixedWindow, vec![quota("3/s"); 9], RuleError::TooManyQuotas),
            ("a", FixedWindow, vec![quota("3/s").burst(5)], RuleError::BurstWithoutBucket),
            ("a", SlidingWindow, vec![quota("3/s").burst(0)], RuleError::BurstWithoutBucket),
            ("a", TokenBucket, vec![quota("3/s").burst(0)], RuleError::NoBurst),
        ];
        for (name, strategy, quotas, error) in cases {
            assert_eq!(Rule::try_new(name, strategy, quotas), Err(error));
        }
        assert_eq!(Rule::try_new("n".repeat(201), FixedWindow, [quota("3/s")]), Err(RuleError::NameTooLong));
        let rule = |strategy| Rule::try_new("a", strategy, [quota("3/s")]).unwrap();
        assert_eq!(rule(FixedWindow).try_samples(3), Err(RuleError::SamplesWithoutSlidingWindow));
        assert_eq!(rule(SlidingWindow).try_samples(0), Err(RuleError::SamplesOutOfRange));
        assert_eq!(rule(SlidingWindow).try_samples(1001), Err(RuleError::SamplesOutOfRange));
    }

    #[test]
    fn a_rule_is_what_it_says_wherever_it_was_made() {
        const CONSTANT: Rule =
            Rule::new("a", Strategy::TokenBucket, Quota::new(3, std::time::Duration::from_secs(1)).burst(9));
        let made = Rule::try_new(String::from("a"), Strategy::TokenBucket, [quota("3/s").burst(9)]).unwrap();
        assert_eq!(CONSTANT, made);
        assert_eq!(CONSTANT.fingerprint(), made.fingerprint());
        assert_ne!(CONSTANT, Rule::try_new("a", Strategy::TokenBucket, [quota("3/s")]).unwrap());
        assert_eq!(made.capacity(), 9);
    }

    #[test]
    fn rules_that_differ_in_anything_are_different() {
        let rule =
            |name: &'static str, strategy, quotas: &[Quota]| Rule::try_new(name, strategy, quotas).unwrap();
        let (one, two) = ([quota("3/s")], [quota("3/s"), quota("9/m")]);
        let rules = [
            rule("a", Strategy::SlidingWindow, &one),
            rule("b", Strategy::SlidingWindow, &one),
            rule("a", Strategy::SlidingLog, &one),
            rule("a", Strategy::SlidingWindow, &two),
            rule("a", Strategy::SlidingWindow, &[two[1], two[0]]),
            rule("a", Strategy::SlidingWindow, &one).samples(5),
        ];
        for (i, rule) in rules.iter().enumerate() {
            for (j, other) in rules.iter().enumerate() {
                assert_eq!(rule == other, i == j, "{rule:?} and {other:?}");
            }
        }
    }
}
