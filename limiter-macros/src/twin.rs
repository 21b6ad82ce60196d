//! The borrowing twin of a pattern: it binds references to the same parts, and moves nothing.
//!
//! Edition 2024 allows no `mut`, `ref` or `&` below a reference that a pattern looks through, so the twin has none of
//! them; expressions get the type they would see in the body by dereferencing what the twin binds (`through.rs`).

use std::mem;

use proc_macro2::{Ident, TokenStream};
use syn::{Pat, PatIdent, PatWild, Token};

pub(crate) struct Binding {
    pub(crate) ident: Ident,
    /// How many references the twin binds it behind that its own pattern does not.
    pub(crate) derefs: usize,
}

pub(crate) fn bindings(pat: &Pat) -> Vec<Binding> {
    let mut found: Vec<Binding> = Vec::new();
    walk(&mut pat.clone(), 0, &mut |binding| {
        // Each case of an or-pattern binds the same names.
        if found.iter().all(|known| known.ident != binding.ident) {
            found.push(binding);
        }
        true
    });
    found
}

/// The twin that binds only what is `used`, or none if that is nothing.
///
/// In: `Person { mut id, ref name, .. }`
/// Out: `Person { id, name: _, .. }`
pub(crate) fn of(pat: &Pat, used: &[Ident]) -> Option<Pat> {
    let mut twin = pat.clone();
    let mut binds = false;
    walk(&mut twin, 0, &mut |binding| {
        let keep = used.contains(&binding.ident);
        binds |= keep;
        keep
    });
    binds.then_some(twin)
}

/// Turns a pattern into its twin, where `keep` says which bindings stay; `refs` counts the `&` right around it.
fn walk(pat: &mut Pat, refs: usize, keep: &mut dyn FnMut(Binding) -> bool) {
    match pat {
        Pat::Ident(binding) => {
            let derefs = refs + usize::from(binding.by_ref.is_none());
            binding.by_ref = None;
            binding.mutability = None;
            let kept = keep(Binding { ident: binding.ident.clone(), derefs });
            if let Some((_, inner)) = &mut binding.subpat {
                walk(inner, refs, keep);
            }
            if !kept {
                *pat = binding.subpat.take().map_or_else(|| wild(binding), |(_, inner)| *inner);
            }
        }
        Pat::Reference(reference) => {
            walk(&mut reference.pat, refs + 1, keep);
            let empty = Pat::Verbatim(TokenStream::new());
            *pat = mem::replace(&mut reference.pat, empty);
        }
        Pat::Paren(paren) => walk(&mut paren.pat, refs, keep),
        Pat::Or(or) => or.cases.iter_mut().for_each(|case| walk(case, refs, keep)),
        Pat::Tuple(tuple) => tuple.elems.iter_mut().for_each(|element| walk(element, 0, keep)),
        Pat::TupleStruct(tuple) => tuple.elems.iter_mut().for_each(|element| walk(element, 0, keep)),
        Pat::Slice(slice) => slice.elems.iter_mut().for_each(|element| walk(element, 0, keep)),
        Pat::Struct(fields) => {
            for field in &mut fields.fields {
                walk(&mut field.pat, 0, keep);
                if let Pat::Wild(wild) = &*field.pat {
                    field.colon_token.get_or_insert(Token![:](wild.underscore_token.span));
                }
            }
        }
        _ => {}
    }
}

fn wild(binding: &PatIdent) -> Pat {
    Pat::Wild(PatWild { attrs: Vec::new(), underscore_token: Token![_](binding.ident.span()) })
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens as _, quote};
    use syn::parse::Parser as _;

    use super::*;
    use crate::through;

    /// The twin of `pat` that `expr` needs, and what becomes of `expr`.
    fn twin(pat: TokenStream, expr: TokenStream) -> (Option<String>, String) {
        let pat = Pat::parse_single.parse2(pat).unwrap();
        let mut expr = syn::parse2(expr).unwrap();
        let used = through::rewrite(&mut expr, &bindings(&pat));
        let twin = of(&pat, &used).map(|twin| twin.to_token_stream().to_string());
        (twin, expr.to_token_stream().to_string())
    }

    #[test]
    fn a_twin_borrows_what_is_used() {
        let cases = [
            (quote!(Path(id)), quote!(id), Some(quote!(Path(id))), quote!((*id))),
            (quote!(Path(id)), quote!(other.id + m::id), None, quote!(other.id + m::id)),
            (quote!((mut a, ref b, c)), quote!(a + b), Some(quote!((a, b, _))), quote!((*a) + (b))),
            (quote!(P { id, name: n, .. }), quote!(n), Some(quote!(P { id: _, name: n, .. })), quote!((*n))),
            (quote!(P { mut id, .. }), quote!(id == 0), Some(quote!(P { id, .. })), quote!((*id) == 0)),
            (quote!(whole @ P(id)), quote!(id), Some(quote!(P(id))), quote!((*id))),
            (quote!((&a, &mut (b, _))), quote!((a, b)), Some(quote!((a, (b, _)))), quote!(((**a), (*b)))),
            (quote!([first, rest @ ..]), quote!(0..first), Some(quote!([first, ..])), quote!(0..(*first))),
            (quote!(Path(id)), quote!(format!("{id}")), Some(quote!(Path(id))), quote!(format!("{id}"))),
            (quote!(Path(id)), quote!(K { id: 1 }), None, quote!(K { id: 1 })),
        ];
        for (pat, expr, expected_twin, expected_expr) in cases {
            let expected = (expected_twin.map(|twin| twin.to_string()), expected_expr.to_string());
            assert_eq!(twin(pat, expr), expected);
        }
    }
}
