#![doc = include_str!("README.md")]

pub(crate) mod packed;

use super::sliding_log::{self, Log};
use super::{Standing, Terms};

/// The `sliding_log`, with the calls of one sample in one counter.
pub(crate) struct Room;

const MOST_AT_ONCE: u64 = 16;

impl super::Room for Room {
    type State = Log;

    const HAS_SAMPLES: bool = true;

    #[cfg(feature = "redis")]
    const LUA: &'static str = include_str!("sliding_window.lua");

    /// Has all the room it will ever need: one counter for each sample of a window and one more, or one for each
    /// permit where those are fewer. With unusually many samples it grows, since most keys never need them all.
    fn fresh(terms: &Terms) -> Log {
        let samples = terms.window.div_ceil(terms.sample);
        Log::with_room_for(terms.permits.min(samples + 1).min(MOST_AT_ONCE))
    }

    #[inline]
    fn earliest(log: &Log, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        sliding_log::Room::earliest(log, terms, now, cost)
    }

    #[inline]
    fn take(log: &mut Log, terms: &Terms, at: u64, cost: u64) {
        sliding_log::Room::take(log, terms, at, cost);
    }

    fn standing(log: &Log, terms: &Terms, now: u64) -> Standing {
        sliding_log::Room::standing(log, terms, now)
    }
}
