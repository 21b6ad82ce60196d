//! What a decision in this process costs, beside peers that do the same work, in one run.
//!
//! `cargo bench -p limiter-benches --bench local` measures everything, and writes `benches/results`. With the names of
//! parts, such as `-- decisions threads`, it measures those and writes nothing.

#[path = "../annotated.rs"]
mod annotated;
mod decisions;
mod keys;
mod live;
#[path = "../machine.rs"]
mod machine;
mod memory;
mod parts;
mod pauses;
mod peers;
mod report;
mod rounds;
mod threads;

use std::path::Path;
use std::time::Instant;

use report::Report;

type Part = (&'static str, fn(&mut Report));

const PARTS: [Part; 6] = [
    ("decisions", decisions::measure),
    ("parts", parts::measure),
    ("threads", threads::measure),
    ("memory", memory::measure),
    ("keys", keys::measure),
    ("pauses", pauses::measure),
];

fn main() {
    if std::env::args().any(|argument| argument == keys::MANY) {
        return keys::many();
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let all = wanted.is_empty();
    let mut report = Report::new();
    for (name, measure) in PARTS {
        if all || wanted.iter().any(|wanted| wanted == name) {
            let start = Instant::now();
            measure(&mut report);
            eprintln!("({name}: {:.0} s)", start.elapsed().as_secs_f64());
        }
    }
    report.print();
    if all {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        report.write(&folder).expect("the results can be written");
    }
}
