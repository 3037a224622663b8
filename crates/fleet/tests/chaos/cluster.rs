//! A PostgreSQL of the test's own, which it may restart and kill. The one that other tests share is left alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A server in a folder of its own.
pub struct Cluster {
    _folder: TempDir,
    dir: PathBuf,
    pub port: u16,
}

impl Cluster {
    /// Makes one.
    pub fn start() -> Self {
        Self::make(|dir| script(&["start".as_ref(), dir]))
    }

    fn make(how: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("fleet-chaos-")
            .tempdir()
            .unwrap();
        // The server's user has to pass through.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let dir = folder.path().join("pg");
        let url = how(&dir);
        let port = url.rsplit(':').next().and_then(|end| end.split('/').next());
        Self {
            _folder: folder,
            port: port.unwrap().parse().unwrap(),
            dir,
        }
    }

    /// Its address, as `fleet` reads it.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Ends it in the middle of everything, and starts it again.
    pub fn restart(&self) {
        script(&["halt".as_ref(), &self.dir]);
        script(&["again".as_ref(), &self.dir]);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        script(&["stop".as_ref(), &self.dir]);
    }
}

/// The address of a PostgreSQL, or of what stands before it.
pub fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

fn script(arguments: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    let done = Command::new(script).args(arguments).output().unwrap();
    assert!(
        done.status.success(),
        "this test needs a PostgreSQL of its own: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}
