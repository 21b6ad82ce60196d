//! How a rule is computed: one room for each strategy, and the few lines that ask them.
//!
//! A room answers two questions about a state, with time as an argument: `earliest`, when could this call go, and
//! `take`, it goes then. All else follows: whether a call is admitted, how long it waits, when to retry, several
//! quotas at once, and whether a key is idle.
//!
//! To add a strategy: add a folder with its page and its room, and name it in [`strategies!`] below.

mod fixed_window;
mod leaky_bucket;
#[cfg(feature = "redis")]
pub(crate) mod lua;
#[cfg(all(test, feature = "redis"))]
mod lua_tests;
mod sliding_log;
pub(crate) mod sliding_window;
mod standing;
mod terms;
pub(crate) mod token_bucket;

use std::fmt;

pub(crate) use standing::Standing;
pub(crate) use terms::Terms;

use crate::Decision;

/// What every strategy is: two questions about a state, and how that state stands.
///
/// Times are ticks of any one length since any one point; `now` and `at` never decrease from call to call, which the
/// caller sees to.
pub(crate) trait Room: Sized + 'static {
    /// One by default is vacant: it takes no memory of its own, and is made fresh before it is used.
    type State: Default + Send + 'static;

    /// Whether a quota may have a burst of its own.
    const HAS_BURST: bool = false;

    /// Whether calls may be counted together in samples.
    const HAS_SAMPLES: bool = false;

    /// Whether how a state stands follows from the cost of a call that may not go and from how long it would have to wait, as
    /// in [`standing_when_refused`](token_bucket::whole::Room::standing_when_refused).
    const WAIT_SAYS_ALL: bool = false;

    /// The same room for a server: the functions that `driver.lua` asks.
    #[cfg(feature = "redis")]
    const LUA: &'static str;

    /// The state of a key that has never called.
    fn fresh(terms: &Terms) -> Self::State;

    /// When a call of this cost could go, at the soonest: never before calls that went already, never at all if it
    /// costs more than there can be.
    fn earliest(state: &Self::State, terms: &Terms, now: u64, cost: u64) -> Option<u64>;

    /// A call of this cost goes at `at`, which is not before its `earliest`.
    fn take(state: &mut Self::State, terms: &Terms, at: u64, cost: u64);

    /// Lets a call of this cost go if it may go at `now`: a shortcut to the two, where that is seen at a glance.
    #[inline]
    fn settle(state: &mut Self::State, terms: &Terms, now: u64, cost: u64) -> Settled {
        settle_by_questions::<Self>(state, terms, now, cost)
    }

    /// How the state stands: a shortcut to what `earliest` says, never another opinion.
    fn standing(state: &Self::State, terms: &Terms, now: u64) -> Standing;
}

/// Names every strategy once: its variant, its room, its name in the annotation, its promise.
macro_rules! strategies {
    ($($(#[$doc:meta])* $variant:ident = $room:ident, $name:literal;)*) => {
        /// How a rule is computed. Each one keeps a promise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Strategy {
            $($(#[$doc])* $variant,)*
        }

        impl Strategy {
            /// Every strategy there is.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name that it has in the annotation.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            pub(crate) const fn has_burst(self) -> bool {
                match self {
                    $(Self::$variant => <$room::Room as Room>::HAS_BURST,)*
                }
            }

            pub(crate) const fn has_samples(self) -> bool {
                match self {
                    $(Self::$variant => <$room::Room as Room>::HAS_SAMPLES,)*
                }
            }

            #[cfg(feature = "redis")]
            pub(crate) const fn lua(self) -> &'static str {
                match self {
                    $(Self::$variant => <$room::Room as Room>::LUA,)*
                }
            }

            /// Lets `visitor` work with the room of this strategy.
            pub(crate) fn enter<V: Visitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$variant => visitor.visit::<$room::Room>(),)*
                }
            }
        }
    };
}

strategies! {
    /// At most `permits` in each window; a key's window starts with its first call.
    FixedWindow = fixed_window, "fixed_window";
    /// At most `permits` in *any* interval of one window; a permit comes back at most one sample late.
    SlidingWindow = sliding_window, "sliding_window";
    /// At most `permits` in *any* interval of one window; a permit comes back exactly one window later.
    SlidingLog = sliding_log, "sliding_log";
    /// In any interval of length t at most `burst + t * permits / window`.
    TokenBucket = token_bucket, "token_bucket";
    /// The bucket holds `burst` and drains `permits` per window; a call that would overflow it is rejected. With a
    /// burst of 1 and waiting, calls leave evenly spaced.
    LeakyBucket = leaky_bucket, "leaky_bucket";
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What wants to work with the room of a strategy, whichever it is.
pub(crate) trait Visitor {
    type Output;

    fn visit<R: Room>(self) -> Self::Output;
}

/// What, and how patiently, a call asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) cost: u64,
    pub(crate) longest_wait: u64,
}

/// Decides a call of several quotas, each with its own state: it takes from all of them, or from none.
pub(crate) fn decide<R: Room>(
    states: &mut [R::State],
    terms: &[Terms],
    now: u64,
    Question { cost, longest_wait }: Question,
) -> Decision {
    let (turn, quota) = match latest::<R>(states, terms, now, cost) {
        Ok(found) => found,
        Err(too_small) => return Decision::too_costly(too_small, stand::<R>(states, terms, now)),
    };
    let delay = turn - now;
    if delay > longest_wait {
        return Decision::exceeded(quota, delay, stand::<R>(states, terms, now));
    }
    take::<R>(states, terms, turn, cost);
    Decision::allowed(quota, turn, delay, stand::<R>(states, terms, now))
}

/// What becomes of a call that goes now, or not at all.
pub(crate) enum Settled {
    Goes,
    /// It could go after so long. How the state stands.
    Refused(u64, Standing),
    /// It costs too much, or there are several quotas, or it is not seen at a glance.
    Unclear,
}

/// Lets a call go that may go now. Most do, and a decision would be carried around for nothing.
#[inline]
pub(crate) fn settle<R: Room>(states: &mut [R::State], terms: &[Terms], now: u64, cost: u64) -> Settled {
    if let ([state], [terms]) = (&mut *states, terms) {
        return R::settle(state, terms, now, cost);
    }
    settle_several::<R>(states, terms, now, cost)
}

/// The same for what is not seen at a glance.
pub(crate) fn settle_at_length<R: Room>(
    states: &mut [R::State],
    terms: &[Terms],
    now: u64,
    cost: u64,
) -> Settled {
    if let ([state], [terms]) = (&mut *states, terms) {
        return settle_by_questions::<R>(state, terms, now, cost);
    }
    settle_several::<R>(states, terms, now, cost)
}

#[inline]
fn settle_by_questions<R: Room>(state: &mut R::State, terms: &Terms, now: u64, cost: u64) -> Settled {
    match R::earliest(state, terms, now, cost) {
        Some(turn) if turn > now => Settled::Refused(turn - now, R::standing(state, terms, now)),
        Some(_) => {
            if cost > 0 {
                R::take(state, terms, now, cost);
            }
            Settled::Goes
        }
        None => Settled::Unclear,
    }
}

#[inline]
fn settle_several<R: Room>(states: &mut [R::State], terms: &[Terms], now: u64, cost: u64) -> Settled {
    if latest::<R>(states, terms, now, cost).is_ok_and(|(turn, _)| turn == now) {
        take::<R>(states, terms, now, cost);
        return Settled::Goes;
    }
    Settled::Unclear
}

#[inline]
fn take<R: Room>(states: &mut [R::State], terms: &[Terms], at: u64, cost: u64) {
    if cost > 0 {
        for (state, terms) in states.iter_mut().zip(terms) {
            R::take(state, terms, at, cost);
        }
    }
}

/// How a call of cost 1 would fare now.
pub(crate) fn look<R: Room>(states: &[R::State], terms: &[Terms], now: u64) -> Decision {
    let standing = stand::<R>(states, terms, now);
    match latest::<R>(states, terms, now, 1) {
        Ok((turn, quota)) if turn == now => Decision::allowed(quota, turn, 0, standing),
        Ok((turn, quota)) => Decision::exceeded(quota, turn - now, standing),
        Err(too_small) => Decision::too_costly(too_small, standing),
    }
}

/// Whether the states remember nothing that matters from now on.
pub(crate) fn is_idle<R: Room>(states: &[R::State], terms: &[Terms], now: u64) -> bool {
    states
        .iter()
        .zip(terms)
        .all(|(state, terms)| R::earliest(state, terms, now, terms.capacity).is_some_and(|turn| turn <= now))
}

/// Spends of fresh states what `others` have spent, as if it had all been spent with their last call.
pub(crate) fn spend_as<R: Room>(states: &mut [R::State], others: &[R::State], terms: &[Terms], now: u64) {
    for ((state, other), terms) in states.iter_mut().zip(others).zip(terms) {
        let spent = terms.capacity - R::standing(other, terms, now).remaining();
        let at = R::earliest(other, terms, now, 0).unwrap_or(now);
        if spent > 0 {
            R::take(state, terms, at, spent);
        }
    }
}

/// The latest of the earliest times of all quotas, and which quota has it; or the quota that can never pay the cost.
type Latest = Result<(u64, u8), u8>;

#[inline]
fn latest<R: Room>(states: &[R::State], terms: &[Terms], now: u64, cost: u64) -> Latest {
    let mut latest = (now, 0);
    for (quota, (state, terms)) in (0..).zip(states.iter().zip(terms)) {
        let turn = R::earliest(state, terms, now, cost).ok_or(quota)?;
        if turn > latest.0 {
            latest = (turn, quota);
        }
    }
    Ok(latest)
}

#[inline]
fn stand<R: Room>(states: &[R::State], terms: &[Terms], now: u64) -> Standing {
    // One quota, as there mostly is, stays in registers.
    if let ([state], [terms]) = (states, terms) {
        return R::standing(state, terms, now);
    }
    let mut all = states.iter().zip(terms).map(|(state, terms)| R::standing(state, terms, now));
    let first = all.next().expect("a rule has at least one quota");
    all.fold(first, Standing::tightest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::draw::Draw;
    use crate::{Quota, Rule};

    /// What is seen at a glance is what the two questions say, and leaves the same state behind.
    fn compare<R: Room<State: Default>>(strategy: Strategy, suits: fn(&Terms) -> bool) {
        let mut draw = Draw::new(1);
        let (mut went, mut refused) = (0, 0);
        for _ in 0..500 {
            let permits = 1 + draw.below(6);
            let window = Duration::from_nanos(permits << (4 + draw.below(30)));
            let terms = Terms::of(&Rule::new("short", strategy, Quota::new(permits, window)));
            assert!(suits(&terms[0]), "{permits} per {window:?}");
            let [mut short, mut long] = [(); 2].map(|()| [R::fresh(&terms[0])]);
            let mut now = draw.below(1 << 62);
            for _ in 0..200 {
                // Some calls come at once, or in the same sample, and some much later.
                let step = terms[0].window >> (4 * draw.below(3));
                now = (now + draw.below(3) * draw.below(1 + step)).min(1 << 62);
                let question = Question { cost: draw.below(permits + 2), longest_wait: 0 };
                let expected = decide::<R>(&mut long, &terms, now, question);
                let place = || format!("{question:?} of {permits} per {window:?} at {now}: {expected:?}");
                match R::settle(&mut short[0], &terms[0], now, question.cost) {
                    Settled::Goes => {
                        assert!(expected.goes_now(), "{}", place());
                        went += 1;
                    }
                    Settled::Refused(wait, standing) => {
                        let seen = Decision::exceeded(0, wait, standing);
                        assert_eq!(format!("{seen:?}"), format!("{expected:?}"), "{}", place());
                        refused += 1;
                    }
                    Settled::Unclear => {
                        decide::<R>(&mut short, &terms, now, question);
                    }
                }
            }
        }
        assert!(went > 2_000 && refused > 2_000, "{strategy}: {went} went, {refused} were refused");
    }

    #[test]
    fn what_is_seen_at_a_glance_is_what_the_questions_say() {
        compare::<token_bucket::whole::Room>(Strategy::TokenBucket, token_bucket::whole::Room::suits);
        compare::<sliding_window::packed::Room>(Strategy::SlidingWindow, sliding_window::packed::Room::suits);
    }
}
