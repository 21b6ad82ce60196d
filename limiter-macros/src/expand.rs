//! From the plan to the tokens: a check in front of the body, a few lines that call into the core.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{ReturnType, Signature};

use crate::check::{Cost, Plan};
use crate::flow::Flow;
use crate::function::{Body, Function};
use crate::hygiene::{at, local};
use crate::params::Params;
use crate::quota::Quota;

// In:  async fn f(PARAMETERS) -> T { BODY }
// Out: async fn f(PARAMETERS) -> T { CHECK BODY }
//
// In:  fn f(PARAMETERS) -> impl Future<Output = T> { BODY }
// Out: fn f(PARAMETERS) -> impl Future<Output = T> { async move { CHECK (move || { BODY })().await } }
pub(crate) fn expand(plan: &Plan, function: Function) -> TokenStream {
    let Function { attributes, visibility, mut sig, body } = function;
    let mut params = Params::of(&sig);
    if plan.fallback.is_some() {
        params.rename(&mut sig);
    }
    let mut check = check(plan, &sig, &params);
    check.extend(params.rebind());
    let Body { attributes: inner_attributes, statements } = &body;
    let limited = match plan.flow {
        Flow::Sync | Flow::Async => quote!(#check #statements),
        Flow::Future => future(&check, &body, body.async_block(), None),
        Flow::BoxedFuture => {
            let future = future(&check, &body, body.pinned_async_block(), Some(&sig.output));
            quote!(::std::boxed::Box::pin(#future))
        }
    };
    quote!(#(#attributes)* #visibility #sig { #inner_attributes #limited })
}

/// A body that is one async block takes the check inside; any other makes its future behind the check.
fn future(
    check: &TokenStream,
    body: &Body,
    async_block: Option<TokenStream>,
    output: Option<&ReturnType>,
) -> TokenStream {
    let statements = &body.statements;
    let answer = async_block.unwrap_or_else(|| quote!((move || #output { #statements })().await));
    quote!(async move { #check #answer })
}

// Out: let DECISION = {
//          let entry = enter(SITE, &(KEY), COST);
//          match entry.await { Ok(decision) => decision, Err(rejected) => { return ANSWER; } }
//      };
fn check(plan: &Plan, sig: &Signature, params: &Params) -> TokenStream {
    let [entry, decision, rejected, exempt] = ["entry", "decision", "rejected", "exempt"].map(local);
    let (enter, dot_await) = match plan.flow {
        Flow::Sync => (quote!(enter_sync), TokenStream::new()),
        _ => (quote!(enter), quote!(.await)),
    };
    let site = site(plan, sig);
    let cost = match &plan.cost {
        Cost::Fixed(permits, _) => Literal::u64_suffixed(*permits).into_token_stream(),
        Cost::Computed(expr) => expr.clone(),
    };
    let (twins, [key, cost]) = params.borrow([plan.key.clone(), cost]);
    let key = quote_spanned!(at(key.span())=> &(#key));
    let call = scoped(&twins, quote!(::limiter::__private::#enter(#site, #key, #cost)));
    let answer = answer(plan, sig, params, &rejected);
    // A statement of its own, so that what the key borrowed is free again before the call waits or is answered.
    let decide = quote! {
        {
            let #entry = #call;
            match #entry #dot_await {
                ::core::result::Result::Ok(#decision) => #decision,
                ::core::result::Result::Err(#rejected) => { #answer }
            }
        }
    };
    let decided = match &plan.unless {
        None => decide,
        Some(unless) => {
            let (twins, [unless]) = params.borrow([unless.to_token_stream()]);
            let unless = scoped(&twins, unless);
            quote! {
                {
                    let #exempt: bool = #unless;
                    if #exempt { ::limiter::__private::Decision::exempt() } else #decide
                }
            }
        }
    };
    let name = plan.decision.as_ref().map_or_else(|| quote!(_), Ident::to_token_stream);
    quote!(let #name = #decided;)
}

// Out: return busy(p, rejected);
fn answer(plan: &Plan, sig: &Signature, params: &Params, rejected: &Ident) -> TokenStream {
    if plan.fallback.is_none() && plan.mode == "Shadow" {
        return quote!(
            ::core::unreachable!("no call is rejected in shadow mode, but this was: {}", #rejected)
        );
    }
    let Some(fallback) = &plan.fallback else {
        let span = match &sig.output {
            ReturnType::Type(_, ty) => at(ty.span()),
            ReturnType::Default => Span::mixed_site(),
        };
        return quote_spanned!(span=> return ::limiter::__private::from_rejected(#rejected););
    };
    // The last part of a path is the one that names the function.
    let span = fallback.path.segments.last().map_or_else(|| fallback.span(), |segment| segment.ident.span());
    let span = at(span);
    let arguments = params.arguments(span);
    let call = quote_spanned!(span=> #fallback(#arguments #rejected));
    if plan.flow == Flow::Sync {
        return quote_spanned!(span=> return #call;);
    }
    let answer = local("answer");
    quote_spanned! {span=>
        let #answer = ::limiter::__private::Answered(#call);
        return {
            use ::limiter::__private::{FutureAnswer as _, ValueAnswer as _};
            (&#answer).kind().resolve(#answer).await
        };
    }
}

// Out: { static SITE: Site = Site::new(RULE, OPTIONS, PLACE); submit! { Registered(&SITE) } &SITE }
fn site(plan: &Plan, sig: &Signature) -> TokenStream {
    // Items are not hygienic, and the user's constant expressions stand inside: a name that nobody writes.
    let site = Ident::new("__LIMITER_SITE", Span::mixed_site());
    let own_name = || {
        let function = sig.ident.unraw().to_string();
        quote!(::core::concat!(::core::module_path!(), "::", #function))
    };
    let name = plan.name.as_ref().map_or_else(own_name, |name| quote!(#name));
    let strategy = &plan.strategy;
    let strategy = quote!(::limiter::__private::Strategy::#strategy);
    let quotas: Vec<_> = plan.quotas.iter().map(quota).collect();
    let rule = match quotas.as_slice() {
        [quota] => quote!(::limiter::__private::Rule::new(#name, #strategy, #quota)),
        quotas => {
            quote!(::limiter::__private::Rule::with_limits(#name, #strategy, const { &[#(#quotas),*] }))
        }
    };
    let samples = plan.samples.as_ref().map(|samples| {
        let samples = samples.tokens("u32");
        quote!(.samples(#samples))
    });
    let options = options(plan);
    let place = quote! {
        ::limiter::__private::Place { file: ::core::file!(), line: ::core::line!(), column: ::core::column!() }
    };
    // A cost above the capacity is found here, if not before.
    let span = match &plan.cost {
        Cost::Fixed(_, span) => at(*span),
        Cost::Computed(_) => Span::mixed_site(),
    };
    let new = quote_spanned!(span=> ::limiter::__private::Site::new(#rule #samples, #options, #place));
    quote! {
        {
            static #site: ::limiter::__private::Site = #new;
            ::limiter::__private::submit! { ::limiter::__private::Registered(&#site) }
            &#site
        }
    }
}

// Out: Quota::new(3, Duration::from_millis(4000)).burst(5)
fn quota(quota: &Quota) -> TokenStream {
    let permits = quota.permits.tokens("u64");
    let window = duration(quota.window);
    let burst = quota.burst.as_ref().map(|burst| {
        let burst = burst.tokens("u64");
        quote!(.burst(#burst))
    });
    let new = quote_spanned!(at(quota.permits.span())=> ::limiter::__private::Quota::new(#permits, #window));
    quote!(#new #burst)
}

fn options(plan: &Plan) -> TokenStream {
    let Plan { store, mode, .. } = plan;
    // What is computed for each call cannot be checked against the capacity beforehand.
    let cost = match plan.cost {
        Cost::Fixed(permits, _) => permits,
        Cost::Computed(_) => 0,
    };
    let cost = Literal::u64_unsuffixed(cost);
    let longest_wait = duration(plan.wait);
    let on_error = plan.on_error.as_ref().map_or_else(
        || quote!(::core::option::Option::None),
        |choice| quote!(::core::option::Option::Some(::limiter::__private::OnError::#choice)),
    );
    quote! {
        ::limiter::__private::Options {
            cost: #cost,
            longest_wait: #longest_wait,
            store: ::limiter::__private::Store::#store,
            on_error: #on_error,
            mode: ::limiter::__private::Mode::#mode,
        }
    }
}

fn duration(duration: Duration) -> TokenStream {
    let millis = Literal::u128_unsuffixed(duration.as_millis());
    quote!(::core::time::Duration::from_millis(#millis))
}

/// Braces only where they hold something: empty ones would be a warning in the user's code.
fn scoped(lets: &TokenStream, expr: TokenStream) -> TokenStream {
    if lets.is_empty() { expr } else { quote!({ #lets #expr }) }
}
