//! A repository of its own, with a home of its own.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flightline_core::RepoPath;
use flightline_core::file_system::{FileSystem, SeenFile, SeenKind, TreeNow};
use flightline_workspace::{Bounds, Surroundings, WorkTree};
use tempfile::TempDir;

/// Where programs are.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub struct Scene {
    folder: TempDir,
    pub path: OsString,
    pub bounds: Bounds,
}

impl Scene {
    /// A folder without git.
    pub fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["repo", "home", "programs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self {
            folder,
            path: PATH.into(),
            bounds: Bounds::default(),
        }
    }

    /// A repository with nothing in it.
    pub fn empty() -> Self {
        let scene = Self::bare();
        scene.git(&["init", "-q", "-b", "main"]);
        scene
    }

    /// A repository with one commit.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let scene = Self::empty();
        for (path, content) in files {
            scene.write(path, content);
        }
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        scene
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("repo")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn write(&self, path: &str, content: &str) -> PathBuf {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        file
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let done = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .current_dir(self.root())
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.home())
            .env("GIT_AUTHOR_DATE", "2026-01-04T12:00:00Z")
            .env("GIT_COMMITTER_DATE", "2026-01-04T12:00:00Z")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// A program that is found before the others.
    pub fn program(&mut self, name: &str, script: &str) {
        let folder = self.folder.path().join("programs");
        executable(&folder.join(name), script);
        let mut path = folder.into_os_string();
        path.push(":");
        path.push(PATH);
        self.path = path;
    }

    /// A folder beside the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn tree(&self, root: &Path) -> WorkTree {
        let surroundings = Surroundings {
            path: Some(self.path.clone()),
            home: Some(self.home().into_os_string()),
            config_home: None,
        };
        WorkTree::new(root, surroundings, self.bounds)
    }

    pub fn look(&self, named: &[&str]) -> FileSystem {
        self.tree(&self.root()).look(&paths(named))
    }

    pub fn glance(&self, named: &[&str]) -> TreeNow {
        self.tree(&self.root()).glance(&paths(named))
    }
}

/// Writes a program by another process: a child that another test starts meanwhile would hold a file that this process writes
/// open, and the kernel runs no such file.
pub fn executable(file: &Path, script: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("#!/bin/sh\n{script}\n");
    let mut pipe = writer.stdin.take().unwrap();
    pipe.write_all(text.as_bytes()).unwrap();
    drop(pipe);
    assert!(writer.wait().unwrap().success());
}

pub fn paths(texts: &[&str]) -> Vec<RepoPath> {
    let paths = texts.iter().map(|text| RepoPath::parse(text).unwrap());
    paths.collect()
}

pub fn names(files: &[SeenFile]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

pub fn texts(paths: &[RepoPath]) -> Vec<&str> {
    paths.iter().map(RepoPath::as_str).collect()
}

pub fn warnings(seen: &FileSystem) -> String {
    let warnings: Vec<&str> = seen.warnings.iter().map(|it| it.as_str()).collect();
    warnings.join("; ")
}

pub fn kinds(files: &[SeenFile]) -> Vec<(&str, SeenKind)> {
    files.iter().map(|it| (it.path.as_str(), it.kind)).collect()
}
