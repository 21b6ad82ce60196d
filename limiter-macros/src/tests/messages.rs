//! Every message has a UI test that shows it.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::LitStr;

/// What is said while the program runs, or is only part of a message.
const NOT_SHOWN: &[&str] = &[
    "no call is rejected in shadow mode, but this was: {}",
    "expected a block",
    "another call",
    "{} or {last}",
];

#[test]
fn every_message_has_a_ui_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let shown: String = files(&root.join("tests/ui/cases"), "stderr").iter().map(read).collect();
    let lines: Vec<&str> = shown.lines().collect();
    let sources = files(&root.join("limiter-macros/src"), "rs");
    let mut messages = Vec::new();
    for source in sources.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "tests")) {
        let code = read(source);
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        collect(code.parse().unwrap(), &mut messages);
    }
    // The words of the traits that an argument may fail to implement.
    for source in ["key.rs", "cost.rs", "rejected.rs"] {
        let code = read(&root.join("limiter-core/src").join(source));
        let words = code.lines().filter_map(|line| line.trim().strip_prefix("message = "));
        messages.extend(words.map(|word| word.trim_end_matches(',').trim_matches('"').to_owned()));
    }
    assert!(messages.len() > 40, "only {} messages were found", messages.len());
    let unshown: Vec<_> = messages
        .iter()
        .filter(|message| !NOT_SHOWN.contains(&message.as_str()))
        .filter(|message| !lines.iter().any(|line| says(line, message)))
        .collect();
    assert!(unshown.is_empty(), "no UI test shows: {unshown:#?}");
    let gone: Vec<_> =
        NOT_SHOWN.iter().filter(|text| !messages.iter().any(|message| message == *text)).collect();
    assert!(gone.is_empty(), "nobody says this any more: {gone:#?}");
}

/// The texts with more than one word, other than comments and reasons.
fn collect(tokens: TokenStream, messages: &mut Vec<String>) {
    for token in tokens {
        match &token {
            TokenTree::Group(group) => {
                let inside = group.stream().to_string();
                let is_remark = group.delimiter() == Delimiter::Bracket
                    && ["doc ", "expect ", "must_use "].iter().any(|attribute| inside.starts_with(attribute));
                if !is_remark {
                    collect(group.stream(), messages);
                }
            }
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<LitStr>(&literal.to_string()).map(|text| text.value());
                messages.extend(text.ok().filter(|text| text.trim().contains(' ')));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Whether the parts of a message around its `{placeholders}` stand in a line, in order.
fn says(line: &str, message: &str) -> bool {
    let mut rest = line;
    let plain = message.replace("{{", "\u{1}").replace("}}", "\u{2}");
    plain.split('{').enumerate().all(|(index, part)| {
        let part = if index == 0 { part } else { part.split_once('}').map_or(part, |(_, after)| after) };
        let part = part.replace('\u{1}', "{").replace('\u{2}', "}");
        match rest.find(&part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        }
    })
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|found| found == ending));
    files.chain(folders.iter().flat_map(|folder| self::files(folder, ending))).collect()
}

fn read(path: &PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}
