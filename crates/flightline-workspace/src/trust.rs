//! The fleets that this user made or trusted on this machine. A store that came with a clone is nobody's word: it
//! is looked at, and never obeyed. What is trusted is kept in the user's own folder, outside of every repository.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use flightline_core::event::sha256_hex;

use crate::beneath::{Dir, Identity, Replacing};

/// A path and an id.
const LONGEST: usize = 16 * 1024;

/// What is trusted: one fleet, by the file that holds it. A file that takes its place, as a pull or a second clone
/// would put there, is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    state: PathBuf,
    project: String,
    identity: Identity,
}

impl Fingerprint {
    /// The fleet in a state folder: by its store's file `store`, where that is in it, else by the folder itself. None
    /// when there is nothing yet.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn of(state: &Path, store: Option<&str>, project: &str) -> io::Result<Option<Self>> {
        let (folder, name) = match (store, state.parent(), state.file_name()) {
            (Some(store), _, _) => (Dir::private(state)?, store.into()),
            (None, Some(above), Some(name)) => (Dir::shared(above)?, name.to_owned()),
            (None, _, _) => return Ok(None),
        };
        Ok(folder.identity(Path::new(&name))?.map(|identity| Self {
            state: state.to_path_buf(),
            project: project.to_owned(),
            identity,
        }))
    }

    /// The name under which it is kept.
    fn name(&self) -> String {
        let mut text = format!("{} {}", self.identity.number, self.project);
        let _ = match self.identity.born {
            Some(born) => write!(text, " {born}"),
            // Where nobody knows when a file was made, its number may be given again: the place has to fit too.
            None => write!(text, " {:?}", self.state),
        };
        sha256_hex(&text)
    }
}

/// What this user trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    user_state: Option<PathBuf>,
}

impl Trust {
    /// What is kept in the user's state folder.
    #[must_use]
    pub fn of(user_state: Option<&Path>) -> Self {
        Self {
            user_state: user_state.map(Path::to_path_buf),
        }
    }

    /// Whether a fleet is trusted.
    #[must_use]
    pub fn covers(&self, fleet: &Fingerprint) -> bool {
        let folder = self.folder(false).ok().flatten();
        let kept = folder.and_then(|folder| folder.read(fleet.name(), LONGEST).ok().flatten());
        kept.is_some()
    }

    /// Trusts a fleet from now on. When this returns `Ok`, that has been read back.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn add(&self, fleet: &Fingerprint) -> io::Result<()> {
        let Some(folder) = self.folder(true)? else {
            return Err(io::Error::other("neither HOME nor XDG_STATE_HOME is set"));
        };
        let text = format!("{}\n{}\n", fleet.state.display(), fleet.project);
        folder.put(fleet.name(), text, Replacing::Yes, 0o600)
    }

    /// Trusts a fleet no more. Says whether it was trusted.
    ///
    /// # Errors
    /// When that cannot be changed.
    pub fn revoke(&self, fleet: &Fingerprint) -> io::Result<bool> {
        let was = self.covers(fleet);
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
