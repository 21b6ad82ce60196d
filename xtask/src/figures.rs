//! `cargo xtask figures`: what the benches found, as tables in the README and as plots beside them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::plot::{Chart, Series};
use crate::root;

/// What one bench leaves in `benches/results`, and where it is shown.
struct Bench {
    title: &'static str,
    tables: &'static str,
    /// Lines of contender, x and y.
    points: &'static str,
    plot: &'static str,
    plot_title: &'static str,
    axes: [&'static str; 2],
}

const BENCHES: [Bench; 2] = [
    Bench {
        title: "In one process",
        tables: "local.md",
        points: "keys.csv",
        plot: "keys.svg",
        plot_title: "The cost of a decision as keys become more",
        axes: ["keys", "nanoseconds for a decision"],
    },
    Bench {
        title: "On one Redis",
        tables: "redis.md",
        points: "redis_callers.csv",
        plot: "callers.svg",
        plot_title: "Shared decisions per second as callers become more",
        axes: ["callers at the same time", "decisions per second"],
    },
];

const RESULTS: &str = "benches/results";
const README: &str = "README.md";
const MARKS: [&str; 2] = ["<!-- figures -->\n", "<!-- /figures -->\n"];

/// Renews what is drawn and written from the results, or, to `check`, fails where it differs from them.
pub(crate) fn figures(check: bool) -> Result<(), String> {
    let mut section = String::new();
    let mut files = Vec::new();
    for bench in &BENCHES {
        let results = root().join(RESULTS);
        // A bench that never ran has no figures.
        let Ok(tables) = fs::read_to_string(results.join(bench.tables)) else { continue };
        let _ = write!(section, "\n### {}\n\n{}\n", bench.title, without_title(&tables));
        if let Ok(points) = fs::read_to_string(results.join(bench.points)) {
            let series = series(&points).map_err(|error| format!("{RESULTS}/{}: {error}", bench.points))?;
            let chart = Chart { title: bench.plot_title, axes: bench.axes, series };
            let path = format!("{RESULTS}/{}", bench.plot);
            let _ = write!(section, "\n![{}]({path})\n", bench.plot_title);
            files.push((path, chart.svg()));
        }
    }
    let readme = read(README)?;
    files.push((README.to_owned(), with_section(&readme, &format!("{section}\n"))?));
    for (path, text) in files {
        if !check {
            fs::write(root().join(&path), text).map_err(|error| format!("{path}: {error}"))?;
        } else if read(&path).ok().as_deref() != Some(&*text) {
            return Err(format!("{path} is not what {RESULTS} says: run `cargo xtask figures`"));
        }
    }
    Ok(())
}

fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(root().join(path)).map_err(|error| format!("{}: {error}", path.display()))
}

/// The text under a heading of its own becomes text under the README's.
fn without_title(text: &str) -> &str {
    let body = if text.starts_with("# ") { text.split_once('\n').map_or("", |(_, body)| body) } else { text };
    body.trim()
}

/// Puts the section between its marks.
fn with_section(readme: &str, section: &str) -> Result<String, String> {
    let [open, close] = MARKS;
    let parts = readme.split_once(open).and_then(|(before, rest)| Some((before, rest.split_once(close)?.1)));
    let (before, after) = parts.ok_or("README.md has no `<!-- figures -->` and `<!-- /figures -->`")?;
    Ok([before, open, section, close, after].concat())
}

/// The points of each contender, in the order in which they first appear.
fn series(csv: &str) -> Result<Vec<Series>, String> {
    let mut all: Vec<Series> = Vec::new();
    for line in csv.lines().skip(1) {
        // A name may have a comma; numbers have none.
        let mut cells = line.rsplitn(3, ',');
        let mut number = || cells.next()?.parse::<f64>().ok().filter(|number| *number > 0.0);
        let (y, x) = (number(), number());
        let (Some(x), Some(y), Some(name)) = (x, y, cells.next()) else {
            return Err(format!("not a name and two numbers above 0: {line}"));
        };
        let name = name.trim_matches('"').replace('`', "");
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, y)),
            None => all.push(Series { name, points: vec![(x, y)] }),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_replaces_what_stood_between_the_marks_and_nothing_else() {
        let readme = "a\n<!-- figures -->\nold\n<!-- /figures -->\nz\n";
        let renewed = with_section(readme, "new\n").unwrap();
        assert_eq!(renewed, "a\n<!-- figures -->\nnew\n<!-- /figures -->\nz\n");
        assert_eq!(with_section(&renewed, "new\n").unwrap(), renewed);
        with_section("a\n", "new\n").unwrap_err();
    }

    #[test]
    fn points_belong_to_whoever_is_named_in_front_of_them() {
        let csv = "contender,keys,nanos\n\"limiter, `check_sync`\",100,20.5\ngovernor,100,40\n\
                   \"limiter, `check_sync`\",1000,21\n";
        let series = series(csv).unwrap();
        assert_eq!(series.len(), 2);
        assert_eq!(series[0].name, "limiter, check_sync");
        assert_eq!(series[0].points, [(100.0, 20.5), (1000.0, 21.0)]);
        assert!(
            super::series("contender,keys,nanos\ngovernor,100,0\n").is_err(),
            "0 is on no logarithmic axis"
        );
    }
}
