//! Numbers of permits: a literal that is known here, or a constant expression that the compiler works out.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprLit, ExprUnary, Ident, Lit, LitInt, UnOp};

use crate::hygiene::at;
use crate::parse::Value;

pub(crate) enum Number {
    Literal(u64, Span),
    /// An expression and the option it was written for.
    Constant(Expr, &'static str),
}

impl Number {
    /// Reads the value of `option`; what can be seen here to be no number above 0 is a mistake.
    pub(crate) fn parse(value: &Value, option: &'static str) -> syn::Result<Number> {
        let whole = || format!(r#""{option}" must be a whole number above 0, such as {option} = 3"#);
        let expr = value.parse::<Expr>(whole)?;
        match ungrouped(&expr) {
            Expr::Lit(ExprLit { lit: Lit::Int(digits), .. }) if is_integer(digits) => {
                match digits.base10_parse() {
                    Ok(0) => Err(Error::new_spanned(value, format!(r#""{option}" must be above 0"#))),
                    Ok(number) => Ok(Number::Literal(number, value.span())),
                    Err(_) => Err(Error::new_spanned(
                        value,
                        format!(r#""{option}" is too large; write a smaller number"#),
                    )),
                }
            }
            Expr::Lit(_) => Err(Error::new_spanned(value, whole())),
            Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) if matches!(**expr, Expr::Lit(_)) => {
                Err(Error::new_spanned(value, whole()))
            }
            _ => Ok(Number::Constant(expr, option)),
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Number::Literal(_, span) => *span,
            Number::Constant(expr, _) => expr.span(),
        }
    }

    pub(crate) fn literal(&self) -> Option<u64> {
        match self {
            Number::Literal(number, _) => Some(*number),
            Number::Constant(..) => None,
        }
    }

    /// A constant expression of type `ty` that does not compile where the number is not from 1 to `most`.
    pub(crate) fn tokens(&self, ty: &str, most: u64) -> TokenStream {
        match self {
            Number::Literal(number, span) => {
                let mut literal = Literal::u64_unsuffixed(*number);
                literal.set_span(*span);
                quote!(#literal)
            }
            Number::Constant(expr, option) => {
                let (span, ty) = (at(expr.span()), (ty != "u64").then(|| Ident::new(ty, Span::mixed_site())));
                let zero = format!(r#""{option}" must be above 0"#);
                let large = format!(r#""{option}" is too large; write a smaller number"#);
                let number = integer(expr);
                let as_ty = ty.map(|ty| quote_spanned!(span=> as __limiter::#ty));
                quote_spanned!(span=> __limiter::positive(#number, #most, #zero, #large) #as_ty)
            }
        }
    }
}

/// Any integer as the largest type there is; `| 0` is what only integers know.
pub(crate) fn integer(expr: &Expr) -> TokenStream {
    quote_spanned!(at(expr.span())=> ((#expr) | 0) as __limiter::i128)
}

/// `3` or `3u64`, but not `3s`.
fn is_integer(digits: &LitInt) -> bool {
    digits.suffix().is_empty() || digits.suffix().starts_with(['u', 'i'])
}

/// The expression inside parentheses and the invisible groups of `macro_rules!`.
fn ungrouped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        Expr::Paren(paren) => ungrouped(&paren.expr),
        expr => expr,
    }
}
