//! The work tree around a fleet: where `.flightline/` is, what a path on the command line means
//! inside the repository, what git and the files in it say, and which processes are running. `beneath` is the one
//! door to files; `trust` knows whose fleets this user obeys.

pub mod beneath;
mod discover;
mod git;
mod process;
mod tree;
mod trust;
mod typed;

pub use discover::{Home, STATE_FOLDER, discover, repository_root};
pub use git::Surroundings;
pub use process::{
    Holder, all_ancestors, ancestors, client_process, describe, holders, host_name, is_running,
    tail_of, uptime, user_name,
};
pub use tree::{Bounds, WorkTree};
pub use trust::{Fingerprint, Trust};
pub use typed::repo_path;

use std::io::Read;
use std::path::Path;

/// The SHA-256 of a file's bytes.
#[expect(clippy::disallowed_methods, reason = "a file that somebody names")]
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
