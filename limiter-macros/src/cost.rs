//! How many permits a call takes.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, ExprPath, GenericParam, Ident, Signature};

use crate::errors::Errors;
use crate::number::Number;
use crate::params::Params;
use crate::parse::Args;
use crate::quota::Quota;

pub(crate) enum Cost {
    /// A number and where it was written.
    Fixed(u64, Span),
    /// An expression over constants, which may be those of a generic parameter.
    Constant { expr: Expr, generic: bool },
    /// An expression over the arguments.
    Computed(Expr),
}

impl Cost {
    pub(crate) fn read(
        args: &Args,
        sig: &Signature,
        params: &Params,
        quotas: &[Quota],
        errors: &mut Errors,
    ) -> Cost {
        let one = Cost::Fixed(1, Span::call_site());
        let Some(value) = &args.cost else { return one };
        let cost = match errors.catch(Number::parse(value, "cost")) {
            None => return one,
            Some(Number::Constant(expr, _)) if is_constant(&expr, &params.bindings()) => {
                // An `impl` has generics that nobody shows us.
                let generic = sig.receiver().is_some()
                    || names(expr.to_token_stream())
                        .iter()
                        .any(|name| name == "Self" || is_generic(name, sig));
                return Cost::Constant { expr, generic };
            }
            Some(Number::Constant(expr, _)) => return Cost::Computed(expr),
            Some(Number::Literal(cost, _)) => cost,
        };
        let smallest = quotas.iter().filter_map(Quota::capacity).min();
        if let Some(capacity) = smallest.filter(|capacity| cost > *capacity) {
            let raise = match args {
                Args { limits: Some(_), .. } => "limits",
                Args { burst: Some(_), .. } => "burst",
                _ => "qps",
            };
            let permits = format!(r#""cost" is {cost} but at most {capacity} permits ever exist"#);
            errors.at(value, format!(r#"{permits}; raise "{raise}" or lower "cost""#));
        }
        Cost::Fixed(cost, value.span())
    }
}

/// Whether an expression is made of numbers and names like `MOST_ROWS` alone.
fn is_constant(expr: &Expr, bindings: &[Ident]) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Path(ExprPath { path, .. }) => path.segments.last().is_some_and(|segment| {
            is_shouted(&segment.ident) && path.get_ident().is_none_or(|name| !bindings.contains(name))
        }),
        Expr::Binary(binary) => is_constant(&binary.left, bindings) && is_constant(&binary.right, bindings),
        Expr::Cast(cast) => is_constant(&cast.expr, bindings),
        Expr::Paren(paren) => is_constant(&paren.expr, bindings),
        Expr::Group(group) => is_constant(&group.expr, bindings),
        _ => false,
    }
}

/// Whether a name is written like that of a constant.
pub(crate) fn is_shouted(name: &Ident) -> bool {
    let name = name.to_string();
    name.chars().all(|c| c.is_uppercase() || c.is_numeric() || c == '_') && name.contains(char::is_uppercase)
}

/// Whether a name is that of a generic parameter of the function.
pub(crate) fn is_generic(name: &Ident, sig: &Signature) -> bool {
    sig.generics.params.iter().any(|param| match param {
        GenericParam::Type(param) => param.ident == *name,
        GenericParam::Const(param) => param.ident == *name,
        GenericParam::Lifetime(_) => false,
    })
}

/// The names that an expression starts from: not those of fields, nor those further down a path.
pub(crate) fn names(tokens: TokenStream) -> Vec<Ident> {
    let mut names = Vec::new();
    let mut follows = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) if !follows => names.push(name),
            TokenTree::Group(group) => names.extend(self::names(group.stream())),
            TokenTree::Punct(punct) => {
                follows = matches!(punct.as_char(), '.' | ':');
                continue;
            }
            _ => {}
        }
        follows = false;
    }
    names
}
