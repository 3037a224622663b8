//! Explains errors about files in words: links, other kinds of entries, and files of another user.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{DirEntry, EntryKind};

/// Returns an error that says what went wrong, with a word for links: the kernel says of them that they are no folder.
pub(super) fn explained(errno: Errno, at: impl AsFd, name: &OsStr) -> io::Error {
    let seen = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    match (errno, seen.map(|seen| DirEntry::of(&seen).kind)) {
        (Errno::NOTDIR | Errno::LOOP, Ok(EntryKind::Link)) => not_plain(name, EntryKind::Link),
        (Errno::NOTDIR, Ok(_)) => io::Error::new(
            ErrorKind::NotADirectory,
            format!("{} is not a folder", shown(name)),
        ),
        (errno, _) => errno.into(),
    }
}

pub(super) fn not_plain(name: &OsStr, kind: EntryKind) -> io::Error {
    io::Error::other(match kind {
        EntryKind::Link => format!("{} is a link, and no link is followed here", shown(name)),
        EntryKind::Folder => format!("{} is a folder", shown(name)),
        EntryKind::File | EntryKind::Other => format!("{} is not a plain file", shown(name)),
    })
}

pub(super) fn of_another(path: &Path, owner: u32) -> io::Error {
    io::Error::new(
        ErrorKind::PermissionDenied,
        format!("{} belongs to another user (uid {owner})", path.display()),
    )
}

pub(super) fn named_nothing(below: &Path) -> io::Error {
    match below.as_os_str().is_empty() {
        true => io::Error::other("it is a folder"),
        false => io::Error::other(format!("{} names no file", below.display())),
    }
}

pub(super) fn shown(name: &OsStr) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}
