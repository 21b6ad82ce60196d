//! `cargo xtask engines`: the tests that need a server, on engines other than the installed one.
//!
//! Debian's later suites have them as packages. A program of a later suite does not run on an older system, so each is
//! unpacked into a folder of its own together with the libraries that it was built for, and started by their loader.
//! Nothing is installed: apt works on a private folder here, and checks the signatures as always.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{cargo, install, programs, run};

struct Engine {
    folder: &'static str,
    suite: &'static str,
    name: &'static str,
}

/// Redis 8.0, Valkey 8.1, Valkey 9.1.
const ENGINES: [Engine; 3] = [
    Engine { folder: "redis-8", suite: "trixie", name: "redis" },
    Engine { folder: "valkey-8", suite: "trixie", name: "valkey" },
    Engine { folder: "valkey-9", suite: "sid", name: "valkey" },
];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(crate) fn engines(folder: &Path) -> Result<(), String> {
    install::missing()?;
    let folder = std::path::absolute(folder).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    for engine in &ENGINES {
        let server = unpack(engine, &folder.join(engine.folder))?;
        let version = version(&server)?;
        println!("\n{}: {version}", engine.folder);
        lines.push((engine.folder, version, try_on(&server)?));
    }
    let width = lines.iter().map(|(_, version, _)| version.len()).max().unwrap_or(0);
    println!("\n{:<10} {:<width$} result", "engine", "version");
    for (engine, version, outcome) in &lines {
        println!("{engine:<10} {version:<width$} {outcome}");
    }
    if lines.iter().all(|(_, _, outcome)| outcome.success) {
        Ok(())
    } else {
        Err("not all tests passed on all engines".to_owned())
    }
}

/// What came of the tests on one engine.
struct Outcome {
    passed: u64,
    failed: u64,
    /// Also false where something did not build or did not run to its end.
    success: bool,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.success { "" } else { ", not all well" };
        write!(f, "{} passed, {} failed{verdict}", self.passed, self.failed)
    }
}

/// Runs the tests that need a server: those in `tests/` whose names say so, and the core's own.
fn try_on(server: &Path) -> Result<Outcome, String> {
    let targets =
        programs("tests")?.into_iter().filter(|name| name == "servers" || name.starts_with("redis_"));
    let mut integration = cargo(&["test", "--package", "limiter", "--all-features", "--no-fail-fast"]);
    integration.args(targets.flat_map(|name| ["--test".to_owned(), name]));
    let core = cargo(&["test", "--package", "limiter-core", "--all-features", "--lib"]);

    let mut outcome = Outcome { passed: 0, failed: 0, success: true };
    for mut command in [integration, core] {
        command.env("LIMITER_REDIS_SERVER", server).stdout(Stdio::piped());
        let failure = |error| format!("cannot run cargo: {error}");
        let mut child = command.spawn().map_err(failure)?;
        let output = child.stdout.take().ok_or("its output is not there")?;
        for said in BufReader::new(output).lines().map_while(Result::ok) {
            println!("{said}");
            if let Some((passed, failed)) = counts(&said) {
                outcome.passed += passed;
                outcome.failed += failed;
            }
        }
        outcome.success &= child.wait().map_err(failure)?.success();
    }
    Ok(outcome)
}

/// From the line with which a test target ends: `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = counts.split("; ").map(|count| count.split(' ').next()?.parse().ok());
    Some((counts.next()??, counts.next()??))
}

/// Leaves `folder/server`, a script that starts the engine, and returns its path.
fn unpack(engine: &Engine, folder: &Path) -> Result<PathBuf, String> {
    let server = folder.join("server");
    // Written last: where it stands, everything does.
    if server.is_file() {
        return Ok(server);
    }
    println!("unpacking {} from Debian {} into {}", engine.name, engine.suite, folder.display());
    let _ = fs::remove_dir_all(folder);
    let root = folder.join("root");
    make(&root)?;
    for package in download(engine, &folder.join("apt"))? {
        run(Command::new("dpkg-deb").arg("-x").args([&package, &root]))?;
    }
    let _ = fs::remove_dir_all(folder.join("apt"));

    // The loader has a link of another name for each architecture; the libraries stand beside it.
    let loader = find(&root.join("usr/lib"), &|name| name.starts_with("ld-linux") && name.contains(".so"))
        .ok_or_else(|| format!("there is no loader in {}", root.display()))?;
    let libraries = find(&root.join("usr/lib"), &|name| name == "libc.so.6")
        .and_then(|library| library.parent().map(Path::to_owned))
        .ok_or_else(|| format!("there is no libc in {}", root.display()))?;
    // The package's server is a link to another of its programs, which goes by the name that it is called with.
    let name = format!("{}-server", engine.name);
    let program = fs::canonicalize(root.join("usr/bin").join(&name))
        .map_err(|error| format!("there is no {name} in {}: {error}", root.display()))?;
    let script = format!(
        "#!/bin/sh\nexec \"{}\" --argv0 {name} --library-path \"{}\" \"{}\" \"$@\"\n",
        loader.display(),
        libraries.display(),
        program.display()
    );
    let unfinished = folder.join("server.new");
    write(&unfinished, &script)?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&unfinished, &server))
        .map_err(|error| format!("cannot make {}: {error}", server.display()))?;
    Ok(server)
}

/// The packages of the engine and of all that it depends on.
fn download(engine: &Engine, folder: &Path) -> Result<Vec<PathBuf>, String> {
    if !Path::new(KEYRING).is_file() {
        let package = "debian-archive-keyring";
        return Err(format!(
            "the engines come from Debian, by apt: there is no {KEYRING}; install {package}"
        ));
    }
    make(&folder.join("lists/partial"))?;
    make(&folder.join("cache/archives/partial"))?;
    let sources = format!("deb [signed-by={KEYRING}] {} {} main\n", mirror(), engine.suite);
    write(&folder.join("sources.list"), &sources)?;
    // No package counts as installed, so that none is left out.
    write(&folder.join("status"), "")?;
    let own = |option: &str, path: &str| {
        let mut setting = OsString::from(format!("Dir::{option}="));
        setting.push(folder.join(path));
        [OsString::from("-o"), setting]
    };
    let options = [
        own("State", ""),
        own("State::status", "status"),
        own("State::lists", "lists"),
        own("Cache", "cache"),
        own("Etc::SourceList", "sources.list"),
        own("Etc::SourceParts", "none"),
        own("Etc::Preferences", "none"),
        own("Etc::PreferencesParts", "none"),
        // Also as root it works as the user who runs it: its own user may not be able to write here.
        ["-o", "APT::Sandbox::User=root"].map(OsString::from),
        ["-o", "Acquire::Languages=none"].map(OsString::from),
    ];
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        run(apt.arg("-qq").args(options.as_flattened()).args(arguments).stdout(Stdio::null()))
    };
    apt(&["update"])?;
    let package = format!("{}-server", engine.name);
    apt(&["install", "--yes", "--download-only", "--no-install-recommends", &package])?;
    let archives = folder.join("cache/archives");
    let entries =
        archives.read_dir().map_err(|error| format!("cannot read {}: {error}", archives.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == "deb")).collect())
}

/// The one that this machine uses, if it is a Debian: it may be the only one within reach.
fn mirror() -> String {
    let sources = fs::read_to_string("/etc/apt/sources.list.d/debian.sources").unwrap_or_default();
    let mirror = sources.lines().find_map(|line| line.strip_prefix("URIs:")?.split_whitespace().next());
    mirror.unwrap_or("https://deb.debian.org/debian").to_owned()
}

/// What `server --version` says up to its number: `Valkey server v=8.1.1`.
fn version(server: &Path) -> Result<String, String> {
    let output = Command::new(server).arg("--version").output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", server.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{} does not run: {said}", server.display()));
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(said.split(" sha=").next().unwrap_or_default().trim().to_owned())
}

/// The first file below a folder with a name that fits.
fn find(folder: &Path, fits: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = folder.read_dir().ok()?.flatten();
    let (folders, files): (Vec<_>, Vec<_>) =
        entries.partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let file = files.iter().find(|file| file.file_name().to_str().is_some_and(fits));
    file.map(fs::DirEntry::path).or_else(|| folders.iter().find_map(|folder| find(&folder.path(), fits)))
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
