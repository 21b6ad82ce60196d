//! The same bucket where a permit takes a whole number of ticks to come back.
//!
//! Then the moment at which the level will have fallen to nothing is a whole tick too, and one word holds it.

use crate::Quota;
use crate::strategy::{Room as AnyRoom, Settled, Standing, Terms};

pub(crate) struct Room;

/// See [`super::Level`]: here in ticks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Level {
    empty_at: u64,
}

/// Times stay below 2^63; with a bucket that fills within this time, all sums have room.
const LONGEST_FILL: u64 = 1 << 61;

impl Room {
    /// Whether this room can do the work of the other.
    pub(crate) fn suits(terms: &Terms) -> bool {
        (1..=LONGEST_FILL).contains(&terms.fill)
    }

    /// How the bucket stood when a call of this cost would have had to wait so long: it could go once the level has fallen to
    /// the capacity less its cost.
    pub(crate) fn standing_when_refused(quota: Quota, cost: u64, wait: u64) -> Standing {
        let interval = quota.window_nanos() / quota.permits();
        let level = (quota.capacity() - cost) * interval + wait;
        Standing::fraction((cost * interval).saturating_sub(wait), interval, level)
    }
}

impl AnyRoom for Room {
    type State = Level;

    const HAS_BURST: bool = true;

    const WAIT_SAYS_ALL: bool = true;

    #[cfg(feature = "redis")]
    const LUA: &'static str = super::Room::LUA;

    fn fresh(_: &Terms) -> Level {
        Level::default()
    }

    #[inline]
    fn earliest(level: &Level, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        if cost > terms.capacity {
            return None;
        }
        let raised = level.empty_at + cost * terms.interval;
        Some(if raised <= now + terms.fill { now } else { raised - terms.fill })
    }

    #[inline]
    fn take(level: &mut Level, terms: &Terms, at: u64, cost: u64) {
        level.empty_at = level.empty_at.max(at) + cost * terms.interval;
    }

    #[inline]
    fn settle(level: &mut Level, terms: &Terms, now: u64, cost: u64) -> Settled {
        if cost > terms.capacity {
            return Settled::Unclear;
        }
        let (raised, top) = (level.empty_at.max(now) + cost * terms.interval, now + terms.fill);
        if raised > top {
            // The bucket is not empty, or else the call would go.
            return Settled::Refused(raised - top, Self::standing(level, terms, now));
        }
        if cost > 0 {
            level.empty_at = raised;
        }
        Settled::Goes
    }

    #[inline]
    fn standing(level: &Level, terms: &Terms, now: u64) -> Standing {
        let level = level.empty_at.saturating_sub(now);
        let spare = terms.fill.saturating_sub(level);
        Standing::fraction(spare, terms.interval, level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::strategy::{Question, decide};
    use crate::{Rule, Strategy};
    use std::time::Duration;

    #[test]
    fn it_decides_as_the_room_for_all_rates() {
        let mut draw = Draw::new(1);
        for _ in 0..2_000 {
            let permits = 1 << draw.below(10);
            let window = Duration::from_nanos(permits << draw.below(40));
            let quota = Quota::new(permits, window).burst(1 + draw.below(2 * permits));
            let terms = Terms::of(&Rule::new("bucket", Strategy::TokenBucket, quota));
            assert!(Room::suits(&terms[0]), "{quota:?}");
            let (mut whole, mut any) = ([Level::default()], [super::super::Level::default()]);
            let mut now = draw.below(1 << 62);
            for _ in 0..50 {
                now = (now + draw.below(2 * terms[0].interval)).min(1 << 62);
                let cost = draw.below(quota.capacity() + 2);
                let longest_wait = draw.below(3) * terms[0].interval;
                let question = Question { cost, longest_wait };
                let one = decide::<Room>(&mut whole, &terms, now, question);
                let other = decide::<super::super::Room>(&mut any, &terms, now, question);
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{quota:?} at {now} for {cost}");
            }
        }
    }

    #[test]
    fn a_bucket_that_takes_ages_to_fill_goes_elsewhere() {
        let terms = |quota| Terms::of(&Rule::new("bucket", Strategy::TokenBucket, quota))[0];
        let second = Duration::from_secs(1);
        assert!(Room::suits(&terms(Quota::new(1_000, second))));
        assert!(!Room::suits(&terms(Quota::new(3, second))), "a third of a second is no whole number");
        assert!(!Room::suits(&terms(Quota::new(1, second).burst(u64::MAX))));
    }
}
