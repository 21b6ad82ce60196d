//! The parameters: the names they bind, and how check, fallback and body each get at them.
//!
//! A fallback takes the arguments whole, so a destructured parameter gets a name of ours in the signature. The check
//! then looks into it through a borrowing twin of its pattern, and the body through the pattern itself.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, FnArg, Pat, PatIdent, PatType, Signature, Token};

use crate::hygiene::local;
use crate::twin::{self, Binding};

pub(crate) struct Params {
    pub(crate) receiver: Option<Token![self]>,
    /// All but `self`.
    pub(crate) list: Vec<Param>,
    /// Whether patterns of the signature were replaced by names of ours.
    renamed: bool,
}

pub(crate) struct Param {
    /// `#[cfg(...)]`: what is not there cannot be passed on.
    cfgs: Vec<Attribute>,
    pat: Pat,
    /// Its own name, or ours where it has none.
    name: Ident,
}

impl Params {
    pub(crate) fn of(sig: &Signature) -> Params {
        let typed = sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(param) => Some(param),
            FnArg::Receiver(_) => None,
        });
        Params {
            receiver: sig.receiver().map(|receiver| receiver.self_token),
            list: typed.enumerate().map(|(index, param)| Param::of(index, param)).collect(),
            renamed: false,
        }
    }

    pub(crate) fn bindings(&self) -> Vec<Ident> {
        self.list.iter().flat_map(|param| twin::bindings(&param.pat)).map(|binding| binding.ident).collect()
    }

    /// Gives each argument a name, if there is one that has none.
    ///
    /// In: `async fn f(Path(id): Path<u64>, mut p: Person)`
    /// Out: `async fn f(argument0: Path<u64>, p: Person)`
    pub(crate) fn rename(&mut self, sig: &mut Signature) {
        self.renamed = !self.list.iter().all(Param::has_name);
        if !self.renamed {
            return;
        }
        let typed = sig.inputs.iter_mut().filter_map(|input| match input {
            FnArg::Typed(param) => Some(param),
            FnArg::Receiver(_) => None,
        });
        for (param, Param { name, .. }) in typed.zip(&self.list) {
            *param.pat = Pat::Ident(PatIdent {
                attrs: Vec::new(),
                by_ref: None,
                mutability: None,
                ident: name.clone(),
                subpat: None,
            });
        }
    }

    /// Out: `self, argument0, p,`: what a fallback is called with, reported at `span` where it does not fit.
    pub(crate) fn arguments(&self, span: Span) -> TokenStream {
        let receiver = self.receiver.map(|mut receiver| {
            receiver.span = span.resolved_at(receiver.span);
            quote!(#receiver,)
        });
        let rest = self.list.iter().map(|Param { cfgs, name, .. }| {
            let mut name = name.clone();
            name.set_span(span.resolved_at(name.span()));
            quote_spanned!(span=> #(#cfgs)* #name,)
        });
        quote!(#receiver #(#rest)*)
    }

    /// Out: `let whole = argument0; let Path(id) = whole; let mut p = p;`
    ///
    /// All of them, in order, so that they are dropped in the order of the parameters they stand for.
    pub(crate) fn rebind(&self) -> TokenStream {
        if !self.renamed {
            return TokenStream::new();
        }
        let whole = local("whole");
        let lets = self.list.iter().map(|param| {
            let Param { cfgs, pat, name } = param;
            if param.has_name() {
                quote!(#(#cfgs)* let #pat = #name;)
            } else if let Pat::Ident(PatIdent { subpat: None, by_ref: None, .. }) = pat {
                // A binding like `_p` that has no effect would be a warning at the user's own token.
                quote!(#(#cfgs)* let #pat = ::limiter::__private::identity(#name);)
            } else {
                quote!(#(#cfgs)* let #whole = #name; #(#cfgs)* let #pat = #whole;)
            }
        });
        lets.collect()
    }

    /// In: `order.user`
    /// Out: `let Json(order) = &argument0;` and `(*order).user`
    pub(crate) fn borrow<const N: usize>(&self, exprs: [TokenStream; N]) -> (TokenStream, [TokenStream; N]) {
        if !self.renamed {
            return (TokenStream::new(), exprs);
        }
        let nameless: Vec<_> = self.list.iter().filter(|param| !param.has_name()).collect();
        let bindings: Vec<Binding> = nameless.iter().flat_map(|param| twin::bindings(&param.pat)).collect();
        let mut used = Vec::new();
        let exprs = exprs.map(|expr| twin::through(expr, &bindings, &mut used));
        let lets = nameless.iter().filter_map(|Param { cfgs, pat, name }| {
            let twin = twin::of(pat, &used)?;
            Some(quote!(#(#cfgs)* let #twin = &#name;))
        });
        (lets.collect(), exprs)
    }
}

impl Param {
    fn of(index: usize, param: &PatType) -> Param {
        let name = own_name(&param.pat).cloned();
        let name = name.unwrap_or_else(|| local(format_args!("argument{index}")));
        let cfgs = param.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
        Param { cfgs: cfgs.cloned().collect(), pat: (*param.pat).clone(), name }
    }

    fn has_name(&self) -> bool {
        own_name(&self.pat).is_some()
    }
}

/// The name by which an argument can be handed on whole. One like `_p` says that nobody will use it, so we do not.
fn own_name(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => {
            (!ident.to_string().starts_with('_')).then_some(ident)
        }
        _ => None,
    }
}
