//! `cargo xtask compile-cost`: what 200 annotated functions add to a build, beside `#[tracing::instrument]`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{cargo, root, run};

const FUNCTIONS: usize = 200;
const ROUNDS: usize = 5;

/// What stands on each function, and what the crate needs for it.
const KINDS: [(&str, &str, &str); 3] = [
    ("plain", "", ""),
    ("instrument", "#[tracing::instrument(skip_all, fields(user))]", ""),
    (
        "rate_limit",
        r#"#[limiter::rate_limit(key = "user", qps = 3, window = "4s", fallback = "busy")]"#,
        "pub async fn busy(user: u64, name: &str, _: limiter::Rejected) -> String { format!(\"{user} {name}\") }\n",
    ),
];

/// Builds three crates of the same functions, in turns, and prints the shortest time of each.
pub(crate) fn compile_cost(folder: &Path) -> Result<(), String> {
    for (kind, attribute, more) in KINDS {
        write_crate(&folder.join(kind), attribute, more)?;
    }
    for (command, what) in [("check", "cargo check"), ("build", "cargo build")] {
        let mut shortest = [Duration::MAX; KINDS.len()];
        for round in 0..=ROUNDS {
            for (index, (kind, ..)) in KINDS.iter().enumerate() {
                let time = timed(&folder.join(kind), folder, command)?;
                // The first round builds what they depend on.
                if round > 0 {
                    shortest[index] = shortest[index].min(time);
                }
            }
        }
        let [plain, instrument, rate_limit] = shortest;
        let [theirs, ours] = [instrument, rate_limit].map(|time| time.saturating_sub(plain).as_secs_f64());
        println!("\n{what}, {FUNCTIONS} functions, the shortest of {ROUNDS} builds of the crate alone");
        println!("  plain                     {:>7.3}s", plain.as_secs_f64());
        println!("  #[tracing::instrument]    {:>7.3}s  (+{theirs:.3}s)", instrument.as_secs_f64());
        println!("  #[limiter::rate_limit]    {:>7.3}s  (+{ours:.3}s)", rate_limit.as_secs_f64());
        println!("  ratio of what they add    {:>7.2}", ours / theirs);
    }
    Ok(())
}

fn write_crate(folder: &Path, attribute: &str, more: &str) -> Result<(), String> {
    let (limiter, name) = (root().display(), folder.file_name().unwrap_or_default().display());
    let manifest = format!(
        "[package]\nname = \"cost-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nlimiter = {{ path = {:?} }}\n\
         tracing = {{ version = \"0.1.41\", default-features = false, features = [\"attributes\", \"std\"] }}\n\n\
         [workspace]\n",
        limiter.to_string()
    );
    let mut code = more.to_owned();
    for index in 0..FUNCTIONS {
        let function = format!("pub async fn function{index}(user: u64, name: &str) -> String");
        writeln!(code, "{attribute}\n{function} {{ format!(\"{{user}} {{name}} {index}\") }}")
            .map_err(|error| error.to_string())?;
    }
    // Called, so that their bodies are compiled and not only checked.
    code.push_str("pub async fn all() {\n");
    for index in 0..FUNCTIONS {
        writeln!(code, "    function{index}({index}, \"a\").await;").map_err(|error| error.to_string())?;
    }
    code.push_str("}\npub fn boxed() -> std::pin::Pin<Box<dyn Future<Output = ()>>> { Box::pin(all()) }\n");
    let written = fs::create_dir_all(folder.join("src"))
        .and_then(|()| fs::write(folder.join("Cargo.toml"), manifest))
        .and_then(|()| fs::write(folder.join("src/lib.rs"), code));
    written.map_err(|error| format!("cannot write {}: {error}", folder.display()))
}

/// How long the crate alone takes, what it depends on being there.
fn timed(krate: &Path, target: &Path, command: &str) -> Result<Duration, String> {
    let source = krate.join("src/lib.rs");
    let code = fs::read_to_string(&source).map_err(|error| error.to_string())?;
    fs::write(&source, code).map_err(|error| error.to_string())?;
    let start = Instant::now();
    let mut build = cargo(&[command, "--quiet"]);
    build.current_dir(krate).env("CARGO_TARGET_DIR", target.join("target")).env("CARGO_INCREMENTAL", "0");
    run(&mut build)?;
    Ok(start.elapsed())
}
