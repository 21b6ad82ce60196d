//! The project's own commands, run as `cargo xtask <command>`.

mod compile_cost;
mod engines;
mod figures;
mod install;
mod instructions;
#[path = "../../tests/support/locate.rs"]
mod locate;
mod plot;
mod test;

use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test               install what the tests need where it is missing, and run them all:
                               unit, integration, doctests, UI tests, and every example to its end
cargo xtask engines [FOLDER]   fetch Redis 8.0, Valkey 8.1 and Valkey 9.1 into FOLDER (target/engines),
                               and run the tests that need a server on each of them
cargo xtask instructions       count the instructions of a decision, and fail where they have become more; --keep keeps them
cargo xtask figures [--check]  renew the tables and plots of the README from benches/results, or fail where they differ
cargo xtask compile-cost       time builds of 200 functions: plain, with #[tracing::instrument], with #[rate_limit]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["test"] => test::test(),
        ["compile-cost"] => compile_cost::compile_cost(&root().join("target/compile-cost")),
        ["instructions"] => instructions::instructions(false),
        ["instructions", "--keep"] => instructions::instructions(true),
        ["figures"] => figures::figures(false),
        ["figures", "--check"] => figures::figures(true),
        ["engines"] => engines::engines(&root().join("target/engines")),
        ["engines", folder] => engines::engines(Path::new(folder)),
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

/// `cargo`, to be run in the workspace.
fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).current_dir(root());
    cargo
}

/// Runs a command to its end, in sight of the user.
fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run `{}`: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", line(command))) }
}

/// A command as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The names of the Rust files in a folder of the workspace, without their ending, in order.
fn programs(folder: &str) -> Result<Vec<String>, String> {
    let folder = root().join(folder);
    let entries = folder.read_dir().map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let program =
                path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").is_file();
            program.then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
        })
        .collect();
    names.sort();
    if names.is_empty() { Err(format!("there is no program in {}", folder.display())) } else { Ok(names) }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace")
}
