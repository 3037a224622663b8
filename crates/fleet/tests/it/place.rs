//! A repository with a user's home beside it, and the real binary to run there. Each ring puts its own clock, servers
//! and questions on top of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flightline_testkit::program::sealed;
use serde_json::Value;
use tempfile::TempDir;

pub struct Place {
    /// Goes when the place goes.
    _folder: Option<TempDir>,
    repo: PathBuf,
    home: PathBuf,
    /// Where the store is, when it is not in the repository.
    pub location: Option<String>,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("fleet-cli-")
            .tempdir()
            .unwrap();
        let [repo, home] = ["repo", "home"].map(|name| folder.path().join(name));
        let mut place = Self::of(repo, home);
        place._folder = Some(folder);
        place
    }

    /// A repository in a folder that the caller cleans up, with the home beside it.
    pub fn at(repo: &Path) -> Self {
        Self::of(repo.to_path_buf(), repo.with_extension("home"))
    }

    fn of(repo: PathBuf, home: PathBuf) -> Self {
        for folder in [&repo, &home] {
            fs::create_dir_all(folder).unwrap();
        }
        Self {
            _folder: None,
            repo,
            home,
            location: None,
        }
    }

    pub fn repo(&self) -> PathBuf {
        self.repo.clone()
    }

    pub fn home(&self) -> PathBuf {
        self.home.clone()
    }

    /// The folder around the repository.
    pub fn around(&self) -> PathBuf {
        self.repo.parent().unwrap().to_path_buf()
    }

    pub fn state(&self) -> PathBuf {
        self.repo.join(".flightline")
    }

    pub fn database(&self) -> PathBuf {
        self.state().join("flightline.db")
    }

    /// Trusts the fleet, whose files a test has put there.
    pub fn trust(&self) {
        flightline_testkit::trust(&self.state(), &self.home);
    }

    /// A program in the repository that sees nothing of this machine's environment.
    pub fn sealed(&self, program: &str) -> Command {
        let mut command = sealed(program, &self.repo, &self.home);
        command.env("USER", "grace");
        if let Some(location) = &self.location {
            command.env("FLEET_LOCATION", location);
        }
        command
    }

    /// The real binary.
    pub fn fleet(&self, arguments: &[&str]) -> Command {
        let mut command = self.sealed(env!("CARGO_BIN_EXE_fleet"));
        command.args(arguments);
        command
    }

    /// What the distribution's own `sqlite3` reads from the store.
    pub fn sqlite(&self, sql: &str) -> String {
        let mut command = self.sealed("sqlite3");
        command.args(["-bail", "-cmd", ".timeout 5000"]);
        let said = said(command.arg(self.database()).arg(sql));
        said.trim_end().to_owned()
    }
}

/// What a command says that must succeed.
pub fn said(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status} {stderr}");
    String::from_utf8(stdout).unwrap()
}

/// What a command answers that must succeed.
pub fn answered(command: &mut Command) -> Value {
    serde_json::from_str(&said(command.arg("--json"))).unwrap()
}
