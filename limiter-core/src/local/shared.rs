//! States that many calls share: those without a key, or those whose keys found no room.

use crate::entry::Verdict;

pub(super) struct Shared<S> {
    states: S,
    /// The newest time seen here: an older one counts as this.
    newest: u64,
    pub(super) tally: Tally,
}

/// How the calls of annotated functions fared that were decided on the short way: counted behind the lock that each of them
/// takes, where nobody else writes. None of them go with the crowd.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) rejected: u64,
}

impl Tally {
    pub(super) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Goes => self.passed += 1,
            Verdict::Refused(_) => self.rejected += 1,
            // Counted by whoever told.
            Verdict::Told => {}
        }
    }
}

impl<S> Shared<S> {
    pub(super) fn new(states: S) -> Self {
        Self { states, newest: 0, tally: Tally::default() }
    }

    /// The states, and the time of a call that came at `now`.
    #[inline]
    pub(super) fn at(&mut self, now: u64) -> (&mut S, u64) {
        self.newest = now.max(self.newest);
        (&mut self.states, self.newest)
    }
}
