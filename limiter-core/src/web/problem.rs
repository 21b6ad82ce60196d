//! The body of a rejected request: problem details (RFC 9457), of the IETF draft's type for an exceeded quota.

use std::fmt::Write as _;

use super::fields::{Field, Met, RateLimitFields, policy_name, whole_seconds};
use crate::{Reason, Rejected};

pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

/// How a rejected request is answered, in any framework.
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) fields: Vec<Field>,
    pub(crate) body: String,
}

impl Problem {
    pub(crate) fn of(why: &Rejected) -> Self {
        let met = Met::rejected(why);
        let mut fields = RateLimitFields::new().of(std::slice::from_ref(&met));
        // A limit that was checked without the annotation is one that the request met as well.
        super::collected::note(|| met);
        if let Some(time) = why.retry_after() {
            fields.push(("retry-after", whole_seconds(time).max(1).to_string()));
        }
        let status = status(why);
        Self { status, fields, body: body(why, status) }
    }
}

pub(crate) fn status(why: &Rejected) -> u16 {
    if why.reason() == Reason::Unavailable { 503 } else { 429 }
}

fn body(why: &Rejected, status: u16) -> String {
    let detail = json(&why.to_string());
    if why.reason() == Reason::Unavailable {
        // No quota is known to be exceeded.
        return format!(
            r#"{{"type":"about:blank","title":"Service Unavailable","status":{status},"detail":{detail}}}"#
        );
    }
    let rule = why.whole_rule();
    let violated = json(&policy_name(rule, &why.last_word()));
    format!(
        r#"{{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":{status},"detail":{detail},"violated-policies":[{violated}]}}"#
    )
}

/// A string of JSON.
fn json(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for sign in text.chars() {
        match sign {
            '"' | '\\' => json.extend(['\\', sign]),
            '\0'..='\u{1f}' => {
                let _ = write!(json, "\\u{:04x}", u32::from(sign));
            }
            _ => json.push(sign),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn strings_of_json_hold_any_text() {
        assert_eq!(json("a \"b\" \\ \n\u{1f} ü"), r#""a \"b\" \\ \u000a\u001f ü""#);
    }
}
