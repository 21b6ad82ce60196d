//! Installs what the tests run and do not build, by the package manager of the machine, where it is missing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::locate;

/// Something the tests need, the variable that may say where it is, and what its package is called.
struct Need {
    find: fn() -> Result<PathBuf, String>,
    variable: Option<&'static str>,
    package: fn(&Manager) -> &'static str,
}

const NEEDS: [Need; 2] = [
    Need {
        find: locate::redis_server,
        variable: Some("LIMITER_REDIS_SERVER"),
        package: |manager| manager.redis,
    },
    Need { find: locate::openssl, variable: None, package: |_| "openssl" },
];

/// A package manager, and the command that the packages' names are added to. Tried in this order.
struct Manager {
    program: &'static str,
    script: &'static str,
    as_root: bool,
    redis: &'static str,
}

const MANAGERS: [Manager; 4] = [
    Manager { program: "apt-get", script: APT, as_root: true, redis: "redis-server" },
    Manager { program: "dnf", script: r#"dnf install -y "$@""#, as_root: true, redis: "redis" },
    Manager { program: "apk", script: r#"apk add "$@""#, as_root: true, redis: "redis" },
    Manager { program: "brew", script: r#"brew install "$@""#, as_root: false, redis: "redis" },
];

/// Debian starts a service when its package is installed, unless this file says no. The tests start their own servers,
/// and a machine where somebody runs tests should not get a daemon from it.
const APT: &str = r#"
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' INT TERM
  printf '#!/bin/sh\nexit 101\n' > "$policy"
  chmod +x "$policy"
fi
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
"#;

/// Installs what is missing, and says where that is not possible what to do by hand.
pub(crate) fn missing() -> Result<(), String> {
    let (mut missing, mut complaints) = (Vec::new(), Vec::new());
    for need in &NEEDS {
        if let Err(complaint) = (need.find)() {
            // A variable that leads nowhere is a mistake, and no package mends it.
            if need.variable.is_some_and(|variable| std::env::var_os(variable).is_some()) {
                return Err(complaint);
            }
            missing.push(need);
            complaints.push(complaint);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let complaints = complaints.join("\n");
    let by_hand = |why: String| format!("{complaints}\n{why}: install it by hand, and try again");

    let manager = MANAGERS.iter().find(|manager| succeeds(manager.program, &["--version"]));
    let manager = manager.ok_or_else(|| by_hand("none of apt-get, dnf, apk and brew is there".to_owned()))?;
    let mut command = shell(manager).map_err(by_hand)?;
    let packages: Vec<&str> = missing.iter().map(|need| (need.package)(manager)).collect();
    let names = packages.join(" ");
    println!("{complaints}\ninstalling with {}: {names}", manager.program);
    let done = command.args(["-c", manager.script, "sh"]).args(&packages).status();
    if !done.is_ok_and(|status| status.success()) {
        return Err(by_hand(format!("{} could not install {names}", manager.program)));
    }
    match missing.iter().find_map(|need| (need.find)().err()) {
        None => Ok(()),
        Some(complaint) => Err(format!("{} has installed {names}, and yet {complaint}", manager.program)),
    }
}

/// A shell with the rights that the package manager needs.
fn shell(manager: &Manager) -> Result<Command, String> {
    if !manager.as_root || succeeds("sh", &["-c", r#"[ "$(id -u)" = 0 ]"#]) {
        Ok(Command::new("sh"))
    } else if succeeds("sudo", &["-n", "true"]) {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        Ok(sudo)
    } else {
        Err(format!("{} needs root, or sudo without a password", manager.program))
    }
}

/// Whether the program is there and succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
