//! The one core of every test that touches a disk: a repository with a user's home beside it, and the real binary to run
//! there. A [`crate::World`] opens a store in one; the rings that start processes put clocks, servers and questions on top.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::sealed;

pub struct TestBed {
    /// Goes when the place goes.
    _folder: Option<TempDir>,
    repo: PathBuf,
    home: PathBuf,
    /// Where the store is, when it is not in the repository.
    pub location: Option<String>,
}

impl TestBed {
    /// A repository in a temporary folder.
    pub fn temporary() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("fleet-cli-")
            .tempdir()
            .expect("a temporary folder");
        let [repo, home] = ["repo", "home"].map(|name| folder.path().join(name));
        let mut place = Self::of(repo, home);
        place._folder = Some(folder);
        place
    }

    /// A repository in a folder that the caller cleans up, with the home beside it.
    pub fn at(repo: &Path) -> Self {
        Self::of(repo.to_path_buf(), repo.with_extension("home"))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test makes the folders in which it runs"
    )]
    fn of(repo: PathBuf, home: PathBuf) -> Self {
        for folder in [&repo, &home] {
            fs::create_dir_all(folder).expect("a new folder");
        }
        Self {
            _folder: None,
            repo,
            home,
            location: None,
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.repo
    }

    pub fn repo(&self) -> PathBuf {
        self.repo.clone()
    }

    pub fn home(&self) -> PathBuf {
        self.home.clone()
    }

    /// The folder around the repository.
    pub fn around(&self) -> PathBuf {
        self.repo
            .parent()
            .expect("a folder around it")
            .to_path_buf()
    }

    pub fn state(&self) -> PathBuf {
        self.repo.join(".flightline")
    }

    pub fn database(&self) -> PathBuf {
        self.state().join("flightline.db")
    }

    /// Trusts the fleet, whose files a test has put there.
    pub fn trust(&self) {
        crate::trust(&self.state(), &self.home);
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

    /// The real binary, which cargo builds for the tests of its own package.
    pub fn fleet(&self, arguments: &[&str]) -> Command {
        let test = std::env::current_exe().expect("a test has a program");
        let built = test.ancestors().nth(2).expect("a folder of programs");
        let mut command = self.sealed(built.join("fleet").to_str().expect("a name in UTF-8"));
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
    } = command.output().expect("a program that starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status} {stderr}");
    String::from_utf8(stdout).expect("text")
}

/// What a command answers that must succeed.
pub fn answered(command: &mut Command) -> Value {
    serde_json::from_str(&said(command.arg("--json"))).expect("JSON")
}
