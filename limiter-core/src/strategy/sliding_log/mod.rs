#![doc = include_str!("README.md")]

use std::collections::VecDeque;

use super::{Standing, Terms};

pub(crate) struct Room;

/// The calls of one window with running totals.
///
/// Calls go in order, so a call only ever meets those of the window that ends with the last one, or later. Older ones
/// are dropped when a call goes.
#[derive(Clone)]
pub(crate) struct Log {
    /// Calls counted together, oldest first.
    counters: VecDeque<Counter>,
    /// The running total before the first counter.
    base: u64,
    /// When the newest counter was opened.
    opened: u64,
}

#[derive(Clone, Copy)]
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

    fn earliest(log: &Log, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        if cost > terms.permits {
            return None;
        }
        let Some(newest) = log.counters.back() else { return Some(now) };
        let turn = now.max(newest.last);
        let unused = terms.permits - newest.total.wrapping_sub(log.base);
        if cost <= unused {
            return Some(turn);
        }
        // The counter with which enough permits have come back, one window after its last call.
        let needed = cost - unused;
        let i = log.counters.partition_point(|counter| counter.total.wrapping_sub(log.base) < needed);
        Some(turn.max(log.counters[i].last + terms.window))
    }

    fn take(log: &mut Log, terms: &Terms, at: u64, cost: u64) {
        while let Some(oldest) = log.counters.front().filter(|oldest| oldest.last + terms.window <= at) {
            log.base = oldest.total;
            log.counters.pop_front();
        }
        match log.counters.back_mut() {
            Some(newest) if at - log.opened < terms.sample => {
                newest.last = at;
                newest.total = newest.total.wrapping_add(cost);
            }
            newest => {
                let total = newest.map_or(log.base, |newest| newest.total).wrapping_add(cost);
                log.opened = at;
                log.counters.push_back(Counter { last: at, total });
            }
        }
    }

    fn standing(log: &Log, terms: &Terms, now: u64) -> Standing {
        let Some(newest) = log.counters.back() else { return Standing::whole(terms.permits, 0) };
        let reset_after = (newest.last + terms.window).saturating_sub(now);
        if newest.last > now {
            return Standing::whole(0, reset_after);
        }
        let gone = log.counters.partition_point(|counter| counter.last + terms.window <= now);
        let before = if gone == 0 { log.base } else { log.counters[gone - 1].total };
        Standing::whole(terms.permits - newest.total.wrapping_sub(before), reset_after)
    }
}

impl Log {
    /// An empty log with room for `counters` of them.
    pub(super) fn with_room_for(counters: u64) -> Self {
        let counters = usize::try_from(counters).unwrap_or(usize::MAX);
        Self { counters: VecDeque::with_capacity(counters), base: 0, opened: 0 }
    }
}
