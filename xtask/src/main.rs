//! The project's own commands, run as `cargo xtask <command>`.

use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test    install what the tests need where it is missing, and run them all:
                    unit, integration, doctests, UI tests, and every example to its end";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["test"] => test(),
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    // As a user builds it, without any feature; then everything.
    cargo(&["check", "--package", "limiter"])?;
    cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"])?;
    let examples = examples()?;
    for example in &examples {
        println!("\nexample {example}");
        cargo(&["run", "--quiet", "--example", example])?;
    }
    println!("\nall tests passed, and {} examples ran to their end", examples.len());
    Ok(())
}

/// The names of the programs in `examples/`.
fn examples() -> Result<Vec<String>, String> {
    let folder = root().join("examples");
    let entries = folder.read_dir().map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.path().with_extension("").file_name()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    if names.is_empty() { Err(format!("there is no example in {}", folder.display())) } else { Ok(names) }
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(arguments)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo {}` failed", arguments.join(" "))) }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace")
}
