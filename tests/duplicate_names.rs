//! Two limits of one name in one program are an error that names both places.

mod support;

use limiter::rate_limit;
use support::now;

#[rate_limit(name = "same", qps = 1)]
async fn one() -> Option<()> {
    Some(())
}

mod elsewhere {
    #[limiter::rate_limit(name = "same", qps = 2)]
    pub(super) async fn other() -> Option<()> {
        Some(())
    }
}

#[limiter::rate_limit(qps = 2, store = "local")]
fn unrelated() -> Option<()> {
    Some(())
}

fn panic_of(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(run).expect_err("it went unnoticed");
    panic.downcast_ref::<String>().expect("a panic with a text").clone()
}

#[test]
fn are_found_by_the_list_and_by_the_first_call_of_any_function() {
    let texts = [
        panic_of(|| _ = limiter::sites()),
        panic_of(|| _ = now(one())),
        panic_of(|| _ = now(elsewhere::other())),
        panic_of(|| _ = unrelated()),
    ];
    for text in texts {
        assert_eq!(
            text,
            format!(
                "two functions have a limit called \"same\": {0}:8:1 and {0}:14:5; \
                 give one of them another, with `name = \"...\"`",
                file!()
            )
        );
    }
}
