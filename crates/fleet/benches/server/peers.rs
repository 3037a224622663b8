//! LangGraph's savers, each in a Python process of its own that measures itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::Speed;
use crate::disk::Slow;

#[derive(Clone, Copy, Debug)]
pub enum Saver {
    Sqlite,
    Postgres,
}

#[derive(Clone)]
pub struct Peers {
    python: String,
    url: String,
    folder: PathBuf,
    slow: Option<Slow>,
}

impl Peers {
    pub fn new(python: &str, url: &str, folder: &Path) -> Self {
        Self {
            python: python.to_owned(),
            url: url.to_owned(),
            folder: folder.to_path_buf(),
            slow: None,
        }
    }

    /// The same on a slow disk.
    pub fn on(&self, slow: &Slow) -> Self {
        Self {
            slow: Some(slow.clone()),
            ..self.clone()
        }
    }

    fn run(&self, what: &str, saver: Saver, more: &[String]) -> Value {
        // A new file each time: an old one is larger, and slower.
        let folder = tempfile::tempdir_in(&self.folder).unwrap();
        let (name, place) = match saver {
            Saver::Sqlite => (
                "sqlite",
                folder.path().join("savers.db").display().to_string(),
            ),
            Saver::Postgres => ("postgres", self.url.clone()),
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/server/peers.py");
        let mut command = Command::new(&self.python);
        command.arg(script).args([what, name, &place]).args(more);
        if let Some(slow) = &self.slow {
            slow.apply(&mut command);
        }
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{what} {name}: {said}");
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// Their best way: threads of one process, or four processes.
    pub fn write(&self, saver: Saver, kilobytes: usize, writers: usize, span: Duration) -> Speed {
        let ways: &[&[&str]] = match (saver, writers) {
            (_, 1) => &[&[]],
            (Saver::Sqlite, _) => &[&[], &["--own-connections"]],
            (Saver::Postgres, _) => &[&[], &["--processes", "4"]],
        };
        let measured = ways.iter().map(|way| {
            let mut more = vec![
                format!("--writers={writers}"),
                format!("--kilobytes={kilobytes}"),
                format!("--seconds={}", span.as_secs()),
            ];
            more.extend(way.iter().map(ToString::to_string));
            let figures = self.run("write", saver, &more);
            let number = |name: &str| figures[name].as_f64().unwrap();
            Speed {
                per_second: number("per_second"),
                p50_ms: number("p50_ms"),
                p95_ms: number("p95_ms"),
            }
        });
        measured.fold(Speed::default(), Speed::best)
    }

    pub fn list(&self, saver: Saver) -> f64 {
        self.run("list", saver, &[])["p50_ms"].as_f64().unwrap()
    }

    pub fn store(&self, saver: Saver) -> f64 {
        self.run("store", saver, &[])["bytes"].as_f64().unwrap()
    }
}
