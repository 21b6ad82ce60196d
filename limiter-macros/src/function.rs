//! The annotated function: its signature is read, its body is carried through unread.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::{Attribute, Error, Ident, Meta, Path, Signature, Token, Visibility, parenthesized};

use crate::hygiene::at;

pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Body,
}

impl Function {
    /// Reads the item, or says why no limit can stand on it.
    pub(crate) fn parse(item: TokenStream) -> syn::Result<Function> {
        syn::parse2(item.clone()).map_err(|error| refusal.parse2(item).unwrap_or(error))
    }
}

/// What to say of an item that is no function with a body.
fn refusal(input: ParseStream<'_>) -> syn::Result<Error> {
    input.call(Attribute::parse_outer)?;
    input.parse::<Visibility>()?;
    let start = input.fork();
    if let Ok(sig) = start.parse::<Signature>() {
        input.parse::<TokenStream>()?;
        let message = format!(
            r#""{0}" has no body that could be limited here; put the attribute on "{0}" in each `impl`"#,
            sig.ident
        );
        return Ok(Error::new_spanned(sig.ident, message));
    }
    let keyword = input.call(Ident::parse_any)?;
    input.parse::<TokenStream>()?;
    let message = match keyword.to_string().as_str() {
        "impl" | "trait" | "mod" | "extern" => {
            format!(
                "a limit is that of one function; put the attribute on each `fn` inside of this `{keyword}`"
            )
        }
        "struct" | "enum" | "union" | "static" | "const" | "type" | "use" | "let" | "macro_rules" => {
            format!(
                "`{keyword}` makes nothing that is called, so there is nothing to limit; put the attribute on a `fn`"
            )
        }
        _ => "a limit belongs on a function: put the attribute on a `fn`".to_owned(),
    };
    Ok(Error::new(keyword.span(), message))
}

impl Function {
    /// Takes the other limits of the function along, in the order they were written.
    ///
    /// An attribute further down would be expanded later, and so put its check in front of ours.
    pub(crate) fn take_limits(&mut self) -> Vec<Limit> {
        let mut limits = Vec::new();
        self.attributes.retain(|attribute| match Limit::of(attribute) {
            Some(limit) => {
                limits.push(limit);
                false
            }
            None => true,
        });
        limits
    }
}

/// Another limit on the function: its options, and the condition of a `cfg_attr` around it.
pub(crate) struct Limit {
    pub(crate) options: TokenStream,
    pub(crate) predicate: Option<TokenStream>,
}

impl Limit {
    fn of(attribute: &Attribute) -> Option<Limit> {
        if !attribute.path().is_ident("cfg_attr") {
            return Some(Limit { options: options(&attribute.meta)?, predicate: None });
        }
        let conditional = |input: ParseStream<'_>| {
            let predicate: Meta = input.parse()?;
            input.parse::<Token![,]>()?;
            let limit: Meta = input.parse()?;
            input.parse::<Option<Token![,]>>()?;
            Ok((predicate, limit))
        };
        let (predicate, limit) = attribute.parse_args_with(conditional).ok()?;
        Some(Limit { options: options(&limit)?, predicate: Some(predicate.into_token_stream()) })
    }
}

/// What stands between the parentheses, if it is an attribute of ours.
fn options(meta: &Meta) -> Option<TokenStream> {
    let name = &meta.path().segments.last()?.ident;
    match meta {
        _ if name != "rate_limit" => None,
        Meta::List(list) => Some(list.tokens.clone()),
        Meta::Path(_) | Meta::NameValue(_) => Some(TokenStream::new()),
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Function> {
        Ok(Function {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            sig: input.parse()?,
            body: Body::of(&braced(input)?),
        })
    }
}

/// What stands between the braces of a block.
pub(crate) struct Body {
    /// `#![...]`: these must stay in front.
    pub(crate) attributes: TokenStream,
    pub(crate) statements: TokenStream,
    /// Where the braces stand.
    span: Span,
}

impl Body {
    pub(crate) fn of(block: &Group) -> Body {
        let split = |input: ParseStream<'_>| {
            let attributes = input.call(Attribute::parse_inner)?;
            Ok(Body { attributes: quote!(#(#attributes)*), statements: input.parse()?, span: block.span() })
        };
        let unread =
            || Body { attributes: TokenStream::new(), statements: block.stream(), span: block.span() };
        split.parse2(block.stream()).unwrap_or_else(|_| unread())
    }

    /// Braces of the user's around other statements, so that what is said of the block is said there.
    pub(crate) fn with(&self, statements: &TokenStream) -> Group {
        let attributes = &self.attributes;
        let mut block = Group::new(Delimiter::Brace, quote!(#attributes #statements));
        block.set_span(self.span);
        block
    }

    /// Statements of the user's behind ours, in braces of their own: items may only stand in front of all statements.
    pub(crate) fn behind(&self, check: &TokenStream, statements: &TokenStream) -> TokenStream {
        let block = self.block(statements);
        quote!(#check #block)
    }

    /// Braces for statements of the user's.
    ///
    /// In which order the variables and what the last expression borrows from are dropped is up to the edition of the
    /// braces, and so these are the user's. Without variables there is no order, and braces of the user's would be said
    /// to be needless.
    pub(crate) fn block(&self, statements: &TokenStream) -> Group {
        let mut tokens = statements.clone().into_iter();
        let has_variables =
            tokens.any(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';'));
        let mut block = Group::new(Delimiter::Brace, statements.clone());
        block.set_span(if has_variables { self.span } else { at(self.span) });
        block
    }

    /// The inside of a body that is an async block and nothing else.
    pub(crate) fn async_block(&self) -> Option<TokenStream> {
        async_block.parse2(self.statements.clone()).ok()
    }

    /// The inside of the async block of a body that is `Box::pin(async move { .. })`: what `async_trait` writes.
    pub(crate) fn pinned_async_block(&self) -> Option<TokenStream> {
        let pinned = |input: ParseStream<'_>| {
            let callee: Path = input.parse()?;
            if callee.to_token_stream().to_string() != quote!(Box::pin).to_string() {
                return Err(Error::new_spanned(callee, "another call"));
            }
            let argument;
            parenthesized!(argument in input);
            async_block(&argument)
        };
        pinned.parse2(self.statements.clone()).ok()
    }
}

fn async_block(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    input.parse::<Token![async]>()?;
    input.parse::<Option<Token![move]>>()?;
    Ok(braced(input)?.stream())
}

/// A block, also one in the invisible group of a macro's `$body:block`.
fn braced(input: ParseStream<'_>) -> syn::Result<Group> {
    match input.parse()? {
        TokenTree::Group(block) if block.delimiter() == Delimiter::Brace => Ok(block),
        TokenTree::Group(block) if block.delimiter() == Delimiter::None => braced.parse2(block.stream()),
        other => Err(Error::new(other.span(), "expected a block")),
    }
}
