//! What the macro writes, shown in `snapshots/`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use proc_macro2::TokenStream;
use quote::quote;

use crate::limit;

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
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/expansion.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&expansion), "src/expansion.md shows something else than:\n{expansion}");
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

#[test]
fn several_limits_and_patterns() {
    assert_expands(
        quote!(key = id, qps = 3, store = "local"),
        &quote! {
            #[inline]
            #[rate_limit(name = "second", crate = "shop::limiter", qps = MAX, cost = 2, store = "local", fallback = busy)]
            fn get(&mut self, Path(id): Path<u64>, _: u8) -> Option<u64> { Some(id) }
        },
        "several.rs",
    );
}

#[test]
fn a_future_by_hand() {
    assert_expands(
        quote!(key = id, qps = 3, wait = "2s", mode = "shadow"),
        &quote! {
            fn get(id: u64) -> impl Future<Output = u64> {
                let next = id + 1;
                async move { next }
            }
        },
        "future.rs",
    );
}

#[test]
fn a_pattern_that_async_trait_hid() {
    assert_expands(
        quote!(key = left, qps = 3),
        &quote! {
            fn get<'a>(&'a self, __arg1: (u8, u8)) -> Pin<Box<dyn Future<Output = Option<u8>> + Send + 'a>> {
                Box::pin(async move { let (left, right) = { let __arg1 = __arg1; __arg1 }; Some(left + right) })
            }
        },
        "async_trait_pattern.rs",
    );
}
