//! The attribute and the derive of the `limiter` crate: parse -> check -> expand, each a file.

mod check;
mod cost;
mod derive;
mod duration;
mod errors;
mod expand;
mod flow;
mod function;
mod hygiene;
mod key;
mod number;
mod params;
mod parse;
mod quota;
mod suggest;
#[cfg(test)]
mod tests;
mod through;
mod twin;

use proc_macro2::TokenStream;
use quote::quote;

/// Gives a function a rate limit.
///
/// ```
/// # use limiter::{Rejected, rate_limit};
/// # struct Person { id: u64, name: String }
/// #[rate_limit(strategy = "sliding_window", key = "id", qps = 3, window = "4s", fallback = "busy")]
/// async fn get_order(p: Person) -> String { format!("the order of {}", p.name) }
///
/// async fn busy(p: Person, why: Rejected) -> String { format!("try again in {:?}", why.retry_after()) }
/// ```
///
/// Every option may be written quoted or bare (`key = "p.id"`, `key = p.id`).
///
/// | option | meaning | default |
/// | --- | --- | --- |
/// | `name` | the limit's name | module path and function name |
/// | `strategy` | `fixed_window`, `sliding_window`, `sliding_log`, `token_bucket`, `leaky_bucket` | `sliding_window` |
/// | `key` | whose limit it is: a parameter, a field of the only one, or an expression | one limit for all |
/// | `qps` | permits per window, a constant expression above 0 | required, or `limits` |
/// | `window` | `"250ms"`, `"4s"`, `"1m"`, `"1h"`, `"1d"` | `"1s"` |
/// | `limits` | several quotas at once, `["3/s", "100/m", "1000/1d"]` | |
/// | `burst` | the capacity of `token_bucket` and `leaky_bucket` | `qps` |
/// | `samples` | into how many samples `sliding_window` cuts its window | 10 |
/// | `cost` | permits that one call takes: a number, or an expression over the arguments | 1 |
/// | `wait` | how long a call may wait for its turn instead of being rejected | it does not wait |
/// | `fallback` | the function that answers for a rejected call | the return type answers |
/// | `store` | `"local"`: this process alone, whatever is installed | the installed limiter |
/// | `on_error` | when the shared limiter cannot answer: `"local"`, `"allow"`, `"deny"` | `"local"` |
/// | `unless` | an expression over the arguments; where it is true the call is not limited | |
/// | `mode` | `"enforce"`, or `"shadow"`: decide and report, but let every call through | `"enforce"` |
/// | `decision` | a name under which the body can read the `Decision` that let it in | |
/// | `crate` | the path to this crate, where it has another name: `"shop::limiter"` | `::limiter` |
///
/// # Several on one function
///
/// They are checked in the order written, each with its own key. A call that a later one rejects keeps what it has taken
/// from the earlier ones; to take from all or from none, write one with `limits`. The second limit is called
/// `path::function#2`, unless it has a `name`. They know each other as `rate_limit`: imported under another name
/// (`use limiter::rate_limit as limit`), each needs a `name`, and the lowest is checked first.
///
/// ```
/// # use limiter::{Rejected, rate_limit};
/// #[rate_limit(key = "user", qps = 3)]
/// #[rate_limit(key = "tenant", qps = 100)]
/// async fn search(tenant: u32, user: u64) -> Result<(), Rejected> { Ok(()) }
/// ```
#[proc_macro_attribute]
pub fn rate_limit(
    attribute: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    limit(attribute.into(), &item.into()).into()
}

/// Lets a type be the `key` of a limit.
///
/// A struct with one field has the key of that field; all other types are told apart by their fields and variants.
///
/// Where the crate has another name, `#[limit_key(crate = "shop::limiter")]` says which.
#[proc_macro_derive(LimitKey, attributes(limit_key))]
pub fn derive_limit_key(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive::limit_key(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A mistake breaks one line, not the crate: the item stays, and so do the parts of the check that can.
fn limit(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    match function::Function::parse(item.clone()) {
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#error #item)
        }
        Ok(function) => limited(attribute, function),
    }
}

fn limited(attribute: TokenStream, mut function: function::Function) -> TokenStream {
    let mut errors = errors::Errors::default();
    let first = function::Limit { options: attribute, predicate: None };
    let limits = std::iter::once(first).chain(function.take_limits());
    let plan = |function::Limit { options, predicate }| {
        let args = parse::Args::parse(options, &mut errors);
        check::Plan { predicate, ..check::check(&args, &function, &mut errors) }
    };
    let mut plans: Vec<_> = limits.map(plan).collect();
    check::check_decisions(&mut plans, &mut errors);
    let Err(errors) = errors.finish() else { return expand::expand(&plans, function) };
    plans.iter_mut().for_each(check::Plan::forgive);
    let errors = errors.into_compile_error();
    let function = if plans.iter().all(|plan| plan.writable) {
        expand::expand(&plans, function)
    } else {
        expand::unlimited(&plans, &function)
    };
    quote!(#errors #function)
}
