//! Turns typed paths into paths of the fleet.

use super::App;
use flightline::core::redact::contains_secret;
use flightline::core::{Refusal, RepoPath};
use flightline::workspace::beneath::Dir;
use flightline::workspace::repo_path;
use std::path::{Path, PathBuf};

impl App {
    /// The folder to begin at for a typed path of a file, and the way from there.
    pub fn towards(&self, path: &Path) -> std::io::Result<(Dir, PathBuf)> {
        let root = self.home.as_ref().map(|home| home.root.as_path());
        Dir::towards(root, path)
    }

    pub fn path(&self, typed: &str) -> Result<RepoPath, Refusal> {
        // As it was typed: put in order, the password of a URL would not be recognised any more.
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
