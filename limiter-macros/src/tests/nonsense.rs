//! Whatever it is given, the macro does not panic, and leaves a function in place.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;

use crate::{derive, limit};

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
    for _ in 0..1_500 {
        let attribute = if random.below(4) == 0 { random.tokens(3) } else { random.attribute() };
        let item = if random.below(4) == 0 { random.tokens(3) } else { random.item() };
        let _: Result<_, _> = derive::limit_key(item.clone());
        limit(attribute, &item);
    }
}

const BODIES: &[&str] = &[
    "",
    "todo!()",
    "let x = 1; x",
    "#![allow(unused)] return 3;",
    "async { 1 }",
    "async move { p }",
    "Box::pin(async move { let (id, _) = { let __arg1 = __arg1; __arg1 }; id })",
    "if a { b } else { async { c }.await }",
];

const ATTRIBUTES: &[&str] = &[
    "qps = 3, fallback = busy, store = local",
    "qps = 3, fallback = busy, key = id, unless = \"match id { p => p }\", cost = \"id\"",
    "limits = \"3/s, 100/m\", fallback = \"Self::busy\", key = \"(p.id, id)\", decision = d, store = local",
    "strategy = token_bucket, qps = MAX, burst = MAX * 2, cost = MAX, mode = shadow, on_error = deny, store = local",
    "crate = \"shop::limiter\", qps = 3, name = \"x\", fallback = busy::<u8>, wait = \"1s\", samples = 20",
];

/// A function that is one comes out as one: with a limit, or behind what is wrong.
#[test]
fn the_function_stays() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut limited, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let attribute = match random.below(4) {
            0 => random.tokens(3),
            1 => random.attribute(),
            _ => random.pick(ATTRIBUTES).parse().unwrap(),
        };
        let (head, params, output, body): (TokenStream, TokenStream, TokenStream, TokenStream) = (
            random.pick(HEADS).parse().unwrap(),
            random.pick(PARAMS).parse().unwrap(),
            random.pick(OUTPUTS).parse().unwrap(),
            random.pick(BODIES).parse().unwrap(),
        );
        let item = quote!(#head(#params) #output { #body });
        let Ok(written) = syn::parse2::<syn::ItemFn>(item.clone()) else { continue };
        let out = limit(attribute.clone(), &item);
        let file = syn::parse2::<syn::File>(out.clone());
        let file = file.unwrap_or_else(|error| panic!("{error}: {attribute} made {out} of {item}"));
        let is_same = |item: &syn::Item| {
            matches!(item, syn::Item::Fn(function)
            if function.sig.ident == written.sig.ident
                && function.sig.output == written.sig.output
                && function.sig.inputs.len() == written.sig.inputs.len()
                && function.sig.generics == written.sig.generics
                && function.vis == written.vis
                && function.attrs == written.attrs)
        };
        assert_eq!(
            file.items.iter().filter(|item| is_same(item)).count(),
            1,
            "{attribute} made {out} of {item}"
        );
        if file.items.len() == 1 { limited += 1 } else { refused += 1 }
    }
    assert!(limited > 200 && refused > 200, "{limited} limited, {refused} refused");
}
