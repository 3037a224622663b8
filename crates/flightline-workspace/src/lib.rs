//! The work tree around a fleet: the place of `.flightline/`, the meaning of a path on the command line inside
//! the repository, the answers of git, the files, and the running processes. `beneath` is the one door to files;
//! `trust` knows whose fleets this user obeys.

pub mod beneath;
mod discover;
mod git;
mod process;
mod tree;
mod trust;
mod typed;

pub use discover::{Home, STATE_FOLDER, discover, repository_root};
pub use git::{Surroundings, find_program};
pub use process::{
    Holder, all_ancestors, ancestors, client_process, describe, holders, host_name, is_running,
    tail_of, uptime, user_name,
};
pub use tree::{Bounds, WorkTree};
pub use trust::{Fingerprint, Trust};
pub use typed::repo_path;

use std::fs::File;
use std::io::{self, Read};

/// The SHA-256 of the bytes of an opened file. Fails when it has more than `most`.
pub fn file_checksum(opened: File, most: u64) -> io::Result<String> {
    let mut opened = opened.take(most.saturating_add(1));
    let mut hasher = flightline_core::event::Hasher::default();
    let mut buffer = vec![0; 64 * 1024];
    if opened.get_ref().metadata()?.len() > most {
        return Err(too_large(most));
    }
    loop {
        match opened.read(&mut buffer)? {
            0 if opened.limit() == 0 => return Err(too_large(most)),
            0 => return Ok(hasher.hex()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn too_large(most: u64) -> io::Error {
    io::Error::other(format!("it is larger than {most} bytes"))
}
