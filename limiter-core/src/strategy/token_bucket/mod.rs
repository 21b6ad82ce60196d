#![doc = include_str!("README.md")]

pub(crate) mod whole;

use super::{Standing, Terms};

pub(crate) struct Room;

/// A level that rises by the cost of a call and falls at a constant rate: the tokens that are missing.
///
/// Kept as the one moment at which it will have fallen to nothing, in ticks times `permits`. In that unit a permit
/// weighs `window` and a tick takes `permits` away, so nothing is ever rounded, whatever the rate.
#[derive(Clone, Copy, Default)]
pub(crate) struct Level {
    /// Two halves of a u128, which would need 16 bytes of alignment.
    empty_at: [u64; 2],
}

impl super::Room for Room {
    type State = Level;

    const HAS_BURST: bool = true;

    #[cfg(feature = "redis")]
    const LUA: &'static str = include_str!("token_bucket.lua");

    fn fresh(_: &Terms) -> Level {
        Level::default()
    }

    fn earliest(level: &Level, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        if cost > terms.capacity {
            return None;
        }
        let raised = level.empty_at() + weight(cost, terms);
        let top = weight(terms.capacity, terms);
        if raised <= moment(now, terms) + top {
            return Some(now);
        }
        // Rounded up, so that the level has truly fallen by then.
        let wait = divide_up(raised - top - moment(now, terms), terms.permits);
        Some(now.saturating_add(wait))
    }

    fn take(level: &mut Level, terms: &Terms, at: u64, cost: u64) {
        *level = Level::new(level.empty_at().max(moment(at, terms)) + weight(cost, terms));
    }

    fn standing(level: &Level, terms: &Terms, now: u64) -> Standing {
        let level = level.empty_at().saturating_sub(moment(now, terms));
        let spare = weight(terms.capacity, terms).saturating_sub(level);
        Standing::whole(divide_down(spare, terms.window), divide_up(level, terms.permits))
    }
}

impl Level {
    fn new(empty_at: u128) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of one number")]
        Self { empty_at: [empty_at as u64, (empty_at >> 64) as u64] }
    }

    fn empty_at(self) -> u128 {
        u128::from(self.empty_at[1]) << 64 | u128::from(self.empty_at[0])
    }
}

/// Most numbers fit in a word, and words are divided much faster.
fn divide_up(above: u128, below: u64) -> u64 {
    match u64::try_from(above) {
        Ok(above) => above.div_ceil(below),
        Err(_) => u64::try_from(above.div_ceil(u128::from(below))).unwrap_or(u64::MAX),
    }
}

fn divide_down(above: u128, below: u64) -> u64 {
    match u64::try_from(above) {
        Ok(above) => above / below,
        Err(_) => u64::try_from(above / u128::from(below)).unwrap_or(u64::MAX),
    }
}

/// A time in the unit of the level. Times stay below 2^63, so that sums have room.
fn moment(time: u64, terms: &Terms) -> u128 {
    u128::from(time) * u128::from(terms.permits)
}

/// A cost in the unit of the level.
fn weight(cost: u64, terms: &Terms) -> u128 {
    u128::from(cost) * u128::from(terms.window)
}
