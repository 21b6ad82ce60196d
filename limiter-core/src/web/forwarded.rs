//! What proxies write of those they speak for: `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! Both are read a line at a time, into the addresses from the client to the last proxy. Where an address is unknown,
//! hidden or unreadable there is a `None`: whoever stands behind it cannot be told.

use std::net::IpAddr;

/// The addresses in a line of `X-Forwarded-For`: `192.0.2.1, 192.0.2.2:8080, [2001:db8::1]:8080, 2001:db8::2`.
pub(super) fn x_forwarded_for(line: &[u8]) -> Vec<Option<IpAddr>> {
    let entries = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    entries.filter(|entry| !entry.is_empty()).map(|entry| node(entry).or_else(|| bare(entry))).collect()
}

/// The addresses in a line of `Forwarded`: `for=192.0.2.1;proto=https, for="[2001:db8::1]:8080"`.
///
/// A line that breaks the grammar says nothing at all: a client could have opened a quotation in its part of the line
/// that ends in the part of the proxy.
pub(super) fn forwarded(line: &[u8]) -> Vec<Option<IpAddr>> {
    elements(line).unwrap_or_else(|| vec![None])
}

fn elements(line: &[u8]) -> Option<Vec<Option<IpAddr>>> {
    let (mut rest, mut addresses) = (line, Vec::new());
    loop {
        let element;
        (element, rest) = Element::read(rest)?;
        if !element.is_empty {
            addresses.push(element.whom);
        }
        match rest.split_first() {
            None => return Some(addresses),
            Some((_, behind)) => rest = behind,
        }
    }
}

/// What one proxy wrote: pairs with `;` between them.
struct Element {
    is_empty: bool,
    /// The address that is the value of `for`.
    whom: Option<IpAddr>,
}

impl Element {
    /// Reads up to the next comma, which stays.
    fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let (mut element, mut rest, mut tells_whom) = (Self { is_empty: true, whom: None }, text, false);
        loop {
            rest = rest.trim_ascii_start();
            if !matches!(rest.first(), None | Some(b';' | b',')) {
                let name;
                (name, rest) = token(rest)?;
                let (value, behind) = value(rest.strip_prefix(b"=")?)?;
                rest = behind.trim_ascii_start();
                element.is_empty = false;
                if name.eq_ignore_ascii_case(b"for") {
                    if tells_whom {
                        return None;
                    }
                    (element.whom, tells_whom) = (node(&value), true);
                }
            }
            match rest.first() {
                Some(b';') => rest = &rest[1..],
                None | Some(b',') => return Some((element, rest)),
                Some(_) => return None,
            }
        }
    }
}

/// A word, and what follows. Signs that a word should not have are let through where they cannot be mistaken.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_word = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'=' | b'\\');
    let length = text.iter().take_while(|byte| is_word(byte)).count();
    (length > 0).then(|| text.split_at(length))
}

/// A word or a quoted text without its quotes, and what follows.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        return token(text).map(|(word, rest)| (word.to_vec(), rest));
    };
    let mut unquoted = Vec::new();
    loop {
        match rest {
            [b'"', behind @ ..] => return Some((unquoted, behind)),
            [b'\\', sign, behind @ ..] | [sign, behind @ ..] => {
                unquoted.push(*sign);
                rest = behind;
            }
            [] => return None,
        }
    }
}

/// `192.0.2.1`, `192.0.2.1:8080`, `[2001:db8::1]`, `[2001:db8::1]:8080`; the port may be hidden, as `_8a`.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (IpAddr::V6(address.parse().ok()?), port)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            (IpAddr::V4(text[..end].parse().ok()?), &text[end..])
        }
    };
    (port.is_empty() || is_port(port.strip_prefix(':')?)).then(|| address.to_canonical())
}

fn is_port(text: &str) -> bool {
    let hidden = text.strip_prefix('_').is_some_and(|name| !name.is_empty());
    hidden || text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// An IPv6 address without brackets, which has no room for a port.
fn bare(text: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<Option<IpAddr>> {
        texts.iter().map(|text| (*text != "?").then(|| text.parse().unwrap())).collect()
    }

    #[test]
    fn x_forwarded_for_is_read_in_all_its_spellings() {
        let cases: &[(&str, &[&str])] = &[
            ("192.0.2.1", &["192.0.2.1"]),
            ("192.0.2.1:8080,192.0.2.2", &["192.0.2.1", "192.0.2.2"]),
            (
                " 2001:db8::1 ,\t[2001:db8::2] , [2001:db8::3]:80",
                &["2001:db8::1", "2001:db8::2", "2001:db8::3"],
            ),
            ("::ffff:192.0.2.1", &["192.0.2.1"]),
            (", ,192.0.2.1,", &["192.0.2.1"]),
            ("unknown, 192.0.2.1", &["?", "192.0.2.1"]),
            ("192.0.2.1:99999", &["?"]),
            ("192.0.2.1:", &["?"]),
            ("192.0.2.1:+80", &["?"]),
            ("[192.0.2.1]", &["?"]),
            ("fe80::1%eth0", &["?"]),
            ("192.0.2.01", &["?"]),
            ("", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(x_forwarded_for(line.as_bytes()), addresses(expected), "{line}");
        }
        assert_eq!(x_forwarded_for(b"\xff\xfe, 192.0.2.1"), addresses(&["?", "192.0.2.1"]));
    }

    #[test]
    fn forwarded_is_read_by_its_grammar() {
        let cases: &[(&str, &[&str])] = &[
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60"]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
            ("for=192.0.2.43, FOR=198.51.100.17", &["192.0.2.43", "198.51.100.17"]),
            ("for=\"192.0.2.43:47011\"; proto=\"a, \\\"b\\\"; for=192.0.2.9\"", &["192.0.2.43"]),
            ("for=_hidden, for=unknown, for=\"_SEVKISEK\"", &["?", "?", "?"]),
            ("for=\"192.0.2.43:_port\"", &["192.0.2.43"]),
            ("for=\"\\192.0.2.43\"", &["192.0.2.43"]),
            ("proto=https, for=192.0.2.1", &["?", "192.0.2.1"]),
            (";;, for=192.0.2.1;", &["192.0.2.1"]),
            ("", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(forwarded(line.as_bytes()), addresses(expected), "{line}");
        }
    }

    #[test]
    fn a_line_that_breaks_the_grammar_says_nothing() {
        for line in [
            "for=\"192.0.2.1, for=192.0.2.2",
            "for=\", for=\"192.0.2.1\"",
            "for=192.0.2.1 192.0.2.2",
            "for=192.0.2.1;for=192.0.2.2",
            "for=\"192.0.2.1\"x, for=192.0.2.2",
            "for = 192.0.2.1",
            "for, for=192.0.2.1",
            "for=",
            "=192.0.2.1",
            "for=\"\\",
        ] {
            assert_eq!(forwarded(line.as_bytes()), [None], "{line}");
        }
    }
}
