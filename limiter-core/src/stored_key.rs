//! A key as the limiter of this process holds it.

use std::hash::{BuildHasher as _, RandomState};

use once_cell::sync::Lazy;
use siphasher::sip128::SipHasher13;

use crate::Key;

/// A key in two words: compared, hashed and kept without a look at anything else.
///
/// | last byte | the other 15 |
/// | --- | --- |
/// | up to 15 | as many bytes of the key as [`Key`] writes it, zeros behind |
/// | `0x40` | a key that is one number from 0: its eight bytes, zeros behind |
/// | `0x80` and up to 15 | a key that is one string: as many bytes of the string itself, zeros behind |
/// | `0xfe`, `0xff` | a longer string, a longer key: a digest |
///
/// A digest has 120 bits and is made under a secret of this process, so that nobody can look for two keys of one digest,
/// nor fill memory with long keys.
#[derive(Clone, Copy, Default)]
pub struct StoredKey {
    low: u64,
    /// The last byte, which says what the others are, is its highest.
    high: u64,
}

/// As many bytes of a key are held as they are.
const WHOLE: usize = 15;
const NUMBER: u64 = 0x40;
const STRING: u64 = 0x80;
const DIGEST_OF_STRING: u64 = 0xfe;
const DIGEST: u64 = 0xff;

impl StoredKey {
    /// That of a function without a key, which no other key shares.
    pub(crate) const NONE: Self = Self { low: 0, high: 0 };

    #[inline]
    pub(crate) fn new(key: &Key) -> Self {
        let bytes = key.as_bytes();
        match (key.as_one_number(), key.as_one_string()) {
            (Some(number), _) => Self::of_number(number),
            (_, Some(string)) => Self::of_string(string),
            _ if bytes.len() <= WHOLE => Self::whole(bytes, 0),
            _ => Self::digest(bytes, DIGEST),
        }
    }

    /// What [`new`](Self::new) makes of a key that is one number from 0.
    #[inline]
    pub(crate) fn of_number(number: u64) -> Self {
        Self { low: number, high: NUMBER << 56 }
    }

    /// What [`new`](Self::new) makes of a key that is one string.
    #[inline]
    pub(crate) fn of_string(string: &[u8]) -> Self {
        if string.len() <= WHOLE {
            Self::whole(string, STRING)
        } else {
            Self::digest(string, DIGEST_OF_STRING)
        }
    }

    #[inline]
    fn whole(bytes: &[u8], kind: u64) -> Self {
        let length = bytes.len();
        // The first and the last bytes overlap; what the first have is shifted out of the last, or written twice.
        let [low, high] = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(first), Some(last)) => {
                let last = u128::from(u64::from_le_bytes(*last));
                #[expect(clippy::cast_possible_truncation, reason = "eight bytes at the most are left")]
                [u64::from_le_bytes(*first), (last >> (8 * (16 - length))) as u64]
            }
            _ => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
                (Some(first), Some(last)) => {
                    let [first, last] = [first, last].map(|chunk| u64::from(u32::from_le_bytes(*chunk)));
                    [first | last << (8 * (length - 4)), 0]
                }
                _ => [bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0],
            },
        };
        Self { low, high: high | (kind | length as u64) << 56 }
    }

    fn digest(bytes: &[u8], kind: u64) -> Self {
        static SECRET: Lazy<SipHasher13> = Lazy::new(|| {
            let random = RandomState::new();
            SipHasher13::new_with_keys(random.hash_one(0), random.hash_one(1))
        });
        let digest = SECRET.hash(bytes);
        Self { low: digest.h1, high: digest.h2 >> 8 | kind << 56 }
    }

    #[inline]
    pub(crate) fn halves(self) -> [u64; 2] {
        [self.low, self.high]
    }
}

/// Both halves at once: where they are compared one after the other, the processor guesses, and is often wrong.
impl PartialEq for StoredKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.low ^ other.low) | (self.high ^ other.high) == 0
    }
}

impl Eq for StoredKey {}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_digest_has_two_halves_and_reads_the_whole_key() {
        let mut seen = HashMap::new();
        for i in 0..1_000u32 {
            let mut key = vec![b'x'; 1_000];
            key.extend(i.to_le_bytes());
            let stored = StoredKey::digest(&key, DIGEST);
            assert!(stored == StoredKey::digest(&key, DIGEST), "a key has one digest");
            // Each half alone, so that neither leans on the other.
            for half in stored.halves() {
                assert_eq!(seen.insert(half, i), None);
            }
        }
    }

    #[test]
    fn different_keys_are_stored_differently() {
        let texts = (0..200_usize).flat_map(|length| ["x", "\0", "u", "s"].map(|text| text.repeat(length)));
        let texts: Vec<String> = texts.chain((0..16).map(|last| format!("{last:020}"))).collect();
        let mut keys: Vec<Key> = texts.iter().map(|text| Key::of(text.as_str())).collect();
        // The same bytes as another kind of key, and what a string's bytes could be mistaken for.
        keys.extend(texts.iter().map(|text| Key::of(text.as_bytes())));
        keys.extend((0..100_u64).map(|number| Key::of(&(number * number * number))));
        keys.extend((0..16_u8).map(|parts| Key::of(&vec![true; parts.into()])));
        keys.push(Key::of(&()));
        let mut seen: HashMap<[u64; 2], &[u8]> = HashMap::new();
        for key in &keys {
            let halves = StoredKey::new(key).halves();
            let other = *seen.entry(halves).or_insert(key.as_bytes());
            assert_eq!(other, key.as_bytes(), "two keys became one");
            assert_eq!(halves == [0, 0], key.as_bytes().is_empty(), "only no key is stored as nothing");
        }
        assert!(seen.len() > 1_700, "{} keys", seen.len());
    }
}
