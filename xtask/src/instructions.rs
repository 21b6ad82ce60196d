//! `cargo xtask instructions`: how many instructions a decision takes, compared with the figures that are kept.
//!
//! Counted under callgrind, so that it says nearly the same on a busy machine. What the clock takes when it is set right, once
//! in a millisecond, is left out: under callgrind a millisecond is some hundred calls, of which one goes the long way.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::{cargo, line, root};

const FIGURES: &str = "benches/instructions.md";
/// Compilers differ a little; more than this is ours.
const TOLERANCE: f64 = 1.05;

pub(crate) fn instructions(keep: bool) -> Result<(), String> {
    let program = build()?;
    let listing = output(&mut Command::new(&program))?;
    let mut paths: Vec<&str> = listing.lines().collect();
    let calls = paths.pop().and_then(|last| last.strip_suffix(" calls")?.parse::<f64>().ok());
    let calls = calls.ok_or("the program does not say how many calls it makes")?;

    let mut counts = Vec::new();
    for path in paths {
        let count = count(&program, path)? / calls;
        let nothing = counts.first().map_or(0.0, |(_, nothing)| *nothing);
        counts.push((path, count - nothing));
        if path != "nothing" {
            println!("{path:<48}{:>8.0}", count - nothing);
        }
    }
    let counts = &counts[1..];
    if keep {
        return fs::write(root().join(FIGURES), table(counts)).map_err(|error| error.to_string());
    }
    let kept = fs::read_to_string(root().join(FIGURES)).map_err(|error| format!("{FIGURES}: {error}"))?;
    compare(counts, &kept)
}

fn build() -> Result<String, String> {
    let arguments = ["bench", "--package", "limiter-benches", "--bench", "paths", "--no-run"];
    let messages =
        output(cargo(&arguments).arg("--message-format=json").env("CARGO_PROFILE_BENCH_DEBUG", "1"))?;
    let executable = messages
        .lines()
        .filter(|message| message.contains(r#""name":"paths""#))
        .find_map(|message| message.split_once(r#""executable":""#)?.1.split('"').next());
    executable.map(str::to_owned).ok_or_else(|| "cargo does not say where it put the program".to_owned())
}

/// The instructions of all calls.
fn count(program: &str, path: &str) -> Result<f64, String> {
    let counts = root().join("target/instructions.callgrind");
    let file = counts.to_str().ok_or("a folder with a plain name is needed")?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--toggle-collect=*counted_calls*"]);
    valgrind.arg(format!("--callgrind-out-file={file}")).args([program, path]);
    output(&mut valgrind)
        .map_err(|error| format!("{error}\nInstall valgrind: `apt-get install valgrind`"))?;
    let listing =
        output(Command::new("callgrind_annotate").args(["--inclusive=yes", "--threshold=100", file]))?;
    let of = |name: &str| {
        let line = listing.lines().find(|line| line.contains(name))?;
        line.split_whitespace().next()?.replace(',', "").parse::<f64>().ok()
    };
    let all = of("PROGRAM TOTALS").ok_or("callgrind counted nothing")?;
    Ok(all - of("Counter::at_length").unwrap_or(0.0))
}

fn table(counts: &[(&str, f64)]) -> String {
    let mut table = "# Instructions of one decision\n\n\
        Counted by `cargo xtask instructions`, which fails where one takes over 5% more than here. After a deliberate\n\
        change: `cargo xtask instructions --keep`.\n\n| path | instructions |\n| --- | --- |\n"
        .to_owned();
    for (path, count) in counts {
        let _ = writeln!(table, "| {path} | {count:.0} |");
    }
    table
}

/// Fails where a path takes more than is kept, where nothing is kept of it, or was counted, and where one is gone.
fn compare(counts: &[(&str, f64)], kept: &str) -> Result<(), String> {
    let mut worse = Vec::new();
    for (path, count) in counts {
        let row =
            kept.lines().find_map(|line| line.strip_prefix(&format!("| {path} | "))?.strip_suffix(" |"));
        let Some(before) = row.and_then(|figure| figure.parse::<f64>().ok()) else {
            worse.push(format!("{path}: {FIGURES} has no figure"));
            continue;
        };
        if *count <= 0.0 {
            worse.push(format!("{path}: nothing was counted"));
        } else if *count > before * TOLERANCE {
            worse.push(format!("{path}: {count:.0} instructions, and {before:.0} are kept in {FIGURES}"));
        }
    }
    let rows = kept.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let kept_paths = rows.filter(|(_, figure)| figure.trim_end_matches(" |").parse::<f64>().is_ok());
    for (path, _) in kept_paths {
        if !counts.iter().any(|(counted, _)| *counted == path) {
            worse.push(format!("{path}: it is in {FIGURES}, and there is no such path"));
        }
    }
    if worse.is_empty() { Ok(()) } else { Err(worse.join("\n")) }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run `{}`: {error}", line(command)))?;
    if !output.status.success() {
        return Err(format!("`{}` failed:\n{}", line(command), String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` printed no text", line(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_takes_more_or_is_new_is_named() {
        let kept = table(&[("a way", 100.0), ("a way, and on", 200.0)]);
        assert_eq!(compare(&[("a way", 104.0), ("a way, and on", 150.0)], &kept), Ok(()));
        let worse = compare(&[("a way", 106.0), ("a way, and on", 200.0)], &kept).unwrap_err();
        assert!(worse.starts_with("a way: 106 instructions, and 100 are kept"), "{worse}");
        let new = compare(&[("another", 1.0)], &kept).unwrap_err();
        assert!(new.starts_with("another: benches/instructions.md has no figure\na way: "), "{new}");
        assert!(new.ends_with("there is no such path"), "{new}");
        let nothing = compare(&[("a way", 0.0), ("a way, and on", 200.0)], &kept).unwrap_err();
        assert_eq!(nothing, "a way: nothing was counted");
    }
}
