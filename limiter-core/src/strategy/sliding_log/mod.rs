#![doc = include_str!("README.md")]

use std::collections::VecDeque;

use super::{Standing, Terms};

pub(crate) struct Room;

/// The calls of one window with running totals.
///
/// Calls go in order, so a call only ever meets those of the window that ends with the last one, or later. Older ones
/// are dropped when a call goes.
#[derive(Clone, Default)]
pub(crate) struct Log {
    /// Calls counted together, oldest first, without the newest: most calls need not look here.
    older: VecDeque<Counter>,
    /// When the last call of the oldest of them went.
    oldest: u64,
    /// Where the next call is counted, or above.
    newest: Counter,
    /// When the newest counter was opened.
    opened: u64,
    /// The running total before the first counter: that of the newest where there are none.
    base: u64,
}

#[derive(Clone, Copy, Default)]
struct Counter {
    /// When the last of its calls went: its permits come back one window later.
    last: u64,
    /// The running total with its calls. Totals wrap around; differences are right all the same.
    total: u64,
}

impl super::Room for Room {
    type State = Log;

    #[cfg(feature = "redis")]
    const LUA: &'static str = include_str!("sliding_log.lua");

    /// Grows with the calls of a window: most keys make fewer than they may.
    fn fresh(_: &Terms) -> Log {
        Log::with_room_for(0)
    }

    #[inline]
    fn earliest(log: &Log, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        if cost > terms.permits {
            return None;
        }
        if log.is_empty() {
            return Some(now);
        }
        let turn = now.max(log.newest.last);
        let unused = terms.permits - log.spent(log.newest);
        if cost <= unused {
            return Some(turn);
        }
        // The counter with which enough permits have come back, one window after its last call.
        let needed = cost - unused;
        let i = log.older.partition_point(|counter| log.spent(*counter) < needed);
        let counter = log.older.get(i).unwrap_or(&log.newest);
        Some(turn.max(counter.last + terms.window))
    }

    #[inline]
    fn take(log: &mut Log, terms: &Terms, at: u64, cost: u64) {
        let oldest = if log.older.is_empty() { log.newest.last } else { log.oldest };
        if oldest + terms.window <= at {
            log.drop_until(at, terms.window);
        }
        if !log.is_empty() && at - log.opened < terms.sample {
            log.newest.last = at;
        } else {
            log.open(at);
        }
        log.newest.total = log.newest.total.wrapping_add(cost);
    }

    fn standing(log: &Log, terms: &Terms, now: u64) -> Standing {
        if log.is_empty() {
            return Standing::whole(terms.permits, 0);
        }
        let reset_after = (log.newest.last + terms.window).saturating_sub(now);
        if log.newest.last > now {
            return Standing::whole(0, reset_after);
        }
        if log.newest.last + terms.window <= now {
            return Standing::whole(terms.permits, 0);
        }
        let gone = log.older.partition_point(|counter| counter.last + terms.window <= now);
        let before = if gone == 0 { 0 } else { log.spent(log.older[gone - 1]) };
        Standing::whole(terms.permits - (log.spent(log.newest) - before), reset_after)
    }
}

impl Log {
    /// An empty log with room for `counters` of them.
    pub(super) fn with_room_for(counters: u64) -> Self {
        let older = usize::try_from(counters.saturating_sub(1)).unwrap_or(usize::MAX);
        Self { older: VecDeque::with_capacity(older), ..Self::default() }
    }

    /// A counter is opened to count something.
    #[inline]
    fn is_empty(&self) -> bool {
        self.newest.total == self.base
    }

    /// How much was spent from the first counter to this one.
    #[inline]
    fn spent(&self, counter: Counter) -> u64 {
        counter.total.wrapping_sub(self.base)
    }

    /// Drops what is a window ago at `at`.
    #[cold]
    fn drop_until(&mut self, at: u64, window: u64) {
        while let Some(counter) = self.older.front().filter(|counter| counter.last + window <= at) {
            self.base = counter.total;
            self.older.pop_front();
        }
        match self.older.front() {
            Some(oldest) => self.oldest = oldest.last,
            None if self.newest.last + window <= at => self.base = self.newest.total,
            None => {}
        }
    }

    #[cold]
    fn open(&mut self, at: u64) {
        if !self.is_empty() {
            if self.older.is_empty() {
                self.oldest = self.newest.last;
            }
            self.older.push_back(self.newest);
        }
        (self.newest.last, self.opened) = (at, at);
    }
}
