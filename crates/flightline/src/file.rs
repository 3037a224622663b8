//! Files of ours in other people's folders.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Whether something may be in a file's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// It is replaced.
    Yes,
    /// It is left, and nothing is written.
    No,
}

/// Writes a file: old or new and never half, read back.
///
/// # Errors
/// When something is in its place and may not be replaced, or it cannot be written.
pub fn put(
    file: &Path,
    contents: impl AsRef<[u8]>,
    replacing: Replacing,
    mode: u32,
) -> io::Result<()> {
    let contents = contents.as_ref();
    if replacing == Replacing::No && fs::symlink_metadata(file).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let name = file
        .file_name()
        .ok_or_else(|| io::Error::other("it names no file"))?;
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let aside = folder.join(format!(
        ".{}.{}",
        name.to_string_lossy(),
        std::process::id()
    ));
    let _ = fs::remove_file(&aside);
    let mut opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&aside)?;
    let written = opened
        .write_all(contents)
        .and_then(|()| opened.sync_all())
        .and_then(|()| match replacing {
            Replacing::Yes => fs::rename(&aside, file),
            // A hard link fails where the name is taken, so nothing that appeared meanwhile is lost.
            Replacing::No => fs::hard_link(&aside, file),
        });
    let _ = fs::remove_file(&aside);
    written?;
    File::open(folder)?.sync_all()?;
    match fs::read(file)? == contents {
        true => Ok(()),
        false => Err(io::Error::other("it does not read back as written")),
    }
}

/// The bytes of a plain file, when there is one. No link is followed, and nobody is waited for.
///
/// # Errors
/// When it is something else, larger than `most`, or cannot be read.
pub fn plain(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let seen = match fs::symlink_metadata(path) {
        Ok(seen) => seen,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !seen.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(Some(bytes))
}
