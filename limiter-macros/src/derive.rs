//! `#[derive(LimitKey)]`: a key made of the keys of the fields.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, Generics, LitStr, Path, Token, Type, WherePredicate,
    parse_quote,
};

use crate::hygiene::{at, local};

// In:  struct User { tenant: u32, id: u64 }
// Out: impl LimitKey for User {
//          fn encode(&self, key: &mut Key) {
//              match self { Self { tenant: field0, id: field1 } => { key.group(2); ENCODE field0 and field1 } }
//          }
//      }
pub(crate) fn limit_key(item: TokenStream) -> syn::Result<TokenStream> {
    let DeriveInput { attrs, ident, generics, data, .. } = syn::parse2(item)?;
    let krate = krate(&attrs)?;
    let core = quote!(#krate::__private);
    let key = local("key");
    let arms: Vec<_> = match &data {
        Data::Struct(data) => {
            let count = count(&data.fields);
            // A wrapper around one field is that field, as far as a limit is concerned.
            let head = if count == 1 { TokenStream::new() } else { quote!(#key.group(#count);) };
            vec![arm(&core, &quote!(Self), &head, &data.fields, &key)]
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let (name, count) = (&variant.ident, count(&variant.fields));
                let text = name.unraw().to_string();
                let head = quote!(#key.variant(#text, #count););
                arm(&core, &quote!(Self::#name), &head, &variant.fields, &key)
            });
            arms.collect()
        }
        Data::Union(data) => {
            let message =
                "a union does not say which of its fields holds the key; derive this for a struct or an enum";
            return Err(Error::new_spanned(data.union_token, message));
        }
    };
    let generics = bounded(generics, &data, &core);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    // An empty enum has no arm, and a reference to one is not matched away without the `*`.
    let subject = if arms.is_empty() { quote!(*self) } else { quote!(self) };
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #core::LimitKey for #ident #type_generics #where_clause {
            fn encode(&self, #key: &mut #core::Key) {
                match #subject { #(#arms)* }
            }
        }
    })
}

/// In: `#[limit_key(crate = "shop::limiter")]`
fn krate(attributes: &[Attribute]) -> syn::Result<Path> {
    let mut krate = parse_quote!(::limiter);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("limit_key")) {
        let written = attribute.parse_args_with(|input: ParseStream<'_>| {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            let path = |input: ParseStream<'_>| input.call(Path::parse_mod_style);
            match input.parse::<Option<LitStr>>()? {
                Some(quoted) => quoted.parse_with(path),
                None => path(input),
            }
        });
        let message = r#"write #[limit_key(crate = "...")], with the path to this crate"#;
        krate = written.map_err(|_| Error::new_spanned(attribute, message))?;
    }
    Ok(krate)
}

fn arm(
    core: &TokenStream,
    path: &TokenStream,
    head: &TokenStream,
    fields: &Fields,
    key: &Ident,
) -> TokenStream {
    let parts = || fields.members().zip(fields).filter(|(_, field)| !is_marker(&field.ty)).enumerate();
    let bound = parts().map(|(index, (member, _))| {
        let name = local(format_args!("field{index}"));
        quote!(#member: #name,)
    });
    let encoded = parts().map(|(index, (_, Field { ty, .. }))| {
        let span = at(ty.span());
        let mut name = local(format_args!("field{index}"));
        name.set_span(span);
        quote_spanned!(span=> #core::LimitKey::encode(#name, #key);)
    });
    quote!(#path { #(#bound)* .. } => { #head #(#encoded)* })
}

fn count(fields: &Fields) -> usize {
    fields.iter().filter(|field| !is_marker(&field.ty)).count()
}

/// `PhantomData` holds nothing that could tell two keys apart.
fn is_marker(ty: &Type) -> bool {
    match ty {
        Type::Path(ty) => ty.path.segments.last().is_some_and(|segment| segment.ident == "PhantomData"),
        _ => false,
    }
}

/// What the fields are made of must be keys: `T`, or `T::Id` where only that is held.
fn bounded(mut generics: Generics, data: &Data, core: &TokenStream) -> Generics {
    let params: Vec<_> = generics.type_params().map(|param| param.ident.clone()).collect();
    let fields: Vec<&Field> = match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut parts: Vec<TokenStream> = Vec::new();
    for Field { ty, .. } in fields.into_iter().filter(|field| !is_marker(&field.ty)) {
        match ty {
            Type::Path(path) if path.qself.is_some() => parts.push(ty.to_token_stream()),
            ty => generic_parts(ty.to_token_stream(), &params, &mut parts),
        }
    }
    let mut seen = HashSet::new();
    parts.retain(|part| seen.insert(part.to_string()));
    if !parts.is_empty() {
        let predicates = parts.iter().map(|part| -> WherePredicate { parse_quote!(#part: #core::LimitKey) });
        generics.make_where_clause().predicates.extend(predicates);
    }
    generics
}

/// In: `(T, Vec<U::Id>)`
/// Out: `T` and `U::Id`
fn generic_parts(ty: TokenStream, params: &[Ident], parts: &mut Vec<TokenStream>) {
    let tokens: Vec<_> = ty.into_iter().collect();
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => generic_parts(group.stream(), params, parts),
            TokenTree::Ident(name) if params.contains(name) && !(at > 0 && is_colon(at - 1)) => {
                let length = if is_colon(at + 1) { 4 } else { 1 };
                parts.push(tokens.iter().skip(at).take(length).cloned().collect());
            }
            _ => {}
        }
    }
}
