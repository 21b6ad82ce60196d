//! The same window where a counter fits in one word and there are few of them, as with most rules.
//!
//! A word has the time of a counter's last call in its upper bits and what the counter counted in its lower ones. As many
//! bits are for the count as a window, in ticks, leaves of a word. That is enough for the time: all counters are within one
//! window of the last call, so that the bits above can be told from that.

use crate::strategy::{Room as AnyRoom, Settled, Standing, Terms};

pub(crate) struct Room;

/// The calls of one window. See [`Log`](crate::strategy::sliding_log::Log), which has no such bounds.
#[derive(Clone, Default)]
pub(crate) struct Counters {
    /// When the last call went.
    last: u64,
    /// How long before that the newest counter was opened, and what all of them counted: nothing within a window while that
    /// is 0.
    newest: u64,
    /// When the last call of the oldest counter went: until a window after this, nothing comes back. Where this is `last`, the
    /// oldest is the newest, too.
    oldest: u64,
    /// Apart, so that most calls come upon less memory. Nothing in a state that is vacant.
    older: Option<Box<Older>>,
}

/// The counters before the newest.
#[derive(Clone, Default)]
struct Older {
    /// A ring.
    words: [u64; MOST_OLDER],
    /// What they counted (the upper 56 bits), where in the ring the oldest one is (4 bits), and how many there are (4 bits).
    summary: u64,
}

/// Ten samples are eleven counters, see the page of this room.
const MOST_OLDER: usize = 10;

impl Room {
    /// Whether this room can do the work of the other.
    pub(crate) fn suits(terms: &Terms) -> bool {
        terms.sample > 1
            && terms.window.div_ceil(terms.sample) <= MOST_OLDER as u64
            && terms.permits < 1 << 56
            && terms.permits.leading_zeros() + terms.window.leading_zeros() >= u64::BITS
    }
}

/// A time and a count in one word, for windows of one length.
#[derive(Clone, Copy)]
struct Packing {
    count_bits: u32,
}

impl Packing {
    #[inline]
    fn of(terms: &Terms) -> Self {
        Self { count_bits: terms.spare_bits }
    }

    /// Of the time, only as many bits are kept as there is room for.
    #[inline]
    fn pack(self, time: u64, count: u64) -> u64 {
        time << self.count_bits | count
    }

    #[inline]
    fn count(self, word: u64) -> u64 {
        word & ((1 << self.count_bits) - 1)
    }

    /// How long before `last` the time of a word is.
    #[inline]
    fn age(self, word: u64, last: u64) -> u64 {
        last.wrapping_sub(word >> self.count_bits) << self.count_bits >> self.count_bits
    }
}

impl AnyRoom for Room {
    type State = Counters;

    const HAS_SAMPLES: bool = true;

    #[cfg(feature = "redis")]
    const LUA: &'static str = super::Room::LUA;

    fn fresh(_: &Terms) -> Counters {
        Counters { older: Some(Box::default()), ..Counters::default() }
    }

    #[inline]
    fn earliest(counters: &Counters, terms: &Terms, now: u64, cost: u64) -> Option<u64> {
        if cost > terms.permits {
            return None;
        }
        let spent = Packing::of(terms).count(counters.newest);
        if spent == 0 {
            return Some(now);
        }
        let (turn, unused) = (now.max(counters.last), terms.permits - spent);
        if cost <= unused {
            return Some(turn);
        }
        Some(turn.max(counters.has_back(terms, cost - unused)))
    }

    fn take(counters: &mut Counters, terms: &Terms, at: u64, cost: u64) {
        let packing = Packing::of(terms);
        if counters.oldest + terms.window <= at {
            counters.drop_until(at, terms);
        }
        let opened_before = at - counters.last + (counters.newest >> packing.count_bits);
        let spent = packing.count(counters.newest);
        if spent > 0 && opened_before < terms.sample {
            counters.newest = packing.pack(opened_before, spent + cost);
        } else {
            counters.close(packing);
            counters.newest = packing.pack(0, spent + cost);
        }
        counters.last = at;
        if counters.older.as_ref().is_none_or(|older| older.count() == 0) {
            counters.oldest = at;
        }
    }

    /// Calls that are counted in the newest counter while nothing comes back, and those that wait for the first permit.
    #[inline]
    fn settle(counters: &mut Counters, terms: &Terms, now: u64, cost: u64) -> Settled {
        let packing = Packing::of(terms);
        let (spent, back) = (packing.count(counters.newest), counters.oldest + terms.window);
        // One that costs nothing takes nothing.
        if counters.last > now || now >= back || spent == 0 || cost == 0 {
            return Settled::Unclear;
        }
        let (since, unused) = (now - counters.last, terms.permits - spent);
        if cost <= unused {
            if since + (counters.newest >> packing.count_bits) >= terms.sample {
                return Settled::Unclear;
            }
            counters.oldest = if counters.oldest == counters.last { now } else { counters.oldest };
            counters.newest += packing.pack(since, cost);
            counters.last = now;
            return Settled::Goes;
        }
        // The oldest counter has one permit at least.
        if cost - unused > 1 {
            return Settled::Unclear;
        }
        Settled::Refused(back - now, Standing::whole(unused, counters.last + terms.window - now))
    }

    fn standing(counters: &Counters, terms: &Terms, now: u64) -> Standing {
        let packing = Packing::of(terms);
        let (back, spent) = (counters.last + terms.window, packing.count(counters.newest));
        if spent == 0 || back <= now {
            return Standing::whole(terms.permits, 0);
        }
        if counters.last > now {
            return Standing::whole(0, back - now);
        }
        let gone: u64 = counters
            .older()
            .take_while(|&word| counters.last - packing.age(word, counters.last) + terms.window <= now)
            .map(|word| packing.count(word))
            .sum();
        Standing::whole(terms.permits - (spent - gone), back - now)
    }
}

impl Counters {
    /// The older counters, oldest first.
    fn older(&self) -> impl Iterator<Item = u64> {
        self.older.iter().flat_map(|older| older.words())
    }

    /// When so many permits have come back: one window after the last call of the counter with which it is enough.
    fn has_back(&self, terms: &Terms, needed: u64) -> u64 {
        let packing = Packing::of(terms);
        let mut back = 0;
        let enough = self.older().find(|&word| {
            back += packing.count(word);
            back >= needed
        });
        let last = enough.map_or(self.last, |word| self.last - packing.age(word, self.last));
        last + terms.window
    }

    /// Drops what is a window ago at `at`.
    fn drop_until(&mut self, at: u64, terms: &Terms) {
        let packing = Packing::of(terms);
        loop {
            let Some(word) = self.older().next() else { break };
            self.oldest = self.last - packing.age(word, self.last);
            if self.oldest + terms.window > at {
                return;
            }
            let count = packing.count(word);
            self.newest -= count;
            self.older.as_mut().expect("it has a counter").drop_oldest(count);
        }
        self.oldest = self.last;
        if self.last + terms.window <= at {
            self.newest = 0;
        }
    }

    /// What the newest counter counted goes to the older ones.
    fn close(&mut self, packing: Packing) {
        let spent = packing.count(self.newest);
        if spent > 0 {
            let older = self.older.get_or_insert_default();
            if older.count() == 0 {
                self.oldest = self.last;
            }
            let count = spent - older.sum();
            older.push(packing.pack(self.last, count), count);
        }
    }
}

impl Older {
    /// Oldest first.
    fn words(&self) -> impl Iterator<Item = u64> {
        let ring = self.words.iter().chain(&self.words).copied();
        ring.skip(self.place(0)).take(usize::from(self.count()))
    }

    fn sum(&self) -> u64 {
        self.summary >> 8
    }

    fn count(&self) -> u8 {
        #[expect(clippy::cast_possible_truncation, reason = "four bits of it")]
        return self.summary as u8 & 0xf;
    }

    /// Where in the ring the counter is that comes after so many.
    fn place(&self, nth: u8) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "four bits of it")]
        let first = (self.summary >> 4) as u8 & 0xf;
        usize::from(first + nth) % MOST_OLDER
    }

    fn push(&mut self, word: u64, count: u64) {
        self.words[self.place(self.count())] = word;
        self.summary += count << 8 | 1;
    }

    /// Drops the oldest, which counted `count`.
    fn drop_oldest(&mut self, count: u64) {
        let (sum, first, left) = (self.sum() - count, self.place(1) as u64, u64::from(self.count() - 1));
        self.summary = sum << 8 | first << 4 | left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::strategy::{Question, decide, sliding_window};
    use crate::{Quota, Rule, Strategy};
    use std::time::Duration;

    fn terms(quota: Quota, samples: u32) -> Box<[Terms]> {
        Terms::of(&Rule::new("window", Strategy::SlidingWindow, quota).samples(samples))
    }

    #[test]
    fn it_decides_as_the_room_for_all_rules() {
        let mut draw = Draw::new(1);
        let (mut went, mut stopped) = (0, 0);
        for _ in 0..1_000 {
            let (window_bits, permit_bits) = (7 + draw.below(40), draw.below(16));
            let window = Duration::from_nanos(100 + draw.below(1 << window_bits));
            let permits = 1 + draw.below(1 << permit_bits);
            let samples = 1 + u32::try_from(draw.below(10)).unwrap();
            let quota = Quota::new(permits, window);
            let terms = terms(quota, samples);
            assert!(Room::suits(&terms[0]), "{quota:?}, {samples} samples");
            let mut packed = [Room::fresh(&terms[0])];
            let mut log = [<sliding_window::Room as AnyRoom>::fresh(&terms[0])];
            // Steps of a few calls, or of more than a window.
            let step = terms[0].window / (1 + draw.below(40));
            let mut now = draw.below(1 << 62);
            for _ in 0..300 {
                now = (now + draw.below(step + 2)).min(1 << 62);
                let most = permits.min(1 << draw.below(16));
                let cost = draw.below(most + 2);
                let longest_wait = draw.below(3) * (terms[0].window / 5);
                let question = Question { cost, longest_wait };
                let one = decide::<Room>(&mut packed, &terms, now, question);
                let other = decide::<sliding_window::Room>(&mut log, &terms, now, question);
                let place = format!("{quota:?}, {samples} samples, at {now} for {cost}");
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{place}");
                if one.is_allowed() { went += 1 } else { stopped += 1 }
            }
        }
        assert!(went > 50_000 && stopped > 50_000, "{went} went, {stopped} did not");
    }

    #[test]
    fn what_does_not_fit_goes_elsewhere() {
        let suits = |permits, seconds, samples| {
            Room::suits(&terms(Quota::new(permits, Duration::from_secs(seconds)), samples)[0])
        };
        assert!(suits(3, 4, 10) && suits(1_000_000, 3_600, 10) && suits(100_000, 86_400, 5));
        assert!(!suits(3, 4, 11), "as many counters have no place");
        assert!(!suits(1_000_000, 86_400, 10), "so much in a day needs more bits");
    }

    /// A word is a word: a key with its states is to stay small.
    #[test]
    fn a_state_is_small() {
        assert_eq!((size_of::<Counters>(), size_of::<Older>()), (32, 88));
    }
}
