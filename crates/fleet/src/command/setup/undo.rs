//! Remembers in the user's own folder how each edited file is given back.

use std::path::{Path, PathBuf};

use flightline::core::event::sha256_hex;
use flightline::core::{Code, Refusal};
use flightline::workspace::beneath::{Dir, Replacing};
use flightline_clients::setup::SetupUndo;
use serde::{Deserialize, Serialize};

use super::Setup;
use super::written::{LARGEST, cannot};

const PRIVATE: u32 = 0o600;

/// A record of how one file is given back.
#[derive(Serialize, Deserialize)]
struct Kept {
    path: PathBuf,
    undo: SetupUndo,
    /// The folders that were made for it, the deepest first.
    #[serde(default)]
    made: Vec<PathBuf>,
}

impl Setup {
    fn name_of(path: &Path) -> String {
        format!("{}.json", &sha256_hex(&path.display().to_string())[..32])
    }

    pub(super) fn undo_of(&self, path: &Path) -> Option<SetupUndo> {
        self.kept_of(path).map(|kept| kept.undo)
    }

    fn kept_of(&self, path: &Path) -> Option<Kept> {
        let folder = Dir::private_if_there(self.kept.as_deref()?).ok()??;
        let text = folder.read_text(Self::name_of(path), LARGEST).ok()??;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        (kept.path == path).then_some(kept)
    }

    pub(super) fn keep(
        &self,
        path: &Path,
        undo: &SetupUndo,
        made: Vec<PathBuf>,
    ) -> Result<(), Refusal> {
        let Some(folder) = &self.kept else {
            return Ok(());
        };
        let before = self.kept_of(path).map(|kept| kept.made);
        let kept = Kept {
            path: path.to_path_buf(),
            undo: undo.clone(),
            made: before.filter(|before| !before.is_empty()).unwrap_or(made),
        };
        let text = serde_json::to_string(&kept).map_err(|error| {
            Refusal::new(
                Code::Failed,
                format!("cannot write down the way back: {error}"),
            )
        })?;
        Dir::make_private(folder)
            .and_then(|folder| folder.put(Self::name_of(path), text, Replacing::Yes, PRIVATE))
            .map_err(|error| cannot("write", folder, &error))
    }

    /// Forgets how a file is given back, and removes the folders that were made for it and are empty.
    pub(super) fn forget(&self, path: &Path, root: Option<&Path>) -> Result<(), Refusal> {
        let Some(folder) = &self.kept else {
            return Ok(());
        };
        let made = self.kept_of(path).map(|kept| kept.made);
        for made in made.into_iter().flatten() {
            let emptied = Dir::towards(root, &made).and_then(|(above, name)| {
                match above.names_in(&name)?.is_empty() {
                    true => above.remove_folder(&name),
                    false => Ok(()),
                }
            });
            // A folder that stays does no harm.
            drop(emptied);
        }
        let gone = Dir::private_if_there(folder).and_then(|folder| match folder {
            Some(folder) if folder.entry(Self::name_of(path))?.is_some() => {
                folder.remove(Self::name_of(path))
            }
            _ => Ok(()),
        });
        gone.map_err(|error| cannot("remove", folder, &error))
    }
}
