//! What becomes of an annotated call, and the short way to it: decided in this process, and counted.

use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::counters::Stripes;
use crate::installed;
use crate::limiter::Answer;
use crate::observe::{self, Observed};
use crate::site::{Mode, Store};
use crate::stored_key::StoredKey;
use crate::strategy::{Question, Room, Standing};
use crate::{Counts, Decision, Limiter as _, Rejected, Site};

/// What becomes of a call of a function that does not look at the decision. It stays in registers, since writes are what costs.
#[derive(Clone, Copy)]
pub enum Entry {
    /// It goes now.
    Goes,
    /// It does not go, and could go after this time. How the key stands was told, or follows from that and the cost.
    Refused {
        /// In nanoseconds.
        retry_after: u64,
        /// In permits.
        cost: u64,
    },
    /// There is more to it, which was told.
    Told,
}

/// What a door says of a call: an [`Entry`] without the cost, which the caller knows, so that it fits in two registers.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    Goes,
    /// With the time to retry after.
    Refused(u64),
    Told,
}

/// What a function is told of a call besides, in a place of its own: to carry it around would cost more than the decision.
// With a word of its own for the variant: one that is hidden in a `Rejected` takes several instructions to read.
#[repr(C)]
pub enum Told {
    /// Nothing that does not follow from the entry.
    Nothing,
    /// How the key stands of a call that is refused.
    Standing {
        /// In permits.
        remaining: u64,
        /// In nanoseconds.
        reset_after: u64,
    },
    /// It does not go.
    Rejected(Rejected),
    /// It waits for its turn, or is not decided yet. If it does not go then, it is told why. Who [waits](Self::settled) drops it,
    /// so that nobody else has to look whether there is something to drop. Who panics before that leaks it.
    Later(ManuallyDrop<Later>),
}

/// What a call waits for.
pub(crate) type Later = Pin<Box<dyn Future<Output = Option<Rejected>> + Send>>;

impl Verdict {
    /// The verdict on a call that does not go, where nobody but its caller hears of it.
    #[inline]
    pub(crate) fn refused<R: Room>(retry_after: u64, standing: Standing, told: &mut Told) -> Self {
        if !R::WAIT_SAYS_ALL {
            *told = Told::Standing { remaining: standing.remaining(), reset_after: standing.reset_after() };
        }
        Self::Refused(retry_after)
    }

    #[inline]
    pub(crate) fn at_cost(self, cost: u64) -> Entry {
        match self {
            Self::Goes => Entry::Goes,
            Self::Refused(retry_after) => Entry::Refused { retry_after, cost },
            Self::Told => Entry::Told,
        }
    }
}

impl Entry {
    /// What the caller hears, unless that was told.
    #[inline]
    pub fn refused(self, site: &'static Site, told: &Told) -> Option<Rejected> {
        let Self::Refused { retry_after, cost } = self else { return None };
        Some(match told {
            &Told::Standing { remaining, reset_after } => {
                Rejected::plain(site.rule(), remaining, reset_after, retry_after)
            }
            _ => Rejected::short_of(site.rule(), cost, retry_after),
        })
    }

    /// What the caller hears of a call that cannot wait.
    #[inline]
    pub fn rejected(self, site: &'static Site, told: &mut Told) -> Option<Rejected> {
        match self {
            Self::Told => told.rejected(),
            known => known.refused(site, told),
        }
    }
}

impl Told {
    /// Waits where there is something to wait for. After that it is known whether the call was [rejected](Self::rejected).
    #[inline]
    pub fn settled(&mut self) -> Settling<'_> {
        Settling(Some(self))
    }

    /// What was told of a call that does not go, once it is settled.
    #[inline]
    pub fn rejected(&mut self) -> Option<Rejected> {
        match mem::replace(self, Self::Nothing) {
            Self::Rejected(rejected) => Some(rejected),
            Self::Nothing | Self::Standing { .. } => None,
            Self::Later(_) => unreachable!("a call that waits is not known yet"),
        }
    }

    /// The verdict on a call that goes, unless somebody is told why not.
    pub(crate) fn settle(&mut self, rejected: Option<Rejected>) -> Verdict {
        let Some(rejected) = rejected else { return Verdict::Goes };
        *self = Self::Rejected(rejected);
        Verdict::Told
    }

    /// The verdict on a call that waits.
    pub(crate) fn wait(&mut self, later: Later) -> Verdict {
        debug_assert!(!matches!(self, Self::Later(_)), "nobody drops what is told before");
        *self = Self::Later(ManuallyDrop::new(later));
        Verdict::Told
    }

    /// Drops what it waited for.
    #[cold]
    fn forget(&mut self) {
        if let Self::Later(later) = mem::replace(self, Self::Nothing) {
            drop(ManuallyDrop::into_inner(later));
        }
    }
}

/// See [`Told::settled`].
pub struct Settling<'a>(Option<&'a mut Told>);

impl<'a> Future for Settling<'a> {
    type Output = &'a mut Told;

    // What it comes to stays where it is, and nothing of this is written into the function, so that it takes no registers there.
    #[cold]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<&'a mut Told> {
        if let Some(told) = &mut self.0
            && let Told::Later(later) = told
        {
            let rejected = ready!(later.as_mut().poll(context));
            told.forget();
            told.settle(rejected);
        }
        Poll::Ready(self.0.take().expect("a call is settled once"))
    }
}

impl Drop for Settling<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(told) = &mut self.0 {
            told.forget();
        }
    }
}

/// Where the calls of an annotated function are decided in this process, and counted.
pub(crate) trait Door: Send + Sync {
    /// Decides a call. What does not fit in a verdict is written to `told`.
    fn enter(&self, key: StoredKey, cost: u64, told: &mut Told) -> Verdict;

    /// The same for calls without a key.
    fn enter_keyless(&self, cost: u64, told: &mut Told) -> Verdict;

    /// What it counted itself: of all sites that have its rule together.
    fn counts(&self) -> Counts;

    /// Enters with a key, or without, at this time.
    #[cfg(test)]
    fn enter_at(&self, now: u64, key: StoredKey, cost: u64, told: &mut Told) -> Verdict;
}

impl dyn Door {
    pub(crate) fn of(site: &'static Site, has_keys: bool) -> Box<Self> {
        let (table, longest_wait) =
            installed::process_wide().own_table(site.rule(), site.options().longest_wait);
        table.door(Own::new(site, longest_wait, has_keys))
    }

    #[inline]
    pub(crate) fn pass(&self, key: StoredKey, cost: u64, told: &mut Told) -> Verdict {
        if key == StoredKey::NONE { self.enter_keyless(cost, told) } else { self.enter(key, cost, told) }
    }
}

/// What becomes of the calls of an annotated function once they are decided.
pub(crate) struct Own {
    site: &'static Site,
    longest_wait: u64,
    counts: &'static Stripes,
    /// See [`is_plain`](Self::is_plain).
    is_plain: bool,
    /// Whether calls have keys.
    has_keys: bool,
}

impl Own {
    pub(crate) fn new(site: &'static Site, longest_wait: u64, has_keys: bool) -> Self {
        let is_plain =
            longest_wait == 0 && site.options().mode == Mode::Enforce && !observe::HEARS_OF_REJECTIONS;
        Self { site, longest_wait, counts: site.stripes(), is_plain, has_keys }
    }

    #[inline]
    pub(crate) fn question(&self, cost: u64) -> Question {
        Question { cost, longest_wait: self.longest_wait }
    }

    #[inline(never)]
    pub(crate) fn settles(&self, decision: Decision, told: &mut Told) -> Verdict {
        if decision.goes_now() {
            self.counts.count_passed();
            return Verdict::Goes;
        }
        self.stops(decision, told)
    }

    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Whether a call that does not go now is rejected, and nobody but its caller is told.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    fn stops(&self, decision: Decision, told: &mut Told) -> Verdict {
        if decision.waits() {
            let site = self.site;
            let waiting = wait(site, installed::own(), Observed::unseen(), Answer::now(decision));
            return told.wait(Box::pin(async { waiting.await.err() }));
        }
        Observed::unseen().settled(self.site, &installed::own(), &decision);
        told.settle(self.site.settle(&decision))
    }
}

/// A call that waits for its decision, for its turn, or for both.
pub(crate) async fn wait(
    site: &'static Site,
    limiter: installed::Current,
    observed: Observed,
    answer: Answer<Decision>,
) -> Result<Decision, Rejected> {
    let decision = observe::answer(site, answer).await;
    observed.settled(site, &limiter, &decision);
    let rejected = site.settle(&decision);
    if decision.waits() && site.options().mode == Mode::Enforce {
        let turn = match site.options().store {
            Store::Installed => limiter.turn(&decision),
            Store::Local => limiter.local().turn(&decision),
        };
        observe::turn(site, &decision, turn).await;
    }
    rejected.map_or(Ok(decision), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;

    /// What a call waits for is dropped once it is over, or given up half-way.
    #[test]
    fn nothing_is_left_of_a_call_that_waited() {
        let context = &mut Context::from_waker(Waker::noop());
        let held = Arc::new(());
        let holding = |mut steps: u32| -> Later {
            let held = Arc::clone(&held);
            Box::pin(std::future::poll_fn(move |_| {
                let holders = Arc::strong_count(&held);
                assert_eq!(holders, 2, "it holds what it needs");
                let Some(left) = steps.checked_sub(1) else { return Poll::Ready(None) };
                steps = left;
                Poll::Pending
            }))
        };
        let mut told = Told::Nothing;
        for (steps, polls) in [(0, 0), (0, 1), (1, 1), (1, 2), (3, 2)] {
            told.wait(holding(steps));
            let mut settling = Box::pin(told.settled());
            let polled = (0..polls).map(|_| settling.as_mut().poll(context).is_ready()).last();
            assert_eq!(polled.unwrap_or_default(), polls > steps);
            drop(settling);
            assert_eq!(Arc::strong_count(&held), 1, "{polls} polls, {steps} steps");
            assert!(told.rejected().is_none());
        }
    }
}
