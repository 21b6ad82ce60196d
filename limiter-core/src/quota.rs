//! Permits per window.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Permits per window: three calls in four seconds.
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::Quota;
/// use std::time::Duration;
///
/// const THREE_IN_FOUR_SECONDS: Quota = Quota::new(3, Duration::from_secs(4));
/// assert_eq!("3/4s".parse(), Ok(THREE_IN_FOUR_SECONDS));
/// assert_eq!("100/m".parse(), Ok(Quota::new(100, Duration::from_secs(60))));
/// ```
///
/// A quota without permits does not compile as a constant:
///
/// ```compile_fail
/// # extern crate limiter_core as limiter;
/// # use limiter::Quota;
/// const NOTHING: Quota = Quota::new(0, std::time::Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    permits: u64,
    window_nanos: u64,
    burst: Option<u64>,
}

impl Quota {
    /// The longest window: 1000 days, so that no sum of times overflows.
    pub const LONGEST_WINDOW: Duration = Duration::from_secs(1000 * 24 * 60 * 60);

    /// `permits` per `window`.
    ///
    /// # Panics
    ///
    /// If the quota is unusable; in a constant that is a compile error. [`Quota::try_new`] returns an error instead.
    pub const fn new(permits: u64, window: Duration) -> Self {
        match Self::try_new(permits, window) {
            Ok(quota) => quota,
            Err(QuotaError::NoPermits) => panic!("a quota needs at least 1 permit"),
            Err(_) => panic!("the window of a quota must be above 0 and at most 1000 days"),
        }
    }

    /// `permits` per `window`, or why that cannot be.
    ///
    /// # Errors
    ///
    /// If there are no permits, or the window is empty or longer than [`Quota::LONGEST_WINDOW`].
    pub const fn try_new(permits: u64, window: Duration) -> Result<Self, QuotaError> {
        if permits == 0 {
            return Err(QuotaError::NoPermits);
        }
        if window.is_zero() {
            return Err(QuotaError::EmptyWindow);
        }
        if window.as_nanos() > Self::LONGEST_WINDOW.as_nanos() {
            return Err(QuotaError::WindowTooLong);
        }
        #[expect(clippy::cast_possible_truncation, reason = "1000 days of nanoseconds fit in a u64")]
        Ok(Self { permits, window_nanos: window.as_nanos() as u64, burst: None })
    }

    /// The same quota with room for `burst` permits at once: the capacity of `token_bucket` and `leaky_bucket`.
    ///
    /// A [`Rule`](crate::Rule) refuses a burst of 0, and a burst with a strategy that has no bucket.
    #[must_use]
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// How many permits there are in one window.
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// The length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window_nanos)
    }

    /// The most permits that can ever be there at once: the burst, or else the permits of a window.
    pub const fn capacity(&self) -> u64 {
        match self.burst {
            Some(burst) => burst,
            None => self.permits,
        }
    }

    /// The same quota with other numbers of permits.
    #[cfg(feature = "redis")]
    pub(crate) fn with_permits(&self, change: impl Fn(u64) -> u64) -> Self {
        Self { permits: change(self.permits), burst: self.burst.map(change), ..*self }
    }

    pub(crate) const fn window_nanos(&self) -> u64 {
        self.window_nanos
    }

    pub(crate) const fn given_burst(&self) -> Option<u64> {
        self.burst
    }
}

/// Writes it as it is read: `3/4s`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.permits, Length(self.window_nanos))?;
        match self.burst {
            Some(burst) => write!(f, " burst {burst}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `3/4s`, `100/m`, `1000/1d`.
impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let (permits, window) = text.split_once('/').ok_or(QuotaError::Unreadable)?;
        let permits = whole_number(permits.trim()).ok_or(QuotaError::Unreadable)?;
        let window = length(window.trim()).ok_or(QuotaError::Unreadable)?;
        Self::try_new(permits, window)
    }
}

/// Units of time, the longest first, in nanoseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// `"250ms"`, `"4s"`, `"4 s"`, or a bare unit for one of it.
fn length(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = (digits.trim_end(), &text[digits.len()..]);
    let (_, nanos) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let count = if digits.is_empty() { 1 } else { whole_number(digits)? };
    // What overflows is far above the longest window, which is refused by name.
    Some(Duration::from_nanos(count.saturating_mul(nanos)))
}

fn whole_number(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    (text.starts_with(|c: char| c.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// A length of time in the longest unit that holds it whole.
struct Length(u64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.into_iter().find(|(_, nanos)| self.0.is_multiple_of(*nanos)) {
            Some((unit, nanos)) => write!(f, "{}{unit}", self.0 / nanos),
            None => write!(f, "{}ns", self.0),
        }
    }
}

/// Why a quota is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// A quota needs at least one permit.
    NoPermits,
    /// The window has no length.
    EmptyWindow,
    /// The window is longer than [`Quota::LONGEST_WINDOW`].
    WindowTooLong,
    /// The text does not read like `3/4s`.
    Unreadable,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPermits => "a quota needs at least 1 permit",
            Self::EmptyWindow => "the window of a quota must be longer than 0",
            Self::WindowTooLong => "the window of a quota can be 1000 days at most",
            Self::Unreadable => r#"not a quota; write it like "3/s", "3/4s", "100/m" or "1000/1d""#,
        })
    }
}

impl std::error::Error for QuotaError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["3/4s", "1/250ms", "100/1m", "5/1h", "1000/1d", "7/90s"] {
            let quota: Quota = text.parse().unwrap();
            assert_eq!(quota.to_string(), text);
        }
        assert_eq!("1_000/s".parse::<Quota>().unwrap().permits(), 1000);
        assert_eq!(" 3 / 4s ".parse(), Ok(Quota::new(3, Duration::from_secs(4))));
    }

    #[test]
    fn says_why_it_cannot_read() {
        for text in
            ["", "3", "/s", "3/", "3/4x", "-1/s", "3/-4s", "3/4", "a/s", "3/4.5s", "3/s/s", "_3/s", "+3/s"]
        {
            assert_eq!(text.parse::<Quota>(), Err(QuotaError::Unreadable), "{text:?}");
        }
        assert_eq!("0/s".parse::<Quota>(), Err(QuotaError::NoPermits));
        assert_eq!("3/0s".parse::<Quota>(), Err(QuotaError::EmptyWindow));
        assert_eq!("3/1001d".parse::<Quota>(), Err(QuotaError::WindowTooLong));
        assert_eq!("3/18446744073709551615d".parse::<Quota>(), Err(QuotaError::WindowTooLong));
    }
}
