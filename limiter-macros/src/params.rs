//! The parameters: the names they bind, and how check, fallback and body each get at them.
//!
//! A fallback takes the arguments whole, so a destructured parameter gets a name alone in the signature. The check then
//! looks into it through a borrowing twin of its pattern, and the body through the pattern itself.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::Parser as _;
use syn::{Attribute, Expr, FnArg, Pat, PatIdent, PatType, Path, Signature, Token};

use crate::function::Body;
use crate::hygiene::local;
use crate::through;
use crate::twin::{self, Binding};

pub(crate) struct Params {
    pub(crate) receiver: Option<Token![self]>,
    /// All but `self`.
    pub(crate) list: Vec<Param>,
}

pub(crate) struct Param {
    attributes: Vec<Attribute>,
    pat: Pat,
    /// By which the argument can be handed on whole: its own, or ours where it has none.
    name: Ident,
    destructured: Destructured,
}

/// Where the pattern of a parameter stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destructured {
    /// In the signature, as it was written.
    There,
    /// Behind the check: we have put a name in its place.
    ByUs,
    /// In the body: `async_trait` has put a name in its place.
    ByAsyncTrait,
}

impl Params {
    pub(crate) fn of(sig: &Signature, body: &Body) -> Params {
        let typed = sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(param) => Some(param),
            FnArg::Receiver(_) => None,
        });
        Params {
            receiver: sig.receiver().map(|receiver| receiver.self_token),
            list: typed.enumerate().map(|(index, param)| Param::of(index, param, body)).collect(),
        }
    }

    pub(crate) fn bindings(&self) -> Vec<Ident> {
        self.list.iter().flat_map(|param| twin::bindings(&param.pat)).map(|binding| binding.ident).collect()
    }

    /// The parameter besides `self`, if there is but one; those that `#[cfg]` may take away do not count.
    pub(crate) fn only(&self) -> Option<&Param> {
        let mut certain = self.list.iter().filter(|param| !param.is_conditional());
        match (certain.next(), certain.next(), self.list.as_slice()) {
            (Some(only), None, _) | (None, None, [only]) => Some(only),
            _ => None,
        }
    }

    /// Gives each argument a name, if there is one that has none.
    ///
    /// In: `async fn f(Path(id): Path<u64>, mut p: Person)`
    /// Out: `async fn f(id: Path<u64>, p: Person)`
    pub(crate) fn rename(&mut self, sig: &mut Signature) {
        if self.list.iter().all(Param::can_be_handed_on) {
            return;
        }
        let typed = sig.inputs.iter_mut().filter_map(|input| match input {
            FnArg::Typed(param) => Some(param),
            FnArg::Receiver(_) => None,
        });
        // All of them, so that they are dropped in the order of the parameters.
        for (written, param) in typed.zip(&mut self.list) {
            if param.destructured == Destructured::There {
                param.destructured = Destructured::ByUs;
                written.attrs.retain(|attribute| !is_lint(attribute));
                *written.pat = Pat::Ident(PatIdent {
                    attrs: Vec::new(),
                    by_ref: None,
                    mutability: None,
                    ident: param.name.clone(),
                    subpat: None,
                });
            }
        }
    }

    /// Out: `self, id, p,`: what a fallback is called with, reported at `span` where it does not fit.
    pub(crate) fn arguments(&self, span: Span) -> TokenStream {
        let receiver = self.receiver.map(|mut receiver| {
            receiver.span = span.resolved_at(receiver.span);
            quote!(#receiver,)
        });
        let rest = self.list.iter().map(|param| {
            let cfgs = param.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
            let mut name = param.name.clone();
            name.set_span(span.resolved_at(name.span()));
            quote_spanned!(span=> #(#cfgs)* #name,)
        });
        quote!(#receiver #(#rest)*)
    }

    /// Out: `let whole = id; let Path(id) = whole; let mut p = p;`
    pub(crate) fn rebind(&self, krate: &Path) -> TokenStream {
        let whole = local("whole");
        let moved = self.list.iter().filter(|param| param.destructured == Destructured::ByUs);
        let lets = moved.map(|param| {
            let Param { attributes, pat, name, .. } = param;
            let attributes: Vec<_> = attributes
                .iter()
                .filter(|attribute| is_lint(attribute) || attribute.path().is_ident("cfg"))
                .collect();
            let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
            match pat {
                // A binding like `_p` that has no effect would be a warning at the user's own token.
                Pat::Ident(PatIdent { subpat: None, by_ref: None, ident, .. }) if is_unused(ident) => {
                    quote!(#(#attributes)* let #pat = #krate::__private::identity(#name);)
                }
                Pat::Ident(PatIdent { subpat: None, by_ref: None, .. }) => {
                    quote!(#(#attributes)* let #pat = #name;)
                }
                pat => quote!(#(#cfgs)* let #whole = #name; #(#attributes)* let #pat = #whole;),
            }
        });
        lets.collect()
    }

    /// Out: `let _ = &id; let _ = &p;`, for all that is bound when the body starts
    pub(crate) fn used(&self) -> TokenStream {
        self.uses(|param, name| param.destructured != Destructured::ByAsyncTrait && !is_unused(name))
    }

    /// The same for what the check has looked at through a twin, so that it is not said to be unused.
    pub(crate) fn used_by<'a>(&self, exprs: impl Iterator<Item = &'a Expr>) -> TokenStream {
        let moved = self.list.iter().filter(|param| param.destructured == Destructured::ByUs);
        let bindings: Vec<Binding> = moved.flat_map(|param| twin::bindings(&param.pat)).collect();
        let names: Vec<_> = exprs.flat_map(|expr| through::rewrite(&mut expr.clone(), &bindings)).collect();
        self.uses(|_, name| names.contains(name))
    }

    fn uses(&self, is_used: impl Fn(&Param, &Ident) -> bool) -> TokenStream {
        let uses = self.list.iter().flat_map(|param| {
            let cfgs = param.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
            let cfgs: Vec<_> = cfgs.collect();
            let names = param.bindings().into_iter().filter(|name| is_used(param, name));
            names.map(|name| quote!(#(#cfgs)* let _ = &#name;)).collect::<Vec<_>>()
        });
        uses.collect()
    }

    /// In: `order.user`
    /// Out: `let Json(order) = &order;` and `(*order).user`
    pub(crate) fn borrow<const N: usize>(&self, mut exprs: [Expr; N]) -> (TokenStream, [Expr; N]) {
        let elsewhere: Vec<_> = self.list.iter().filter(|param| !param.is_at_hand()).collect();
        let bindings: Vec<Binding> = elsewhere.iter().flat_map(|param| twin::bindings(&param.pat)).collect();
        let used: Vec<_> = exprs.iter_mut().flat_map(|expr| through::rewrite(expr, &bindings)).collect();
        let lets = elsewhere.iter().filter_map(|Param { attributes, pat, name, .. }| {
            let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
            let twin = twin::of(pat, &used)?;
            Some(quote!(#(#cfgs)* let #twin = &#name;))
        });
        (lets.collect(), exprs)
    }
}

impl Param {
    fn of(index: usize, param: &PatType, body: &Body) -> Param {
        let (attributes, mut pat) = (param.attrs.clone(), (*param.pat).clone());
        let mut destructured = Destructured::There;
        let hidden = async_traits_name(&pat).and_then(|name| hidden_pattern(name, body.statements.clone()));
        if let Some(hidden) = hidden {
            let name = std::mem::replace(&mut pat, hidden);
            destructured = Destructured::ByAsyncTrait;
            if let Pat::Ident(PatIdent { ident: name, .. }) = name {
                return Param { attributes, pat, name, destructured };
            }
        }
        let name = match &pat {
            Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) if !is_unused(ident) => {
                ident.clone()
            }
            // In the docs it reads as what it holds; the user's own name is another, by hygiene.
            pat => match twin::bindings(pat).first() {
                Some(binding) => Ident::new(&binding.ident.to_string(), Span::mixed_site()),
                None => Ident::new(&format!("_{index}"), Span::mixed_site()),
            },
        };
        Param { attributes, pat, name, destructured }
    }

    /// The names that it binds.
    pub(crate) fn bindings(&self) -> Vec<Ident> {
        twin::bindings(&self.pat).into_iter().map(|binding| binding.ident).collect()
    }

    /// Whether the argument is there as a whole. A name like `_p` says that nobody will use it, so we do not.
    fn can_be_handed_on(&self) -> bool {
        match &self.pat {
            _ if self.destructured == Destructured::ByAsyncTrait => true,
            Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => !is_unused(ident),
            _ => false,
        }
    }

    /// Whether the check sees what the pattern binds.
    fn is_at_hand(&self) -> bool {
        match self.destructured {
            Destructured::There => true,
            Destructured::ByUs => self.can_be_handed_on(),
            Destructured::ByAsyncTrait => false,
        }
    }

    fn is_conditional(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute.path().is_ident("cfg"))
    }
}

fn is_unused(name: &Ident) -> bool {
    name.to_string().starts_with('_')
}

/// A lint about a parameter is about the pattern, wherever that stands.
fn is_lint(attribute: &Attribute) -> bool {
    ["allow", "expect", "warn", "deny", "forbid"].iter().any(|level| attribute.path().is_ident(level))
}

fn async_traits_name(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(PatIdent { ident, subpat: None, .. }) if ident.to_string().starts_with("__arg") => {
            Some(ident)
        }
        _ => None,
    }
}

/// The `(a, b)` of `let (a, b) = { let __arg1 = __arg1; __arg1 };`, however deep it stands.
fn hidden_pattern(name: &Ident, statements: TokenStream) -> Option<Pat> {
    let statements: Vec<TokenTree> = statements.into_iter().collect();
    let is_punct = |token: &TokenTree, c| matches!(token, TokenTree::Punct(punct) if punct.as_char() == c);
    let is_name = |token: TokenTree| matches!(token, TokenTree::Ident(ident) if ident == *name);
    statements.iter().enumerate().find_map(|(at, token)| {
        let TokenTree::Group(group) = token else { return None };
        if !group.stream().into_iter().last().is_some_and(is_name) {
            return hidden_pattern(name, group.stream());
        }
        let start = statements[..at].iter().rposition(is_let)?;
        let pattern = statements[start + 1..at].split(|token| is_punct(token, '=')).next()?;
        Pat::parse_single.parse2(pattern.iter().cloned().collect()).ok()
    })
}

fn is_let(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == "let")
}
