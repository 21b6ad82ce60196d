//! Whose limit it is: any value, written as bytes that no other value shares.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8, NonZeroU16,
    NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize,
};
use std::rc::Rc;
use std::sync::Arc;

use crate::stored_key::StoredKey;

/// What can say whose limit it is.
///
/// Integers, `bool`, `char`, strings, byte strings, [`IpAddr`], [`Option`], references, smart pointers, tuples and
/// arrays of these; `Uuid` with the feature `uuid`; types of your own by `#[derive(LimitKey)]`, or by handing on to a
/// part of them:
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{Key, LimitKey};
///
/// struct Account { tenant: String, number: u64, opened: std::time::SystemTime }
///
/// impl LimitKey for Account {
///     fn encode(&self, key: &mut Key) {
///         (&self.tenant, self.number).encode(key);
///     }
/// }
/// ```
///
/// Two different keys never become one: every part is written with its kind and its length. Equal numbers are equal
/// keys, whatever their width.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a limit",
    label = "not a `LimitKey`",
    note = "a key is an integer, a bool, a char, a string, bytes, an `IpAddr`, or an `Option`, a reference, a tuple or an array of these",
    note = "write the path to such a field, such as `key = \"p.id\"`, or put `#[derive(LimitKey)]` on the type"
)]
pub trait LimitKey {
    /// Writes this value into `key`.
    fn encode(&self, key: &mut Key);

    /// The key as the limiter of this process holds it: a shortcut past [`encode`](Self::encode), never another key.
    #[doc(hidden)]
    fn stored(&self) -> StoredKey {
        StoredKey::new(&Key::of(self))
    }

    /// Writes several values of one type: bytes as a byte string, whatever holds them, all else as a group.
    #[doc(hidden)]
    fn encode_slice(values: &[Self], key: &mut Key)
    where
        Self: Sized,
    {
        key.group(values.len());
        for value in values {
            value.encode(key);
        }
    }
}

/// The bytes of a key, and room to write them without allocating for all but long keys.
///
/// | first byte | what follows |
/// | --- | --- |
/// | `u` | an integer from 0, 8 bytes |
/// | `n` | a negative integer, 8 bytes |
/// | `U`, `N` | the same where 8 bytes are too few, 16 bytes |
/// | `t`, `f` | nothing: true, false |
/// | `c` | a char, 4 bytes |
/// | `s`, `b` | a string, bytes: the length in 4 bytes (`S`, `B`: 8 bytes), and as many bytes |
/// | `4`, `6` | an address, 4 or 16 bytes |
/// | `i` | a UUID, 16 bytes |
/// | `_` | nothing: `()` as a part of another key |
/// | `-`, `+` | nothing there; something there, which follows |
/// | `(` | a group: how many parts in 4 bytes, and the parts |
/// | `v` | an enum's variant: its name as a string, and a group |
///
/// Numbers are little endian. The key of a function without one is empty.
///
/// It has no `Debug` and no `Display`: a key may be somebody's name, and does not belong in a log.
#[derive(Clone)]
pub struct Key {
    short: [u8; Key::SHORT],
    short_length: usize,
    /// Holds the whole key once it does not fit in `short`.
    long: Vec<u8>,
}

impl Key {
    const SHORT: usize = 128;

    /// The key that `value` makes.
    #[inline]
    pub fn of<K: LimitKey + ?Sized>(value: &K) -> Self {
        let mut key = Self { short: [0; Self::SHORT], short_length: 0, long: Vec::new() };
        value.encode(&mut key);
        key
    }

    /// The key as bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.short_length] } else { &self.long }
    }

    /// The number where the key is one number from 0 and nothing else.
    pub(crate) fn as_one_number(&self) -> Option<u64> {
        let (b'u', number) = self.as_bytes().split_first()? else { return None };
        number.try_into().ok().map(u64::from_le_bytes)
    }

    /// The string where the key is one string and nothing else.
    pub(crate) fn as_one_string(&self) -> Option<&[u8]> {
        let (length, string) = match self.as_bytes() {
            [b's', rest @ ..] => {
                let (length, string) = rest.split_first_chunk()?;
                (u64::from(u32::from_le_bytes(*length)), string)
            }
            [b'S', rest @ ..] => {
                let (length, string) = rest.split_first_chunk()?;
                (u64::from_le_bytes(*length), string)
            }
            _ => return None,
        };
        // Who encodes several strings one after the other has more behind the first.
        (string.len() as u64 == length).then_some(string)
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let end = self.short_length + bytes.len();
        if self.long.is_empty() && end <= Self::SHORT {
            self.short[self.short_length..end].copy_from_slice(bytes);
            self.short_length = end;
        } else {
            self.push_long(bytes);
        }
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.reserve(self.short_length + bytes.len());
            self.long.extend_from_slice(&self.short[..self.short_length]);
        }
        self.long.extend_from_slice(bytes);
    }

    #[inline]
    fn kind(&mut self, kind: u8) {
        self.push(&[kind]);
    }

    #[inline]
    fn kind_and<const N: usize>(&mut self, kind: u8, bytes: [u8; N]) {
        self.kind(kind);
        self.push(&bytes);
    }

    #[inline]
    fn text(&mut self, kind: u8, bytes: &[u8]) {
        match u32::try_from(bytes.len()) {
            Ok(length) => self.kind_and(kind, length.to_le_bytes()),
            Err(_) => self.kind_and(kind.to_ascii_uppercase(), (bytes.len() as u64).to_le_bytes()),
        }
        self.push(bytes);
    }

    /// Opens a group of `parts` parts, which are to be encoded next.
    #[doc(hidden)]
    pub fn group(&mut self, parts: usize) {
        let parts = u32::try_from(parts).expect("a key has fewer than 2^32 parts");
        self.kind_and(b'(', parts.to_le_bytes());
    }

    /// Opens the variant of an enum with `parts` parts, which are to be encoded next.
    #[doc(hidden)]
    pub fn variant(&mut self, name: &str, parts: usize) {
        self.text(b'v', name.as_bytes());
        self.group(parts);
    }
}

/// No key: the whole function has one limit.
impl LimitKey for () {
    #[inline]
    fn stored(&self) -> StoredKey {
        StoredKey::NONE
    }

    fn encode(&self, key: &mut Key) {
        // As a part of another key it is a part like any other.
        if !key.as_bytes().is_empty() {
            key.kind(b'_');
        }
    }
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty, $nonzero_unsigned:ty, $nonzero_signed:ty $(, { $bytes:item })?;)*) => {$(
        impl LimitKey for $unsigned {
            $($bytes)?

            #[inline]
            fn encode(&self, key: &mut Key) {
                match u64::try_from(*self) {
                    Ok(number) => key.kind_and(b'u', number.to_le_bytes()),
                    Err(_) => key.kind_and(b'U', wide::<$unsigned, u128>(*self).to_le_bytes()),
                }
            }

            #[inline]
            fn stored(&self) -> StoredKey {
                match u64::try_from(*self) {
                    Ok(number) => StoredKey::of_number(number),
                    Err(_) => StoredKey::new(&Key::of(self)),
                }
            }
        }

        impl LimitKey for $signed {
            #[inline]
            fn encode(&self, key: &mut Key) {
                if *self >= 0 {
                    self.unsigned_abs().encode(key);
                } else {
                    match i64::try_from(*self) {
                        Ok(number) => key.kind_and(b'n', number.to_le_bytes()),
                        Err(_) => key.kind_and(b'N', wide::<$signed, i128>(*self).to_le_bytes()),
                    }
                }
            }

            #[inline]
            fn stored(&self) -> StoredKey {
                match u64::try_from(*self) {
                    Ok(number) => StoredKey::of_number(number),
                    Err(_) => StoredKey::new(&Key::of(self)),
                }
            }
        }

        impl LimitKey for $nonzero_unsigned {
            fn encode(&self, key: &mut Key) {
                self.get().encode(key);
            }

            #[inline]
            fn stored(&self) -> StoredKey {
                self.get().stored()
            }
        }

        impl LimitKey for $nonzero_signed {
            fn encode(&self, key: &mut Key) {
                self.get().encode(key);
            }

            #[inline]
            fn stored(&self) -> StoredKey {
                self.get().stored()
            }
        }
    )*};
}

/// The same number in more bytes.
fn wide<N, W: TryFrom<N>>(number: N) -> W {
    W::try_from(number).unwrap_or_else(|_| unreachable!("no number is wider"))
}

integers! {
    u8, i8, NonZeroU8, NonZeroI8, {
        fn encode_slice(bytes: &[Self], key: &mut Key) {
            key.text(b'b', bytes);
        }
    };
    u16, i16, NonZeroU16, NonZeroI16;
    u32, i32, NonZeroU32, NonZeroI32;
    u64, i64, NonZeroU64, NonZeroI64;
    u128, i128, NonZeroU128, NonZeroI128;
    usize, isize, NonZeroUsize, NonZeroIsize;
}

impl LimitKey for bool {
    fn encode(&self, key: &mut Key) {
        key.kind(if *self { b't' } else { b'f' });
    }
}

impl LimitKey for char {
    fn encode(&self, key: &mut Key) {
        key.kind_and(b'c', u32::from(*self).to_le_bytes());
    }
}

impl LimitKey for str {
    #[inline]
    fn encode(&self, key: &mut Key) {
        key.text(b's', self.as_bytes());
    }

    #[inline]
    fn stored(&self) -> StoredKey {
        StoredKey::of_string(self.as_bytes())
    }
}

impl LimitKey for String {
    #[inline]
    fn encode(&self, key: &mut Key) {
        self.as_str().encode(key);
    }

    #[inline]
    fn stored(&self) -> StoredKey {
        self.as_str().stored()
    }
}

impl<K: LimitKey> LimitKey for [K] {
    fn encode(&self, key: &mut Key) {
        K::encode_slice(self, key);
    }
}

impl<K: LimitKey> LimitKey for Vec<K> {
    fn encode(&self, key: &mut Key) {
        K::encode_slice(self, key);
    }
}

impl<K: LimitKey, const N: usize> LimitKey for [K; N] {
    fn encode(&self, key: &mut Key) {
        K::encode_slice(self, key);
    }
}

impl LimitKey for Ipv4Addr {
    fn encode(&self, key: &mut Key) {
        key.kind_and(b'4', self.octets());
    }
}

impl LimitKey for Ipv6Addr {
    fn encode(&self, key: &mut Key) {
        key.kind_and(b'6', self.octets());
    }
}

impl LimitKey for IpAddr {
    fn encode(&self, key: &mut Key) {
        match self {
            Self::V4(address) => address.encode(key),
            Self::V6(address) => address.encode(key),
        }
    }
}

#[cfg(feature = "uuid")]
impl LimitKey for uuid::Uuid {
    fn encode(&self, key: &mut Key) {
        key.kind_and(b'i', *self.as_bytes());
    }
}

impl<K: LimitKey> LimitKey for Option<K> {
    fn encode(&self, key: &mut Key) {
        match self {
            None => key.kind(b'-'),
            Some(part) => {
                key.kind(b'+');
                part.encode(key);
            }
        }
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<K: LimitKey + ?Sized> LimitKey for $pointer {
            #[inline]
            fn encode(&self, key: &mut Key) {
                (**self).encode(key);
            }

            #[inline]
            fn stored(&self) -> StoredKey {
                (**self).stored()
            }
        }
    )*};
}
pointers!(&K, &mut K, Box<K>, Rc<K>, Arc<K>);

impl<K: LimitKey + ToOwned + ?Sized> LimitKey for Cow<'_, K> {
    fn encode(&self, key: &mut Key) {
        (**self).encode(key);
    }

    #[inline]
    fn stored(&self) -> StoredKey {
        (**self).stored()
    }
}

macro_rules! tuples {
    ($($count:literal: $($part:ident)*;)*) => {$(
        impl<$($part: LimitKey),*> LimitKey for ($($part,)*) {
            fn encode(&self, key: &mut Key) {
                #[expect(non_snake_case, reason = "a part is called like its type")]
                let ($($part,)*) = self;
                key.group($count);
                $($part.encode(key);)*
            }
        }
    )*};
}
tuples! {
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn bytes<K: LimitKey + ?Sized>(value: &K) -> Vec<u8> {
        Key::of(value).as_bytes().to_vec()
    }

    #[test]
    fn different_keys_stay_different() {
        let mut seen = HashMap::new();
        let mut see = |what: &'static str, encoded: Vec<u8>| {
            if let Some(other) = seen.insert(encoded, what) {
                panic!("{what} and {other} became one key");
            }
        };
        see("()", bytes(&()));
        see("((), 1)", bytes(&((), 1)));
        see("(1, ())", bytes(&(1, ())));
        see("1", bytes(&1));
        see("-1", bytes(&-1));
        see("u128", bytes(&u128::MAX));
        see("i128", bytes(&i128::MIN));
        see("u64::MAX", bytes(&u64::MAX));
        see("true", bytes(&true));
        see("'1'", bytes(&'1'));
        see("\"1\"", bytes("1"));
        see("b\"1\"", bytes(b"1".as_slice()));
        see("[1]", bytes(&[1]));
        see("i128::MIN as u128", bytes(&i128::MIN.cast_unsigned()));
        see("empty", bytes(""));
        see("None", bytes(&None::<&str>));
        see("Some(None)", bytes(&Some(None::<&str>)));
        see("Some(\"\")", bytes(&Some("")));
        see("(ab, c)", bytes(&("ab", "c")));
        see("(a, bc)", bytes(&("a", "bc")));
        see("(abc,)", bytes(&("abc",)));
        see("abc", bytes("abc"));
        see("((a, b), c)", bytes(&(("a", "b"), "c")));
        see("(a, (b, c))", bytes(&("a", ("b", "c"))));
        see("(a, b, c)", bytes(&("a", "b", "c")));
        see("NUL", bytes("\0"));
        see("two NULs", bytes("\0\0"));
        see("v4", bytes(&Ipv4Addr::LOCALHOST));
        see("v6", bytes(&Ipv6Addr::LOCALHOST));
        see("mapped v6", bytes(&Ipv4Addr::LOCALHOST.to_ipv6_mapped()));
        see("long", bytes(&"x".repeat(64)));
        see("longer", bytes(&"x".repeat(65)));
    }

    #[test]
    fn the_same_key_in_another_wrapping_is_the_same() {
        assert_eq!(bytes("a"), bytes(&String::from("a")));
        assert_eq!(bytes("a"), bytes(&Arc::<str>::from("a")));
        assert_eq!(bytes("a"), bytes(&Cow::Borrowed("a")));
        assert_eq!(bytes(b"ab"), bytes(b"ab".as_slice()));
        assert_eq!(bytes(b"ab"), bytes(&b"ab".to_vec()));
        assert_eq!(bytes(b"ab"), bytes(&Arc::<[u8]>::from(*b"ab")));
        assert_eq!(bytes(b"ab"), b"b\x02\0\0\0ab", "bytes are a byte string, not a group of numbers");
        assert_eq!(bytes(&["a", "b"]), bytes(&vec!["a", "b"]));
        assert_eq!(bytes(&7u8), bytes(&&&7i128));
        assert_eq!(bytes(&-7i8), bytes(&-7isize));
        assert_eq!(bytes(&IpAddr::from([127, 0, 0, 1])), bytes(&Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn the_shortcut_makes_the_same_key() {
        fn check<K: LimitKey + ?Sized>(value: &K) {
            assert!(value.stored() == StoredKey::new(&Key::of(value)));
        }
        for number in [0, 1, 255, 1 << 56, u64::MAX] {
            check(&number);
            check(&number.cast_signed());
            check(&u128::from(number));
            check(&Some(number));
            check(&NonZeroU64::new(number | 1).unwrap());
        }
        check(&i8::MIN);
        check(&u128::MAX);
        check(&i128::MIN);
        for length in (0..40).chain([127, 128, 129, 1 << 17]) {
            let text: String = ('a'..='z').cycle().take(length).collect();
            check(text.as_str());
            check(&text);
            check(&Arc::<str>::from(text.as_str()));
            check(&Cow::Borrowed(text.as_str()));
            check(text.as_bytes());
            check(&(text.as_str(), 1));
        }
        check(&());
    }

    #[test]
    fn strings_one_after_the_other_are_not_one_string() {
        struct Two(&'static str, &'static str);
        impl LimitKey for Two {
            fn encode(&self, key: &mut Key) {
                self.0.encode(key);
                self.1.encode(key);
            }
        }
        assert!(Two("a", "b").stored() != "as\x01\0\0\0b".stored());
        assert!(Two("a", "b").stored() != Two("ab", "").stored());
    }

    #[test]
    fn long_keys_are_kept_whole() {
        for length in [0, 1, 58, 59, 60, 64, 1000, 1 << 20] {
            let text = "é".repeat(length);
            let key = bytes(&(1, text.as_str(), 2));
            assert!(key.windows(text.len().max(1)).any(|part| part == text.as_bytes()) || length == 0);
            assert_eq!(key.len(), 5 + 9 + 5 + text.len() + 9);
        }
    }
}
