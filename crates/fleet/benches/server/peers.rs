//! LangGraph's savers, each in a Python process of its own that measures itself.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Speed;
use crate::disk::Slow;
use crate::http::Client;
use crate::ours::Words;

#[derive(Clone, Copy, Debug)]
pub enum Saver {
    Sqlite,
    Postgres,
}

/// What a writer does again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// One checkpoint.
    Put,
    /// A step as LangGraph makes it: what its task returned, then the checkpoint.
    WritesAndPut,
}

impl Step {
    fn flag(self) -> Option<String> {
        (self == Self::WritesAndPut).then(|| "--writes".to_owned())
    }
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

    /// These peers on a slow disk.
    pub fn on(&self, slow: &Slow) -> Self {
        Self {
            slow: Some(slow.clone()),
            ..self.clone()
        }
    }

    /// A command about a saver, and the folder of its file: a new one each time, because an old one is larger, and slower.
    fn command(&self, what: &str, saver: Saver, more: &[String]) -> (Command, TempDir) {
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
        (command, folder)
    }

    fn run(&self, what: &str, saver: Saver, more: &[String]) -> Value {
        let (mut command, _folder) = self.command(what, saver, more);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{what} {saver:?}: {said}");
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// The saver behind HTTP, with its best server: steps per second of so many clients, each one request.
    pub fn serve(
        &self,
        saver: Saver,
        step: Step,
        (kilobytes, clients): (usize, usize),
        span: Duration,
    ) -> Speed {
        let mut more = vec![format!("--kilobytes={kilobytes}")];
        more.extend(step.flag());
        let (mut command, _folder) = self.command("serve", saver, &more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = ready["url"].as_str().unwrap();
        let speed = crate::ours::at_once(clients, span, |number| {
            let mut client = Client::new(url, "");
            let mut words = Words(number as u64 + 1);
            move || {
                let value = words.take(kilobytes * 1024 / 100);
                let body = json!({ "thread": format!("thread-{number}"), "value": value });
                client.root("POST", "/put", &body.to_string());
            }
        });
        let _ = child.kill();
        let _ = child.wait();
        speed
    }

    /// Their best way: threads of one process, or four processes.
    pub fn write(
        &self,
        saver: Saver,
        step: Step,
        (kilobytes, writers): (usize, usize),
        span: Duration,
    ) -> Speed {
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
            more.extend(step.flag());
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
