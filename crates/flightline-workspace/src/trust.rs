//! The fleets that this user made or trusted on this machine. A store that came with a clone is read, and never obeyed. The
//! list of trusted fleets is in the user's own folder, outside of every repository.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use flightline_core::event::sha256_hex;

use crate::beneath::{Dir, FileIdentity, Replacing};

/// The most bytes of a path and a note.
const LONGEST: usize = 16 * 1024;

/// The beginning of the line with the note.
const NOTE: &str = "seen ";

/// The identity of a trusted file or folder. A file that takes its place, as a pull or a second clone would put there, has
/// another identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    path: PathBuf,
    identity: FileIdentity,
    role: Role,
}

/// The part that a trusted file or folder plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A store, or the folder in which one is being made.
    Store,
    /// A state folder that this user made, or took over.
    Home,
}

impl Fingerprint {
    /// The fleet in a state folder, by the file of its store; none when there is none.
    pub fn of(state: &Path, store: &str) -> io::Result<Option<Self>> {
        let Some(folder) = Dir::private_if_there(state)? else {
            return Ok(None);
        };
        Ok(folder.identity(store)?.map(|identity| Self {
            path: state.join(store),
            identity,
            role: Role::Store,
        }))
    }

    /// The identity of a file beside a store, as a note says it, and whether it is empty; none when there is no such file.
    pub fn of_content(state: &Path, file: &str) -> io::Result<Option<(String, bool)>> {
        let Some(folder) = Dir::private_if_there(state)? else {
            return Ok(None);
        };
        let (Some(seen), Some(identity)) = (folder.entry(file)?, folder.identity(file)?) else {
            return Ok(None);
        };
        let text = format!("{}.{}", identity.number, identity.born.unwrap_or(0));
        Ok(Some((text, seen.size == 0)))
    }

    /// A state folder in which a store is being made.
    pub fn of_folder(state: &Path) -> io::Result<Option<Self>> {
        let (Some(above), Some(name)) = (state.parent(), state.file_name()) else {
            return Ok(None);
        };
        let identity = Dir::shared(above)?.identity(name)?;
        Ok(identity.map(|identity| Self {
            path: state.to_path_buf(),
            identity,
            role: Role::Store,
        }))
    }

    /// A state folder of the user's own, whatever store it has.
    #[must_use]
    pub fn as_home(self) -> Self {
        Self {
            role: Role::Home,
            ..self
        }
    }

    /// Returns true when a file that takes the place of this one surely has another identity. It may have the same one
    /// where the file system does not know when a file was made.
    pub fn is_certain(&self) -> bool {
        self.identity.born.is_some()
    }

    /// The name under which it is kept.
    fn name(&self) -> String {
        let mut text = self.identity.number.to_string();
        let _ = match self.identity.born {
            Some(born) => write!(text, " {born}"),
            // Where the file system does not know when a file was made, its number may be given again: the path has to fit
            // too.
            None => write!(text, " {:?}", self.path),
        };
        if self.role == Role::Home {
            text.push_str(" home");
        }
        sha256_hex(&text)
    }
}

#[derive(Clone, Debug)]
pub struct Trust {
    user_state: Option<PathBuf>,
}

impl Trust {
    /// The list in the user's state folder.
    pub fn of(user_state: Option<&Path>) -> Self {
        Self {
            user_state: user_state.map(Path::to_path_buf),
        }
    }

    pub fn covers(&self, fleet: &Fingerprint) -> io::Result<bool> {
        Ok(self.note(fleet)?.is_some())
    }

    /// The note about a fleet that is on the list; none when it is not on the list.
    pub fn note(&self, fleet: &Fingerprint) -> io::Result<Option<String>> {
        let kept = match self.folder(false) {
            Ok(Some(folder)) => folder.read(fleet.name(), LONGEST),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match kept {
            Ok(kept) => Ok(kept.map(|bytes| note_of(&bytes))),
            // A user who may not look there has trusted nothing.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Trusts a fleet from now on, with a note of one line. When this returns `Ok`, that has been read back.
    pub fn add_noting(&self, fleet: &Fingerprint, note: &str) -> io::Result<()> {
        let Some(folder) = self.folder(true)? else {
            return Err(io::Error::other("neither HOME nor XDG_STATE_HOME is set"));
        };
        let text = format!("{}\n{NOTE}{note}\n", fleet.path.display());
        folder.put(fleet.name(), text, Replacing::Yes, 0o600)
    }

    /// Trusts a fleet no more. Returns true when it was trusted.
    pub fn revoke(&self, fleet: &Fingerprint) -> io::Result<bool> {
        let was = self.covers(fleet)?;
        if let Some(folder) = self.folder(false)? {
            folder.remove(fleet.name())?;
            folder.sync()?;
        }
        Ok(was)
    }

    fn folder(&self, make: bool) -> io::Result<Option<Dir>> {
        const NAME: &str = "flightline/trusted";
        let Some(state) = &self.user_state else {
            return Ok(None);
        };
        if !make {
            return match Dir::shared(state) {
                Ok(state) => state.find(NAME),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            };
        }
        let (above, below) = Dir::towards(None, state)?;
        let state = above.make(below, 0o700)?;
        state.make(NAME, 0o700).map(Some)
    }
}

/// The note about a fleet: the last line of its entry. Earlier versions wrote none.
fn note_of(entry: &[u8]) -> String {
    let text = String::from_utf8_lossy(entry);
    let note = text.lines().last().and_then(|line| line.strip_prefix(NOTE));
    note.unwrap_or_default().to_owned()
}
