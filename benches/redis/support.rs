//! The servers of the tests.

#[path = "../../tests/support/locate.rs"]
mod locate;
#[path = "../../tests/support/servers/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "a bench uses its part")]
pub(crate) mod servers;

/// Where something stands that a bench cannot do without.
fn needed(found: Result<std::path::PathBuf, String>) -> std::path::PathBuf {
    found.unwrap_or_else(|missing| panic!("{missing}"))
}
