//! The borrowing twin of a pattern: it binds references to the same parts, and moves nothing.
//!
//! Edition 2024 allows no `mut`, `ref` or `&` below a reference that a pattern looks through, so the twin has none of
//! them; expressions get the type they would see in the body by dereferencing what the twin binds.

use std::mem;

use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::{Pat, PatIdent, PatWild, Token};

pub(crate) struct Binding {
    pub(crate) ident: Ident,
    /// How many references the twin binds it behind that its own pattern does not.
    derefs: usize,
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

/// Lets an expression see through the twin, and notes which bindings it uses.
///
/// In: `id == 0 && order.id.is_empty()`, where `id` and `order` are bound
/// Out: `(*id) == 0 && (*order).id.is_empty()`
pub(crate) fn through(expr: TokenStream, bindings: &[Binding], used: &mut Vec<Ident>) -> TokenStream {
    let tokens: Vec<_> = expr.into_iter().collect();
    let mut out = TokenStream::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if is_variable(&tokens, at) => {
                match bindings.iter().find(|binding| binding.ident == *ident) {
                    Some(binding) => {
                        used.push(ident.clone());
                        let stars = (0..binding.derefs).map(|_| Token![*](ident.span()));
                        out.extend(quote_spanned!(ident.span()=> (#(#stars)* #ident)));
                    }
                    None => ident.to_tokens(&mut out),
                }
            }
            TokenTree::Group(group) => {
                let inner = through(group.stream(), bindings, used);
                let mut replaced = Group::new(group.delimiter(), inner);
                replaced.set_span(group.span());
                replaced.to_tokens(&mut out);
            }
            TokenTree::Literal(literal) => {
                // `format!("{id}")` reads a variable too.
                let text = literal.to_string();
                let captured =
                    bindings.iter().filter(|binding| text.contains(&format!("{{{}", binding.ident)));
                used.extend(captured.map(|binding| binding.ident.clone()));
                literal.to_tokens(&mut out);
            }
            token => token.to_tokens(&mut out),
        }
    }
    out
}

/// Not a field, not a method, not a part of a path, not the name before a colon.
fn is_variable(tokens: &[TokenTree], at: usize) -> bool {
    let punct = |index: Option<usize>| match index.and_then(|index| tokens.get(index)) {
        Some(TokenTree::Punct(punct)) => Some((punct.as_char(), punct.spacing())),
        _ => None,
    };
    let before = punct(at.checked_sub(1));
    // The second dot of a range is no field access.
    let in_range = at >= 2 && punct(at.checked_sub(2)) == Some(('.', Spacing::Joint));
    let is_member = matches!(before, Some(('.', _))) && !in_range;
    let in_path = matches!(before, Some((':', _))) && punct(at.checked_sub(2)) == Some((':', Spacing::Joint));
    let is_named = matches!(punct(Some(at + 1)), Some((':', _)));
    !(is_member || in_path || is_named)
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse::Parser as _;

    use super::*;

    /// The twin of `pat` that `expr` needs, and what becomes of `expr`.
    fn twin(pat: TokenStream, expr: TokenStream) -> (Option<String>, String) {
        let pat = Pat::parse_single.parse2(pat).unwrap();
        let mut used = Vec::new();
        let expr = through(expr, &bindings(&pat), &mut used);
        (of(&pat, &used).map(|twin| twin.to_token_stream().to_string()), expr.to_string())
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
