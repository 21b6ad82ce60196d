//! What the workers ask for, and what may be admitted of it.

use std::time::Duration;

use limiter::{OnError, Quota, Rule, Strategy};

/// Processes that share each kind of servers.
pub(crate) const WORKERS: usize = 3;
/// How long a call may take.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);
/// The one key of each of the [`limits`].
pub(crate) const KEY: &str = "shared";

/// Limits that are always used up, one for each strategy and one with several quotas. Their permits can be divided
/// among the workers.
pub(crate) fn limits() -> Vec<Rule> {
    let rule = |name, strategy, quotas: &[&str]| {
        let quotas: Vec<Quota> =
            quotas.iter().map(|quota| quota.parse::<Quota>().expect("a quota")).collect();
        Rule::try_new(name, strategy, quotas).expect("a rule")
    };
    let one = |&strategy: &Strategy| rule(strategy.name(), strategy, &["12/500ms"]);
    let mut limits: Vec<Rule> = Strategy::ALL.iter().map(one).collect();
    limits.push(rule("several", Strategy::SlidingLog, &["12/500ms", "60/5s"]));
    limits
}

/// The names that the keys of a rule have on the server.
pub(crate) fn names(rule: &Rule) -> Vec<String> {
    let first = format!("limiter:{{{}:{KEY}}}:{}", rule.name(), rule.strategy());
    let others = (1..rule.quotas().len()).map(|quota| format!("{first}:{quota}"));
    std::iter::once(first.clone()).chain(others).collect()
}

/// A limit that is never reached, and whose permits do not come back. Each of its keys is used for a few calls only, so
/// that it shows when one of them was charged twice, or not at all.
pub(crate) fn ledger() -> Rule {
    let quotas = ["1000/1d", "2000/2d"].map(|quota| quota.parse::<Quota>().expect("a quota"));
    Rule::try_new("ledger", Strategy::FixedWindow, quotas).expect("a rule")
}

/// A key of the ledger.
pub(crate) fn page(worker: usize, number: u64) -> String {
    format!("w{worker}n{number}")
}

/// What answers calls for a page of the ledger where the server does not.
pub(crate) fn page_policy(number: u64) -> OnError {
    [OnError::Local, OnError::Allow, OnError::Deny][usize::try_from(number % 3).expect("small")]
}

/// The third of a cluster's slots in which a page of the ledger is.
pub(crate) fn third(page: &str) -> usize {
    let mut crc = 0u16;
    for byte in format!("ledger:{page}").bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    usize::from(crc % 16_384) * 3 / 16_384
}

/// The most that may be admitted under a rule in any interval of this many microseconds.
pub(crate) fn most(rule: &Rule, micros: u64) -> u64 {
    // Clocks of one machine run apart by less than this.
    let micros = micros + micros / 1_000 + 1_000;
    let most = |quota: &Quota| {
        let window = u64::try_from(quota.window().as_micros()).expect("a short window");
        match rule.strategy() {
            Strategy::TokenBucket | Strategy::LeakyBucket => {
                quota.permits() + micros * quota.permits() / window
            }
            // The interval may begin at the end of one window.
            Strategy::FixedWindow => quota.permits() * (micros / window + 2),
            _ => quota.permits() * (micros / window + 1),
        }
    };
    rule.quotas().iter().map(most).min().expect("a rule has a quota")
}
