//! The entry of a name in a folder: its kind, size, permissions, owner and times.

use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat, Statx, StatxFlags};

/// A file, folder or link in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub kind: EntryKind,
    pub size: u64,
    /// The permissions of the file: the last nine bits.
    pub mode: u32,
    pub owner: u32,
    /// Time of the last write, in seconds since 1970.
    pub modified: i64,
}

/// The kind of thing that has a name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl DirEntry {
    #[expect(
        clippy::unnecessary_cast,
        reason = "the type of these differs by platform"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Folder,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Other,
            },
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode as u32 & 0o777,
            owner: stat.st_uid,
            modified: stat.st_mtime as i64,
        }
    }

    pub fn is_file(&self) -> bool {
        self.kind == EntryKind::File
    }

    pub fn modified_at(&self) -> SystemTime {
        let since = Duration::from_secs(self.modified.unsigned_abs());
        match self.modified < 0 {
            true => SystemTime::UNIX_EPOCH - since,
            false => SystemTime::UNIX_EPOCH + since,
        }
    }
}

/// The identity of the file that a name stands for. A file that takes the name of another has another identity, also
/// when the file system gives it the same number: it was born at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub number: u64,
    /// Time at which the file was made, in nanoseconds since 1970, where the file system knows.
    pub born: Option<i128>,
}

impl FileIdentity {
    pub(super) fn of(seen: &Statx) -> Self {
        let known = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::BTIME);
        let born =
            i128::from(seen.stx_btime.tv_sec) * 1_000_000_000 + i128::from(seen.stx_btime.tv_nsec);
        Self {
            number: seen.stx_ino,
            born: known.then_some(born),
        }
    }
}
