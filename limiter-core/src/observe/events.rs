//! Events and spans, by the crate `tracing`, under the target `limiter`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::key_text::write_key;
use crate::printable::printable;
use crate::site::Mode;
use crate::{DecidedBy, Decision, Key, Reason, Site};

static KEYS_ARE_SHOWN: AtomicBool = AtomicBool::new(false);

/// Whether the event of a rejected call shows its key. A key may be somebody's name or address: it is not shown unless
/// this is called.
pub fn trace_keys(show: bool) {
    KEYS_ARE_SHOWN.store(show, Ordering::Relaxed);
}

#[inline]
pub(super) fn keys_are_shown() -> bool {
    KEYS_ARE_SHOWN.load(Ordering::Relaxed)
}

/// Longer keys are not shown.
const LONGEST: usize = 200;

/// The key as text that breaks no line, where keys are to be seen.
pub(super) fn shown(key: &Key) -> Option<String> {
    if !keys_are_shown() {
        return None;
    }
    let length = key.as_bytes().len();
    if length > LONGEST {
        return Some(format!("({length} bytes)"));
    }
    let mut text = String::new();
    write_key(&mut text, key);
    Some(text)
}

pub(super) fn rejected(site: &Site, decision: &Decision, key: Option<&str>) {
    let retry_after_ms = decision
        .retry_after()
        .map(|time| u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
    tracing::info!(
        target: "limiter",
        rule = &*printable(site.rule().name()),
        reason = match decision.reason() {
            Reason::Exceeded => "exceeded",
            Reason::TooCostly => "too costly",
            Reason::Unavailable => "unavailable",
        },
        remaining = decision.remaining(),
        retry_after_ms,
        decided_by = match decision.decided_by() {
            DecidedBy::Local => "local",
            DecidedBy::Shared => "shared",
            DecidedBy::Degraded => "degraded",
        },
        shadow = (site.options().mode == Mode::Shadow).then_some(true),
        key,
        "rejected"
    );
}

/// Around the time in which a call waits for its turn.
pub(super) fn waiting(site: &Site, decision: &Decision) -> tracing::Span {
    let wait_ms = u64::try_from(decision.delay().as_millis()).unwrap_or(u64::MAX);
    tracing::info_span!(target: "limiter", "limiter.wait", rule = &*printable(site.rule().name()), wait_ms)
}
