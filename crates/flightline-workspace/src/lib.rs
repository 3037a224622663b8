//! The work tree around a fleet: where `.flightline/` is, what a path on the command line means
//! inside the repository, what git and the files in it say, and which processes are running. `beneath` is the one
//! door to files; `trust` knows whose fleets this user obeys.

pub mod beneath;
mod discover;
mod git;
mod process;
mod tree;
mod trust;

pub use discover::{Home, STATE_FOLDER, discover, repository_root};
pub use git::Surroundings;
pub use process::{Holder, describe, holders, host_name, is_running};
pub use tree::{Bounds, WorkTree};
pub use trust::{Fingerprint, Trust};

use std::io::Read;
use std::path::{Component, Path};

use flightline_core::{Refusal, RepoPath};

/// What `typed` means inside the repository at `root`, when it was typed in `here`.
///
/// # Errors
/// When it leads outside the repository, or cannot be a path at all.
pub fn repo_path(root: &Path, here: &Path, typed: &str) -> Result<RepoPath, Refusal> {
    if typed.is_empty() {
        return RepoPath::parse(typed);
    }
    let typed_path = Path::new(typed);
    let absolute = if typed_path.is_absolute() {
        typed_path.to_path_buf()
    } else {
        here.join(typed_path)
    };
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for component in absolute.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => {
                parts.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let inside: std::path::PathBuf = std::iter::once(std::ffi::OsStr::new("/"))
        .chain(parts)
        .collect();
    let outside = || {
        let shown = flightline_core::redact::shown(typed);
        Refusal::invalid(format!(
            "`{shown}` cannot be used as a path: it leads outside the repository"
        ))
        .hint(format!("paths are inside {}", root.display()))
    };
    let relative = inside.strip_prefix(root).map_err(|_| outside())?;
    let text = relative
        .to_str()
        .ok_or_else(|| Refusal::invalid("a path must be UTF-8"))?;
    RepoPath::parse(if text.is_empty() { "." } else { text })
}

/// The SHA-256 of a file's bytes.
///
/// # Errors
/// When the file cannot be read.
pub fn file_checksum(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = flightline_core::event::Hasher::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.hex()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_paths_are_read_where_they_were_typed() {
        let (root, here) = (Path::new("/repo"), Path::new("/repo/src"));
        for (typed, meant) in [
            ("auth.ts", "src/auth.ts"),
            ("../lib", "lib"),
            ("/repo/a/b", "a/b"),
            (".", "src"),
            ("..", "."),
        ] {
            assert_eq!(
                repo_path(root, here, typed).unwrap().as_str(),
                meant,
                "{typed}"
            );
        }
        for outside in ["../..", "/etc/passwd", "../../repository"] {
            assert!(repo_path(root, here, outside).is_err(), "{outside}");
        }
    }
}
