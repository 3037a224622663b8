//! A test's own PostgreSQL server: to be stopped, started again, or spoken to through TLS.

use std::path::{Path, PathBuf};
use std::process::Command;

use flightline::store::Location;
use tempfile::TempDir;

/// A PostgreSQL server of one test, gone with this value.
pub struct Database {
    folder: TempDir,
    url: String,
}

impl Database {
    /// Starts a server without TLS.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server that offers TLS, with a certificate for `localhost`.
    pub fn with_tls() -> Self {
        Self::with(&["--tls"])
    }

    fn with(options: &[&str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("pg")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o711))
            .tempdir()
            .expect("a folder");
        let mut arguments = vec!["start"];
        arguments.extend(options);
        let url = run(&arguments, &folder.path().join("it"));
        Self { folder, url }
    }

    /// The URL of the server: `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The cluster as a location, by the name in its certificate and with these parameters.
    pub fn by_name(&self, parameters: &str) -> Location {
        let url = self.url.replace("127.0.0.1", "localhost");
        Location::Postgres(format!("{url}?{parameters}"))
    }

    /// The certificate of the authority that made the server's certificate, or of another authority.
    pub fn authority(&self, right: bool) -> PathBuf {
        let name = if right { "ca.pem" } else { "other.pem" };
        self.folder.path().join("it/tls").join(name)
    }

    /// Stops the server, as if its machine had lost power.
    pub fn halt(&self) {
        run(&["halt"], &self.folder.path().join("it"));
    }

    /// Freezes every process of the server: its connections stand, and no process answers.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets the frozen server go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    #[expect(clippy::disallowed_methods, reason = "the system's own files: /proc")]
    fn signal(&self, signal: &str) {
        let file = self.folder.path().join("it/data/postmaster.pid");
        // Its folder is its own user's.
        let found = Command::new("cat").arg(&file).output().expect("`cat` runs");
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        let pid = text.lines().next().expect("a process").to_owned();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("its processes");
        let all = std::iter::once(pid.as_str()).chain(children.split_whitespace());
        let sent = Command::new("kill").arg(signal).args(all).status();
        assert!(sent.expect("`kill` runs").success());
    }

    /// Starts the stopped server again, at its old address.
    pub fn again(&self) {
        run(&["again"], &self.folder.path().join("it"));
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        run(&["stop"], &self.folder.path().join("it"));
    }
}

fn run(arguments: &[&str], folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    let ran = Command::new(script)
        .args(arguments)
        .arg(folder)
        .output()
        .expect("the script runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}
