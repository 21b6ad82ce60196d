//! Keys as text that can be read, and that breaks neither a line nor a name.
//!
//! Letters, digits and a few signs stand for themselves; all else is written as `%2F` is. A sign that a text never shows
//! says what kind of part follows, so that no two keys have one text.

use std::fmt::Write as _;

use crate::Key;

/// Writes a key of any but excessive length, behind what is there.
pub(crate) fn write_key(text: &mut String, key: &Key) {
    Bytes(key.as_bytes()).write_part(text);
}

/// Letters, digits and signs that mean nothing here stand for themselves.
pub(crate) fn write_text(name: &mut String, text: &[u8]) {
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'@' | b'/' | b'+' => {
                name.push(char::from(*byte));
            }
            _ => {
                let _ = write!(name, "%{byte:02X}");
            }
        }
    }
}

/// An encoded key, read part by part. See the table at [`Key`].
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("as many bytes as asked for")
    }

    fn length(&mut self) -> usize {
        usize::try_from(u32::from_le_bytes(self.number())).expect("a length fits")
    }

    fn write_part(&mut self, name: &mut String) {
        let Some(kind) = self.0.first().copied() else { return };
        self.take(1);
        let _ = match kind {
            b'u' => write!(name, "#{}", u64::from_le_bytes(self.number())),
            b'n' => write!(name, "#{}", i64::from_le_bytes(self.number())),
            b'U' => write!(name, "#{}", u128::from_le_bytes(self.number())),
            b'N' => write!(name, "#{}", i128::from_le_bytes(self.number())),
            b't' => write!(name, "!t"),
            b'f' => write!(name, "!f"),
            b'c' => write!(name, "'{:x}", u32::from_le_bytes(self.number())),
            b'4' => write!(name, "&{}", std::net::Ipv4Addr::from(self.number::<4>())),
            b'6' => write!(name, "&{}", std::net::Ipv6Addr::from(self.number::<16>())),
            b'i' => write!(name, "${:032x}", u128::from_be_bytes(self.number())),
            b'_' => write!(name, "()"),
            b'-' => write!(name, "?"),
            b's' => {
                let length = self.length();
                if length == 0 {
                    // A sign that no text shows, so that a list of one empty text is not an empty list.
                    name.push('"');
                }
                write_text(name, self.take(length));
                Ok(())
            }
            b'b' => {
                name.push('*');
                let length = self.length();
                self.take(length).iter().try_for_each(|byte| write!(name, "{byte:02x}"))
            }
            b'+' => {
                name.push_str("?=");
                self.write_part(name);
                Ok(())
            }
            b'(' => {
                self.write_group(name);
                Ok(())
            }
            b'v' => {
                name.push('<');
                let length = self.length();
                write_text(name, self.take(length));
                self.take(1);
                self.write_group(name);
                Ok(())
            }
            // Longer texts have other kinds, and are hashed instead.
            other => unreachable!("no key has a part of the kind {other}"),
        };
    }

    fn write_group(&mut self, name: &mut String) {
        name.push('(');
        for part in 0..self.length() {
            if part > 0 {
                name.push(',');
            }
            self.write_part(name);
        }
        name.push(')');
    }
}
