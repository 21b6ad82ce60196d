//! One annotated function: its rule, its options, its counts.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::counters::{Counters, Stripes};
use crate::local::OwnTable;
use crate::{Decision, OnError, Rejected, Rule, installed, observe};

/// One annotated function of the program.
pub struct Site {
    rule: Rule,
    options: Options,
    place: Place,
    /// Module path and name of the function, where the rule is not called after them.
    function: &'static str,
    counts: Counters,
    /// What the limiter of this process keeps for the rule, once a call has asked it.
    own: OnceCell<Own>,
    #[cfg(feature = "metrics")]
    pub(crate) measures: crate::observe::Measures,
}

/// All that a call needs to be decided in this process and counted.
pub(crate) struct Own {
    pub(crate) table: OwnTable,
    counts: &'static Stripes,
}

impl Own {
    /// Counts a call that went at once.
    #[inline]
    pub(crate) fn count_passed(&self) {
        self.counts.count_passed();
    }
}

/// What the annotation says besides its rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How long a call may wait.
    pub(crate) longest_wait: Duration,
    /// Who holds the limit.
    pub(crate) store: Store,
    /// Who answers when the shared limiter cannot; the process decides where nothing is said.
    pub(crate) on_error: Option<OnError>,
    /// Whether the decision is acted upon.
    pub(crate) mode: Mode,
}

/// Who holds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// The limiter that is installed.
    Installed,
    /// This process alone.
    Local,
}

/// Whether a decision is acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
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

impl Place {
    /// Where the macro that wrote this call stands.
    #[track_caller]
    const fn here() -> Self {
        let caller = Location::caller();
        Self { file: caller.file(), line: caller.line(), column: caller.column() }
    }
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

/// For the annotation, which writes only what differs from the default.
#[doc(hidden)]
impl Site {
    #[track_caller]
    pub const fn new(rule: Rule) -> Self {
        let options = Options {
            longest_wait: Duration::ZERO,
            store: Store::Installed,
            on_error: None,
            mode: Mode::Enforce,
        };
        Self {
            rule,
            options,
            place: Place::here(),
            function: "",
            counts: Counters::new(),
            own: OnceCell::new(),
            #[cfg(feature = "metrics")]
            measures: crate::observe::Measures::new(),
        }
    }

    /// The function, where the rule has another name.
    #[must_use]
    pub const fn of(mut self, function: &'static str) -> Self {
        self.function = function;
        self
    }

    #[must_use]
    pub const fn wait(mut self, millis: u64) -> Self {
        self.options.longest_wait = Duration::from_millis(millis);
        self
    }

    #[must_use]
    pub const fn local(mut self) -> Self {
        self.options.store = Store::Local;
        self
    }

    #[must_use]
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.options.on_error = Some(on_error);
        self
    }

    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.options.mode = Mode::Shadow;
        self
    }
}

impl Site {
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
        let copies = inventory::iter::<Registered>.into_iter().map(|site| site.0);
        copies
            .filter(|site| self.is_copy_of(site))
            .fold(Counts::default(), |sum, site| site.counts.add_to(sum))
    }

    /// Whether both are one annotated function: other macros, such as axum's `debug_handler`, write it twice.
    fn is_copy_of(&self, other: &Site) -> bool {
        let identity = |site: &Self| (site.place, site.function);
        identity(self) == identity(other) && self.rule == other.rule
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Where the calls of this site are decided if nobody else was installed, and nobody wants to see every decision: known
    /// to the site, so that it need not be looked up.
    #[inline]
    pub(crate) fn own(&'static self) -> Option<&'static Own> {
        if installed::is_anybody_else() || observe::sees_all_calls() {
            return None;
        }
        Some(self.own.get_or_init(|| {
            sites();
            let table = installed::process_wide().own_table(&self.rule, self.options.longest_wait);
            Own { table, counts: self.counts.stripes() }
        }))
    }

    /// Counts a decision, and says what to tell the caller where it is a no that is acted upon.
    #[expect(clippy::inline_always, reason = "on the way of every call, and measured")]
    #[inline(always)]
    pub(crate) fn settle(&'static self, decision: &Decision) -> Option<Rejected> {
        self.counts.count(decision);
        let rejects = self.options.mode == Mode::Enforce && !decision.is_allowed();
        rejects.then(|| Rejected::by_static(&self.rule, decision))
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
/// Functions of one name that one call of a macro writes, such as a method for each of several types, stand at the same
/// place: without a `name` for each they are taken for one, and share a limit.
///
/// # Panics
///
/// If two of them have the same name, because they would share one limit on a server. So does the first call of any
/// annotated function; a program that asks for its sites when it starts finds out then.
pub fn sites() -> &'static [&'static Site] {
    static SITES: OnceCell<Vec<&'static Site>> = OnceCell::new();
    SITES.get_or_init(|| {
        let mut sites: Vec<_> = inventory::iter::<Registered>.into_iter().map(|site| site.0).collect();
        sites.sort_by_key(|site| (site.rule.name(), site.place.file, site.place.line, site.function));
        sites.dedup_by(|one, other| one.is_copy_of(other));
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
