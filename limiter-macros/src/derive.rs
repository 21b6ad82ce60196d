//! `#[derive(LimitKey)]`: a key made of the keys of the fields.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Field, Fields, Generics, parse_quote};

use crate::hygiene::{at, local};

// In:  struct User { tenant: u32, id: u64 }
// Out: impl LimitKey for User {
//          fn encode(&self, key: &mut Key) {
//              match self { Self { tenant: field0, id: field1 } => { key.group(2); ENCODE field0 and field1 } }
//          }
//      }
pub(crate) fn limit_key(item: TokenStream) -> syn::Result<TokenStream> {
    let DeriveInput { ident, generics, data, .. } = syn::parse2(item)?;
    let key = local("key");
    let arms: Vec<_> = match &data {
        Data::Struct(data) => {
            let count = data.fields.len();
            // A wrapper around one field is that field, as far as a limit is concerned.
            let head = if count == 1 { TokenStream::new() } else { quote!(#key.group(#count);) };
            vec![arm(&quote!(Self), &head, &data.fields, &key)]
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let (name, count) = (&variant.ident, variant.fields.len());
                let text = name.unraw().to_string();
                arm(&quote!(Self::#name), &quote!(#key.variant(#text, #count);), &variant.fields, &key)
            });
            arms.collect()
        }
        Data::Union(data) => {
            let message =
                "a union does not say which of its fields holds the key; derive this for a struct or an enum";
            return Err(Error::new_spanned(data.union_token, message));
        }
    };
    let generics = bounded(generics);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    // An empty enum has no arm, and a reference to one is not matched away without the `*`.
    let subject = if arms.is_empty() { quote!(*self) } else { quote!(self) };
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::limiter::__private::LimitKey for #ident #type_generics #where_clause {
            fn encode(&self, #key: &mut ::limiter::__private::Key) {
                match #subject { #(#arms)* }
            }
        }
    })
}

fn arm(path: &TokenStream, head: &TokenStream, fields: &Fields, key: &Ident) -> TokenStream {
    let names: Vec<_> = (0..fields.len()).map(|index| local(format_args!("field{index}"))).collect();
    let members = fields.members();
    let encoded = fields.iter().zip(&names).map(|(Field { ty, .. }, name)| {
        let span = at(ty.span());
        let mut name = name.clone();
        name.set_span(span);
        quote_spanned!(span=> ::limiter::__private::LimitKey::encode(#name, #key);)
    });
    quote!(#path { #(#members: #names),* } => { #head #(#encoded)* })
}

fn bounded(mut generics: Generics) -> Generics {
    let params: Vec<_> = generics.type_params().map(|param| param.ident.clone()).collect();
    if !params.is_empty() {
        let predicates = &mut generics.make_where_clause().predicates;
        predicates.extend(
            params
                .iter()
                .map(|param| -> syn::WherePredicate { parse_quote!(#param: ::limiter::__private::LimitKey) }),
        );
    }
    generics
}
