//! Whose limit it is: what `key = "id"` refers to.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprReference, Token};

use crate::check::expression;
use crate::cost;
use crate::params::{Param, Params};
use crate::parse::Value;
use crate::suggest;

/// A name alone is a binding of the parameters, else a field of the only one; anything longer is taken as it is.
pub(crate) fn resolve(value: &Value, params: &Params) -> syn::Result<Expr> {
    let mut expr = expression(value, "key", r#"key = "p.id""#)?;
    if !has_name(expr.to_token_stream()) {
        let message = "the key is the same for everybody; write the parameters without quotes, such as \
                       key = (tenant, p.id), or leave \"key\" out to limit all calls together";
        return Err(Error::new_spanned(value, message));
    }
    let Some(name) = lone_name(&expr) else {
        borrow_parts(&mut expr);
        return Ok(expr);
    };
    let bindings = params.bindings();
    if bindings.contains(name) || (name == "self" && params.receiver.is_some()) {
        return Ok(expr);
    }
    match params.only().map(Param::bindings).unwrap_or_default().as_slice() {
        [only] if name != "self" => {
            // At the user's own token, so that a field that does not exist is reported there.
            let mut only = only.clone();
            only.set_span(name.span().resolved_at(only.span()));
            syn::parse2(quote_spanned!(name.span()=> #only.#name))
        }
        // The constant of a generic type is a key too, and an `impl` has generics that nobody shows us.
        _ if cost::is_shouted(name) => Ok(expr),
        _ => Err(Error::new_spanned(value, unknown_name(name, &bindings, params.receiver.is_some()))),
    }
}

fn lone_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// Whether any name stands in an expression, also inside of a text like `"{id}"`.
fn has_name(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident != "true" && ident != "false",
        TokenTree::Group(group) => has_name(group.stream()),
        TokenTree::Literal(_) | TokenTree::Punct(_) => false,
    })
}

/// A key only borrows: the parts of a tuple would be moved into it.
///
/// In: `(tenant, p.id)`
/// Out: `(&tenant, &p.id)`
fn borrow_parts(expr: &mut Expr) {
    match expr {
        Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(borrow_part),
        Expr::Array(array) => array.elems.iter_mut().for_each(borrow_part),
        Expr::Paren(paren) => borrow_parts(&mut paren.expr),
        Expr::Group(group) => borrow_parts(&mut group.expr),
        _ => {}
    }
}

fn borrow_part(part: &mut Expr) {
    match part {
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) | Expr::Unary(_) => {
            let span = part.span();
            let whole = std::mem::replace(part, Expr::Verbatim(TokenStream::new()));
            *part = Expr::Reference(ExprReference {
                attrs: Vec::new(),
                and_token: Token![&](span),
                mutability: None,
                expr: Box::new(whole),
            });
        }
        _ => borrow_parts(part),
    }
}

fn unknown_name(name: &Ident, bindings: &[Ident], has_self: bool) -> String {
    // What `async_trait` made of a `_` is no name that anybody wrote.
    let bindings = bindings.iter().map(ToString::to_string).filter(|binding| !binding.starts_with("__arg"));
    let bindings: Vec<_> = bindings.collect();
    if name == "self" {
        return r#"this function has no "self"; write a parameter, such as key = "p.id""#.to_owned();
    }
    if let Some(meant) = suggest::nearest(&name.to_string(), bindings.iter().map(String::as_str)) {
        return format!(r#"no parameter is called "{name}"; did you mean "{meant}"?"#);
    }
    let owners = has_self.then(|| "self".to_owned()).into_iter().chain(bindings);
    let paths: Vec<_> = owners.map(|owner| format!("{owner}.{name}")).collect();
    if paths.is_empty() {
        return format!(r#"no parameter is called "{name}"; leave "key" out to limit all calls together"#);
    }
    format!(
        r#"no parameter is called "{name}"; write the path to it, such as {}"#,
        suggest::alternatives(&paths)
    )
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};
    use quote::quote;
    use syn::Signature;

    use super::*;
    use crate::errors::Errors;
    use crate::function::Body;
    use crate::parse::Args;

    fn key(written: &TokenStream, sig: TokenStream) -> Result<String, String> {
        let mut errors = Errors::default();
        let args = Args::parse(quote!(key = #written), &mut errors);
        let sig: Signature = syn::parse2(sig).unwrap();
        let block = Group::new(Delimiter::Brace, TokenStream::new());
        let resolved = resolve(&args.key.unwrap(), &Params::of(&sig, &Body::of(&block)));
        resolved
            .map(|key| key.to_token_stream().to_string().replace(' ', ""))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_found() {
        let cases = [
            (quote!("id"), quote!(fn f(id: u64)), "id"),
            (quote!(id), quote!(fn f(mut id: u64, other: u64)), "id"),
            (quote!("id"), quote!(fn f(Path(id): Path<u64>)), "id"),
            (quote!("id"), quote!(fn f(Person { id, .. }: Person)), "id"),
            (quote!("rest"), quote!(fn f([_, rest @ ..]: [u8; 3])), "rest"),
            (quote!("id"), quote!(fn f(p: Person)), "p.id"),
            (quote!("id"), quote!(fn f(&self, p: Person)), "p.id"),
            (quote!("user"), quote!(fn f(Json(order): Json<Order>)), "order.user"),
            (quote!("id"), quote!(fn f(p: Person, #[cfg(x)] trace: Trace)), "p.id"),
            (quote!("self"), quote!(fn f(&self, a: u8, b: u8)), "self"),
            (quote!("self.tenant"), quote!(fn f(&self)), "self.tenant"),
            (quote!(SHARDS), quote!(fn f(&self, a: u8, b: u8)), "SHARDS"),
            (quote!((a, p.id)), quote!(fn f(a: u8, p: Person)), "(&a,&p.id)"),
            (quote!([a, (b.c, f(a))]), quote!(fn f(a: u8, b: B)), "[&a,(&b.c,f(a))]"),
            (quote!("p.mail.to_lowercase()"), quote!(fn f(p: Person)), "p.mail.to_lowercase()"),
        ];
        for (written, sig, expected) in cases {
            assert_eq!(key(&written, sig).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_name_that_is_nowhere_is_explained() {
        let cases = [
            (
                quote!("id"),
                quote!(fn f(p: P, order: O)),
                r#"no parameter is called "id"; write the path to it, such as "p.id" or "order.id""#,
            ),
            (
                quote!("id"),
                quote!(fn f(&self)),
                r#"no parameter is called "id"; write the path to it, such as "self.id""#,
            ),
            (
                quote!("usr"),
                quote!(fn f(user: U, order: O)),
                r#"no parameter is called "usr"; did you mean "user"?"#,
            ),
            (
                quote!("id"),
                quote!(fn f()),
                r#"no parameter is called "id"; leave "key" out to limit all calls together"#,
            ),
            (
                quote!("self"),
                quote!(fn f()),
                r#"this function has no "self"; write a parameter, such as key = "p.id""#,
            ),
            (
                quote!(("id", "name")),
                quote!(fn f(id: u8, name: u8)),
                "the key is the same for everybody; write the parameters without quotes, such as \
                 key = (tenant, p.id), or leave \"key\" out to limit all calls together",
            ),
            (
                quote!(self),
                quote!(fn f(p: P)),
                r#"this function has no "self"; write a parameter, such as key = "p.id""#,
            ),
            (
                quote!("p.("),
                quote!(fn f(p: P)),
                r#""p.(" is not an expression; write one over the arguments, such as key = "p.id""#,
            ),
        ];
        for (written, sig, message) in cases {
            assert_eq!(key(&written, sig), Err(message.to_owned()));
        }
    }
}
