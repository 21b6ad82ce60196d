#![doc = include_str!("README.md")]

use super::{Standing, Terms};

pub(crate) struct Room;

/// The window of the last call, which lies in the future while that call waits for its turn.
#[derive(Clone, Copy, Default)]
pub(crate) struct State {
    start: u64,
    /// Permits taken in this window. Nothing was ever taken while this is 0.
    position: u64,
}

impl super::Room for Room {
    type State = State;

    #[cfg(feature = "redis")]
    const LUA: &'static str = include_str!("fixed_window.lua");

    fn fresh(_: &Terms) -> State {
        State { start: 0, position: 0 }
    }

    fn earliest(state: &State, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        if cost > terms.permits {
            return None;
        }
        let end = state.start + terms.window;
        if state.position == 0 || now >= end {
            //  start |== window ==|      now: a new window starts
            Some(now)
        } else if cost <= terms.permits - state.position {
            //  start |== now ==| end, or now before start: there is room in this window
            Some(now.max(state.start))
        } else {
            //  start |== now ==| end: full, so the next window starts where this one ends
            Some(end)
        }
    }

    fn take(state: &mut State, terms: &Terms, at: u64, cost: u64) {
        if state.position == 0 || at >= state.start + terms.window {
            *state = State { start: at, position: cost };
        } else {
            state.position += cost;
        }
    }

    fn standing(state: &State, terms: &Terms, now: u64) -> Standing {
        let end = state.start + terms.window;
        if state.position == 0 || now >= end {
            Standing::whole(terms.permits, 0)
        } else if now < state.start {
            Standing::whole(0, end - now)
        } else {
            Standing::whole(terms.permits - state.position, end - now)
        }
    }
}
