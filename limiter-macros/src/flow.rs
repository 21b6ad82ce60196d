//! How a function gives its answer: at once, as an `async fn`, or as a future that it returns.

use syn::{
    AngleBracketedGenericArguments, GenericArgument, Ident, PathArguments, PathSegment, ReturnType,
    Signature, Type, TypeParamBound,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Sync,
    Async,
    /// `-> impl Future<Output = T>`
    Future,
    /// `-> Pin<Box<dyn Future<Output = T>>>`, which is also what `async_trait` leaves behind
    BoxedFuture,
}

/// The flow of a function, and the type that answers for a rejected call (`None`: it returns nothing).
pub(crate) fn of(sig: &Signature) -> (Flow, Option<&Type>) {
    let ReturnType::Type(_, ty) = &sig.output else {
        return (if sig.asyncness.is_some() { Flow::Async } else { Flow::Sync }, None);
    };
    let ty = ungrouped(ty);
    let answer = match ty {
        _ if sig.asyncness.is_some() => Some((Flow::Async, ty)),
        Type::ImplTrait(ty) => output(&ty.bounds).map(|output| (Flow::Future, output)),
        ty => boxed_output(ty).map(|output| (Flow::BoxedFuture, output)),
    };
    let (flow, answer) = answer.unwrap_or((Flow::Sync, ty));
    let answer = ungrouped(answer);
    (flow, (!is_unit(answer)).then_some(answer))
}

/// The name of a type that may be a future, which nobody can see in it.
pub(crate) fn hidden_future(ty: &Type) -> Option<&Ident> {
    let name = &last_segment(ty)?.ident;
    name.to_string().contains("Fut").then_some(name)
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

/// The `T` of `Pin<Box<dyn Future<Output = T>>>` and of `BoxFuture<'_, T>`.
fn boxed_output(ty: &Type) -> Option<&Type> {
    let segment = last_segment(ty)?;
    if segment.ident == "BoxFuture" || segment.ident == "LocalBoxFuture" {
        return type_argument(segment);
    }
    let boxed = last_segment(type_argument(segment).filter(|_| segment.ident == "Pin")?)?;
    match ungrouped(type_argument(boxed).filter(|_| boxed.ident == "Box")?) {
        Type::TraitObject(object) => output(&object.bounds),
        _ => None,
    }
}

/// The `T` of `Future<Output = T> + ...`.
fn output<'a>(bounds: impl IntoIterator<Item = &'a TypeParamBound>) -> Option<&'a Type> {
    bounds.into_iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let segment = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
        arguments(segment)?.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
            _ => None,
        })
    })
}

/// The type inside parentheses and the invisible group of a macro's `$answer:ty`.
fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        ty => ty,
    }
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ungrouped(ty) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn type_argument(segment: &PathSegment) -> Option<&Type> {
    arguments(segment)?.args.iter().rev().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn arguments(segment: &PathSegment) -> Option<&AngleBracketedGenericArguments> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens as _, quote};

    use super::*;

    #[test]
    fn futures_count_as_async() {
        let cases = [
            (quote!(async fn f() -> u8), Flow::Async, Some("u8")),
            (quote!(async fn f()), Flow::Async, None),
            (quote!(fn f() -> u8), Flow::Sync, Some("u8")),
            (quote!(fn f() -> ()), Flow::Sync, None),
            (quote!(fn f() -> impl Future<Output = u8> + Send), Flow::Future, Some("u8")),
            (quote!(fn f() -> impl Send + core::future::Future<Output = ()>), Flow::Future, None),
            (quote!(fn f() -> Pin<Box<dyn Future<Output = u8> + Send + '_>>), Flow::BoxedFuture, Some("u8")),
            (quote!(fn f() -> futures::future::BoxFuture<'static, u8>), Flow::BoxedFuture, Some("u8")),
            (quote!(fn f() -> (Pin<Box<(dyn Future<Output = (u8)> + Send)>>)), Flow::BoxedFuture, Some("u8")),
            (quote!(fn f() -> (impl Future<Output = (())>)), Flow::Future, None),
            (quote!(fn f() -> Pin<Box<u8>>), Flow::Sync, Some("Pin < Box < u8 > >")),
            (quote!(fn f() -> impl Iterator<Item = u8>), Flow::Sync, Some("impl Iterator < Item = u8 >")),
        ];
        for (written, flow, answer) in cases {
            let sig: Signature = syn::parse2(written.clone()).unwrap();
            let (found, ty) = of(&sig);
            assert!(found == flow, "{written}");
            assert_eq!(ty.map(|ty| ty.to_token_stream().to_string()).as_deref(), answer, "{written}");
        }
    }
}
