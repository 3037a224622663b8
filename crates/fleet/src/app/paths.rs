//! Turns typed paths into paths of the fleet.

use super::App;
use flightline::core::redact::contains_secret;
use flightline::core::{Refusal, RepoPath};
use flightline::file::NamedFile;
use flightline::workspace::beneath::Dir;
use flightline::workspace::{file_checksum, repo_path};
use std::path::{Path, PathBuf};

/// The largest file whose checksum is taken: a few seconds' work.
const LARGEST_ARTIFACT: u64 = 4 << 30;

impl App {
    /// The folder to begin at for a typed path of a file, and the way from there.
    pub fn towards(&self, path: &Path) -> std::io::Result<(Dir, PathBuf)> {
        Dir::towards(self.repository(), path)
    }

    /// Resolves the user's own links in a typed path of a file that is to be read.
    pub fn led_to(&self, typed: &Path) -> std::io::Result<PathBuf> {
        Dir::led_to(self.repository(), &self.here.join(typed))
    }

    /// A typed path of a file that is to be written.
    pub fn file_to_write(&self, typed: &Path) -> std::io::Result<NamedFile> {
        NamedFile::new(self.repository(), &self.here.join(typed))
    }

    /// A typed path of a file that is to be read.
    pub fn file_to_read(&self, typed: &Path) -> std::io::Result<NamedFile> {
        NamedFile::to_read(self.repository(), &self.here.join(typed))
    }

    fn repository(&self) -> Option<&Path> {
        self.home.as_ref().map(|home| home.root.as_path())
    }

    /// The SHA-256 of a file in the repository. No link leads to it, and it is not read where it is larger than a checksum
    /// is worth waiting for.
    pub fn checksum(&self, path: &RepoPath) -> std::io::Result<String> {
        let root = self.home().map_err(std::io::Error::other)?.root.as_path();
        let opened = NamedFile::new(Some(root), &root.join(path.as_str()))?.open()?;
        file_checksum(opened, LARGEST_ARTIFACT)
    }

    pub fn path(&self, typed: &str) -> Result<RepoPath, Refusal> {
        // The path is checked as it was typed: once it is put in order, the password of a URL would not be recognised
        // any more.
        if contains_secret(typed) {
            return Err(Refusal::invalid("the path looks like it holds a secret"));
        }
        repo_path(&self.home()?.root, &self.here, typed)
    }

    /// Reads a typed path that is to be locked. A folder whose name is like a file's is meant with everything in it.
    pub fn lockable(&self, typed: &str) -> Result<RepoPath, Refusal> {
        let path = self.path(typed)?;
        let folder = || {
            self.home()
                .is_ok_and(|home| home.root.join(path.as_str()).is_dir())
        };
        if path.names_a_file() && !path.is_pattern() && folder() {
            return RepoPath::parse(&format!("{path}/**"));
        }
        Ok(path)
    }

    /// Reads several typed paths that are to be locked.
    pub fn all_lockable(&self, typed: &[String]) -> Result<Vec<RepoPath>, Refusal> {
        typed.iter().map(|path| self.lockable(path)).collect()
    }

    pub fn paths(&self, typed: &[String]) -> Result<Vec<RepoPath>, Refusal> {
        typed.iter().map(|path| self.path(path)).collect()
    }
}
