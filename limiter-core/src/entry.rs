//! What becomes of an annotated call, and the short way to it: decided in this process, and counted.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::counters::Stripes;
use crate::installed;
use crate::limiter::Answer;
use crate::observe::{self, Observed};
use crate::site::{Mode, Store};
use crate::stored_key::StoredKey;
use crate::strategy::Question;
use crate::{Counts, Decision, Limiter as _, Rejected, Site};

/// What becomes of a call of a function that does not look at the decision.
// With a word of its own for the variant: one that is hidden in a `Rejected` takes several instructions to read.
#[repr(C)]
pub enum Entry {
    /// It goes now.
    Goes,
    /// It does not go.
    Rejected(Rejected),
    /// It waits for its turn, or is not decided yet. What comes of that is one of the others.
    Later(Pin<Box<dyn Future<Output = Entry> + Send>>),
}

impl Entry {
    /// Whether it does not go now.
    #[inline]
    pub fn stops(&self) -> bool {
        !matches!(self, Self::Goes)
    }

    /// Waits where there is something to wait for. From then on it is known whether the call goes.
    #[inline]
    pub fn settled(&mut self) -> Settled<'_> {
        Settled(self)
    }
}

/// See [`Entry::settled`]. What is known stays where it is: to carry it around would cost more than the decision.
pub struct Settled<'a>(&'a mut Entry);

impl Future for Settled<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Entry::Later(later) = &mut *self.0 {
            *self.0 = ready!(later.as_mut().poll(context));
        }
        Poll::Ready(())
    }
}

/// Where the calls of an annotated function are decided in this process, and counted.
pub(crate) trait Door: Send + Sync {
    fn enter(&self, key: StoredKey, cost: u64) -> Entry;

    /// The same for calls without a key.
    fn enter_keyless(&self, cost: u64) -> Entry;

    /// What it counted itself: of all sites that have its rule together.
    fn counts(&self) -> Counts;

    /// Enters with a key, or without, at this time.
    #[cfg(test)]
    fn enter_at(&self, now: u64, key: StoredKey, cost: u64) -> Entry;
}

impl dyn Door {
    pub(crate) fn of(site: &'static Site, has_keys: bool) -> Box<Self> {
        let (table, longest_wait) =
            installed::process_wide().own_table(site.rule(), site.options().longest_wait);
        table.door(Own::new(site, longest_wait, has_keys))
    }

    #[inline]
    pub(crate) fn pass(&self, key: StoredKey, cost: u64) -> Entry {
        if key == StoredKey::NONE { self.enter_keyless(cost) } else { self.enter(key, cost) }
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
    pub(crate) fn settles(&self, decision: Decision) -> Entry {
        if decision.goes_now() {
            self.counts.count_passed();
            return Entry::Goes;
        }
        self.stops(decision)
    }

    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Whether a call that does not go now is rejected, and nobody but its caller is told.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// A call that is rejected, and was counted.
    #[inline]
    pub(crate) fn rejects(&self, decision: &Decision) -> Entry {
        Entry::Rejected(Rejected::by_static(self.site.rule(), decision))
    }

    fn stops(&self, decision: Decision) -> Entry {
        if decision.waits() {
            let site = self.site;
            let waiting = wait(site, installed::own(), Observed::unseen(), Answer::now(decision));
            return Entry::Later(Box::pin(async { waiting.await.into() }));
        }
        Observed::unseen().settled(self.site, &installed::own(), &decision);
        self.site.settle(&decision).map_or(Entry::Goes, Entry::Rejected)
    }
}

impl From<Result<Decision, Rejected>> for Entry {
    fn from(settled: Result<Decision, Rejected>) -> Self {
        settled.map_or_else(Self::Rejected, |_| Self::Goes)
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
