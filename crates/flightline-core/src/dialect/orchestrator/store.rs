//! The seed's store: names of files, and the index.

use super::{Checkpoint, Id};
use crate::checkpoint::CheckpointStatus;
use crate::dialect::compress::Compression;
use crate::dialect::field::{Extra, Keep, Stamp, Value, document};
use crate::dialect::json::{Json, Number};
use crate::dialect::unreadable::{Path, Unreadable};

/// The index's file.
pub const INDEX_FILE: &str = "index.json";

/// The folder in which Flightline keeps these files.
pub const FOLDER: &str = ".flightline/orchestrator";
/// The folder in it for those that were archived.
pub const ARCHIVE: &str = "archive";

document! {
    /// What the index says of a checkpoint.
    pub struct IndexEntry {
        /// The checkpoint's id.
        id "id": Id,
        /// When it was taken.
        created_at "createdAt": Stamp,
        /// Why the checkpoint was taken.
        trigger "trigger": String,
        /// Where it stands.
        status "status": CheckpointStatus,
        /// The state the workflow was in.
        state "state": String,
        /// Whether work can go on from it.
        can_resume "canResume": bool,
        /// The size of its file.
        size "size": Number,
        /// Its file. To be compared with [`file_name`], never to be opened as it stands.
        path "path": String,
    }
}

/// The file of a checkpoint: `<uuid>.json`, `<uuid>.json.gz`. The seed itself finds only these two.
#[must_use]
pub fn file_name(id: &Id, compression: Compression) -> String {
    format!("{}.json{}", id.as_str(), compression.suffix())
}

/// The checkpoint a file belongs to, by its name.
#[must_use]
pub fn id_of(file: &str) -> Option<(Id, Compression)> {
    Compression::ALL.into_iter().find_map(|compression| {
        let stem = file.strip_suffix(compression.suffix())?;
        let id = Id::parse(stem.strip_suffix(".json")?)?;
        Some((id, compression))
    })
}

/// Whether a file may be a checkpoint's, by its name: whatever the seed would read, and what is compressed
/// in other ways.
#[must_use]
pub fn is_document(file: &str) -> bool {
    let stem = file.strip_suffix(Compression::named(file).suffix());
    !file.starts_with('.') && file != INDEX_FILE && stem.is_some_and(|it| it.ends_with(".json"))
}

/// Reads the index.
///
/// # Errors
/// When the text is not one; the error says why and where.
pub fn read_index(text: &str) -> Result<Vec<IndexEntry>, Unreadable> {
    Vec::read(Json::parse(text)?, &Path::ROOT)
}

/// Writes the index, as `JSON.stringify(entries, null, 2)` does.
#[must_use]
pub fn write_index(entries: &[IndexEntry]) -> String {
    Json::List(entries.iter().map(|entry| entry.write(Keep::All)).collect()).pretty(&[])
}

impl IndexEntry {
    /// What the index says of this checkpoint, whose file has `size` bytes and is at `path`.
    #[must_use]
    pub fn of(checkpoint: &Checkpoint, size: u64, path: String) -> Self {
        Self {
            id: checkpoint.id.clone(),
            created_at: checkpoint.created_at.clone(),
            trigger: checkpoint.trigger.as_str().to_owned(),
            status: checkpoint.status,
            state: checkpoint.workflow.current_state.clone(),
            can_resume: checkpoint.recovery.can_resume,
            size: size.into(),
            path,
            extra: Extra::default(),
        }
    }

    /// Whether its path names its own file, wherever that is.
    #[must_use]
    pub fn names_its_file(&self) -> bool {
        let file = self.path.rsplit(['/', '\\']).next().unwrap_or_default();
        id_of(file).is_some_and(|(id, _)| id == self.id)
    }
}

/// Where an index and the checkpoints beside it differ, one sentence for each.
#[must_use]
pub fn drift(entries: &[IndexEntry], checkpoints: &[&Checkpoint]) -> Vec<String> {
    let mut said = Vec::new();
    for entry in entries {
        let id = entry.id.as_str();
        if !entry.names_its_file() {
            said.push(format!("its entry {id} names another's file"));
        }
        let Some(checkpoint) = checkpoints.iter().find(|it| it.id == entry.id) else {
            said.push(format!("it lists {id}, which is not there"));
            continue;
        };
        let told = IndexEntry::of(checkpoint, 0, String::new());
        let differs = [
            ("createdAt", entry.created_at != told.created_at),
            ("trigger", entry.trigger != told.trigger),
            ("status", entry.status != told.status),
            ("state", entry.state != told.state),
            ("canResume", entry.can_resume != told.can_resume),
        ];
        for (field, _) in differs.iter().filter(|(_, differs)| *differs) {
            said.push(format!("its entry {id} has another `{field}`"));
        }
    }
    let listed = |it: &&&Checkpoint| entries.iter().any(|entry| entry.id == it.id);
    for checkpoint in checkpoints.iter().filter(|it| !listed(it)) {
        said.push(format!("it does not list {}", checkpoint.id.as_str()));
    }
    said
}
