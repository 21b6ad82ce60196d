//! What is meant: from the options as they were written, and the signature they stand on, to a plan.

use std::iter;
use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, ExprPath, ExprTuple, Ident, Path, Signature, Type, parse_quote};

use crate::cost::{self, Cost};
use crate::errors::Errors;
use crate::flow::{self, Flow};
use crate::function::Function;
use crate::number::Number;
use crate::params::Params;
use crate::parse::{Args, Value, unknown};
use crate::quota::{self, Quota};
use crate::{duration, key};

pub(crate) const MOST_SAMPLES: u64 = 1_000;
const LONGEST_NAME: usize = 200;

/// What is written for a choice, and the variant of the core that it stands for.
type Choices = &'static [(&'static str, &'static str)];
const STRATEGIES: Choices = &[
    ("fixed_window", "FixedWindow"),
    ("sliding_window", "SlidingWindow"),
    ("sliding_log", "SlidingLog"),
    ("token_bucket", "TokenBucket"),
    ("leaky_bucket", "LeakyBucket"),
];
const DEFAULT_STRATEGY: &str = "SlidingWindow";
const STORES: Choices = &[("local", "Local")];
const ON_ERRORS: Choices = &[("local", "Local"), ("allow", "Allow"), ("deny", "Deny")];
const MODES: Choices = &[("enforce", "Enforce"), ("shadow", "Shadow")];

#[expect(clippy::struct_excessive_bools, reason = "each is a matter of its own")]
pub(crate) struct Plan {
    /// `#[cfg_attr(PREDICATE, rate_limit(...))]`: the limit is there where this holds.
    pub(crate) predicate: Option<TokenStream>,
    /// Where the crate `limiter` is found.
    pub(crate) krate: Path,
    /// `None`: module path and function name.
    pub(crate) name: Option<String>,
    pub(crate) strategy: Ident,
    /// At least one, or a mistake was reported.
    pub(crate) quotas: Vec<Quota>,
    pub(crate) samples: Option<Number>,
    pub(crate) cost: Cost,
    pub(crate) wait: Option<Duration>,
    pub(crate) local: bool,
    pub(crate) on_error: Option<Ident>,
    pub(crate) shadow: bool,
    pub(crate) key: Expr,
    pub(crate) unless: Option<Expr>,
    pub(crate) fallback: Option<ExprPath>,
    pub(crate) decision: Option<Ident>,
    pub(crate) flow: Flow,
    /// Nobody can answer for a rejected call, which was reported, or may be a consequence of what was.
    pub(crate) mute: bool,
    /// Whether a check can be written at all.
    pub(crate) writable: bool,
    /// Whether a mistake was reported, so that this plan only serves to find more.
    pub(crate) mistaken: bool,
}

impl Plan {
    /// Leaves out what depends on a mistake; the compiler can still find others in the rest.
    pub(crate) fn forgive(&mut self) {
        let permits = Number::Literal(1, Span::call_site());
        self.quotas = vec![Quota { permits, window: Duration::from_secs(1), burst: None }];
        self.samples = None;
        if !matches!(self.cost, Cost::Computed(_)) {
            self.cost = Cost::Fixed(1, Span::call_site());
        }
        self.mistaken = true;
    }

    /// What was written over the arguments.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let cost = match &self.cost {
            Cost::Computed(expr) => Some(expr),
            Cost::Fixed(..) | Cost::Constant { .. } => None,
        };
        iter::once(&self.key).chain(&self.unless).chain(cost)
    }

    /// Whether only the compiler can tell that the cost is not above the capacity.
    pub(crate) fn cost_is_unchecked(&self) -> bool {
        match self.cost {
            Cost::Fixed(1, _) | Cost::Computed(_) => false,
            Cost::Fixed(..) => self.quotas.iter().any(|quota| quota.capacity().is_none()),
            Cost::Constant { .. } => true,
        }
    }
}

pub(crate) fn check(args: &Args, Function { sig, body, .. }: &Function, errors: &mut Errors) -> Plan {
    let params = Params::of(sig, body);
    let (flow, answer) = flow::of(sig);
    let mute = check_function(args, sig, flow, answer, errors);
    let strategy = choice(args.strategy.as_ref(), "strategy", STRATEGIES, errors);
    check_strategy(args, strategy.as_ref(), errors);
    let quotas = quotas(args, sig, &params, errors);
    let krate = optional(args.krate.as_ref(), krate, errors);
    let fallback = optional(args.fallback.as_ref(), fallback, errors);
    Plan {
        mute: mute || (fallback.is_none() && (args.fallback.is_some() || !args.all_read())),
        writable: sig.constness.is_none()
            && (flow != Flow::Sync || args.store.is_some())
            && krate.is_some() == args.krate.is_some(),
        mistaken: false,
        predicate: None,
        krate: krate.unwrap_or_else(|| parse_quote!(::limiter)),
        name: optional(args.name.as_ref(), name, errors),
        strategy: strategy.unwrap_or_else(|| variant(DEFAULT_STRATEGY)),
        samples: optional(args.samples.as_ref(), |value| samples(value, sig, &params), errors),
        cost: Cost::read(args, sig, &params, &quotas, errors),
        quotas,
        wait: optional(args.wait.as_ref(), length_of_time, errors),
        local: choice(args.store.as_ref(), "store", STORES, errors).is_some(),
        on_error: choice(args.on_error.as_ref(), "on_error", ON_ERRORS, errors),
        shadow: choice(args.mode.as_ref(), "mode", MODES, errors).is_some_and(|mode| mode == "Shadow"),
        key: optional(args.key.as_ref(), |value| key::resolve(value, &params), errors)
            .unwrap_or_else(|| parse_quote!(())),
        unless: optional(
            args.unless.as_ref(),
            |value| expression(value, "unless", r#"unless = "p.is_admin""#),
            errors,
        ),
        fallback,
        decision: optional(args.decision.as_ref(), |value| decision(value, &params), errors),
        flow,
    }
}

fn optional<T>(
    value: Option<&Value>,
    read: impl FnOnce(&Value) -> syn::Result<T>,
    errors: &mut Errors,
) -> Option<T> {
    value.and_then(|value| errors.catch(read(value)))
}

/// A function must be able to decide, to wait and to say no in the way its options ask for.
/// Whether nobody can say no is the answer.
fn check_function(
    args: &Args,
    sig: &Signature,
    flow: Flow,
    answer: Option<&Type>,
    errors: &mut Errors,
) -> bool {
    let name = &sig.ident;
    if let Some(constness) = &sig.constness {
        errors
            .at(constness, "a const fn can run at compile time and cannot be limited; take the `const` away");
    } else if flow == Flow::Sync {
        if args.store.is_none() {
            let hint = answer.and_then(flow::hidden_future).map_or_else(String::new, |future| {
                format!("; if `{future}` is a future, write it out: Pin<Box<dyn Future<Output = T>>>")
            });
            let message = format!(
                r#""{name}" is not async and cannot wait for a shared limiter: write store = "local" to decide in this process, or make it an `async fn`{hint}"#
            );
            errors.at(name, message);
        }
        if let Some(wait) = &args.wait {
            let message = r#"only an `async fn` can wait; leave "wait" out, or make it one"#;
            errors.at(wait, message);
        }
    }
    let mute = match answer {
        None => Some(name.to_token_stream()),
        Some(Type::ImplTrait(ty)) => Some(ty.to_token_stream()),
        Some(_) => None,
    };
    // In shadow mode no call is rejected.
    let shadow = args.mode.as_ref().is_some_and(|mode| mode.text() == "shadow");
    let mute = mute.filter(|_| args.fallback.is_none() && !shadow);
    if let Some(place) = &mute {
        let message = format!(
            r#"a call of "{name}" cannot say that it was rejected: return a Result, or name a "fallback""#
        );
        errors.at(place, message);
    }
    mute.is_some()
}

/// `burst` and `samples` mean something to some strategies only.
fn check_strategy(args: &Args, strategy: Option<&Ident>, errors: &mut Errors) {
    // An unknown strategy is one mistake, not three.
    if args.strategy.is_some() && strategy.is_none() {
        return;
    }
    let is = |variant: &str| strategy.map_or(variant == DEFAULT_STRATEGY, |strategy| strategy == variant);
    if let Some(burst) = &args.burst
        && !is("TokenBucket")
        && !is("LeakyBucket")
    {
        errors.at(
            burst,
            r#""burst" belongs to "token_bucket" and "leaky_bucket"; leave it out, or choose one of these"#,
        );
    }
    if let Some(samples) = &args.samples
        && !is("SlidingWindow")
    {
        errors.at(samples, r#""samples" belongs to "sliding_window"; leave it out, or choose that"#);
    }
}

fn quotas(args: &Args, sig: &Signature, params: &Params, errors: &mut Errors) -> Vec<Quota> {
    if let Some(limits) = &args.limits {
        for (option, value) in [("qps", &args.qps), ("window", &args.window), ("burst", &args.burst)] {
            if let Some(value) = value {
                let message = match option {
                    "burst" => {
                        r#""burst" goes with "qps" and "window", not with "limits"; leave one of the two out"#
                            .to_owned()
                    }
                    _ => format!(r#""{option}" is part of "limits" already; leave one of the two out"#),
                };
                errors.at(value, message);
            }
        }
        return errors.catch(quota::limits(limits)).unwrap_or_default();
    }
    if args.qps.is_none() && args.all_read() {
        let message = r#""qps" is missing: write how many calls may pass, such as qps = 3"#;
        errors.push(Error::new(Span::call_site(), message));
    }
    let permits = optional(args.qps.as_ref(), |value| constant(value, "qps", sig, params), errors);
    let window = optional(args.window.as_ref(), length_of_time, errors).unwrap_or(Duration::from_secs(1));
    let burst = optional(args.burst.as_ref(), |value| constant(value, "burst", sig, params), errors);
    permits.map(|permits| Quota { permits, window, burst }).into_iter().collect()
}

/// A number that is the same for every call: nothing of the call stands in it, nor of its generics.
fn constant(value: &Value, option: &'static str, sig: &Signature, params: &Params) -> syn::Result<Number> {
    let text = value.text();
    if option == "qps" && quota::is_quota(&text) {
        let message = format!(r#""{text}" is a quota; write limits = ["{text}"], or "qps" and "window""#);
        return Err(Error::new_spanned(value, message));
    }
    let number = Number::parse(value, option)?;
    let Number::Constant(expr, _) = &number else { return Ok(number) };
    let names = cost::names(expr.to_token_stream());
    let message = if names.iter().any(|name| name == "Self") {
        format!(r#""{option}" cannot use `Self`; write the name of the type, or a constant outside of it"#)
    } else if let Some(name) = names.iter().find(|name| cost::is_generic(name, sig)) {
        format!(
            r#""{option}" is the same for every `{name}` and cannot use it; write a number or a constant"#
        )
    } else if let Some(name) = names.iter().find(|name| *name == "self" || params.bindings().contains(name)) {
        format!(
            r#""{option}" is the same for every call and cannot use "{name}"; write a number or a constant"#
        )
    } else {
        return Ok(number);
    };
    Err(Error::new_spanned(value, message))
}

fn samples(value: &Value, sig: &Signature, params: &Params) -> syn::Result<Number> {
    let samples = constant(value, "samples", sig, params)?;
    match samples.literal() {
        Some(number) if number > MOST_SAMPLES => {
            Err(Error::new_spanned(value, format!(r#""samples" is at most {MOST_SAMPLES}"#)))
        }
        _ => Ok(samples),
    }
}

fn length_of_time(value: &Value) -> syn::Result<Duration> {
    duration::parse(&value.text()).map_err(|message| Error::new_spanned(value, message))
}

fn choice(value: Option<&Value>, option: &str, choices: Choices, errors: &mut Errors) -> Option<Ident> {
    let value = value?;
    let written = value.text();
    if let Some((_, chosen)) = choices.iter().find(|(name, _)| *name == written) {
        return Some(variant(chosen));
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    // `Strategy::TokenBucket` is told what its last part should be.
    let last = written.rsplit("::").next().unwrap_or(&written);
    errors.at(value, unknown(option, last, &names));
    None
}

fn variant(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

fn name(value: &Value) -> syn::Result<String> {
    if matches!(value, Value::Bare(_)) {
        value.parse::<Path>(|| r#"write the name in quotes, such as name = "orders""#.to_owned())?;
    }
    let name = value.text();
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
        let message = format!(
            r#""name" is 1 to {LONGEST_NAME} bytes long, without control characters, such as name = "orders""#
        );
        return Err(Error::new_spanned(value, message));
    }
    Ok(name)
}

pub(crate) fn expression(value: &Value, option: &str, example: &str) -> syn::Result<Expr> {
    let expr = value.parse(|| {
        let text = value.text();
        if syn::parse_str::<ExprTuple>(&format!("({text})")).is_ok() {
            return format!(r#"write several keys in parentheses: {option} = "({text})""#);
        }
        format!(r#""{text}" is not an expression; write one over the arguments, such as {example}"#)
    })?;
    match expr {
        Expr::Closure(_) => {
            let message =
                format!(r#""{option}" is an expression over the arguments, not a closure; write {example}"#);
            Err(Error::new_spanned(value, message))
        }
        expr => Ok(expr),
    }
}

fn fallback(value: &Value) -> syn::Result<ExprPath> {
    value.parse(|| r#""fallback" is the name of a function, such as "busy" or "Self::busy""#.to_owned())
}

fn krate(value: &Value) -> syn::Result<Path> {
    let expected = || r#""crate" is the path to this crate, such as crate = "shop::limiter""#.to_owned();
    let path = |input: ParseStream<'_>| input.call(Path::parse_mod_style);
    let parsed = match value {
        Value::Quoted(quoted) => quoted.parse_with(path),
        Value::Bare(tokens) => path.parse2(tokens.clone()),
    };
    parsed.map_err(|_| Error::new_spanned(value, expected()))
}

fn decision(value: &Value, params: &Params) -> syn::Result<Ident> {
    let example = || r#""decision" is a name for the body to use, such as decision = d"#.to_owned();
    let name = value.parse(example)?;
    if params.bindings().contains(&name) {
        let message = format!(r#""decision" would hide the parameter "{name}"; choose another name"#);
        return Err(Error::new_spanned(value, message));
    }
    Ok(name)
}

/// The body can see one decision of a name; of two conditional limits, only one may be there at a time.
pub(crate) fn check_decisions(plans: &mut [Plan], errors: &mut Errors) {
    for index in 1..plans.len() {
        let (earlier, [plan, ..]) = plans.split_at_mut(index) else { return };
        let hides = earlier.iter().any(|other| {
            other.decision == plan.decision && (other.predicate.is_none() || plan.predicate.is_none())
        });
        if let Some(name) = plan.decision.take_if(|_| hides) {
            let message =
                format!(r#""decision" would hide the "{name}" of another limit; choose another name"#);
            errors.at(name, message);
        }
    }
}
