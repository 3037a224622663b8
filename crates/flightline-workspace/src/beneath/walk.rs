//! The way to a folder: walked part by part from a handle, without following a link.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use super::error::{explained, named_nothing};
use super::{Dir, FOLDER};

impl Dir {
    /// The folder that holds a name below this one, and the name in it; none when there is no such folder.
    pub(super) fn above(&self, below: &Path) -> io::Result<Option<(Reached<'_>, OsString)>> {
        match self.needed_above(below) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn needed_above(&self, below: &Path) -> io::Result<(Reached<'_>, OsString)> {
        let mut way = parts(below)?;
        let name = way.pop().ok_or_else(|| named_nothing(below))?.to_owned();
        Ok(match way.is_empty() {
            true => (Reached::Here(self), name),
            false => (Reached::Below(self.walk(way, None)?), name),
        })
    }

    pub(super) fn walk(&self, way: Vec<&OsStr>, make: Option<u32>) -> io::Result<Self> {
        let mut at = Self {
            handle: self.handle.try_clone()?,
            path: self.path.clone(),
            owners: self.owners,
        };
        for part in way {
            if let Some(mode) = make {
                match rustix::fs::mkdirat(&at.handle, part, Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            at = at.step_into(part)?;
        }
        Ok(at)
    }

    pub(super) fn step_into(&self, part: &OsStr) -> io::Result<Self> {
        let handle = rustix::fs::openat(&self.handle, part, FOLDER, Mode::empty())
            .map_err(|errno| explained(errno, &self.handle, part))?;
        let path = self.path.join(part);
        self.check_owner(handle.as_fd(), &path)?;
        Ok(Self {
            handle,
            path,
            owners: self.owners,
        })
    }
}

/// The folder that a path led to: most lead no further than where they began, and need no handle of their own.
pub(super) enum Reached<'a> {
    Here(&'a Dir),
    Below(Dir),
}

impl Deref for Reached<'_> {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        match self {
            Self::Here(folder) => folder,
            Self::Below(folder) => folder,
        }
    }
}

/// The parts of a path that stays below where it begins.
pub(super) fn parts(below: &Path) -> io::Result<Vec<&OsStr>> {
    let part = |component| match component {
        Component::Normal(part) => Some(Ok(part)),
        Component::CurDir => None,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => Some(Err(())),
    };
    let parts: Result<Vec<&OsStr>, ()> = below.components().filter_map(part).collect();
    parts.map_err(|()| io::Error::other(format!("{} leads elsewhere", below.display())))
}

/// The most links that are followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// A path without the links that are the user's own. A path that leads into the repository at `root` begins with `root`,
/// whichever link led there, and keeps the links in it: those may be a stranger's. The last part is followed only where
/// `last` says so.
pub(super) fn without_own_links(
    root: Option<&Path>,
    path: &Path,
    last: bool,
) -> io::Result<PathBuf> {
    let wanted = root.and_then(identity);
    let is_root = |at: &Path| wanted.is_some() && identity(at) == wanted;
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut ahead: VecDeque<OsString> = path_parts(&std::path::absolute(path)?).collect();
    while let Some(part) = ahead.pop_front() {
        if let Some(root) = root.filter(|_| is_root(&at)) {
            ahead.push_front(part);
            match way_below(&mut ahead) {
                Some(below) => return Ok(root.join(below)),
                // The path leaves the repository again.
                None => {
                    at = at.parent().unwrap_or(&at).to_path_buf();
                    continue;
                }
            }
        }
        let next = match part.to_str() {
            Some("/") => PathBuf::from("/"),
            Some("..") => at.parent().unwrap_or(&at).to_path_buf(),
            Some(_) | None => at.join(&part),
        };
        let link = rustix::fs::readlinkat(rustix::fs::CWD, &next, Vec::new());
        match link.map(|target| PathBuf::from(OsString::from_vec(target.into_bytes()))) {
            Ok(_) if links == MOST_LINKS => return Err(Errno::LOOP.into()),
            Ok(target) if last || !ahead.is_empty() => {
                links += 1;
                let parts: Vec<OsString> = path_parts(&target).collect();
                for part in parts.into_iter().rev() {
                    ahead.push_front(part);
                }
            }
            Ok(_) | Err(_) => at = next,
        }
    }
    Ok(match root.filter(|_| is_root(&at)) {
        Some(root) => root.to_path_buf(),
        None => at,
    })
}

fn path_parts(path: &Path) -> impl Iterator<Item = OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned())
}

/// The rest of a path, by its text alone; none when it leads above its beginning, and then `ahead` has the part that is
/// left.
fn way_below(ahead: &mut VecDeque<OsString>) -> Option<PathBuf> {
    let mut below: Vec<OsString> = Vec::new();
    while let Some(part) = ahead.pop_front() {
        if part != ".." {
            below.push(part);
        } else if below.pop().is_none() {
            return None;
        }
    }
    Some(below.into_iter().collect())
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let seen = rustix::fs::stat(folder).ok()?;
    Some((seen.st_dev, seen.st_ino))
}
