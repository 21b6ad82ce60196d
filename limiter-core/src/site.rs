//! One annotated function: its rule, its options, its counts.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::counters::{Counters, Stripes};
use crate::entry::Door;
use crate::{Decision, OnError, Rejected, Rule, installed, observe};

/// One annotated function of the program.
pub struct Site {
    rule: Rule,
    options: Options,
    place: Place,
    /// Module path and name of the function, where the rule is not called after them.
    function: &'static str,
    counts: Counters,
    /// Where its calls are decided in this process, once there was one.
    door: OnceCell<Box<dyn Door>>,
    #[cfg(feature = "metrics")]
    pub(crate) measures: crate::observe::Measures,
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
            door: OnceCell::new(),
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
        let copies = || {
            let sites = inventory::iter::<Registered>.into_iter().map(|site| site.0);
            sites.filter(|site| self.is_copy_of(site))
        };
        // All of them enter by one door, or one that is as good.
        let counted = copies().find_map(|site| site.door.get()).map(|door| door.counts());
        copies().fold(counted.unwrap_or_default(), |sum, site| site.counted(sum))
    }

    /// Whether both are one annotated function: other macros, such as axum's `debug_handler`, write it twice.
    fn is_copy_of(&self, other: &Site) -> bool {
        let identity = |site: &Self| (site.place, site.function);
        identity(self) == identity(other) && self.rule == other.rule
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Whether all calls are decided by the limiter of this process, and nobody wants to see each of them.
    #[inline]
    pub(crate) fn decides_here() -> bool {
        !installed::is_anybody_else() && !observe::sees_all_calls()
    }

    /// The same for calls of functions that say `store = "local"`.
    #[inline]
    pub(crate) fn decides_local_calls_here() -> bool {
        !installed::is_anybody_else_here() && !observe::sees_all_calls()
    }

    /// Where its calls are decided in this process: known to the site, so that it need not be looked up. Nothing before the
    /// first call.
    #[inline]
    pub(crate) fn door(&'static self) -> Option<&'static dyn Door> {
        self.door.get().map(|door| &**door)
    }

    /// [`door`](Self::door), made where this is the first call.
    pub(crate) fn first_door(&'static self, has_keys: bool) -> &'static dyn Door {
        sites();
        &**self.door.get_or_init(|| <dyn Door>::of(self, has_keys))
    }

    /// Adds what this site counted itself.
    pub(crate) fn counted(&self, counts: Counts) -> Counts {
        self.counts.add_to(counts)
    }

    pub(crate) fn stripes(&self) -> &Stripes {
        self.counts.stripes()
    }

    /// Counts a decision, and says what to tell the caller where it is a no that is acted upon.
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
