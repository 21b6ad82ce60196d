//! Where the programs stand that the tests run but do not build. `xtask` reads this file too, to know what is missing.

use std::env;
use std::path::{Path, PathBuf};

/// The server that tests start: `LIMITER_REDIS_SERVER`, a path or the name of a program, else `redis-server`.
pub(crate) fn redis_server() -> Result<PathBuf, String> {
    match env::var_os("LIMITER_REDIS_SERVER") {
        Some(chosen) => {
            let chosen = PathBuf::from(chosen);
            let found = if chosen.components().count() > 1 { existing(&chosen) } else { on_path(&chosen) };
            found.ok_or_else(|| {
                format!("LIMITER_REDIS_SERVER names \"{}\", and there is no such program", chosen.display())
            })
        }
        None => on_path(Path::new("redis-server")).ok_or_else(|| {
            "there is no `redis-server` on PATH, and LIMITER_REDIS_SERVER names no server of Redis or Valkey".to_owned()
        }),
    }
}

/// The program that makes certificates for servers with TLS.
pub(crate) fn openssl() -> Result<PathBuf, String> {
    on_path(Path::new("openssl")).ok_or_else(|| {
        "there is no `openssl` on PATH, which makes the certificates for tests of TLS".to_owned()
    })
}

fn on_path(program: &Path) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find_map(|folder| existing(&folder.join(program)))
}

/// Absolute, since a server is started in a folder of its own.
fn existing(file: &Path) -> Option<PathBuf> {
    file.is_file().then(|| std::path::absolute(file).ok()).flatten()
}
