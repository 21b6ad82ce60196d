//! A key as the table holds it.

use std::hash::{BuildHasher, Hasher, RandomState};

use once_cell::sync::Lazy;

/// A key of at most [`StoredKey::LONGEST`] bytes; short ones without an allocation.
pub(super) enum StoredKey {
    Short { length: u8, bytes: [u8; StoredKey::SHORT] },
    Long(Box<[u8]>),
}

impl StoredKey {
    /// With these a key takes 24 bytes.
    const SHORT: usize = 22;
    /// Longer keys are held as a digest, so that nobody can fill memory with long keys.
    pub(super) const LONGEST: usize = 128;

    pub(super) fn new(key: &[u8]) -> Self {
        if key.len() > Self::SHORT {
            return Self::Long(key.into());
        }
        let mut bytes = [0; Self::SHORT];
        bytes[..key.len()].copy_from_slice(key);
        #[expect(clippy::cast_possible_truncation, reason = "at most 22")]
        Self::Short { length: key.len() as u8, bytes }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

/// What stands for a key that is too long: a digest of 128 bits under a secret of this process, so that nobody can
/// look for two keys of one digest. It starts with a byte that no encoded key starts with.
pub(super) fn digest(key: &[u8]) -> [u8; 17] {
    static SECRET: Lazy<RandomState> = Lazy::new(RandomState::new);
    let half = |which: u8| {
        let mut hasher = SECRET.build_hasher();
        hasher.write_u8(which);
        hasher.write(key);
        hasher.finish().to_le_bytes()
    };
    let mut digest = [0; 17];
    digest[0] = b'#';
    digest[1..9].copy_from_slice(&half(0));
    digest[9..].copy_from_slice(&half(1));
    digest
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
            let digest = digest(&key);
            assert_eq!(digest, super::digest(&key), "a key has one digest");
            assert_ne!(digest[1..9], digest[9..], "half of it says nothing new");
            // Each half alone, so that neither leans on the other.
            assert!(seen.insert(digest[1..9].to_vec()) && seen.insert(digest[9..].to_vec()));
            assert_eq!(digest[0], b'#');
        }
    }

    #[test]
    fn a_key_is_stored_whole() {
        for length in [0, 1, StoredKey::SHORT, StoredKey::SHORT + 1, StoredKey::LONGEST] {
            let key: Vec<u8> = (1..=u8::try_from(length).unwrap()).collect();
            assert_eq!(StoredKey::new(&key).as_bytes(), key);
        }
    }
}
