//! What was measured beside what was wanted.

use std::fmt::Write as _;
use std::path::Path;

use crate::machine;

/// A figure and its target.
pub(crate) struct Row {
    pub(crate) path: &'static str,
    pub(crate) beside: &'static str,
    pub(crate) figure: f64,
    pub(crate) target: Target,
}

#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    /// Without the decimals that are not shown: noise is larger.
    fn shown(&self) -> f64 {
        (self.figure * 100.0).round() / 100.0
    }

    fn is_met(&self) -> bool {
        match self.target {
            Target::AtLeast(target) => self.shown() >= target,
            Target::AtMost(target) => self.shown() <= target,
        }
    }

    fn cells(&self) -> [String; 5] {
        let target = match self.target {
            Target::AtLeast(target) => format!("at least {}", number(target)),
            Target::AtMost(target) => format!("at most {}", number(target)),
        };
        let met = if self.is_met() { "yes" } else { "**no**" };
        [self.path.to_owned(), self.beside.to_owned(), number(self.figure), target, met.to_owned()]
    }
}

/// A ratio as it is, a large number in millions.
fn number(value: f64) -> String {
    if value >= 1e5 { format!("{:.1} million", value / 1e6) } else { format!("{value:.2}") }
}

/// The table, as Markdown that can also be read as it is.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["path", "beside", "measured", "target", "met"].map(str::to_owned);
    let cells: Vec<[String; 5]> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut table = String::new();
    for (i, row) in cells.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(table, "| {cell:width$} ");
        }
        table.push_str("|\n");
        if i == 0 {
            for width in widths {
                let _ = write!(table, "| {:-<width$} ", "");
            }
            table.push_str("|\n");
        }
    }
    table
}

/// The table with what one should know of it.
pub(crate) fn page(version: &str, table: &str, notes: &str) -> String {
    format!(
        "Written by `cargo bench -p limiter-benches --bench redis`, on Redis {version} and {}, with the\n\
         server and all callers on it. Ratios of decisions per second, of latencies, and of the server's own time for a script; each is\n\
         the median of those within a round.\n\n{table}\n{notes}\n",
        machine::description()
    )
}

/// Writes a result where the others are.
pub(crate) fn keep(file: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(file), text))
        .expect("a folder of ours");
}
