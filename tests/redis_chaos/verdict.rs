//! Whether what the workers saw keeps the promises.
//!
//! The server counted a call at some time between question and answer. So all that were asked after one time and
//! answered before another were counted in between, and there must not be more of them than the rule allows.

use std::collections::HashMap;
use std::time::Duration;

use limiter::{DecidedBy, Key, Limiter as _, RedisLimiter, Rule};

use crate::faults::{Loss, Lost};
use crate::load;
use crate::record::Record;
use crate::support::history::{Outcome, PATIENT};

/// How far past its deadline a call may end on a machine with much else to do.
const SLACK: Duration = Duration::from_secs(10);
/// So long after it was asked a server may still count a call, in microseconds.
const LATEST: u64 = 10_000_000;
/// Longer intervals than this are not looked at, in microseconds.
const LONGEST: u64 = 6_000_000;

/// All promises that were broken. `histories` are those of the workers.
pub(crate) fn broken(histories: &[Vec<Record>], losses: &[Loss]) -> Vec<String> {
    let mut broken = Vec::new();
    let late = u64::try_from((load::DEADLINE + SLACK).as_micros()).expect("short");
    for record in histories.iter().flatten().filter(|record| record.answered - record.asked > late) {
        broken.push(format!("a call took {} µs: {record}", record.answered - record.asked));
    }
    for rule in load::limits() {
        let of = |outcome: Outcome| -> Vec<&Record> {
            let is = |record: &&Record| record.subject == rule.name() && record.outcome == outcome;
            histories.iter().flatten().filter(is).collect()
        };
        let admitted = of(Outcome::Admitted);
        if admitted.is_empty() {
            broken.push(format!("{}: the servers admitted nothing", rule.name()));
        }
        let mut check = |who: &str, records: &[&Record], most: &dyn Fn(u64, u64) -> u64| {
            if let Some(excess) = excess(records, most) {
                broken.push(format!("{}: {who}: {excess}", rule.name()));
            }
        };
        // What surely was not lost holds the limit, between any two times at which the server forgot it all.
        for era in eras(losses) {
            let kept: Vec<&Record> = admitted
                .iter()
                .copied()
                .filter(|record| {
                    record.asked > era.0 && record.answered < era.1 && !may_be_lost(record, losses)
                })
                .collect();
            check("by the servers", &kept, &|from, to| load::most(&rule, to - from));
        }
        // With what may have been lost, it is at most the limit once more for each time that something was lost.
        check("by the servers, lost or not", &admitted, &|from, to| {
            let lost = losses.iter().filter(|loss| loss.from <= to && loss.to >= from).count() as u64;
            load::most(&rule, to - from) * (lost + 1)
        });
        // Without the servers each worker keeps to its part, and so the fleet to the whole.
        let own = of(Outcome::Degraded { allowed: true });
        check("by the workers themselves", &own, &|from, to| load::most(&rule, to - from));
        broken.extend(too_early(&rule, histories));
    }
    let is_page = |record: &&Record| record.subject.starts_with('w');
    for record in histories.iter().flatten().filter(is_page) {
        if record.outcome == Outcome::Rejected {
            broken.push(format!("rejected under a limit that is never reached: {record}"));
        }
    }
    broken
}

/// Nobody is rejected by a server unless the limit can have been reached: only `sliding_log` says so to the moment.
fn too_early(rule: &Rule, histories: &[Vec<Record>]) -> Option<String> {
    let [quota] = rule.quotas() else { return None };
    if rule.strategy() != limiter::Strategy::SlidingLog {
        return None;
    }
    let window = u64::try_from(quota.window().as_micros()).expect("short");
    let mut of_rule: Vec<&Record> =
        histories.iter().flatten().filter(|record| record.subject == rule.name()).collect();
    of_rule.sort_by_key(|record| record.asked);
    let rejections = of_rule.iter().filter(|record| record.outcome == Outcome::Rejected);
    rejections.into_iter().find_map(|rejected| {
        let from = rejected.asked.saturating_sub(window + window / 100);
        let start = of_rule.partition_point(|record| record.asked + LATEST < from);
        let end = of_rule.partition_point(|record| record.asked <= rejected.answered);
        let may_count = |record: &&&Record| match record.outcome {
            Outcome::Rejected => false,
            Outcome::Admitted => record.answered >= from,
            // It may lie in the queue of a server that is frozen, or on the way there, when nobody waits for it any more.
            Outcome::Degraded { .. } | Outcome::Dropped => true,
        };
        let count = of_rule[start..end].iter().filter(may_count).count() as u64;
        (count < quota.permits())
            .then(|| format!("{}: rejected after {count} calls at the most: {rejected}", rule.name()))
    })
}

/// The times between evictions.
fn eras(losses: &[Loss]) -> Vec<(u64, u64)> {
    let cuts = losses.iter().filter(|loss| loss.what == Lost::Evicted);
    let mut eras = vec![(0, u64::MAX)];
    for cut in cuts {
        let last = eras.last_mut().expect("there is one");
        last.1 = cut.from;
        eras.push((cut.to, u64::MAX));
    }
    eras
}

fn may_be_lost(record: &Record, losses: &[Loss]) -> bool {
    losses.iter().any(|loss| loss.what == Lost::Unreplicated && record.overlaps(loss.from, loss.to))
}

/// The first interval in which there were more than `most(from, to)`.
fn excess(records: &[&Record], most: &dyn Fn(u64, u64) -> u64) -> Option<String> {
    let mut by_answer = records.to_vec();
    by_answer.sort_by_key(|record| record.answered);
    for first in records {
        let from = first.asked;
        let after = by_answer.partition_point(|record| record.answered < from);
        let mut count = 0;
        for record in by_answer[after..].iter().take_while(|record| record.answered <= from + LONGEST) {
            count += u64::from(record.asked >= from);
            let most = most(from, record.answered);
            if count > most {
                let time = Duration::from_micros(record.answered - from);
                return Some(format!("{count} were admitted in {time:?} from {from} on, and not {most}"));
            }
        }
    }
    None
}

/// Compares each page of the ledger with what the servers have of it.
pub(crate) async fn audit(url: &str, histories: &[Vec<Record>], losses: &[Loss]) -> Vec<String> {
    let witness = RedisLimiter::builder(url).timeout(PATIENT).connect().await.expect("the servers are well");
    let mut pages: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in histories.iter().flatten().filter(|record| record.subject.starts_with('w')) {
        pages.entry(&record.subject).or_default().push(record);
    }
    let mut broken = Vec::new();
    for some in pages.into_iter().collect::<Vec<_>>().chunks(500) {
        let looks: Vec<_> = some
            .iter()
            .map(|(page, _)| {
                let (witness, page) = (witness.clone(), Key::of(*page));
                tokio::spawn(async move { witness.look(&load::ledger(), &page).await })
            })
            .collect();
        for ((page, calls), look) in some.iter().zip(looks) {
            let state = look.await.expect("it did not panic");
            assert_eq!(state.decided_by(), DecidedBy::Shared, "the witness hears nothing");
            let charged = load::ledger().capacity() - state.remaining();
            let surely =
                |record: &&&Record| record.outcome == Outcome::Admitted && !may_be_lost(record, losses);
            let least = calls.iter().filter(surely).count() as u64;
            if charged > calls.len() as u64 {
                broken.push(format!("charged twice: {charged} permits of {page} for {} calls", calls.len()));
            }
            if charged < least {
                broken.push(format!("not charged: {charged} permits of {page} for {least} admissions"));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(asked: u64, answered: u64) -> Record {
        Record { subject: "sliding_log".to_owned(), asked, answered, outcome: Outcome::Admitted }
    }

    /// The checker itself must be able to say no.
    #[test]
    fn one_too_many_is_found_and_doubt_is_not() {
        let limits = load::limits();
        let rule = limits.iter().find(|rule| rule.name() == "sliding_log").expect("it is among them");
        let most = |from, to| load::most(rule, to - from);
        let verdict = |records: &[Record]| excess(&records.iter().collect::<Vec<_>>(), &most);
        let mut calls: Vec<Record> =
            (0..12).map(|call| admitted(call * 10_000, call * 10_000 + 500)).collect();
        assert_eq!(verdict(&calls), None);
        // Perhaps counted after a permit had come back.
        calls.push(admitted(200_000, 600_000));
        assert_eq!(verdict(&calls), None);
        calls.push(admitted(300_000, 300_100));
        assert!(verdict(&calls).is_some());
    }
}
