//! Quotas: permits per window, as `qps` and `window` or as `3/4s` in `limits`.

use std::time::Duration;

use proc_macro2::Span;
use quote::ToTokens as _;
use syn::Error;

use crate::duration;
use crate::number::Number;
use crate::parse::Value;

const MOST_LIMITS: usize = 8;

pub(crate) struct Quota {
    pub(crate) permits: Number,
    pub(crate) window: Duration,
    pub(crate) burst: Option<Number>,
}

impl Quota {
    /// The most permits that ever exist at once, where they were written as a number.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.burst.as_ref().unwrap_or(&self.permits).literal()
    }
}

/// In: `["3/s", "100/m"]`, `[3/s, 100/m]`, `"3/s, 100/m"` or `"[3/s, 100/m]"`
pub(crate) fn limits(value: &Value) -> syn::Result<Vec<Quota>> {
    let elements = value.elements()?;
    if elements.is_empty() || elements.len() > MOST_LIMITS {
        let message =
            format!(r#""limits" takes 1 to {MOST_LIMITS} quotas, such as limits = ["3/s", "100/m"]"#);
        return Err(Error::new_spanned(value, message));
    }
    let mut errors = crate::errors::Errors::default();
    let quotas = elements.iter().filter_map(|element| {
        let read = read(&element.text(), element.span());
        errors.catch(read.map_err(|message| Error::new_spanned(element.to_token_stream(), message)))
    });
    let quotas = quotas.collect();
    errors.finish()?;
    Ok(quotas)
}

pub(crate) fn is_quota(text: &str) -> bool {
    read(text, Span::call_site()).is_ok()
}

/// Reads `3/s` or `3/4s`, or says what to write instead.
fn read(text: &str, span: Span) -> Result<Quota, String> {
    let unreadable = || format!(r#""{text}" is not a quota; write it like "3/s", "100/m" or "1000/1d""#);
    let (permits, window) = text.split_once('/').ok_or_else(unreadable)?;
    let (permits, window) = (permits.trim(), window.trim());
    if !permits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(unreadable());
    }
    let permits = permits.replace('_', "").parse().map_err(|_| unreadable())?;
    if permits == 0 {
        return Err(format!(r#""{text}" lets no call pass; write at least 1"#));
    }
    let window = duration::unit(window).map_or_else(|| duration::parse(window), Ok)?;
    Ok(Quota { permits: Number::Literal(permits, span), window, burst: None })
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;
    use crate::errors::Errors;
    use crate::parse::Args;

    fn quotas(written: &proc_macro2::TokenStream) -> Result<Vec<(u64, u128)>, String> {
        let mut errors = Errors::default();
        let args = Args::parse(quote!(limits = #written), &mut errors);
        let quotas = args.limits.map_or(Ok(Vec::new()), |value| limits(&value)).map_err(|e| e.to_string())?;
        Ok(quotas.iter().map(|q| (q.capacity().unwrap_or(0), q.window.as_millis())).collect())
    }

    #[test]
    fn all_ways_to_write_them_are_one() {
        let expected = Ok(vec![(3, 1_000), (1_000, 60_000), (5, 4_000)]);
        assert_eq!(quotas(&quote!(["3/s", "1_000/m", "5/4s"])), expected);
        assert_eq!(quotas(&quote!([3 / s, 1_000 / m, 5 / 4s])), expected);
        assert_eq!(quotas(&quote!("3/s, 1_000/m, 5/4s")), expected);
        assert_eq!(quotas(&quote!("[3/s, 1_000/m, 5/4s,]")), expected);
        assert_eq!(quotas(&quote!("3/s")), Ok(vec![(3, 1_000)]));
        assert_eq!(quotas(&quote!(3 / s)), Ok(vec![(3, 1_000)]));
    }

    #[test]
    fn what_is_no_quota_is_refused() {
        for written in [
            quote!([]),
            quote!(""),
            quote!(["3"]),
            quote!(["/s"]),
            quote!(["3/"]),
            quote!(["0/s"]),
            quote!(["-3/s"]),
            quote!(["_/s"]),
            quote!(["3/0s"]),
            quote!(["3/s/s"]),
            quote!(["99999999999999999999999/s"]),
            quote!([1 / s, 1 / s, 1 / s, 1 / s, 1 / s, 1 / s, 1 / s, 1 / s, 1 / s]),
        ] {
            assert!(quotas(&written).is_err(), "{written}");
        }
    }

    /// A quota means the same in the attribute as it does in `"3/4s".parse::<limiter::Quota>()`.
    #[test]
    fn the_grammar_is_that_of_the_core() {
        let permits = [
            "3",
            "0",
            "1_000",
            "_1",
            "",
            " 3 ",
            "-3",
            "+3",
            "3.5",
            "18446744073709551615",
            "18446744073709551616",
        ];
        let counts = ["", "4", "0", "_4", "4_", " 4 ", "4  ", "1.5", "-1", "1001", "99999999999999999999"];
        let units = ["ms", "s", "m", "h", "d", "S", "w", "", "us", "s ", "s/s"];
        for permits in permits {
            for count in counts {
                for unit in units {
                    let text = format!("{permits}/{count}{unit}");
                    let ours = read(&text, Span::call_site()).ok().map(|q| (q.capacity(), q.window));
                    let theirs = text.parse::<limiter::Quota>().ok().map(|q| (Some(q.permits()), q.window()));
                    assert_eq!(ours, theirs, "{text:?}");
                }
            }
        }
    }
}
