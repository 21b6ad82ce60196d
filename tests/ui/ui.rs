//! Every mistake is found at compile time, at the user's own token, with what to write instead.
//!
//! After a deliberate change of a message: `TRYBUILD=overwrite cargo test -p limiter-ui-tests`, then read each diff.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("cases/*/*.rs");
}
