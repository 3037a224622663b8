//! A test's own git repository: fixed author and dates, so that commits have the same ids everywhere.
#![expect(clippy::disallowed_methods, reason = "a repository for tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flightline::workspace::{Bounds, Surroundings, WorkTree};

/// The folders of the programs that tests may use.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A repository below a temporary folder.
pub struct TestRepository {
    root: PathBuf,
}

impl TestRepository {
    /// Makes a repository in `root`, with these files in its first commit.
    pub fn new(root: &Path, files: &[(&str, &str)]) -> Self {
        fs::create_dir_all(root).expect("a folder");
        let root = root.canonicalize().expect("a folder");
        let repository = Self { root };
        repository.git(&["init", "-q", "-b", "main"]);
        for (path, content) in files {
            repository.write(path, content);
        }
        repository.commit("first");
        repository
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file.
    pub fn write(&self, path: &str, content: &str) {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, content).expect("a file");
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).expect("a file");
    }

    /// Commits all files. Returns the commit's id.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A", "--", ".", ":!.flightline"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs git.
    pub fn git(&self, arguments: &[&str]) -> String {
        let done = Command::new("git")
            .args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"])
            .args(arguments)
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.root)
            .envs(["AUTHOR", "COMMITTER"].iter().flat_map(|who| {
                [
                    (format!("GIT_{who}_NAME"), "t"),
                    (format!("GIT_{who}_EMAIL"), "t@example.invalid"),
                    (format!("GIT_{who}_DATE"), "2026-01-04T12:00:00Z"),
                ]
            }))
            .output()
            .expect("git runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    pub fn tree(&self) -> WorkTree {
        work_tree(&self.root)
    }
}

/// Opens the work tree in a folder, to be looked at.
pub fn work_tree(root: &Path) -> WorkTree {
    let surroundings = Surroundings {
        path: Some(PATH.into()),
        ..Surroundings::default()
    };
    WorkTree::new(root, surroundings, Bounds::default())
}
