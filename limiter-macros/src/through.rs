//! Lets an expression over the parameters see through the twins of their patterns.
//!
//! In: `id == 0 && order.id.is_empty()`, where `id` and `order` are bound
//! Out: `(*id) == 0 && (*order).id.is_empty()`
//!
//! What the expression binds itself, by `match`, `let`, a closure and the like, is its own.

use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Block, Expr, ExprClosure, ExprForLoop, ExprIf, ExprLet, ExprWhile, FieldValue, Item, Local, Macro,
    PatIdent, Token,
};

use crate::twin::Binding;

/// Rewrites the expression, and says which of the bindings it uses.
pub(crate) fn rewrite(expr: &mut Expr, bindings: &[Binding]) -> Vec<Ident> {
    let mut rewriting = Rewriting { bindings, hidden: Vec::new(), used: Vec::new() };
    rewriting.visit_expr_mut(expr);
    rewriting.used
}

struct Rewriting<'a> {
    bindings: &'a [Binding],
    /// What the expression has bound by itself so far.
    hidden: Vec<Ident>,
    used: Vec<Ident>,
}

impl Rewriting<'_> {
    /// What is bound inside of `visit` ends with it.
    fn scope(&mut self, visit: impl FnOnce(&mut Self)) {
        let outer = self.hidden.len();
        visit(self);
        self.hidden.truncate(outer);
    }

    fn binding(&self, name: &Ident) -> Option<&Binding> {
        let visible = !self.hidden.contains(name);
        self.bindings.iter().find(|binding| visible && binding.ident == *name)
    }

    fn dereferenced(&mut self, name: &Ident) -> Option<TokenStream> {
        let derefs = self.binding(name)?.derefs;
        self.used.push(name.clone());
        let stars = (0..derefs).map(|_| Token![*](name.span()));
        Some(quote_spanned!(name.span()=> (#(#stars)* #name)))
    }

    /// What a macro is given may be anything, so that only its tokens can tell.
    fn tokens(&mut self, tokens: TokenStream) -> TokenStream {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut out = TokenStream::new();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(name) if is_variable(&tokens, at) => {
                    self.dereferenced(name).unwrap_or_else(|| name.to_token_stream()).to_tokens(&mut out);
                }
                TokenTree::Group(group) => {
                    let mut replaced = Group::new(group.delimiter(), self.tokens(group.stream()));
                    replaced.set_span(group.span());
                    replaced.to_tokens(&mut out);
                }
                TokenTree::Literal(literal) => {
                    // `format!("{id}")` reads a variable too.
                    let text = literal.to_string();
                    let captured = |name: &Ident| text.contains(&format!("{{{name}"));
                    let names = self.bindings.iter().map(|binding| &binding.ident);
                    self.used.extend(names.filter(|name| captured(name)).cloned());
                    literal.to_tokens(&mut out);
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => token.to_tokens(&mut out),
            }
        }
        out
    }
}

impl VisitMut for Rewriting<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let name = match &*expr {
            Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
            _ => None,
        };
        match name.and_then(|name| self.dereferenced(name)) {
            Some(dereferenced) => *expr = Expr::Verbatim(dereferenced),
            None => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.hidden.push(pat.ident.clone());
        visit_mut::visit_pat_ident_mut(self, pat);
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        self.scope(|inside| visit_mut::visit_expr_closure_mut(inside, closure));
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        self.scope(|inside| visit_mut::visit_arm_mut(inside, arm));
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scope(|inside| visit_mut::visit_block_mut(inside, block));
    }

    // A name is bound after the value that it is bound to.
    fn visit_local_mut(&mut self, local: &mut Local) {
        if let Some(init) = &mut local.init {
            self.visit_local_init_mut(init);
        }
        self.visit_pat_mut(&mut local.pat);
    }

    fn visit_expr_let_mut(&mut self, condition: &mut ExprLet) {
        self.visit_expr_mut(&mut condition.expr);
        self.visit_pat_mut(&mut condition.pat);
    }

    fn visit_expr_for_loop_mut(&mut self, each: &mut ExprForLoop) {
        self.visit_expr_mut(&mut each.expr);
        self.scope(|inside| {
            inside.visit_pat_mut(&mut each.pat);
            inside.visit_block_mut(&mut each.body);
        });
    }

    fn visit_expr_while_mut(&mut self, repeat: &mut ExprWhile) {
        self.scope(|inside| visit_mut::visit_expr_while_mut(inside, repeat));
    }

    fn visit_expr_if_mut(&mut self, choice: &mut ExprIf) {
        self.scope(|inside| {
            inside.visit_expr_mut(&mut choice.cond);
            inside.visit_block_mut(&mut choice.then_branch);
        });
        if let Some((_, otherwise)) = &mut choice.else_branch {
            self.visit_expr_mut(otherwise);
        }
    }

    /// In: `K { id }`
    /// Out: `K { id: (*id) }`
    fn visit_field_value_mut(&mut self, field: &mut FieldValue) {
        self.visit_expr_mut(&mut field.expr);
        if let (None, Expr::Verbatim(_)) = (&field.colon_token, &field.expr) {
            field.colon_token = Some(Token![:](proc_macro2::Span::mixed_site()));
        }
    }

    fn visit_macro_mut(&mut self, call: &mut Macro) {
        call.tokens = self.tokens(std::mem::take(&mut call.tokens));
    }

    /// Items see nothing of what is around them.
    fn visit_item_mut(&mut self, _: &mut Item) {}
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
    use syn::Pat;
    use syn::parse::Parser as _;

    use super::*;
    use crate::twin;

    #[test]
    fn what_an_expression_binds_is_its_own() {
        let cases = [
            (
                quote!(match id {
                    Some(id) if id > 0 => id,
                    _ => other(id),
                }),
                quote!(match (*id) {
                    Some(id) if id > 0 => id,
                    _ => other((*id)),
                }),
            ),
            (quote!(list.map(|id| id).min(id)), quote!(list.map(|id| id).min((*id)))),
            (
                quote!({
                    let id = id + 1;
                    id
                }),
                quote!({
                    let id = (*id) + 1;
                    id
                }),
            ),
            (
                quote!(if let Some(id) = id { id } else { id }),
                quote!(if let Some(id) = (*id) { id } else { (*id) }),
            ),
            (
                quote!(if let Some(id) = id
                    && id > 1
                {
                    id
                } else {
                    id
                }),
                quote!(if let Some(id) = (*id)
                    && id > 1
                {
                    id
                } else {
                    (*id)
                }),
            ),
            (
                quote!({
                    for id in id {
                        id
                    }
                    id
                }),
                quote!({
                    for id in (*id) {
                        id
                    }
                    (*id)
                }),
            ),
            (
                quote!({
                    while let Some(id) = id.next() {
                        id
                    }
                    id
                }),
                quote!({
                    while let Some(id) = (*id).next() {
                        id
                    }
                    (*id)
                }),
            ),
            (quote!(K { id }), quote!(K { id: (*id) })),
            (quote!(K { id: 1, other: id }), quote!(K { id: 1, other: (*id) })),
            (
                quote!({
                    fn own(id: u8) -> u8 {
                        id
                    }
                    own(id)
                }),
                quote!({
                    fn own(id: u8) -> u8 {
                        id
                    }
                    own((*id))
                }),
            ),
            (quote!(matches!(id, Kind::A)), quote!(matches!((*id), Kind::A))),
            (quote!(a.id + m::id + id), quote!(a.id + m::id + (*id))),
        ];
        let bindings = twin::bindings(&Pat::parse_single.parse2(quote!(Path(id))).unwrap());
        for (written, expected) in cases {
            let mut expr = syn::parse2(written).unwrap();
            let used = rewrite(&mut expr, &bindings);
            assert_eq!(expr.to_token_stream().to_string(), expected.to_string());
            assert_eq!(used.first().map(ToString::to_string).as_deref(), Some("id"));
        }
    }
}
