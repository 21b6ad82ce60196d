//! The attribute as a whole: what it expands to, what it reports, and that nothing makes it panic.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;

use crate::{derive, limit};

/// What the macro writes, as `rustfmt` lays it out. `LIMITER_SNAPSHOTS=overwrite` renews the file that shows it.
fn assert_expands(attribute: TokenStream, item: &TokenStream, snapshot: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(snapshot);
    let expansion = formatted(&limit(attribute, item).to_string());
    if env::var_os("LIMITER_SNAPSHOTS").is_some_and(|wish| wish == "overwrite") {
        fs::write(&path, &expansion).unwrap();
    }
    assert_eq!(expansion, fs::read_to_string(&path).unwrap(), "{snapshot} shows something else");
    expansion
}

fn formatted(code: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition=2024", "--config=max_width=110,use_small_heuristics=Max"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt is installed: `rustup component add rustfmt`");
    rustfmt.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    let output = rustfmt.wait_with_output().unwrap();
    assert!(output.status.success(), "this is no Rust: {code}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_example_of_the_readme_becomes_a_few_lines() {
    let expansion = assert_expands(
        quote!(strategy = "sliding_window", key = "id", qps = 3, window = "4s", fallback = "busy"),
        &quote! {
            async fn get_order(p: Person) -> String { format!("the order of {}", p.name) }
        },
        "readme.rs",
    );
    let lines = expansion.lines().count();
    assert!(lines <= 25, "{lines} lines:\n{expansion}");
}

#[test]
fn a_destructured_parameter() {
    assert_expands(
        quote!(
            key = id,
            limits = [3 / s, 100 / m],
            unless = "id == 0",
            fallback = "Self::busy",
            decision = d
        ),
        &quote! {
            pub async fn get_order(&self, Path(mut id): Path<u64>, mut p: Person) -> String { p.name }
        },
        "destructured.rs",
    );
}

#[test]
fn what_async_trait_leaves_behind_gets_no_second_box() {
    assert_expands(
        quote!(qps = 3),
        &quote! {
            fn get<'a>(&'a self) -> Pin<Box<dyn Future<Output = Option<u8>> + Send + 'a>> {
                Box::pin(async move { self.load().await })
            }
        },
        "async_trait.rs",
    );
}

/// The messages of all `compile_error!`s.
fn reported(attribute: TokenStream, item: &TokenStream) -> Vec<String> {
    let mut messages = Vec::new();
    let mut error_is_next = false;
    for token in limit(attribute, item) {
        match token {
            TokenTree::Ident(ident) => error_is_next = ident == "compile_error",
            TokenTree::Group(group) if error_is_next => {
                messages.extend(syn::parse2::<syn::LitStr>(group.stream()).map(|message| message.value()));
                error_is_next = false;
            }
            _ => {}
        }
    }
    messages
}

#[test]
fn all_mistakes_are_reported_at_once_and_the_function_stays() {
    let item = quote! { async fn f(a: u8, b: u8) -> String { half typed ( ) } };
    let attribute = quote!(qps = 0, keys = a, window = "4x", mode = shadwo, key = c, cost, wait = "0s");
    let messages = reported(attribute.clone(), &item);
    assert_eq!(
        messages,
        [
            r#"unknown option "keys"; did you mean "key"?"#,
            r#"write a value: cost = "...""#,
            r#""qps" must be above 0"#,
            r#""4x" is not a length of time; write it like "250ms", "4s", "1m", "1h" or "1d""#,
            r#""0s" is no time at all; write at least "1ms""#,
            r#"unknown mode "shadwo"; did you mean "shadow"?"#,
            r#"no parameter is called "c"; write the path to it, such as "a.c" or "b.c""#,
        ]
    );
    let stays = quote! { async fn f(a: u8, b: u8) -> String { let _ = (&a); let _ = (&b); half typed ( ) } };
    assert!(limit(attribute, &item).to_string().ends_with(&stays.to_string()));
}

#[test]
fn one_mistake_is_one_message() {
    let function = quote! { async fn f(a: u8, b: u8) -> Option<u8> {} };
    let sync = quote! { fn f(a: u8) -> Option<u8> {} };
    let cases = [
        (quote!(), &function, r#""qps" is missing: write how many calls may pass, such as qps = 3"#),
        (quote!(qps = -1), &function, r#""qps" must be a whole number above 0, such as qps = 3"#),
        (quote!(qps = 1.5), &function, r#""qps" must be a whole number above 0, such as qps = 3"#),
        (quote!(qps = 99999999999999999999), &function, r#""qps" is too large; write a smaller number"#),
        (quote!(qps = 1, qps = 2), &function, r#""qps" is given twice; leave one out"#),
        (
            quote!(qps = 3, cost = 5),
            &function,
            r#""cost" is 5 but at most 3 permits ever exist; raise "qps" or lower "cost""#,
        ),
        (
            quote!(limits = ["9/s", "3/m"], cost = 5),
            &function,
            r#""cost" is 5 but at most 3 permits ever exist; raise "limits" or lower "cost""#,
        ),
        (
            quote!(limits = ["9/s"], qps = 5),
            &function,
            r#""qps" is part of "limits" already; leave one of the two out"#,
        ),
        (quote!(qps = 1, samples = 1001), &function, r#""samples" is at most 1000"#),
        (quote!(qps = 1, store = redis), &function, r#"unknown store "redis"; write "local""#),
        (
            quote!(qps = 1, name = ""),
            &function,
            r#""name" is 1 to 200 bytes long, without control characters, such as name = "orders""#,
        ),
        (
            quote!(qps = 1, fallback = "busy()"),
            &function,
            r#""fallback" is the name of a function, such as "busy" or "Self::busy""#,
        ),
        (quote!(qps = 1), &sync, r#""f" is not async: write store = "local", or make it an `async fn`"#),
        (
            quote!(qps = 1, store = local, wait = 1s),
            &sync,
            r#"only an `async fn` can wait; leave "wait" out, or make it one"#,
        ),
    ];
    for (attribute, item, message) in cases {
        assert_eq!(reported(attribute.clone(), item), [message], "{attribute}");
    }
}

/// Xorshift: the same tokens in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Balanced nonsense out of the words that the macro knows.
    fn tokens(&mut self, depth: usize) -> TokenStream {
        let mut tokens = TokenStream::new();
        for _ in 0..self.below(8) {
            if depth > 0 && self.below(4) == 0 {
                let delimiters =
                    [Delimiter::Parenthesis, Delimiter::Bracket, Delimiter::Brace, Delimiter::None];
                let delimiter = delimiters[self.below(4)];
                tokens.extend([TokenTree::Group(Group::new(delimiter, self.tokens(depth - 1)))]);
            } else {
                tokens.extend(self.pick(WORDS).parse::<TokenStream>().unwrap());
            }
        }
        tokens
    }

    fn attribute(&mut self) -> TokenStream {
        let mut tokens = TokenStream::new();
        for _ in 0..self.below(6) {
            let option: TokenStream = self.pick(OPTIONS).parse().unwrap();
            let value = if self.below(3) == 0 { self.tokens(2) } else { self.pick(VALUES).parse().unwrap() };
            tokens.extend(quote!(#option = #value,));
        }
        tokens
    }

    fn item(&mut self) -> TokenStream {
        let (head, output): (TokenStream, TokenStream) =
            (self.pick(HEADS).parse().unwrap(), self.pick(OUTPUTS).parse().unwrap());
        let params: TokenStream = self.pick(PARAMS).parse().unwrap();
        let body = self.tokens(3);
        quote!(#head(#params) #output { #body })
    }
}

const WORDS: &[&str] = &[
    "fn",
    "async",
    "move",
    "struct",
    "union",
    "enum",
    "trait",
    "const",
    "pub",
    "self",
    "Self",
    "mut",
    "ref",
    "_",
    "r#type",
    "id",
    "p",
    "Box",
    "pin",
    "Future",
    "impl",
    "dyn",
    "where",
    "qps",
    "key",
    "limits",
    "=",
    "==",
    ",",
    ";",
    ":",
    "::",
    ".",
    "..",
    "->",
    "=>",
    "<",
    ">",
    "&",
    "*",
    "!",
    "#",
    "?",
    "|",
    "@",
    "/",
    "-",
    "0",
    "3",
    "4s",
    "1e9",
    "1.5s",
    "99999999999999999999999d",
    "\"\"",
    "\"id\"",
    "\"3/s\"",
    "r#\"{id}\"#",
    "b\"x\"",
    "'c'",
    "'a",
    "true",
];
const OPTIONS: &[&str] = &[
    "name", "strategy", "key", "qps", "window", "limits", "burst", "samples", "cost", "wait", "fallback",
    "store", "on_error", "unless", "mode", "decision", "r#type", "keys",
];
const VALUES: &[&str] = &[
    "3",
    "\"3\"",
    "MAX * 2",
    "4s",
    "\"4s\"",
    "\"token_bucket\"",
    "local",
    "shadow",
    "deny",
    "id",
    "\"id\"",
    "p.id",
    "self",
    "\"(a, 0..id, m::id, K { id: 1 })\"",
    "busy",
    "Self::busy::<A, B>",
    "<Self as T>::busy",
    "d",
    "[\"3/s\", 100/m]",
    "\"[3/s, 100/m]\"",
    "\"(\"",
    "\"é\"",
    "-1",
    "0",
    "format!(\"{id}\")",
    "r#type",
];
const HEADS: &[&str] = &[
    "fn f",
    "async fn f",
    "pub(crate) async unsafe fn r#type<'a, T: X, const N: usize>",
    "const fn f",
    "#[doc = \"x\"] extern \"C\" fn f",
    "struct S",
];
const PARAMS: &[&str] = &[
    "",
    "id: u8",
    "&self, p: P",
    "mut self: Box<Self>, Path(id): Path<u8>",
    "P { mut id, ref p, .. }: P, _: u8",
    "[id, .., p]: [u8; 3], &(ref id, r#type): &(u8, u8)",
    "#[cfg(x)] p @ Q(id): Q, (A(id) | B(id)): E, m!(): u8",
    "u8",
];
const OUTPUTS: &[&str] = &[
    "",
    "-> u8",
    "-> ()",
    "-> impl Future<Output = u8>",
    "-> Pin<Box<dyn Future<Output = ()> + Send>>",
    "-> BoxFuture<'a, u8>",
    "-> impl Sized where u8: X",
];

#[test]
fn no_tokens_make_it_panic() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..4_000 {
        let attribute = if random.below(4) == 0 { random.tokens(3) } else { random.attribute() };
        let item = if random.below(4) == 0 { random.tokens(3) } else { random.item() };
        let _: Result<_, _> = derive::limit_key(item.clone());
        limit(attribute, &item);
    }
}
