//! A key as the table holds it.

use std::hash::{BuildHasher, Hasher, RandomState};

use once_cell::sync::Lazy;

use crate::Key;

/// A key in three words: compared, hashed and kept without a look at anything else.
///
/// Up to 22 bytes the key itself, with zeros behind and its length at the end. For a longer one a digest of 128 bits under
/// a secret of this process, so that nobody can look for two keys of one digest, nor fill memory with long keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredKey([u64; 3]);

const WHOLE: usize = 22;
/// Where the length of a whole key stands, for a digest. No whole key is so long.
const DIGEST: u64 = 0xff;

impl StoredKey {
    #[inline]
    pub(super) fn new(key: &Key) -> Self {
        match key.padded::<24>() {
            Some((length, bytes)) if length <= WHOLE => {
                let word = |at: usize| {
                    u64::from_le_bytes(*bytes[at..].first_chunk().expect("24 bytes are three words"))
                };
                Self([word(0), word(8), word(16) | (length as u64) << 56])
            }
            _ => Self::digest(key.as_bytes()),
        }
    }

    #[cold]
    fn digest(key: &[u8]) -> Self {
        static SECRET: Lazy<RandomState> = Lazy::new(RandomState::new);
        let half = |which: u8| {
            let mut hasher = SECRET.build_hasher();
            hasher.write_u8(which);
            hasher.write(key);
            hasher.finish()
        };
        Self([half(0), half(1), DIGEST << 56])
    }

    #[inline]
    pub(super) fn hash(self, mut hasher: impl Hasher) -> u64 {
        let [first, second, last] = self.0;
        hasher.write_u128(u128::from(first) << 64 | u128::from(second));
        hasher.write_u64(last);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_digest_has_two_halves_and_reads_the_whole_key() {
        let mut seen = HashSet::new();
        for i in 0..1_000u32 {
            let mut key = vec![b'x'; 1_000];
            key.extend(i.to_le_bytes());
            let StoredKey([first, second, _]) = StoredKey::digest(&key);
            assert_eq!(StoredKey::digest(&key).0[..2], [first, second], "a key has one digest");
            // Each half alone, so that neither leans on the other.
            assert!(seen.insert(first) && seen.insert(second));
        }
    }

    #[test]
    fn different_keys_are_stored_differently() {
        let bytes: Vec<Vec<u8>> = (0..200_usize)
            .flat_map(|length| [vec![b'x'; length], vec![0; length], vec![0xff; length]])
            .collect();
        let keys: Vec<Key> = bytes.iter().map(|bytes| Key::of(bytes.as_slice())).collect();
        let hash = |key: StoredKey| key.hash(std::hash::DefaultHasher::new());
        for (i, one) in keys.iter().enumerate() {
            for (j, other) in keys.iter().enumerate() {
                let [one_stored, other_stored] = [one, other].map(StoredKey::new);
                let same = one.as_bytes() == other.as_bytes();
                assert_eq!(one_stored == other_stored, same, "{i} and {j}");
                assert_eq!(hash(one_stored) == hash(other_stored), same, "{i} and {j}");
            }
        }
    }
}
