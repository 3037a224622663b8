//! Files that a person names: links on the way to one are the user's own, and one in its place is not followed.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use flightline_workspace::beneath::Dir;
pub use flightline_workspace::beneath::Replacing;

/// Writes a file: old or new and never half, read back.
pub fn put(
    file: &Path,
    contents: impl AsRef<[u8]>,
    replacing: Replacing,
    mode: u32,
) -> io::Result<()> {
    let (folder, name) = split(file)?;
    Dir::shared(folder)?.put(name, contents, replacing, mode)
}

/// The bytes of a plain file, when there is one. A pipe or device does not block.
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
