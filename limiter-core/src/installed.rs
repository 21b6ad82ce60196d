//! Which limiter a call asks: the one of its scope, else the one installed, else the one of this process.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{error, fmt};

use once_cell::sync::OnceCell;

use crate::{Limiter, LocalLimiter};

static INSTALLED: OnceCell<Box<dyn Limiter>> = OnceCell::new();
static PROCESS_WIDE: OnceCell<LocalLimiter> = OnceCell::new();
/// Stays false in a program that never opens a scope, and spares its calls the look at the task.
static SCOPED: AtomicBool = AtomicBool::new(false);
/// Stays false in a program that never opens a scope and installs nothing but a limiter of this process, before the first call:
/// then that decides all.
static ANYBODY_ELSE: AtomicBool = AtomicBool::new(false);
/// The same for functions that say `store = "local"`, whatever is installed.
static ANYBODY_ELSE_HERE: AtomicBool = AtomicBool::new(false);

tokio::task_local! {
    static SCOPE: Arc<dyn Limiter>;
}

/// Makes `limiter` answer every annotated function of this process that does not say `store = "local"`.
///
/// Once per process, before the first call: those that came earlier were answered by the process's own limiter.
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::LocalLimiter;
///
/// limiter::install(LocalLimiter::builder().max_keys(10_000).build())?;
/// # Ok::<(), limiter::AlreadyInstalled>(())
/// ```
///
/// # Errors
///
/// If a limiter is installed already; that one stays.
pub fn install(limiter: impl Limiter + 'static) -> Result<(), AlreadyInstalled> {
    let local = limiter.local().clone();
    let is_local = (&limiter as &dyn Any).is::<LocalLimiter>();
    INSTALLED.set(Box::new(limiter)).map_err(|_| AlreadyInstalled)?;
    // Too late where a call made one that needs no set-up.
    let is_process_wide = local.goes_by_the_machine() && local.is(PROCESS_WIDE.get_or_init(|| local.clone()));
    if !is_process_wide {
        ANYBODY_ELSE_HERE.store(true, Ordering::Release);
    }
    if !is_process_wide || !is_local {
        ANYBODY_ELSE.store(true, Ordering::Release);
    }
    Ok(())
}

/// A limiter was installed before, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyInstalled;

impl fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limiter is installed already; call `install` once, and `scope` in tests")
    }
}

impl error::Error for AlreadyInstalled {}

/// Gives `future` a limiter of its own, whatever is installed, so that tests run in parallel.
///
/// Tasks that the future spawns are outside of the scope; give each its own with a clone of the limiter.
///
/// ```
/// # extern crate limiter_core as limiter;
/// use limiter::{LocalLimiter, ManualClock, scope};
///
/// # async fn get_order() {}
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let clock = ManualClock::new();
/// let limiter = LocalLimiter::builder().clock(clock.clone()).build();
/// scope(limiter, async {
///     get_order().await;
///     clock.advance(std::time::Duration::from_secs(4));
///     get_order().await;
/// })
/// .await;
/// # }
/// ```
pub async fn scope<F: Future>(limiter: impl Limiter + 'static, future: F) -> F::Output {
    open_scopes();
    let limiter: Arc<dyn Limiter> = Arc::new(limiter);
    SCOPE.scope(limiter, future).await
}

/// Gives the functions that `run` calls a limiter of their own, as [`scope`] does.
pub fn scope_sync<T>(limiter: impl Limiter + 'static, run: impl FnOnce() -> T) -> T {
    open_scopes();
    let limiter: Arc<dyn Limiter> = Arc::new(limiter);
    SCOPE.sync_scope(limiter, run)
}

fn open_scopes() {
    SCOPED.store(true, Ordering::Relaxed);
    ANYBODY_ELSE.store(true, Ordering::Release);
    ANYBODY_ELSE_HERE.store(true, Ordering::Release);
}

/// Whether a call may have somebody else to ask than the limiter of this process.
#[inline]
pub(crate) fn is_anybody_else() -> bool {
    ANYBODY_ELSE.load(Ordering::Acquire)
}

/// The same for a call of a function that says `store = "local"`.
#[inline]
pub(crate) fn is_anybody_else_here() -> bool {
    ANYBODY_ELSE_HERE.load(Ordering::Acquire)
}

/// The limiter of this process: the one of what is installed, or else one that needs no set-up.
pub(crate) fn process_wide() -> &'static LocalLimiter {
    PROCESS_WIDE.get_or_init(LocalLimiter::new)
}

/// The limiter of this process, as one that a call asks.
pub(crate) fn own() -> Current {
    Current::Static(process_wide())
}

/// The limiter that a call made here and now asks.
pub(crate) fn current() -> Current {
    // A scope is opened by the very task that looks here, so a relaxed load cannot miss it.
    if SCOPED.load(Ordering::Relaxed)
        && let Ok(limiter) = SCOPE.try_with(Arc::clone)
    {
        return Current::Scoped(limiter);
    }
    match INSTALLED.get() {
        Some(limiter) => Current::Static(&**limiter),
        None => own(),
    }
}

pub(crate) enum Current {
    Scoped(Arc<dyn Limiter>),
    Static(&'static dyn Limiter),
}

impl Deref for Current {
    type Target = dyn Limiter;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Scoped(limiter) => &**limiter,
            Self::Static(limiter) => *limiter,
        }
    }
}
