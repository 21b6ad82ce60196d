//! Lengths of time: `250ms`, `4s`, `1m`, `1h`, `1d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const LONGEST_DAYS: u64 = 1_000;
const LONGEST: Duration = Duration::from_secs(LONGEST_DAYS * 86_400);

/// Reads a number and its unit, or says what to write instead.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let unreadable =
        || format!(r#""{text}" is not a length of time; write it like "250ms", "4s", "1m", "1h" or "1d""#);
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let digits = number.replace('_', "");
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(unreadable)?;
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(unreadable());
    }
    // Digits that do not fit into a u64 are too long as well.
    match digits.parse().ok().and_then(|number: u64| number.checked_mul(*millis)).map(Duration::from_millis) {
        Some(Duration::ZERO) => Err(format!(r#""{text}" is no time at all; write at least "1ms""#)),
        Some(length) if length <= LONGEST => Ok(length),
        _ => Err(format!(r#""{text}" is too long; write at most "{LONGEST_DAYS}d""#)),
    }
}

/// The length of time that a unit alone stands for: the `s` of `3/s`.
pub(crate) fn unit(text: &str) -> Option<Duration> {
    UNITS.iter().find(|(name, _)| *name == text).map(|(_, millis)| Duration::from_millis(*millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        let cases = [
            ("250ms", 250),
            ("4s", 4_000),
            ("4 s", 4_000),
            ("1m", 60_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("1_000s", 1_000_000),
            ("1000d", 86_400_000_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        let cases = [
            ("", "is not a length of time"),
            ("4", "is not a length of time"),
            ("s", "is not a length of time"),
            ("_5s", "is not a length of time"),
            ("_s", "is not a length of time"),
            ("4x", "is not a length of time"),
            ("-4s", "is not a length of time"),
            ("1.5s", "is not a length of time"),
            ("4S", "is not a length of time"),
            ("0s", "is no time at all"),
            ("1001d", "is too long"),
            ("18446744073709551615d", "is too long"),
            ("99999999999999999999999999ms", "is too long"),
        ];
        for (text, reason) in cases {
            assert!(parse(text).is_err_and(|message| message.contains(reason)), "{text}");
        }
    }
}
