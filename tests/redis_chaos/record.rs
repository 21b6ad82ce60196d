//! What came of one call, as workers tell it.

use std::fmt;
use std::str::FromStr;
use std::time::{Instant, SystemTime};

use crate::support::history::Outcome;

/// Microseconds since 1970, the same in all processes, which never step.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    micros: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is past 1970");
        Self { start: Instant::now(), micros: u64::try_from(since.as_micros()).expect("not for long yet") }
    }

    pub(crate) fn now(&self) -> u64 {
        self.micros + u64::try_from(self.start.elapsed().as_micros()).expect("a test ends")
    }
}

/// One call. The server counted it, if at all, between the two times.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The name of a limit, or a page of the ledger.
    pub(crate) subject: String,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    pub(crate) outcome: Outcome,
}

impl Record {
    pub(crate) fn overlaps(&self, from: u64, to: u64) -> bool {
        self.asked <= to && self.answered >= from
    }
}

const OUTCOMES: [(&str, Outcome); 5] = [
    ("admitted", Outcome::Admitted),
    ("rejected", Outcome::Rejected),
    ("allowed", Outcome::Degraded { allowed: true }),
    ("denied", Outcome::Degraded { allowed: false }),
    ("dropped", Outcome::Dropped),
];

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome =
            OUTCOMES.iter().find(|(_, outcome)| *outcome == self.outcome).expect("all are listed").0;
        write!(f, "{} {} {} {outcome}", self.subject, self.asked, self.answered)
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let read = || {
            let [subject, asked, answered, outcome] = line.split(' ').collect::<Vec<_>>()[..] else {
                return None;
            };
            let outcome = OUTCOMES.iter().find(|(name, _)| *name == outcome)?.1;
            let (asked, answered) = (asked.parse().ok()?, answered.parse().ok()?);
            Some(Self { subject: subject.to_owned(), asked, answered, outcome })
        };
        read().ok_or_else(|| format!("not a record: {line:?}"))
    }
}
