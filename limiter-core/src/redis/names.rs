//! What keys are called on the server.
//!
//! `limiter:{orders:alice}:token_bucket` is the state of "alice" under the rule "orders", and the same with `:1` behind it
//! that of the rule's second quota. A rule that changes its strategy starts anew, since its state would make no sense to
//! the other. What stands in the braces decides the cluster slot, so all quotas of a rule share one.
//! How they are spelled is in [`key_text`](crate::key_text).

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::key_text::{write_key, write_text};
use crate::{Key, Strategy};

/// Longer names are hashed, so that nobody can fill the server with long ones.
const LONGEST: usize = 200;

/// The name of the first quota's state. `start` is what [`start`] made.
pub(super) fn name(start: &str, key: &Key, strategy: Strategy) -> String {
    let mut name = String::with_capacity(start.len() + 40);
    name.push_str(start);
    // A text that fills the server's memory is not even written out once.
    if key.as_bytes().len() <= LONGEST {
        write_key(&mut name, key);
    }
    if key.as_bytes().len() > LONGEST || name.len() > start.len() + LONGEST {
        name.truncate(start.len());
        name.push('~');
        for byte in Sha256::digest(key.as_bytes()) {
            let _ = write!(name, "{byte:02x}");
        }
    }
    name.push_str("}:");
    name.push_str(strategy.name());
    name
}

/// What all names of a rule start with.
pub(super) fn start(prefix: &str, rule: &str) -> String {
    let mut start = String::new();
    write_text(&mut start, prefix.as_bytes());
    start.push_str(":{");
    write_text(&mut start, rule.as_bytes());
    start.push(':');
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LimitKey;
    use std::collections::HashMap;

    fn of<K: LimitKey + ?Sized>(value: &K) -> String {
        let name = name(&start("limiter", "orders"), &Key::of(value), Strategy::FixedWindow);
        name.strip_suffix(":fixed_window").expect("it ends with the strategy").to_owned()
    }

    #[test]
    fn names_can_be_read() {
        assert_eq!(of("alice"), "limiter:{orders:alice}");
        assert_eq!(of("ann@example.com"), "limiter:{orders:ann@example.com}");
        assert_eq!(of(&42), "limiter:{orders:#42}");
        assert_eq!(of(&-42), "limiter:{orders:#-42}");
        assert_eq!(of(&("acme", 7)), "limiter:{orders:(acme,#7)}");
        assert_eq!(of(&std::net::Ipv4Addr::LOCALHOST), "limiter:{orders:&127.0.0.1}");
        assert_eq!(of(&()), "limiter:{orders:}");
        assert_eq!(start("a b", "x:{y}"), "a%20b:{x%3A%7By%7D:");
    }

    #[test]
    fn no_two_keys_have_one_name_and_none_is_long() {
        let mut seen = HashMap::new();
        let mut see = |what: &'static str, name: String| {
            assert!(name.len() <= "limiter:{orders:}".len() + LONGEST, "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
            assert_eq!(name.matches(['{', '}']).count(), 2, "{name}");
            if let Some(other) = seen.insert(name, what) {
                panic!("{what} and {other} have one name");
            }
        };
        see("()", of(&()));
        see("\"\"", of(""));
        see("[]", of(&Vec::<String>::new()));
        see("[\"\"]", of(&vec![String::new()]));
        see("1", of(&1));
        see("\"1\"", of("1"));
        see("\"#1\"", of("#1"));
        see("b\"1\"", of(b"1".as_slice()));
        see("'1'", of(&'1'));
        see("true", of(&true));
        see("\"!t\"", of("!t"));
        see("None", of(&None::<&str>));
        see("Some(\"\")", of(&Some("")));
        see("Some(None)", of(&Some(None::<&str>)));
        see("(a, b)", of(&("a", "b")));
        see("\"(a,b)\"", of("(a,b)"));
        see("(a, b, \"\")", of(&("a", "b", "")));
        see("((a, b),)", of(&(("a", "b"),)));
        see("{", of("{"));
        see("}", of("}"));
        see("{}", of("{}"));
        see("%7B", of("%7B"));
        see("newline", of("\n"));
        see("NUL", of("\0"));
        see("other scripts", of("éß漢字"));
        see("UUID-like bytes", of(&[7u8; 16]));
        see("i128::MIN", of(&i128::MIN));
        see("v6", of(&std::net::Ipv6Addr::LOCALHOST));
        see("long", of(&"x".repeat(199)));
        see("longer", of(&"x".repeat(201)));
        see("a megabyte", of(&"x".repeat(1 << 20)));
        see("another megabyte", of(&("x".repeat((1 << 20) - 1) + "y")));
        see("encoded it is too long", of(&"%".repeat(150)));
    }
}
