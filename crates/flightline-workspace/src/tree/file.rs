//! A look at one path. No link is followed on the way or at the end, and no look blocks.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use flightline_core::event::Hasher;
use flightline_core::file_system::{SeenFile, SeenKind};
use flightline_core::{RepoPath, Time, Title};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

/// The rest of the bounds: files, bytes and time.
pub(super) struct ScanBudget {
    pub until: Instant,
    pub files: usize,
    pub bytes: u64,
    pub file: u64,
}

/// Looks at files below a folder.
pub(super) struct FileScanner<'a> {
    pub root: &'a Path,
}

impl FileScanner<'_> {
    /// The file at a path; none when the bounds are used up.
    pub fn see(&self, path: &RepoPath, room: &mut ScanBudget) -> Option<SeenFile> {
        if room.files == 0 || Instant::now() >= room.until {
            return None;
        }
        room.files -= 1;
        Some(self.look(path, room).unwrap_or_else(|errno| match errno {
            Errno::NOENT => of(path, SeenKind::Missing),
            // A part of the way is a link, or no folder.
            Errno::LOOP | Errno::NOTDIR => SeenFile {
                unread: said("it is behind a link, or a file is in the place of a folder"),
                ..of(path, SeenKind::Other)
            },
            errno => SeenFile {
                unread: said(&format!("it cannot be read: {errno}")),
                ..of(path, SeenKind::Other)
            },
        }))
    }

    fn look(&self, path: &RepoPath, room: &mut ScanBudget) -> Result<SeenFile, Errno> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The root is where the fleet is, whatever leads there.
        let mut at: OwnedFd = rustix::fs::open(
            self.root,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if path.as_str() == "." {
            return Ok(of(path, SeenKind::Folder));
        }
        let (way, name) = match path.as_str().rsplit_once('/') {
            Some((way, name)) => (way.split('/').collect(), name),
            None => (Vec::new(), path.as_str()),
        };
        for part in way {
            at = openat(&at, part, folder, Mode::empty())?;
        }
        let stat = statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let seen = SeenFile {
            size: u64::try_from(stat.st_size).ok(),
            modified_at: Some(modified(&stat)),
            ..of(path, SeenKind::File)
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => hashed(seen, &at, name, room),
            FileType::Symlink => {
                let target = readlinkat(&at, name, Vec::new())?;
                let mut hasher = Hasher::default();
                hasher.update(target.as_bytes());
                SeenFile {
                    kind: SeenKind::Link,
                    checksum: Some(hasher.hex()),
                    ..seen
                }
            }
            FileType::Directory => SeenFile {
                kind: SeenKind::Folder,
                size: None,
                ..seen
            },
            _ => SeenFile {
                kind: SeenKind::Other,
                size: None,
                ..seen
            },
        })
    }
}

/// A plain file with its hash, or why it has none.
fn hashed(seen: SeenFile, at: &OwnedFd, name: &str, room: &mut ScanBudget) -> SeenFile {
    let unread = |why: &str| SeenFile {
        unread: said(why),
        ..seen.clone()
    };
    let size = seen.size.unwrap_or(u64::MAX);
    if size > room.file {
        return unread("it is too large to be hashed");
    }
    if size > room.bytes {
        return unread("there was too much else to be hashed");
    }
    // Should something else be in its place by now, it is not waited for either.
    let plain = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(at, OsStr::new(name), plain, Mode::empty()).map(File::from);
    let mut file = match opened {
        Ok(file) => file,
        Err(errno) => return unread(&format!("it cannot be read: {errno}")),
    };
    if !file.metadata().is_ok_and(|seen| seen.is_file()) {
        return unread("it changed while it was looked at");
    }
    let (mut hasher, mut buffer, mut total) = (Hasher::default(), vec![0; 64 * 1024], 0_u64);
    loop {
        if Instant::now() >= room.until {
            return unread("there was no time left to hash it");
        }
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                total += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return unread(&format!("it cannot be read: {error}")),
        }
        if total > room.file {
            return unread("it is too large to be hashed");
        }
    }
    room.bytes = room.bytes.saturating_sub(total);
    SeenFile {
        checksum: Some(hasher.hex()),
        // The number of hashed bytes counts.
        size: Some(total),
        ..seen
    }
}

fn of(path: &RepoPath, kind: SeenKind) -> SeenFile {
    SeenFile {
        path: path.clone(),
        kind,
        checksum: None,
        size: None,
        modified_at: None,
        unread: None,
    }
}

fn said(why: &str) -> Option<Title> {
    Title::parse("reason", why).ok()
}

#[expect(
    clippy::unnecessary_cast,
    reason = "the type of these differs by platform"
)]
fn modified(stat: &Stat) -> Time {
    let millis = (stat.st_mtime as i64).saturating_mul(1000);
    Time::from_millis(millis.saturating_add(stat.st_mtime_nsec as i64 / 1_000_000))
}
