//! Reads and writes settings files on the disk, and reads them back.

use std::path::Path;

use flightline::core::{Code, Refusal};
use flightline::store::CrashPoints;
use flightline::workspace::beneath::{Dir, Replacing};
use flightline_clients::setup::SetupError;

/// The largest settings file.
pub const LARGEST: usize = 16 * 1024 * 1024;

/// Reads the text of a settings file; none when there is no file. In a repository no link is followed.
pub fn read(root: Option<&Path>, path: &Path) -> Result<Option<String>, Refusal> {
    let (folder, file) = Dir::towards(root, path).map_err(|error| cannot("read", path, &error))?;
    let text = folder.read_text(file, LARGEST);
    text.map_err(|error| cannot("read", path, &error))
}

/// The mode of an existing settings file. A read-only one is left alone.
pub fn mode_of(root: Option<&Path>, path: &Path) -> Result<Option<u32>, Refusal> {
    let failed = |error: std::io::Error| cannot("write", path, &error);
    let (folder, file) = Dir::towards(root, path).map_err(failed)?;
    let there = folder.entry(&file).map_err(failed)?;
    let mode = there.map(|entry| entry.mode & 0o777);
    if mode.is_some_and(|mode| mode & 0o200 == 0) {
        return Err(Refusal::new(
            Code::Unavailable,
            format!("{} is read-only", path.display()),
        )
        .hint(format!("make it writable: `chmod u+w {}`", path.display())));
    }
    Ok(mode)
}

pub struct Written<'a> {
    /// The folder that no link may lead out of: a repository.
    pub root: Option<&'a Path>,
    pub path: &'a Path,
    /// The mode of a new file. One that is there keeps its own.
    pub mode: u32,
}

impl Written<'_> {
    /// Writes the file, or removes it when it has no text, and checks afterwards that it is so.
    pub fn put(&self, text: Option<&str>, steps: &CrashPoints) -> Result<(), Refusal> {
        let Self { root, path, mode } = *self;
        let failed = |error: std::io::Error| cannot("write", path, &error);
        let mode = mode_of(root, path)?.unwrap_or(mode);
        let (folder, file) = Dir::towards(root, path).map_err(failed)?;
        match text {
            None => folder.remove(&file).map_err(failed)?,
            Some(text) => {
                if let Some(above) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
                    folder.make(above, 0o755).map_err(failed)?;
                }
                folder
                    .put(&file, text, Replacing::Yes, mode)
                    .map_err(failed)?;
            }
        }
        steps.step();
        match read(root, path)?.as_deref() == text {
            true => Ok(()),
            false => Err(Refusal::new(
                Code::Integrity,
                format!("{} does not read back as written", path.display()),
            )
            .hint("another program may write it: close the client, then run the command again")),
        }
    }
}

pub fn cannot(act: &str, path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot {act} {}: {error}", path.display()),
    )
}

pub fn cannot_edit(path: &Path, trouble: &SetupError) -> Refusal {
    Refusal::new(Code::InvalidInput, format!("{}: {trouble}", path.display()))
        .hint("nothing was changed; put the file right, then run the command again")
}
