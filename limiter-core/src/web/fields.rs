//! The fields by which a response tells of limits, after the IETF draft `draft-ietf-httpapi-ratelimit-headers-11`:
//! `RateLimit-Policy: "orders";q=3;w=4` and `RateLimit: "orders";r=0;t=2`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use crate::printable::printable;
use crate::{Decision, Quota, Reason, Rejected, Rule};

pub(crate) const POLICY: &str = "ratelimit-policy";
pub(crate) const LIMIT: &str = "ratelimit";

/// One field of a response: its name in lower case, and its value in printable ASCII.
pub(crate) type Field = (&'static str, String);

/// Adds the fields of every limit that a request met to its response, whether it was admitted or not, also those of
/// functions deep below the handler.
///
/// It is a layer for axum, tonic and all that is built on tower, and a middleware for actix-web.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// # extern crate limiter_core as limiter;
/// use axum::{Router, routing::get};
/// use limiter::web::RateLimitFields;
///
/// let shop: Router = Router::new()
///     .route("/order", get(|| async { "ordered" }))
///     .layer(RateLimitFields::new());
/// # }
/// ```
///
/// A limit with several quotas is a policy for each of them, called `"search 3/1s"` and `"search 100/1m"`; `r` and `t`
/// are then those of all together. `t` is the time until all permits are back, and for a rejected request the time to
/// retry after. Whole seconds are rounded up. Limits in shadow mode, and those met in tasks that the request spawned, are
/// not shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateLimitFields {
    x_rate_limit: bool,
}

impl RateLimitFields {
    /// The fields of the IETF draft: `RateLimit-Policy` and `RateLimit`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (in seconds from now), which have room
    /// for one limit: the one that rejected the request, or else the one with the fewest permits left.
    #[must_use]
    pub fn x_rate_limit(self) -> Self {
        Self { x_rate_limit: true }
    }

    /// The fields for a request that met these limits.
    pub(crate) fn of(self, met: &[Met]) -> Vec<Field> {
        let mut fields = Vec::new();
        if !met.is_empty() {
            fields.push((POLICY, policies(met)));
        }
        if met.iter().any(|limit| limit.standing.is_some()) {
            fields.push((LIMIT, limits(met)));
        }
        if self.x_rate_limit
            && let Some((limit, standing)) = tightest(met)
        {
            fields.push(("x-ratelimit-limit", limit.last_word().permits().to_string()));
            fields.push(("x-ratelimit-remaining", standing.remaining.to_string()));
            fields.push(("x-ratelimit-reset", standing.seconds.to_string()));
        }
        fields
    }
}

/// One limit that a request met, and how it stood then.
#[derive(Clone)]
pub(crate) struct Met {
    rule: Rule,
    /// Which of the rule's quotas had the last word.
    quota: usize,
    rejected: bool,
    /// Nothing where nobody could be asked.
    standing: Option<Standing>,
}

#[derive(Clone, Copy)]
struct Standing {
    remaining: u64,
    seconds: u64,
}

impl Met {
    pub(crate) fn new(rule: &Rule, decision: &Decision) -> Self {
        let (remaining, reset_after) = (decision.remaining(), decision.reset_after());
        // Nobody who has no permits has them all back at once: so is a standing written that nobody knows.
        let known = remaining > 0 || !reset_after.is_zero();
        let seconds = whole_seconds(decision.retry_after().unwrap_or(reset_after));
        Self {
            rule: rule.clone(),
            quota: decision.quota().into(),
            rejected: !decision.is_allowed(),
            standing: known.then_some(Standing { remaining, seconds }),
        }
    }

    pub(crate) fn rejected(why: &Rejected) -> Self {
        let known = why.reason() != Reason::Unavailable;
        let seconds = whole_seconds(why.retry_after().unwrap_or_else(|| why.reset_after()));
        Self {
            rule: why.whole_rule().clone(),
            quota: why.quota(),
            rejected: true,
            standing: known.then_some(Standing { remaining: why.remaining(), seconds }),
        }
    }

    /// What a request tells that met one limit twice: what is worse.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        let same = self.rule.name() == other.rule.name();
        if same && other.urgency() <= self.urgency() {
            *self = other.clone();
        }
        same
    }

    /// The smaller, the sooner it matters to the client.
    fn urgency(&self) -> (bool, u64) {
        (!self.rejected, self.standing.map_or(u64::MAX, |standing| standing.remaining))
    }

    fn last_word(&self) -> Quota {
        self.rule.quotas()[self.quota]
    }
}

fn policies(met: &[Met]) -> String {
    list(met, |limit, quota, field| {
        write_name(field, &limit.rule, quota);
        let (permits, window) = (integer(quota.permits()), integer(whole_seconds(quota.window())));
        let _ = write!(field, ";q={permits};w={window}");
        if quota.capacity() != quota.permits() {
            let _ = write!(field, ";limiter-burst={}", integer(quota.capacity()));
        }
    })
}

fn limits(met: &[Met]) -> String {
    list(met, |limit, quota, field| {
        if let Some(Standing { remaining, seconds }) = limit.standing {
            write_name(field, &limit.rule, quota);
            let _ = write!(field, ";r={};t={}", integer(remaining), integer(seconds));
        }
    })
}

/// A list with what `write` has to say of each quota.
fn list(met: &[Met], write: impl Fn(&Met, &Quota, &mut String)) -> String {
    let mut field = String::with_capacity(64);
    for limit in met {
        for quota in limit.rule.quotas() {
            let end = field.len();
            field.push_str(if end > 0 { ", " } else { "" });
            let start = field.len();
            write(limit, quota, &mut field);
            if field.len() == start {
                field.truncate(end);
            }
        }
    }
    field
}

fn tightest(met: &[Met]) -> Option<(&Met, Standing)> {
    let known = met.iter().filter_map(|limit| Some((limit, limit.standing?)));
    known.min_by_key(|(limit, _)| limit.urgency())
}

/// What a client knows a quota by: the rule's name, and the quota itself where the rule has several.
pub(crate) fn policy_name<'a>(rule: &'a Rule, quota: &Quota) -> Cow<'a, str> {
    let name = printable(rule.name());
    if rule.quotas().len() == 1 { name } else { format!("{name} {quota}").into() }
}

/// Writes it as a string of structured fields (RFC 9651).
fn write_name(field: &mut String, rule: &Rule, quota: &Quota) {
    field.push('"');
    for sign in policy_name(rule, quota).chars() {
        if matches!(sign, '"' | '\\') {
            field.push('\\');
        }
        field.push(sign);
    }
    field.push('"');
}

/// An integer of structured fields has 15 digits at most.
fn integer(number: u64) -> u64 {
    number.min(999_999_999_999_999)
}

/// Rounded up, so that whoever comes back then is admitted.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalLimiter, ManualClock, Strategy};

    fn value(fields: &[Field], name: &str) -> Option<String> {
        fields.iter().find(|field| field.0 == name).map(|field| field.1.clone())
    }

    fn rule(name: &'static str, quotas: &[&str]) -> Rule {
        let quotas: Vec<Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
        Rule::try_new(name, Strategy::SlidingLog, quotas).unwrap()
    }

    #[test]
    fn a_limit_tells_what_it_is_and_how_it_stands() {
        let (orders, clock) = (rule("orders", &["3/4s"]), ManualClock::new());
        let limiter = LocalLimiter::builder().clock(clock.clone()).build();
        let ask = || Met::new(&orders, &limiter.check_sync(&orders, "alice", 1));
        let fields = RateLimitFields::new().of(&[ask()]);
        assert_eq!(value(&fields, POLICY).unwrap(), r#""orders";q=3;w=4"#);
        assert_eq!(value(&fields, LIMIT).unwrap(), r#""orders";r=2;t=4"#);
        assert_eq!(fields.len(), 2);

        ask();
        ask();
        clock.advance(Duration::from_millis(2001));
        let fields = RateLimitFields::new().x_rate_limit().of(&[ask()]);
        assert_eq!(value(&fields, LIMIT).unwrap(), r#""orders";r=0;t=2"#);
        let x = ["limit", "remaining", "reset"].map(|name| value(&fields, &format!("x-ratelimit-{name}")));
        assert_eq!(x.map(Option::unwrap), ["3", "0", "2"]);
    }

    #[test]
    fn several_limits_and_several_quotas_are_lists() {
        let (search, orders) = (rule("search", &["3/s", "100/m"]), rule("orders", &["1/4s"]));
        let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
        let met = [&search, &orders].map(|rule| Met::new(rule, &limiter.check_sync(rule, "alice", 1)));
        let fields = RateLimitFields::new().x_rate_limit().of(&met);
        assert_eq!(
            value(&fields, POLICY).unwrap(),
            r#""search 3/1s";q=3;w=1, "search 100/1m";q=100;w=60, "orders";q=1;w=4"#
        );
        assert_eq!(
            value(&fields, LIMIT).unwrap(),
            r#""search 3/1s";r=2;t=60, "search 100/1m";r=2;t=60, "orders";r=0;t=4"#
        );
        assert_eq!(
            value(&fields, "x-ratelimit-limit").unwrap(),
            "1",
            "the fewest permits are left of orders"
        );
    }

    #[test]
    fn a_limit_that_nobody_could_check_has_a_policy_only() {
        let orders = rule("orders", &["3/4s"]);
        for allow in [true, false] {
            let fields =
                RateLimitFields::new().x_rate_limit().of(&[Met::new(&orders, &Decision::undecided(allow))]);
            assert_eq!(fields, [(POLICY, r#""orders";q=3;w=4"#.to_owned())]);
        }
        assert!(RateLimitFields::new().x_rate_limit().of(&[]).is_empty());
    }

    #[test]
    fn names_and_numbers_stay_within_the_format() {
        let odd = Rule::try_new(
            "a \"b\" \\ ü\u{2028}",
            Strategy::TokenBucket,
            ["3/1500ms".parse::<Quota>().unwrap().burst(u64::MAX)],
        );
        let odd = odd.unwrap();
        let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
        let fields = RateLimitFields::new().of(&[Met::new(&odd, &limiter.check_sync(&odd, "alice", 1))]);
        let name = r#""a \"b\" \\ %C3%BC%E2%80%A8""#;
        assert_eq!(value(&fields, POLICY).unwrap(), format!("{name};q=3;w=2;limiter-burst=999999999999999"));
        assert_eq!(value(&fields, LIMIT).unwrap(), format!("{name};r=999999999999999;t=1"));
    }

    #[test]
    fn a_limit_met_twice_is_told_as_it_is_worse() {
        let orders = rule("orders", &["3/4s"]);
        let limiter = LocalLimiter::builder().clock(ManualClock::new()).build();
        let ask = |user| Met::new(&orders, &limiter.check_sync(&orders, user, 1));
        ask("alice");
        let (mut alice, bob) = (ask("alice"), ask("bob"));
        assert!(alice.absorb(&bob));
        assert_eq!(limits(&[alice.clone()]), r#""orders";r=1;t=4"#);
        assert!(alice.absorb(&ask("alice")));
        assert_eq!(limits(&[alice.clone()]), r#""orders";r=0;t=4"#);
        assert!(!alice.absorb(&Met::new(&rule("other", &["3/4s"]), &Decision::undecided(true))));
    }
}
