//! Counters, gauges and histograms, by the crate `metrics`, each with the label `rule`.

use std::time::Duration;

use metrics::{Key, Level, Metadata, Recorder, Unit, with_recorder};
use once_cell::sync::OnceCell;

use crate::installed::Current;
use crate::printable::printable;
use crate::{DecidedBy, Decision, Rule};

const PASSED: &str = "limiter_passed_total";
const REJECTED: &str = "limiter_rejected_total";
const WAITED: &str = "limiter_waited_total";
const DEGRADED: &str = "limiter_degraded_total";
const LIVE_KEYS: &str = "limiter_live_keys";
const SHARED: &str = "limiter_shared_decision_duration_seconds";
const WAITS: &str = "limiter_wait_duration_seconds";

const METADATA: Metadata<'static> = Metadata::new("limiter", Level::INFO, Some(module_path!()));

/// Tells the recorder that is installed what the limiter's measures mean and what they are counted in.
///
/// | name | kind | what |
/// | --- | --- | --- |
/// | `limiter_passed_total` | counter | calls that were admitted |
/// | `limiter_rejected_total` | counter | calls that were rejected; in shadow mode, those that would have been |
/// | `limiter_waited_total` | counter | those of the admitted that had to wait |
/// | `limiter_degraded_total` | counter | those of all that `on_error` answered |
/// | `limiter_live_keys` | gauge | keys that this process holds, at the last call that was decided in it |
/// | `limiter_shared_decision_duration_seconds` | histogram | how long the shared limiter took to decide |
/// | `limiter_wait_duration_seconds` | histogram | how long calls waited for their turn |
///
/// Each has the label `rule`, the limit's name. Keys are in none of them.
pub fn describe_metrics() {
    with_recorder(|recorder| {
        for (name, what) in [
            (PASSED, "Calls that were admitted."),
            (REJECTED, "Calls that were rejected."),
            (WAITED, "Admitted calls that had to wait for their turn."),
            (DEGRADED, "Calls that the shared limiter could not answer, and on_error did."),
        ] {
            recorder.describe_counter(name.into(), Some(Unit::Count), what.into());
        }
        let keys = "Keys that this process holds.";
        recorder.describe_gauge(LIVE_KEYS.into(), Some(Unit::Count), keys.into());
        for (name, what) in [
            (SHARED, "How long the shared limiter took to decide."),
            (WAITS, "How long calls waited for their turn."),
        ] {
            recorder.describe_histogram(name.into(), Some(Unit::Seconds), what.into());
        }
    });
}

/// What a site's measures are called. The recorder itself is looked up for each call: it may be installed later.
pub(crate) struct Measures(OnceCell<Keys>);

struct Keys {
    passed: Key,
    rejected: Key,
    waited: Key,
    degraded: Key,
    held: Key,
    shared: Key,
    waits: Key,
}

impl Measures {
    pub(crate) const fn new() -> Self {
        Self(OnceCell::new())
    }

    pub(super) fn settled(&self, rule: &Rule, limiter: &Current, decision: &Decision) {
        let keys = self.keys(rule);
        with_recorder(|recorder| {
            count(recorder, if decision.is_allowed() { &keys.passed } else { &keys.rejected });
            if !decision.delay().is_zero() {
                count(recorder, &keys.waited);
            }
            match decision.decided_by() {
                DecidedBy::Degraded => count(recorder, &keys.degraded),
                DecidedBy::Local => {
                    #[expect(clippy::cast_precision_loss, reason = "no table holds that many keys")]
                    let held = limiter.local().live_keys(rule) as f64;
                    recorder.register_gauge(&keys.held, &METADATA).set(held);
                }
                DecidedBy::Shared => {}
            }
        });
    }

    /// The shared limiter took this long to decide. How long it did not is no measure of it.
    pub(super) fn answered(&self, rule: &Rule, decision: &Decision, time: Duration) {
        if decision.decided_by() == DecidedBy::Shared {
            record(&self.keys(rule).shared, time);
        }
    }

    pub(super) fn waits(&self, rule: &Rule, time: Duration) {
        record(&self.keys(rule).waits, time);
    }

    fn keys(&self, rule: &Rule) -> &Keys {
        self.0.get_or_init(|| {
            let rule = printable(rule.name()).into_owned();
            let key = |name| Key::from_parts(name, &[("rule", rule.clone())]);
            Keys {
                passed: key(PASSED),
                rejected: key(REJECTED),
                waited: key(WAITED),
                degraded: key(DEGRADED),
                held: key(LIVE_KEYS),
                shared: key(SHARED),
                waits: key(WAITS),
            }
        })
    }
}

fn count(recorder: &dyn Recorder, key: &Key) {
    recorder.register_counter(key, &METADATA).increment(1);
}

fn record(key: &Key, time: Duration) {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(time.as_secs_f64()));
}
