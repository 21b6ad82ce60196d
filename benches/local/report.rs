//! What was found: on the screen, and in `benches/results`.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::machine;
use crate::rounds::Figure;

/// What one should know of the contenders.
const NOTES: &str = "\
Nanoseconds for one decision. `floor` is one read of the processor's counter and one compare-and-swap. leaky-bucket reads no
clock while permits last; pingora-limits counts in a sketch, which is not exact, and leaves the decision to its caller;
sentinel is its attribute `#[flow]`, on a function that is not async. Peers are called by hand, ours by the annotation.";

/// What one should know of the rows.
const ROWS: &str = "\
Rejected: who returns a `Result` carries the reason to its caller, who returns an `Option` makes none. Threads with 5,000 keys each:
what one processor wrote has to come to the other first, be it a state, a lock, or a neighbour of them. Beside them stand a clock
and a compare-and-swap of a word for each key, without a table: only where each key has two cache lines, which processors fetch
together, do two threads not disturb each other. A lock of its own and 128 bytes for each key, found without a look at anything
shared, would do that; we keep 39, of which three times as many stay in a processor's own cache. Memory is counted as it is asked of
the allocator, and pauses in time on the processor.";

/// What one should know of the parts.
const PARTS: &str = "\
What a rejection is made of, with 10,000 keys u64: a read of the processor's counter, one of 10,000 states, one of 256 locks,
and 20 writes, which a lock waits for: as many as callgrind counts in a rejected call, with those of its async function. What is
left between the last two lines are some hundred instructions, and two more cache lines, by which a key is found among others.";

/// Everything that was measured.
pub(crate) struct Report {
    machine: String,
    rows: Vec<Row>,
    columns: Vec<(&'static str, Vec<Figure>)>,
    /// What a rejection is made of.
    pub(crate) parts: Vec<Figure>,
    /// Contender, keys, nanoseconds.
    pub(crate) curve: Vec<(&'static str, u64, f64)>,
}

/// A figure, and what it should be.
struct Row {
    path: String,
    figure: f64,
    unit: &'static str,
    target: Target,
}

#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// At least, but nobody could tell on this machine.
    Untold(f64),
    /// Shown for comparison.
    None,
}

impl Row {
    fn cells(&self) -> [String; 4] {
        let Self { path, figure, unit, target } = self;
        let decimals = if *figure < 10.0 && figure.fract() != 0.0 { 2 } else { 0 };
        let measured = format!("{figure:.decimals$} {unit}").trim_end().to_owned();
        // Noise is larger than the decimals that are not shown.
        let shown = if decimals == 2 { 100.0 } else { 1.0 };
        let figure = (figure * shown).round() / shown;
        let verdict = |met| if met { "yes" } else { "**no**" };
        let (wanted, met) = match *target {
            Target::AtMost(most) => (format!("at most {most}"), verdict(figure <= most)),
            Target::AtLeast(least) => (format!("at least {least}"), verdict(figure >= least)),
            Target::Untold(least) => (format!("at least {least}"), "the machine was busy"),
            Target::None => (String::new(), ""),
        };
        [path.clone(), measured, wanted, met.to_owned()]
    }
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            machine: machine::description(),
            rows: Vec::new(),
            columns: Vec::new(),
            parts: Vec::new(),
            curve: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, path: impl Into<String>, figure: f64, unit: &'static str, target: Target) {
        let row = Row { path: path.into(), figure, unit, target };
        let [path, figure, target, met] = row.cells();
        println!("{path:<64} {figure:<24} {target:<14} {met}");
        self.rows.push(row);
    }

    /// All contenders at one kind of call.
    pub(crate) fn column(&mut self, title: &'static str, figures: Vec<Figure>) {
        self.columns.push((title, figures));
    }

    pub(crate) fn print(&self) {
        let columns = self.columns.iter().map(|(title, figures)| (*title, figures));
        let parts = Some(("what a rejection is made of", &self.parts)).filter(|(_, parts)| !parts.is_empty());
        for (title, figures) in columns.chain(parts) {
            println!("\n{title}");
            for Figure { contender, nanos, ratio, .. } in figures {
                println!("    {contender:<40}{nanos:>9.1} ns{ratio:>9.2} x {}", figures[0].contender);
            }
        }
    }

    /// Writes `local.md`, `local.csv` and `keys.csv`.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("local.md"), self.markdown())?;
        let mut decisions = "path,contender,nanos,ratio\n".to_owned();
        for (title, figures) in &self.columns {
            for Figure { contender, nanos, ratio, .. } in figures {
                let _ = writeln!(decisions, "\"{title}\",\"{contender}\",{nanos:.1},{ratio:.3}");
            }
        }
        fs::write(folder.join("local.csv"), decisions)?;
        let mut curve = "contender,keys,nanos\n".to_owned();
        for (contender, keys, nanos) in &self.curve {
            let _ = writeln!(curve, "\"{contender}\",{keys},{nanos:.1}");
        }
        fs::write(folder.join("keys.csv"), curve)
    }

    fn markdown(&self) -> String {
        let mut text = "# In one process\n\n".to_owned();
        let _ = writeln!(
            text,
            "Written by `cargo bench -p limiter-benches --bench local`, on {}. Ours are annotated functions,\n\
             and `check_sync` for memory and pauses. Contenders take turns; a ratio is the median of the ratios within a round.\n",
            self.machine
        );
        text.push_str("| path | measured | wanted | met |\n| --- | --- | --- | --- |\n");
        for row in &self.rows {
            let [path, figure, target, met] = row.cells();
            let _ = writeln!(text, "| {path} | {figure} | {target} | {met} |");
        }
        let _ = write!(text, "\n{ROWS}\n\n{NOTES}\n\n|");
        let titles: Vec<&str> = self.columns.iter().map(|(title, _)| *title).collect();
        let _ = writeln!(text, " | {} |\n| --- |{}", titles.join(" | "), " --- |".repeat(titles.len()));
        for contender in self.contenders() {
            let _ = write!(text, "| {contender} |");
            for (_, figures) in &self.columns {
                let own = figures.iter().find(|figure| figure.contender == contender);
                let cell = own.map(|own| format!(" {:.0}", own.nanos)).unwrap_or_default();
                let _ = write!(text, "{cell} |");
            }
            text.push('\n');
        }
        let _ = write!(text, "\n{PARTS}\n\n| | nanoseconds | x governor |\n| --- | --- | --- |\n");
        for Figure { contender, nanos, ratio, .. } in &self.parts {
            let _ = writeln!(text, "| {contender} | {nanos:.1} | {ratio:.2} |");
        }
        text
    }

    /// Everybody who is in any column, ours first.
    fn contenders(&self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = Vec::new();
        for figure in self.columns.iter().flat_map(|(_, figures)| figures) {
            if !all.contains(&figure.contender) {
                all.push(figure.contender);
            }
        }
        all.sort_by_key(|name| !name.starts_with("limiter"));
        all
    }
}
