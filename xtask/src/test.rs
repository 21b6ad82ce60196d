//! `cargo xtask test`: everything, with all that it needs.

use crate::{cargo, figures, install, programs, run};

pub(crate) fn test() -> Result<(), String> {
    figures::figures(true)?;
    install::missing()?;
    // As a user builds it, without any feature and with each of them alone; then everything.
    for feature in ["", "actix-web", "axum", "metrics", "redis", "tonic", "tracing"] {
        run(&mut cargo(&["check", "--package", "limiter", "--features", feature]))?;
    }
    // Who measures sees every call: the short way is taken without that feature only.
    let alone = ["process_wide", "installed_local", "installed_elsewhere"];
    let mut test = cargo(&["test", "--package", "limiter"]);
    run(test.args(alone.iter().flat_map(|name| ["--test", *name])))?;
    run(&mut cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]))?;
    let examples = programs("examples")?;
    for example in &examples {
        println!("\nexample {example}");
        run(&mut cargo(&["run", "--quiet", "--all-features", "--example", example]))?;
    }
    println!("\nall tests passed, and {} examples ran to their end", examples.len());
    Ok(())
}
