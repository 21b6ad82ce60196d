//! Names as they may stand in a header, a line of a log, or a label.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text in printable ASCII: whatever else it holds is written as `%C3%BC` is.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~');
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if is_plain(byte) {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "%{byte:02X}");
        }
    }
    Cow::Owned(written)
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_could_break_a_line_is_written_in_hex() {
        assert_eq!(printable("shop::orders of \"acme\""), "shop::orders of \"acme\"");
        assert_eq!(printable("bücher"), "b%C3%BCcher");
        assert_eq!(printable("a\u{2028}b\u{85}c\r\nd\u{7f}"), "a%E2%80%A8b%C2%85c%0D%0Ad%7F");
    }
}
