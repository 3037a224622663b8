//! The one door to files: everything below a folder is reached through a handle on that folder.
//!
//! A repository that was cloned a minute ago may hold a link wherever we are about to read, write or delete, and
//! another process may put one there while we work. So a path is walked part by part from a handle, no link is
//! followed, and a file of another user is refused. An opened entry is a plain file or a folder, never a pipe
//! or a device. Files are replaced whole: old or new, never half.

mod entry;
mod error;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, Dir as Listing, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    StatxFlags,
};
use rustix::io::Errno;

use self::error::{explained, not_plain, of_another, shown};
use self::walk::{parts, without_own_links};

pub use entry::{DirEntry, EntryKind, FileIdentity};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Opening a pipe in a file's place must not block.
const FILE: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
/// The largest depth of a folder that is emptied: ours have three levels.
const DEEPEST: usize = 16;

/// The way to treat a file in the place of one that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// The file in its place is replaced.
    Yes,
    /// The file in its place is left, and nothing is written.
    No,
}

/// A folder, and everything below it.
#[derive(Debug)]
pub struct Dir {
    handle: OwnedFd,
    path: PathBuf,
    /// The users whose files may be used.
    owners: [u32; 2],
}

impl Dir {
    /// A folder that is the user's alone, such as a state folder: no link is in its place, and it and all that
    /// is used below it belongs to the user.
    pub fn private(path: &Path) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let handle = match rustix::fs::open(path, FOLDER, Mode::empty()) {
            Ok(handle) => handle,
            Err(errno) => return Err(explained(errno, rustix::fs::CWD, path.as_os_str())),
        };
        let folder = Self {
            handle,
            path: path.to_path_buf(),
            owners: [user, user],
        };
        folder.check_owner(folder.handle.as_fd(), path)?;
        Ok(folder)
    }

    /// A folder that is the user's alone, as [`Dir::private`], when there is one.
    pub fn private_if_there(path: &Path) -> io::Result<Option<Self>> {
        match Self::private(path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A folder that is the user's alone, as [`Dir::private`], made where it is missing.
    pub fn make_private(path: &Path) -> io::Result<Self> {
        if let Some(folder) = Self::private_if_there(path)? {
            return Ok(folder);
        }
        let (above, below) = Self::towards(None, path)?;
        above.make(below, 0o700)?;
        Self::private(path)
    }

    /// A folder that the user chose, such as a repository: links on the way to it are the user's, and everything used
    /// below it belongs to the user or to the owner of the folder.
    pub fn shared(path: &Path) -> io::Result<Self> {
        let named = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let handle = rustix::fs::open(named, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let owner = rustix::fs::fstat(&handle)?.st_uid;
        Ok(Self {
            handle,
            path: path.to_path_buf(),
            owners: [rustix::process::geteuid().as_raw(), owner],
        })
    }

    /// The folder to begin at for a path that a person typed, and the way from there: the repository, when the path
    /// lies in it, because what it holds may be a stranger's; else the last folder on the way that is there, because
    /// links outside of the repository are the user's own.
    pub fn towards(root: Option<&Path>, path: &Path) -> io::Result<(Self, PathBuf)> {
        let path = without_own_links(root, path, false)?;
        if let Some(root) = root
            && let Ok(below) = path.strip_prefix(root)
        {
            return Ok((Self::shared(root)?, below.to_path_buf()));
        }
        let mut above = path.parent().unwrap_or(&path);
        loop {
            match (Self::shared(above), above.parent()) {
                (Err(error), Some(next)) if error.kind() == ErrorKind::NotFound => above = next,
                (found, _) => {
                    let below = path.strip_prefix(above).unwrap_or(&path);
                    return Ok((found?, below.to_path_buf()));
                }
            }
        }
    }

    /// The path of something that is to be read, where the user's own links lead.
    pub fn led_to(root: Option<&Path>, path: &Path) -> io::Result<PathBuf> {
        without_own_links(root, path, true)
    }

    /// The folder's own path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder below this one; none when there is none. Fails when something else is in its place, or on the way.
    pub fn find(&self, below: impl AsRef<Path>) -> io::Result<Option<Self>> {
        match self.walk(parts(below.as_ref())?, None) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A folder below this one, made where it is missing, with those on the way. Fails when something else is in its place.
    pub fn make(&self, below: impl AsRef<Path>, mode: u32) -> io::Result<Self> {
        self.walk(parts(below.as_ref())?, Some(mode))
    }

    /// The bytes of a plain file, when there is one. Fails when something else is in its place, or it is larger than
    /// `most`.
    pub fn read(&self, file: impl AsRef<Path>, most: usize) -> io::Result<Option<Vec<u8>>> {
        let Some((folder, name)) = self.above(file.as_ref())? else {
            return Ok(None);
        };
        let Some((opened, seen)) = folder.open_plain(&name, OFlags::RDONLY)? else {
            return Ok(None);
        };
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        // With room for all of it and to see that it ends: it is read at once.
        let size = usize::try_from(seen.size.min(limit)).unwrap_or(most);
        let mut bytes = Vec::with_capacity(size.saturating_add(64));
        opened.take(limit).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(io::Error::other(format!("it is larger than {most} bytes")));
        }
        Ok(Some(bytes))
    }

    pub fn read_text(&self, file: impl AsRef<Path>, most: usize) -> io::Result<Option<String>> {
        let text = self.read(file, most)?.map(String::from_utf8).transpose();
        text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
    }

    /// Writes a file: old or new and never half, durable, read back. Folders on the way must be there.
    pub fn put(
        &self,
        file: impl AsRef<Path>,
        contents: impl AsRef<[u8]>,
        replacing: Replacing,
        mode: u32,
    ) -> io::Result<()> {
        self.put_in_steps(file.as_ref(), contents.as_ref(), replacing, mode, &|| {})
    }

    /// Writes a file as [`Dir::put`] does, and calls `step` where a process could die.
    pub fn put_in_steps(
        &self,
        file: &Path,
        contents: &[u8],
        replacing: Replacing,
        mode: u32,
        step: &dyn Fn(),
    ) -> io::Result<()> {
        let (folder, name) = self.needed_above(file)?;
        match (folder.entry_of(&name)?, replacing) {
            (None, _) => {}
            (Some(_), Replacing::No) => return Err(ErrorKind::AlreadyExists.into()),
            // A link gives way to the file; nothing that it leads to is touched.
            (Some(there), Replacing::Yes) if there.kind == EntryKind::Link => {}
            (Some(there), Replacing::Yes) => folder.check_plain(&there, &name)?,
        }
        let mut aside = OsString::from(".");
        aside.push(&name);
        aside.push(format!(".{}", std::process::id()));
        // A process of the same number may have died here before; in a container it always has the same.
        folder.forget(&aside)?;
        step();
        let new = FILE
            .union(OFlags::WRONLY)
            .union(OFlags::CREATE)
            .union(OFlags::EXCL);
        let handle = rustix::fs::openat(&folder.handle, &aside, new, Mode::from_raw_mode(mode))?;
        let mut opened = File::from(handle);
        step();
        let written = opened
            .write_all(contents)
            .inspect(|()| step())
            .and_then(|()| opened.sync_all())
            .inspect(|()| step())
            .and_then(|()| match replacing {
                Replacing::Yes => folder.move_within(&aside, &name),
                // A hard link fails where the name is taken, so nothing that appeared meanwhile is lost.
                Replacing::No => folder.link_within(&aside, &name),
            })
            .inspect(|()| step());
        let forgotten = folder.forget(&aside);
        written.and(forgotten)?;
        folder.sync()?;
        step();
        match folder.read(Path::new(&name), contents.len())? {
            Some(found) if found == contents => Ok(()),
            _ => Err(io::Error::other("it does not read back as written")),
        }
    }

    /// Makes an empty file, unless something has its name.
    pub fn create(&self, file: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let (folder, name) = self.needed_above(file.as_ref())?;
        let new = FILE
            .union(OFlags::WRONLY)
            .union(OFlags::CREATE)
            .union(OFlags::EXCL);
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::openat(&folder.handle, &name, new, mode)?;
        Ok(())
    }

    /// A plain file that processes lock to take turns: made where it is missing, never emptied.
    pub fn lock_file(&self, file: impl AsRef<Path>) -> io::Result<File> {
        self.open_or_create(file.as_ref(), OFlags::RDWR)
    }

    /// Checks that a file directly below the folder could be opened to be written: a file system may have become read-only since.
    pub fn check_writable(&self, name: &str) -> io::Result<()> {
        let checked = rustix::fs::accessat(&self.handle, name, Access::WRITE_OK, AtFlags::empty());
        Ok(checked?)
    }

    /// Holds a shared lock on the folder until this handle is closed: [`Dir::is_held`] shows it to other processes. Fails
    /// when another process is stopped while it asks whether the folder is held, or the file system keeps no such locks.
    pub fn hold(&self) -> io::Result<()> {
        let mut tries = 0;
        loop {
            let held = rustix::fs::flock(&self.handle, FlockOperation::NonBlockingLockShared);
            match held {
                // A process that asks has an answer in microseconds.
                Err(Errno::WOULDBLOCK) if tries < 20 => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(1));
                }
                held => return Ok(held?),
            }
        }
    }

    /// Returns true when another process holds the folder. Not for a handle that holds it itself.
    pub fn is_held(&self) -> bool {
        match rustix::fs::flock(&self.handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = rustix::fs::flock(&self.handle, FlockOperation::Unlock);
                false
            }
            Err(errno) => errno == Errno::WOULDBLOCK,
        }
    }

    /// A plain file that is written at its end: made where it is missing.
    pub fn append_file(&self, file: impl AsRef<Path>) -> io::Result<File> {
        self.open_or_create(file.as_ref(), OFlags::WRONLY.union(OFlags::APPEND))
    }

    /// A plain file to read from, when there is one.
    pub fn open_file(&self, file: impl AsRef<Path>) -> io::Result<Option<File>> {
        match self.above(file.as_ref())? {
            Some((folder, name)) => {
                let opened = folder.open_plain(&name, OFlags::RDONLY)?;
                Ok(opened.map(|(file, _)| file))
            }
            None => Ok(None),
        }
    }

    /// Removes a file or a link; the target of a link stays. A file that is not there is no error.
    pub fn remove(&self, file: impl AsRef<Path>) -> io::Result<()> {
        match self.above(file.as_ref())? {
            Some((folder, name)) => folder.forget(&name),
            None => Ok(()),
        }
    }

    /// Removes a folder with everything in it. Links in it go, and their targets stay. A folder that is not there is no
    /// error.
    pub fn remove_folder(&self, folder: impl AsRef<Path>) -> io::Result<()> {
        let Some((above, name)) = self.above(folder.as_ref())? else {
            return Ok(());
        };
        match above.entry_of(&name)? {
            None => Ok(()),
            Some(entry) if entry.kind == EntryKind::Folder => {
                above.empty_and_remove(&name, DEEPEST)
            }
            Some(_) => Err(io::Error::other(format!(
                "{} is not a folder",
                shown(&name)
            ))),
        }
    }

    /// Gives a file another name below this folder; an existing file of that name is replaced.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from_folder, from) = self.needed_above(from.as_ref())?;
        let (to_folder, to) = self.needed_above(to.as_ref())?;
        rustix::fs::renameat(&from_folder.handle, &from, &to_folder.handle, &to)?;
        Ok(())
    }

    /// Has two files below this folder change places, at once. Both must be there. Fails with `Unsupported` where the file
    /// system cannot.
    pub fn swap(&self, one: impl AsRef<Path>, other: impl AsRef<Path>) -> io::Result<()> {
        let (one_folder, one) = self.needed_above(one.as_ref())?;
        let (other_folder, other) = self.needed_above(other.as_ref())?;
        let exchange = RenameFlags::EXCHANGE;
        let (from, to) = (&one_folder.handle, &other_folder.handle);
        match rustix::fs::renameat_with(from, &one, to, &other, exchange) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return Err(ErrorKind::Unsupported.into());
            }
            Err(errno) => return Err(errno.into()),
        }
        one_folder.sync()?;
        other_folder.sync()
    }

    /// Gives a file a second name below this folder, which must be free.
    pub fn hard_link(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from_folder, from) = self.needed_above(from.as_ref())?;
        let (to_folder, to) = self.needed_above(to.as_ref())?;
        rustix::fs::linkat(
            &from_folder.handle,
            &from,
            &to_folder.handle,
            &to,
            AtFlags::empty(),
        )?;
        Ok(())
    }

    /// Puts a link in its place that leads to `target`, a name in the same folder. Refuses a `target` that leads elsewhere.
    pub fn point(&self, link: impl AsRef<Path>, target: &str, step: &dyn Fn()) -> io::Result<()> {
        if target.contains('/') {
            return Err(io::Error::other("a link leads to its own folder"));
        }
        let (folder, name) = self.needed_above(link.as_ref())?;
        let aside = OsString::from(format!(".{}.{}", shown(&name), std::process::id()));
        folder.forget(&aside)?;
        rustix::fs::symlinkat(target, &folder.handle, &aside)?;
        step();
        folder.move_within(&aside, &name)?;
        step();
        folder.sync()
    }

    /// Returns the target of a link, when there is one. Fails when something else is in its place.
    pub fn link_target(&self, link: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let Some((folder, name)) = self.above(link.as_ref())? else {
            return Ok(None);
        };
        match rustix::fs::readlinkat(&folder.handle, &name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns true when a link leads to something other than a file or a folder. The target is never opened.
    pub fn leads_to_special(&self, link: impl AsRef<Path>) -> io::Result<bool> {
        let Some((folder, name)) = self.above(link.as_ref())? else {
            return Ok(false);
        };
        let Ok(seen) = rustix::fs::statat(&folder.handle, &name, AtFlags::empty()) else {
            return Ok(false);
        };
        let kind = FileType::from_raw_mode(seen.st_mode);
        Ok(!matches!(kind, FileType::RegularFile | FileType::Directory))
    }

    /// The entry with a name below this folder: looked at, never opened. Fails when the way there is a link.
    pub fn entry(&self, below: impl AsRef<Path>) -> io::Result<Option<DirEntry>> {
        match self.above(below.as_ref())? {
            Some((folder, name)) => folder.entry_of(&name),
            None => Ok(None),
        }
    }

    /// The entry with a name below this folder, when it is a plain file that may be used: looked at, never opened. Fails
    /// when something else is in its place.
    pub fn plain_entry(&self, below: impl AsRef<Path>) -> io::Result<Option<DirEntry>> {
        let below = below.as_ref();
        let seen = self.entry(below)?;
        if let Some(seen) = &seen {
            self.check_plain(seen, below.file_name().unwrap_or_default())?;
        }
        Ok(seen)
    }

    /// Returns the entry of this folder itself.
    pub fn seen(&self) -> io::Result<DirEntry> {
        Ok(DirEntry::of(&rustix::fs::fstat(&self.handle)?))
    }

    /// Returns the identity of the file that a name stands for, whatever it is called: looked at, never opened. Fails
    /// when the way there is a link.
    pub fn identity(&self, below: impl AsRef<Path>) -> io::Result<Option<FileIdentity>> {
        let Some((folder, name)) = self.above(below.as_ref())? else {
            return Ok(None);
        };
        let wanted = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);
        match rustix::fs::statx(&folder.handle, &name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
            Ok(seen) => Ok(Some(FileIdentity::of(&seen))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Listing::read_from(&self.handle)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The names in a folder below this one that are UTF-8, in order; none when there is no such folder.
    pub fn names_in(&self, below: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let Some(folder) = self.find(below)? else {
            return Ok(Vec::new());
        };
        let names = folder.names()?.into_iter();
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }

    /// Sets the mode of a file or a folder without opening it: closing a database's file would drop the locks that
    /// SQLite holds on it. Refuses a link.
    pub fn set_mode(&self, below: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        if below.as_ref() == Path::new(".") {
            rustix::fs::fchmod(&self.handle, Mode::from_raw_mode(mode))?;
            return Ok(());
        }
        let (folder, name) = self.needed_above(below.as_ref())?;
        let path_only = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let handle = rustix::fs::openat(&folder.handle, &name, path_only, Mode::empty())?;
        let seen = DirEntry::of(&rustix::fs::fstat(&handle)?);
        if !matches!(seen.kind, EntryKind::File | EntryKind::Folder) {
            return Err(not_plain(&name, seen.kind));
        }
        folder.check_owner(handle.as_fd(), Path::new(&name))?;
        // A handle that only names its file takes no mode itself; the name of the handle does.
        let named = format!("/proc/self/fd/{}", handle.as_raw_fd());
        rustix::fs::chmod(named, Mode::from_raw_mode(mode))?;
        Ok(())
    }

    /// Has the names in this folder reach the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.handle)?)
    }

    fn open_or_create(&self, file: &Path, access: OFlags) -> io::Result<File> {
        let (folder, name) = self.needed_above(file)?;
        if let Some(there) = folder.entry_of(&name)? {
            folder.check_plain(&there, &name)?;
        }
        let flags = FILE.union(OFlags::CREATE).union(access);
        let mode = Mode::from_raw_mode(0o600);
        let opened = rustix::fs::openat(&folder.handle, &name, flags, mode);
        let opened = opened.map_err(|errno| explained(errno, &folder.handle, &name))?;
        folder.checked(opened, &name).map(|(file, _)| file)
    }

    fn open_plain(&self, name: &OsStr, access: OFlags) -> io::Result<Option<(File, DirEntry)>> {
        // Before it is opened: to open a device may already do something.
        match self.entry_of(name)? {
            None => return Ok(None),
            Some(there) => self.check_plain(&there, name)?,
        }
        match rustix::fs::openat(&self.handle, name, FILE.union(access), Mode::empty()) {
            Ok(opened) => self.checked(opened, name).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(explained(errno, &self.handle, name)),
        }
    }

    /// Checks once more, with the file that was really opened.
    fn checked(&self, opened: OwnedFd, name: &OsStr) -> io::Result<(File, DirEntry)> {
        let seen = DirEntry::of(&rustix::fs::fstat(&opened)?);
        self.check_plain(&seen, name)?;
        Ok((File::from(opened), seen))
    }

    fn check_plain(&self, seen: &DirEntry, name: &OsStr) -> io::Result<()> {
        match seen.kind {
            EntryKind::File if self.owners.contains(&seen.owner) => Ok(()),
            EntryKind::File => Err(of_another(Path::new(name), seen.owner)),
            kind => Err(not_plain(name, kind)),
        }
    }

    fn check_owner(&self, handle: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
        let owner = rustix::fs::fstat(handle)?.st_uid;
        match self.owners.contains(&owner) {
            true => Ok(()),
            false => Err(of_another(path, owner)),
        }
    }

    fn entry_of(&self, name: &OsStr) -> io::Result<Option<DirEntry>> {
        match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(seen) => Ok(Some(DirEntry::of(&seen))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn move_within(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    fn link_within(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let plain = AtFlags::empty();
        Ok(rustix::fs::linkat(
            &self.handle,
            from,
            &self.handle,
            to,
            plain,
        )?)
    }

    fn forget(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn empty_and_remove(&self, name: &OsStr, deepest: usize) -> io::Result<()> {
        let inside = self.step_into(name)?;
        for name in inside.names()? {
            match inside.entry_of(&name)? {
                Some(entry) if entry.kind == EntryKind::Folder && deepest > 0 => {
                    inside.empty_and_remove(&name, deepest - 1)?;
                }
                _ => inside.forget(&name)?,
            }
        }
        Ok(rustix::fs::unlinkat(
            &self.handle,
            name,
            AtFlags::REMOVEDIR,
        )?)
    }
}
