//! A certificate for 127.0.0.1 and localhost, and the authority that signed it.

use std::path::PathBuf;
use std::process::Command;

use super::process::Folder;
use crate::support::{locate, needed};

/// A client that trusts `ca` accepts the server. Two of them, since rustls takes no authority for a server.
pub struct Certificate {
    pub ca: PathBuf,
    pub chain: PathBuf,
    pub key: PathBuf,
    _folder: Folder,
}

impl Certificate {
    pub fn new() -> Self {
        let folder = Folder::new();
        let path = |name: &str| folder.path().join(name);
        let request = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let openssl = |arguments: &[&str]| {
            let program = needed(locate::openssl());
            let output = Command::new(program).args(arguments).current_dir(folder.path()).output();
            let output = output.expect("openssl runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "`openssl {}` failed:\n{said}", arguments.join(" "));
        };
        std::fs::write(path("names"), "subjectAltName = IP:127.0.0.1, DNS:localhost\n").expect("ours");
        let own =
            ["-x509", "-days", "30", "-subj", "/CN=limiter tests", "-keyout", "ca.key", "-out", "ca.crt"];
        openssl(&[&request[..], &own].concat());
        let asked = ["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"];
        openssl(&[&request[..], &asked].concat());
        let (sign, signed) = (["x509", "-req", "-days", "30", "-in", "server.csr"], ["-out", "server.crt"]);
        let by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"];
        openssl(&[&sign[..], &by, &signed].concat());
        Self { ca: path("ca.crt"), chain: path("server.crt"), key: path("server.key"), _folder: folder }
    }
}
