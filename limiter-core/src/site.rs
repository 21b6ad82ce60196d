//! One annotated function: its rule, its options, its counts.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::{DecidedBy, Decision, OnError, Rejected, Rule};

/// One annotated function of the program.
pub struct Site {
    rule: Rule,
    options: Options,
    place: Place,
    counts: Counters,
    #[cfg(feature = "metrics")]
    pub(crate) measures: crate::observe::Measures,
}

/// What the annotation says besides its rule.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The cost of every call where it is a constant, else 0.
    pub cost: u64,
    /// How long a call may wait.
    pub longest_wait: Duration,
    /// Who holds the limit.
    pub store: Store,
    /// Who answers when the shared limiter cannot; the process decides where nothing is said.
    pub on_error: Option<OnError>,
    /// Whether the decision is acted upon.
    pub mode: Mode,
}

/// Who holds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The limiter that is installed.
    Installed,
    /// This process alone.
    Local,
}

/// Whether a decision is acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A rejected call does not run.
    Enforce,
    /// Every call runs at once; the decision is only counted.
    Shadow,
}

/// Where an annotated function stands in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the compiler was told of it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// How the calls of a site fared since the program started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls that were admitted, also those whose future was dropped while they waited.
    pub passed: u64,
    /// Calls that were rejected; in shadow mode, those that would have been.
    pub rejected: u64,
    /// Those of the admitted that had to wait; in shadow mode, those that would have.
    pub waited: u64,
    /// Those of all that `on_error` answered, because the shared limiter could not.
    pub degraded: u64,
}

impl Site {
    /// For the annotation.
    #[doc(hidden)]
    pub const fn new(rule: Rule, options: Options, place: Place) -> Self {
        assert!(
            options.cost <= rule.constant_capacity(),
            "\"cost\" is above the permits that ever exist; raise \"qps\" or lower \"cost\""
        );
        Self {
            rule,
            options,
            place,
            counts: Counters::new(),
            #[cfg(feature = "metrics")]
            measures: crate::observe::Measures::new(),
        }
    }

    /// What the limit says.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Where the function stands in the source.
    pub fn place(&self) -> Place {
        self.place
    }

    /// How its calls fared so far.
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Counts a decision, and turns it into what the function acts upon.
    pub(crate) fn settle(&self, decision: Decision) -> Result<Decision, Rejected> {
        self.counts.count(&decision);
        match self.options.mode {
            Mode::Enforce => decision.into_result(&self.rule),
            Mode::Shadow => Ok(decision),
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("rule", &self.rule)
            .field("place", &format_args!("{}", self.place))
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

struct Counters {
    passed: AtomicU64,
    rejected: AtomicU64,
    waited: AtomicU64,
    degraded: AtomicU64,
}

impl Counters {
    const fn new() -> Self {
        Self {
            passed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
        }
    }

    fn count(&self, decision: &Decision) {
        let outcome = if decision.is_allowed() { &self.passed } else { &self.rejected };
        outcome.fetch_add(1, Ordering::Relaxed);
        if !decision.delay().is_zero() {
            self.waited.fetch_add(1, Ordering::Relaxed);
        }
        if decision.decided_by() == DecidedBy::Degraded {
            self.degraded.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            passed: read(&self.passed),
            rejected: read(&self.rejected),
            waited: read(&self.waited),
            degraded: read(&self.degraded),
        }
    }
}

/// How the annotation makes a site known before anything is called.
#[doc(hidden)]
pub struct Registered(pub &'static Site);

inventory::collect!(Registered);

/// Every annotated function of the program, called or not, by name.
///
/// ```
/// # extern crate limiter_core as limiter;
/// for site in limiter::sites() {
///     println!("{} at {}: {:?}", site.rule().name(), site.place(), site.counts());
/// }
/// ```
///
/// # Panics
///
/// If two of them have the same name, because they would share one limit on a server. So does the first call of any
/// annotated function; a program that asks for its sites when it starts finds out then.
pub fn sites() -> &'static [&'static Site] {
    static SITES: OnceCell<Vec<&'static Site>> = OnceCell::new();
    SITES.get_or_init(|| {
        let mut sites: Vec<_> = inventory::iter::<Registered>.into_iter().map(|site| site.0).collect();
        sites.sort_by_key(|site| (site.rule.name(), site.place.file, site.place.line));
        for pair in sites.windows(2) {
            let [one, other] = [pair[0], pair[1]];
            if one.rule.name() == other.rule.name() {
                let remedy = if one.place == other.place {
                    "the same file is part of two crates; make it a module of one, and use it from the other"
                } else {
                    "give one of them another, with `name = \"...\"`"
                };
                let (name, one, other) = (one.rule.name(), one.place, other.place);
                panic!("two functions have a limit called {name:?}: {one} and {other}; {remedy}");
            }
        }
        sites
    })
}
