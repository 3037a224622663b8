//! What a rebuild would bring back, for those whose store cannot be opened.

use std::path::Path;

use flightline_core::Time;
use flightline_store::Location;

use super::{gather, without_files};

/// What a rebuild would bring back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prospect {
    /// How many files of checkpoints are sound.
    pub files: usize,
    /// When the newest of them was taken.
    pub newest: Option<Time>,
    hint: String,
}

impl Prospect {
    /// What to do about a store that cannot be used.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Looks at the files of checkpoints in `state`, for a store at `location` that cannot be used.
#[must_use]
pub fn prospect(state: &Path, location: &Location) -> Prospect {
    let (documents, _) = gather(state);
    let newest = documents.iter().map(|document| document.timestamp).max();
    let hint = match (documents.len(), newest) {
        (0, _) | (_, None) => without_files(location),
        (1, Some(at)) => {
            format!("`fleet doctor --rebuild` brings back 1 sound checkpoint file of {at}{KEPT}")
        }
        (files, Some(at)) => format!(
            "`fleet doctor --rebuild` brings back {files} sound checkpoint files, the newest of {at}{KEPT}"
        ),
    };
    Prospect {
        files: documents.len(),
        newest,
        hint,
    }
}

const KEPT: &str = ", and keeps the old store aside";
