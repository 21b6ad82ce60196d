//! Keys and their states, side by side: an open hash table.
//!
//! A bucket has places for five keys, in two cache lines where states are small. Seven bits of the hash of each stand in
//! one word, so that a key is found among them without a guess, which processors are slow to take back. A key whose bucket
//! is full goes to the next one that has room, and each bucket on the way counts how many passed it by.
//!
//! The table grows by an eighth, so that few places are free at any size, and buckets are in the order of hashes, so that
//! growing moves keys from front to back through the old table and the new one.

use std::hash::{BuildHasher as _, RandomState};

use crate::stored_key::StoredKey;

/// Places for keys with states of type `S`.
pub(super) struct Slots<S> {
    buckets: Box<[Bucket<S>]>,
    keys: u32,
    /// Where [`remove_some`](Self::remove_some) looked last, in parts of 2^-32 of the table.
    hand: u32,
}

/// How many keys a bucket holds.
const PLACES: usize = 5;
/// How many bytes come from memory at once.
const LINE: usize = 64;
/// So few buckets of a shard are mostly in a cache.
const CACHED: usize = 32;

/// From one look of [`Slots::remove_some`] to the next: the golden section of the table, so that those of any time are spread
/// evenly over it, and those that are yet to come too, also once it has become smaller. Else the keys that are left would stand
/// beside each other, and too close together in a smaller table. Every bucket has its turn before there were twice as many
/// looks as buckets, in a table of millions ten times as many.
const STEP: u32 = 0x9e37_79b9;

/// With states of one word, two cache lines, of which a key and its states mostly need one.
#[derive(Default)]
#[repr(C, align(64))]
struct Bucket<S> {
    summary: Summary,
    entries: [Entry<S>; PLACES],
}

/// A place for a key, and its states.
#[derive(Default)]
#[repr(C)]
struct Entry<S> {
    /// [`StoredKey::NONE`] where there is none.
    key: StoredKey,
    states: S,
}

/// What a bucket holds, in one word: a byte for each place, and in the upper bits how many keys passed by.
///
/// The byte of a place is the tag of its key: seven bits of the hash. It is 0 where there is no key.
#[derive(Clone, Copy, Default)]
struct Summary(u64);

/// What keys are hashed under: they are chosen by strangers, who must not be able to choose them into one place.
#[derive(Clone, Copy)]
pub(super) struct Secret([u64; 2]);

impl Secret {
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        Self([random.hash_one(0), random.hash_one(1)])
    }

    /// Where keys are numbers, or short, one half is the same for all. So the other is a part of both factors: with one that
    /// stays the same, the products of neighbours would keep a pattern that fills some places more than others.
    #[inline]
    pub(super) fn hash(&self, key: StoredKey) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let [low, high] = key.halves();
        fold(low ^ self.0[0], low.wrapping_mul(GOLDEN) ^ high ^ self.0[1])
    }
}

/// The two halves of a product, one on the other: all bits of the factors reach all bits of it.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of one number")]
    return product as u64 ^ (product >> 64) as u64;
}

impl<S> Slots<S> {
    pub(super) fn new() -> Self {
        Self { buckets: Box::default(), keys: 0, hand: 0 }
    }

    /// How many places there are.
    pub(super) fn places(&self) -> usize {
        self.buckets.len() * PLACES
    }

    /// The states of a key, if it is where keys are looked for first. Most are.
    #[inline]
    pub(super) fn find_at_home(&mut self, hash: u64, key: StoredKey) -> Option<&mut S> {
        debug_assert!(key != StoredKey::NONE, "that is no key");
        let at = home(hash, self.buckets.len());
        let is_large = self.buckets.len() > CACHED;
        // There is none before the first key.
        let bucket = self.buckets.get_mut(at)?;
        let mut places = bucket.summary.places_of(tag(hash));
        if size_of::<Bucket<S>>() == 2 * LINE && is_large {
            // Says no more of the last place than its tag does, but has both lines of the bucket come from memory at once.
            places.add_if(PLACES - 1, bucket.entries[PLACES - 1].key.halves()[0] == key.halves()[0]);
        }
        let entry = &mut bucket.entries[places.next()?];
        (entry.key == key).then_some(&mut entry.states)
    }

    /// The states of a key, wherever it is.
    pub(super) fn find(&mut self, hash: u64, key: StoredKey) -> Option<&mut S> {
        debug_assert!(key != StoredKey::NONE, "that is no key");
        let mut at = home(hash, self.buckets.len());
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut places = bucket.summary.places_of(tag(hash));
            if let Some(place) = places.find(|&place| bucket.entries[place].key == key) {
                return Some(&mut self.buckets[at].entries[place].states);
            }
            if bucket.summary.passed_by() == 0 {
                break;
            }
            at = self.next(at);
        }
        None
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 < self.buckets.len() { at + 1 } else { 0 }
    }
}

impl<S: Default> Bucket<S> {
    /// Gives a key that is not there a place, or the states back where there is none.
    fn insert(&mut self, hash: u64, key: StoredKey, states: S) -> Result<(), S> {
        let Some(place) = self.entries.iter().position(|entry| entry.key == StoredKey::NONE) else {
            return Err(states);
        };
        self.summary.set(place, tag(hash));
        self.entries[place] = Entry { key, states };
        Ok(())
    }

    /// Removes the key at a place, if there is one and `is_idle` says so of its states, and says which it was.
    fn remove_if(&mut self, place: usize, is_idle: impl FnOnce(&S) -> bool) -> Option<StoredKey> {
        let entry = &mut self.entries[place];
        if entry.key == StoredKey::NONE || !is_idle(&entry.states) {
            return None;
        }
        self.summary.set(place, 0);
        Some(std::mem::take(entry).key)
    }
}

impl<S: Default> Slots<S> {
    /// Gives a key that is not there a place.
    pub(super) fn insert(&mut self, secret: &Secret, key: StoredKey, states: S) {
        if self.keys as usize >= most_keys::<S>(self.buckets.len()) {
            let buckets = self.buckets.len();
            self.resize(secret, buckets + (buckets / 8).max(1));
        }
        self.put(secret.hash(key), key, states);
        self.keys += 1;
    }

    fn put(&mut self, hash: u64, key: StoredKey, mut states: S) {
        let mut at = home(hash, self.buckets.len());
        while let Err(refused) = self.buckets[at].insert(hash, key, states) {
            states = refused;
            self.buckets[at].summary.pass();
            at = self.next(at);
        }
    }

    /// Looks at so many buckets, at others each time, and removes the keys of whose states `is_idle` says so. Returns how many.
    pub(super) fn remove_some(
        &mut self,
        looks: usize,
        secret: &Secret,
        is_idle: impl Fn(&S) -> bool,
    ) -> usize {
        let (keys, all) = (self.keys, self.buckets.len());
        for _ in 0..looks.min(all) {
            self.hand = self.hand.wrapping_add(STEP);
            self.remove_from(home(u64::from(self.hand) << 32, all), secret, &is_idle);
        }
        self.shrink(secret);
        (keys - self.keys) as usize
    }

    /// Removes all keys of whose states `is_idle` says so, and returns how many.
    pub(super) fn remove_all(&mut self, secret: &Secret, is_idle: impl Fn(&S) -> bool) -> usize {
        let keys = self.keys;
        for at in 0..self.buckets.len() {
            self.remove_from(at, secret, &is_idle);
        }
        self.shrink(secret);
        (keys - self.keys) as usize
    }

    fn remove_from(&mut self, at: usize, secret: &Secret, is_idle: impl Fn(&S) -> bool) {
        for place in 0..PLACES {
            self.remove_if(secret, at * PLACES + place, &is_idle);
        }
    }

    fn remove_if(&mut self, secret: &Secret, place: usize, is_idle: impl FnOnce(&S) -> bool) -> bool {
        let at = place / PLACES;
        let Some(removed) = self.buckets[at].remove_if(place % PLACES, is_idle) else { return false };
        self.keys -= 1;
        let mut passed = home(secret.hash(removed), self.buckets.len());
        while passed != at {
            self.buckets[passed].summary.unpass();
            passed = self.next(passed);
        }
        true
    }

    /// Gives memory back where many places are free.
    fn shrink(&mut self, secret: &Secret) {
        if (self.keys as usize) < self.places() / 4 {
            self.resize(secret, (2 * self.keys as usize).div_ceil(PLACES));
        }
    }

    fn resize(&mut self, secret: &Secret, buckets: usize) {
        let new = (0..buckets).map(|_| Bucket::default()).collect();
        let old = std::mem::replace(&mut self.buckets, new);
        for bucket in old {
            for Entry { key, states } in bucket.entries {
                if key != StoredKey::NONE {
                    self.put(secret.hash(key), key, states);
                }
            }
        }
    }
}

impl Summary {
    /// A one in the byte of each place.
    const EACH: u64 = 0x01_0101_0101;
    /// The lowest bit of the count.
    const PASSED: u64 = 1 << (8 * PLACES);

    /// The places that have this tag. There may be a few that do not.
    #[inline]
    fn places_of(self, tag: u8) -> Places {
        let differences = self.0 ^ (u64::from(tag) * Self::EACH);
        // Of bytes with seven bits, only one that is zero becomes negative, or one above it.
        Places(differences.wrapping_sub(Self::EACH) & (Self::EACH << 7))
    }

    fn set(&mut self, place: usize, tag: u8) {
        let mut bytes = self.0.to_le_bytes();
        bytes[place] = tag;
        self.0 = u64::from_le_bytes(bytes);
    }

    #[inline]
    fn passed_by(self) -> u64 {
        self.0 / Self::PASSED
    }

    /// No table has so many keys that this would overflow.
    fn pass(&mut self) {
        self.0 += Self::PASSED;
    }

    fn unpass(&mut self) {
        self.0 -= Self::PASSED;
    }
}

/// Some places of a bucket: the highest bit of the byte of each.
struct Places(u64);

impl Places {
    #[inline]
    fn add_if(&mut self, place: usize, is_one: bool) {
        self.0 |= u64::from(is_one) << (8 * place + 7);
    }
}

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize / 8;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

/// The bucket that a hash names among so many.
#[inline]
fn home(hash: u64, buckets: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the upper half is less than `buckets`")]
    return ((u128::from(hash) * buckets as u128) >> 64) as usize;
}

/// By bits that neither the bucket nor the shard is named by.
#[inline]
fn tag(hash: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "one byte of it")]
    return (hash >> 24) as u8 & 0x7f;
}

/// How many keys may stand in so many buckets. In a table that is fuller, more are not where they are looked for first; in a
/// large one, and where states are large, free places cost more than that.
fn most_keys<S>(buckets: usize) -> usize {
    let is_large = size_of::<S>() >= 32;
    match buckets {
        0..=32 if !is_large => buckets * 2,
        0..=256 if !is_large => buckets * 5 / 2,
        257.. if is_large => buckets * 4,
        _ => buckets * 7 / 2,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{Key, LimitKey as _};

    fn key(number: u64) -> StoredKey {
        number.stored()
    }

    /// Random keys come and go, and a map of the standard library knows which are there.
    #[test]
    fn it_holds_what_a_map_holds() {
        let mut draw = crate::draw::Draw::new(1);
        for _ in 0..30 {
            let secret = Secret::new();
            let (mut slots, mut map) = (Slots::new(), HashMap::new());
            let mut most = 1 + draw.below(2_000);
            for step in 0..20_000u64 {
                if step % 5_000 == 0 {
                    most = 1 + draw.below(2_000);
                }
                let number = draw.below(most);
                let hash = secret.hash(key(number));
                let found = slots.find(hash, key(number)).map(|states| *states);
                assert_eq!(found, map.get(&number).copied());
                if found.is_none() {
                    slots.insert(&secret, key(number), step);
                    map.insert(number, step);
                } else if let Ok(places) = u64::try_from(slots.places()) {
                    let at = usize::try_from(draw.below(places)).unwrap();
                    let mut removed = None;
                    if slots.remove_if(&secret, at, |&states| {
                        removed = Some(states);
                        states % 3 > 0
                    }) {
                        map.retain(|_, states| Some(*states) != removed);
                    }
                    slots.shrink(&secret);
                }
                assert_eq!(slots.keys as usize, map.len());
            }
            for (&number, &states) in &map {
                let hash = secret.hash(key(number));
                assert_eq!(slots.find(hash, key(number)), Some(&mut { states }));
            }
        }
    }

    #[test]
    fn every_bucket_has_its_turn() {
        let secret = Secret::new();
        let mut slots = Slots::new();
        for number in 0..500 {
            slots.insert(&secret, key(number), number);
        }
        // Wherever it begins, and though the buckets become fewer meanwhile.
        for left in [400, 300, 0] {
            let gone = |&number: &u64| number >= left;
            let looks = slots.places();
            assert!((0..looks).any(|_| {
                slots.remove_some(1, &secret, gone);
                u64::from(slots.keys) == left
            }));
            slots.hand += 7;
        }
        assert_eq!(slots.places(), 0, "nothing is left, not even memory");
        assert_eq!(slots.remove_some(1, &secret, |_| true), 0);
    }

    #[test]
    fn all_keys_are_looked_at_once() {
        let secret = Secret::new();
        let mut slots = Slots::new();
        for number in 0..500 {
            slots.insert(&secret, key(number), number);
        }
        assert_eq!(slots.remove_all(&secret, |number| number % 2 == 0), 250);
        assert_eq!(slots.remove_all(&secret, |number| number % 2 == 0), 0);
        assert_eq!(slots.remove_all(&secret, |_| true), 250);
        assert_eq!(slots.places(), 0, "nothing is left, not even memory");
    }

    /// What was looked at is spread over the table, so that few keys are far from where they are looked for in a smaller one, and
    /// few looks are in vain while there are keys to remove.
    #[test]
    fn a_table_that_becomes_smaller_stays_spread() {
        for _ in 0..50 {
            let secret = Secret::new();
            let mut slots = Slots::new();
            for number in 0..10_000 {
                slots.insert(&secret, key(number), number);
            }
            let mut looks = 0;
            while slots.keys > 0 {
                slots.remove_some(25, &secret, |_| true);
                looks += 1;
                let displaced: u64 = slots.buckets.iter().map(|bucket| bucket.summary.passed_by()).sum();
                assert!(displaced <= u64::from(slots.keys) / 4 + 50, "{displaced} of {} keys", slots.keys);
            }
            assert!(looks < 150, "{looks} looks");
        }
    }

    /// Whatever the secret, neighbouring numbers are spread as if they were drawn: few find their bucket full.
    #[test]
    fn neighbours_do_not_crowd() {
        const KEYS: u64 = 10_000;
        // As in 256 shards, which are named by the lower bits.
        const SHARDS: u64 = 256;
        const BUCKETS: usize = 12;
        for _ in 0..50 {
            let secret = Secret::new();
            let mut in_bucket = vec![0_u32; 256 * BUCKETS];
            for number in 0..KEYS {
                let hash = secret.hash(key(number));
                let shard = usize::try_from(hash % SHARDS).unwrap();
                in_bucket[shard * BUCKETS + home(hash, BUCKETS)] += 1;
            }
            let crowded: u32 = in_bucket.iter().map(|keys| keys.saturating_sub(5)).sum();
            assert!(crowded < 800, "{crowded} of {KEYS} are not where they are looked for first");
        }
    }

    #[test]
    fn a_table_is_well_filled_at_every_size() {
        let secret = Secret::new();
        let mut slots = Slots::new();
        for number in 0..20_000 {
            slots.insert(&secret, key(number), [0_u64; 1]);
            let (keys, places) = (slots.keys as usize, slots.places());
            assert!(keys < 100 || 3 * keys > places, "{keys} of {places}");
            assert!(keys < 1_000 || 5 * keys > 3 * places, "{keys} of {places}");
        }
        let long = StoredKey::new(&Key::of("a key that is not there, and is long"));
        let hash = secret.hash(long);
        assert_eq!(slots.find(hash, long), None);
    }
}
