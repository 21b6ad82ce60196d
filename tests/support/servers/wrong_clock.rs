//! A wall clock that is wrong, for programs that the tests start.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::Folder;

/// Tells programs that run with its [`environment`](Self::environment) another time, until it is dropped.
pub struct WrongClock {
    folder: Folder,
}

impl WrongClock {
    /// Right at first.
    pub fn new() -> Self {
        let clock = Self { folder: Folder::new() };
        clock.set(0);
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/servers/wrong_clock/preload.rs");
        let built = Command::new(option_env!("RUSTC").unwrap_or("rustc"))
            .args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "-Copt-level=2", "-o"])
            .arg(clock.library())
            .arg(source)
            .output()
            .expect("rustc is there, since cargo is");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        clock
    }

    /// The clock is wrong by so many seconds from now on.
    pub fn set(&self, seconds: i64) {
        // Renamed, so that nobody ever reads half of it.
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, seconds.to_string()).expect("the clock's file");
        std::fs::rename(&draft, self.file()).expect("the clock's file");
    }

    /// What a program needs to be told, that it believes this clock.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let path = |path: PathBuf| path.to_str().expect("a plain name").to_owned();
        [("LD_PRELOAD", path(self.library())), ("LIMITER_WRONG_CLOCK", path(self.file()))]
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("wrong_clock.so")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("seconds")
    }
}
