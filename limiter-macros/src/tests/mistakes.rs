//! What the macro reports, all of it in one go.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use crate::limit;

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
    let stays = quote! { async fn f(a: u8, b: u8) -> String };
    let body = quote! { let _ = &a; let _ = &b; { half typed ( ) } };
    let expansion = limit(attribute, &item).to_string();
    assert!(expansion.contains(&stays.to_string()) && expansion.contains(&body.to_string()), "{expansion}");
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
        (
            quote!(qps = 1),
            &sync,
            r#""f" is not async and cannot wait for a shared limiter: write store = "local" to decide in this process, or make it an `async fn`"#,
        ),
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
