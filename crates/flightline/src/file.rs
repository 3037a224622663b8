//! Reads and writes files that a person names.
//!
//! Files in the repository may be a stranger's: no link in it is followed. Links elsewhere are the user's own.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use flightline_workspace::beneath::Replacing;
use flightline_workspace::beneath::{Dir, EntryKind};

/// A file on the command line, and the way to it.
#[derive(Debug)]
pub struct NamedFile {
    folder: Dir,
    below: PathBuf,
    path: PathBuf,
}

impl NamedFile {
    /// The file at a path; `root` is the repository, when there is one.
    pub fn new(root: Option<&Path>, path: &Path) -> io::Result<Self> {
        let (folder, below) = Dir::towards(root, path)?;
        Ok(Self {
            folder,
            below,
            path: path.to_path_buf(),
        })
    }

    /// The file that is to be read. A link outside the repository leads to it; one inside leads only to another name in
    /// its own folder, as `latest.json` does.
    pub fn to_read(root: Option<&Path>, path: &Path) -> io::Result<Self> {
        let mut named = Self {
            path: path.to_path_buf(),
            ..Self::new(root, &Dir::led_to(root, path)?)?
        };
        let seen = named.folder.entry(&named.below)?;
        if seen.is_some_and(|seen| seen.kind == EntryKind::Link) {
            let target = named.folder.link_target(&named.below)?;
            let sibling = target.filter(|to| to.file_name() == Some(to.as_os_str()));
            if let Some(sibling) = sibling {
                named.below.set_file_name(sibling);
            }
        }
        Ok(named)
    }

    /// The path as it was named, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file: old or new and never half, read back. A link in its place gives way to the file, unless it leads to
    /// a device or a pipe, as `/dev/stdout` does.
    pub fn put(
        &self,
        contents: impl AsRef<[u8]>,
        replacing: Replacing,
        mode: u32,
    ) -> io::Result<()> {
        let seen = self.folder.entry(&self.below)?;
        if seen.is_some_and(|seen| seen.kind == EntryKind::Link)
            && self.folder.leads_to_special(&self.below)?
        {
            return Err(io::Error::other(format!(
                "{} is not a plain file",
                self.path.display()
            )));
        }
        self.folder.put(&self.below, contents, replacing, mode)
    }

    /// The bytes of the file, when there is one. A pipe or device does not block.
    pub fn read(&self, most: usize) -> io::Result<Option<Vec<u8>>> {
        self.folder.read(&self.below, most)
    }

    /// Returns true when a plain file is there. Never opens it.
    pub fn is_there(&self) -> io::Result<bool> {
        Ok(self.folder.plain_entry(&self.below)?.is_some())
    }

    pub fn open(&self) -> io::Result<File> {
        let opened = self.folder.open_file(&self.below)?;
        opened.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Writes a file in a folder of the user's own: old or new and never half, read back.
pub fn put(
    file: &Path,
    contents: impl AsRef<[u8]>,
    replacing: Replacing,
    mode: u32,
) -> io::Result<()> {
    let (folder, name) = split(file)?;
    Dir::shared(folder)?.put(name, contents, replacing, mode)
}

/// The bytes of a plain file in a folder of the user's own, when there is one. A pipe or device does not block.
pub fn plain(file: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let (folder, name) = split(file)?;
    match Dir::shared(folder) {
        Ok(folder) => folder.read(name, most),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn size(file: &Path) -> io::Result<Option<u64>> {
    let (folder, name) = split(file)?;
    let seen = Dir::shared(folder)?.entry(name)?;
    Ok(seen.filter(|seen| seen.is_file()).map(|seen| seen.size))
}

fn split(file: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = file
        .file_name()
        .ok_or_else(|| io::Error::other("it names no file"))?;
    Ok((file.parent().unwrap_or(Path::new("")), name))
}
