//! A PostgreSQL of the test's own, which it may restart and kill. The one that other tests share is left alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

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

    /// A copy of it that follows it.
    pub fn standby(&self) -> Self {
        Self::make(|dir| script(&["standby".as_ref(), dir, &self.dir]))
    }

    /// Kills all of it, as if its machine were gone.
    pub fn kill(&self) {
        script(&["kill".as_ref(), &self.dir]);
    }

    /// A copy becomes the one that is written to.
    pub fn promote(&self) {
        script(&["promote".as_ref(), &self.dir]);
    }

    /// Runs SQL on it, as its operator does, and gives the first text of the answer.
    pub fn sql(&self, sql: &str) -> Option<String> {
        let mut client = postgres::Client::connect(&self.url(), postgres::NoTls).unwrap();
        let answer = client.simple_query(sql).unwrap();
        answer.iter().find_map(|message| match message {
            postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// Waits until SQL gives this text.
    pub fn until(&self, sql: &str, wanted: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.sql(sql).as_deref() != Some(wanted) {
            assert!(Instant::now() < deadline, "{sql} never gave {wanted}");
            thread::sleep(Duration::from_millis(20));
        }
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
