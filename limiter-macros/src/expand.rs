//! From the plan to the tokens: a check in front of the body, a few lines that call into the core.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Expr, ReturnType, Signature, parse_quote};

use crate::check::{MOST_SAMPLES, Plan};
use crate::cost::Cost;
use crate::flow::Flow;
use crate::function::{Body, Function};
use crate::hygiene::{at, local};
use crate::number::integer;
use crate::params::Params;
use crate::quota::Quota;

// In:  async fn f(PARAMETERS) -> T { BODY }
// Out: async fn f(PARAMETERS) -> T { CHECK BODY }
//
// In:  fn f(PARAMETERS) -> impl Future<Output = T> { BODY }
// Out: fn f(PARAMETERS) -> impl Future<Output = T> { async move { CHECK (move || { BODY })().await } }
//
// Several limits are several checks, in the order they were written.
pub(crate) fn expand(plans: &[Plan], function: Function) -> TokenStream {
    let mut params = Params::of(&function.sig, &function.body);
    let Function { attributes, visibility, mut sig, body } = function;
    let [plan, ..] = plans else { return TokenStream::new() };
    if plans.iter().any(|plan| plan.fallback.is_some()) {
        params.rename(&mut sig);
    }
    let mut check: TokenStream =
        plans.iter().enumerate().map(|(index, plan)| check(plan, index, &sig, &params)).collect();
    let rebound = params.rebind(&plan.krate);
    let binds = !rebound.is_empty() || plans.iter().any(|plan| plan.decision.is_some());
    check.extend(rebound);
    check.extend(params.used_by(plans.iter().flat_map(Plan::expressions)));
    check.extend(plans.iter().filter(|plan| plan.mistaken).map(|plan| used(plan, &params)));
    let limited = body.behind(&check, &body.statements);
    let limited = match plan.flow {
        // Braces of our edition, in which what the body borrows for its last expression is gone before what we bind.
        Flow::Sync | Flow::Async if binds => quote!({ #limited }),
        Flow::Sync | Flow::Async => limited,
        Flow::Future | Flow::BoxedFuture => future(&check, &body, &sig.output, plan),
    };
    let block = body.with(&limited);
    quote!(#(#attributes)* #visibility #sig #block)
}

/// The function as it was written, without a limit.
pub(crate) fn unlimited(plans: &[Plan], function: &Function) -> TokenStream {
    let Function { attributes, visibility, sig, body } = function;
    let (params, statements) = (Params::of(sig, body), &body.statements);
    let used = plans.iter().map(|plan| used(plan, &params));
    let decisions = plans.iter().filter_map(|Plan { krate, decision, .. }| {
        let name = decision.as_ref()?;
        Some(quote!(let #name = #krate::__private::Decision::exempt();))
    });
    let block = body.with(&quote!(#(#decisions)* #(#used)* #statements));
    quote!(#(#attributes)* #visibility #sig #block)
}

/// What a mistaken attribute would have used is no mistake of its own.
fn used(plan: &Plan, params: &Params) -> TokenStream {
    let (params, decision) = (params.used(), plan.decision.iter());
    quote!(#params #(let _ = &#decision;)*)
}

/// A body that is one async block takes the check inside; any other makes its future behind the check.
fn future(
    check: &TokenStream,
    body: &Body,
    output: &ReturnType,
    Plan { krate, flow, .. }: &Plan,
) -> TokenStream {
    let (async_block, output) = match flow {
        Flow::BoxedFuture => (body.pinned_async_block(), Some(output)),
        _ => (body.async_block(), None),
    };
    let wrap = match (flow, &async_block) {
        (Flow::BoxedFuture, _) => quote!(#krate::__private::Box::pin),
        (_, Some(inside)) => {
            let limited = body.behind(check, inside);
            return quote!(async move { #limited });
        }
        // Nobody shall be told that this could be an `async fn`: what was written could not.
        (_, None) => quote!(#krate::__private::identity),
    };
    let limited = match async_block {
        Some(inside) => body.behind(check, &inside),
        None => {
            let block = body.block(&body.statements);
            quote!(#check (move || #output #block)().await)
        }
    };
    quote!(#wrap(async move { #limited }))
}

// Out: {
//          use ::limiter::__private as __limiter;
//          static SITE: Site = Site::new(RULE);
//          submit! { Registered(&SITE) }
//          let mut told = Told::Nothing;
//          let entry = pass(&SITE, &(KEY), COST, &mut told);
//          if let Some(why) = match entry {
//              Entry::Told => told.settled().await.rejected(),
//              entry => entry.refused(&SITE, &told),
//          } { return ANSWER; }
//      }
//
// Nothing but `told` lives while the call waits: the rest stays in registers.
//
// With `decision = "d"`:
//
//      let d = {
//          ...
//          let entry = enter(&SITE, &(KEY), COST);
//          match entry.await { Ok(decision) => decision, Err(why) => { return ANSWER; } }
//      };
fn check(plan: &Plan, index: usize, sig: &Signature, params: &Params) -> TokenStream {
    let [entry, told, decision, why] = ["entry", "told", "decision", "why"].map(local);
    let (enter, dot_await) = match (plan.flow, &plan.decision) {
        (Flow::Sync, Some(_)) => (quote!(enter_sync), TokenStream::new()),
        (Flow::Sync, None) => (quote!(pass_sync), TokenStream::new()),
        // Whom it asks answers at once.
        (_, None) if plan.local && plan.wait.is_none() => (quote!(pass_sync), TokenStream::new()),
        (_, Some(_)) => (quote!(enter), quote!(.await)),
        (_, None) => (quote!(pass), quote!(.await)),
    };
    let site_name = item("SITE");
    let (site, quotas) = site(plan, index, sig);
    let (cost, constant_cost) = cost(plan);
    let (twins, [key, cost]) = params.borrow([plan.key.clone(), cost]);
    let key = quote_spanned!(at(key.span())=> &(#key));
    let place = plan.decision.is_none().then(|| quote!(, &mut #told));
    let call = scoped(&twins, quote!(__limiter::#enter(&#site_name, #key, #cost #place)));
    let answer = answer(plan, sig, params, &why);
    let imports = match plan.fallback {
        Some(_) if plan.flow != Flow::Sync => {
            quote!(::{self as __limiter, FutureAnswer as _, ValueAnswer as _})
        }
        _ => quote!(as __limiter),
    };
    // A statement of its own, so that what the key borrowed is free again before the call waits or is answered.
    let mut decide = match plan.decision {
        Some(_) => quote! {
            let #entry = #call;
            match #entry #dot_await {
                __limiter::Ok(#decision) => #decision,
                __limiter::Err(#why) => { #answer }
            }
        },
        None if plan.flow == Flow::Sync => quote! {
            let mut #told = __limiter::Told::Nothing;
            let #entry = #call;
            if let __limiter::Some(#why) = #entry.rejected(&#site_name, &mut #told) { #answer }
        },
        None => quote! {
            let mut #told = __limiter::Told::Nothing;
            let #entry = #call;
            if let __limiter::Some(#why) = match #entry {
                __limiter::Entry::Told => #told.settled().await.rejected(),
                #entry => #entry.refused(&#site_name, &#told),
            } { #answer }
        },
    };
    if let Some(unless) = &plan.unless {
        let (twins, [unless]) = params.borrow([unless.clone()]);
        let unless = scoped(&twins, unless.into_token_stream());
        let exempt = local("exempt");
        decide = match plan.decision {
            Some(_) => quote! {
                let #exempt: __limiter::bool = #unless;
                if #exempt { __limiter::Decision::exempt() } else { #decide }
            },
            None => quote! {
                let #exempt: __limiter::bool = #unless;
                if !#exempt { #decide }
            },
        };
    }
    let Plan { krate, decision, .. } = plan;
    let cfg = plan.predicate.as_ref().map(|predicate| quote!(#[cfg(#predicate)]));
    let check = quote! {{
        use #krate::__private #imports;
        #quotas
        #constant_cost
        static #site_name: __limiter::Site = #site;
        __limiter::submit! { __limiter::Registered(&#site_name) }
        #decide
    }};
    match decision {
        Some(name) => quote!(#cfg let #name = #check;),
        None => quote!(#cfg #check),
    }
}

/// What a call takes, and the constant that it is where it must be compared with the capacity.
///
/// In: `cost = MOST_ROWS`
/// Out: `const COST: u64 = affordable(QUOTAS, MOST_ROWS);`, in the call itself where that may need generics.
fn cost(plan: &Plan) -> (Expr, Option<TokenStream>) {
    let (quotas, name) = (item("QUOTAS"), item("COST"));
    let affordable = |span, cost| quote_spanned!(at(span)=> __limiter::affordable(#quotas, #cost));
    let constant =
        |affordable| (parse_quote!(#name), Some(quote!(const #name: __limiter::u64 = #affordable;)));
    match &plan.cost {
        Cost::Computed(expr) => (expr.clone(), None),
        Cost::Fixed(permits, span) if plan.cost_is_unchecked() => {
            constant(affordable(*span, Literal::u64_unsuffixed(*permits).into_token_stream()))
        }
        Cost::Fixed(permits, _) => {
            let permits = Literal::u64_suffixed(*permits);
            (parse_quote!(#permits), None)
        }
        Cost::Constant { expr, generic } => {
            let affordable = affordable(expr.span(), integer(expr));
            if *generic { (parse_quote!(const { #affordable }), None) } else { constant(affordable) }
        }
    }
}

// Out: return busy(p, why);
fn answer(plan: &Plan, sig: &Signature, params: &Params, why: &Ident) -> TokenStream {
    if plan.fallback.is_none() && (plan.shadow || plan.mute) {
        return quote!(__limiter::unreachable!("no call is rejected in shadow mode, but this was: {}", #why));
    }
    let Some(fallback) = &plan.fallback else {
        let span = match &sig.output {
            ReturnType::Type(_, ty) => at(ty.span()),
            ReturnType::Default => Span::mixed_site(),
        };
        return quote_spanned!(span=> return __limiter::from_rejected(#why););
    };
    // The last part of a path is the one that names the function.
    let span = fallback.path.segments.last().map_or_else(|| fallback.span(), |segment| segment.ident.span());
    let span = at(span);
    let there = |name: &Ident| Ident::new(&name.to_string(), span);
    let (arguments, why) = (params.arguments(span), there(why));
    let call = quote_spanned!(span=> #fallback(#arguments #why));
    // Where the fallback never returns, neither do we.
    let answer = |value| {
        let allow = quote!(#[allow(unreachable_code, clippy::diverging_sub_expression)]);
        quote_spanned!(span=> #allow return #value;)
    };
    if plan.flow == Flow::Sync {
        return answer(call);
    }
    let [value, later] = ["answer", "later"].map(|name| there(&local(name)));
    // A statement of its own, so that nothing of the answer is held while it is waited for.
    let resolve = quote_spanned! {span=>
        let #later = match __limiter::Answered::new(#call).__limiter_resolve() {
            __limiter::Ok(#value) => return #value,
            __limiter::Err(#later) => #later,
        };
    };
    let answer = answer(quote_spanned!(span=> #later.await));
    quote!(#resolve #answer)
}

/// The site, and the quotas where they stand apart: several, or such that a constant cost must be compared with.
///
/// Out: `Site::new(Rule::new(NAME, Strategy::SlidingWindow, quota(3, 4000))).wait(100)`
fn site(plan: &Plan, index: usize, sig: &Signature) -> (TokenStream, Option<TokenStream>) {
    let function = match index {
        0 => format!("::{}", sig.ident.unraw()),
        // The second limit of a function is another one.
        _ => format!("::{}#{}", sig.ident.unraw(), index + 1),
    };
    let function = quote!(__limiter::concat!(__limiter::module_path!(), #function));
    let (name, of) = match &plan.name {
        None => (function, None),
        Some(name) => (quote!(#name), Some(quote!(.of(#function)))),
    };
    let strategy = &plan.strategy;
    let strategy = quote!(__limiter::Strategy::#strategy);
    let quotas: Vec<_> = plan.quotas.iter().map(quota).collect();
    let apart = quotas.len() != 1 || plan.cost_is_unchecked();
    let (rule, apart) = if apart {
        let const_name = item("QUOTAS");
        (
            quote!(with_limits(#name, #strategy, #const_name)),
            Some(quote!(const #const_name: &[__limiter::Quota] = &[#(#quotas),*];)),
        )
    } else {
        (quote!(new(#name, #strategy, #(#quotas)*)), None)
    };
    let samples = plan.samples.as_ref().map(|samples| {
        let samples = samples.tokens("u32", MOST_SAMPLES);
        quote!(.samples(#samples))
    });
    let wait = plan.wait.map(|wait| {
        let millis = millis(wait);
        quote!(.wait(#millis))
    });
    let local = plan.local.then(|| quote!(.local()));
    let on_error = plan.on_error.as_ref().map(|choice| quote!(.on_error(__limiter::OnError::#choice)));
    let shadow = plan.shadow.then(|| quote!(.shadow()));
    (quote!(__limiter::Site::new(__limiter::Rule::#rule #samples) #of #wait #local #on_error #shadow), apart)
}

// Out: quota(3, 4000).burst(5)
fn quota(quota: &Quota) -> TokenStream {
    let permits = quota.permits.tokens("u64", u64::MAX);
    let window = millis(quota.window);
    let burst = quota.burst.as_ref().map(|burst| {
        let burst = burst.tokens("u64", u64::MAX);
        quote!(.burst(#burst))
    });
    let new = quote_spanned!(at(quota.permits.span())=> __limiter::quota(#permits, #window));
    quote!(#new #burst)
}

fn millis(duration: Duration) -> Literal {
    Literal::u128_unsuffixed(duration.as_millis())
}

/// Items are not hygienic, and the user's constant expressions stand beside: a name that nobody writes.
fn item(name: &str) -> Ident {
    Ident::new(&format!("__LIMITER_{name}"), Span::mixed_site())
}

/// Braces only where they hold something: empty ones would be a warning in the user's code.
fn scoped(lets: &TokenStream, expr: TokenStream) -> TokenStream {
    if lets.is_empty() { expr } else { quote!({ #lets #expr }) }
}
