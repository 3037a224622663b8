//! The seed's store: names of files, the index, and which checkpoints go.

use super::{Checkpoint, Id};
use crate::checkpoint::CheckpointStatus;
use crate::dialect::compress::Compression;
use crate::dialect::field::{Extra, Keep, Stamp, Value, document};
use crate::dialect::json::{Json, Number};
use crate::dialect::unreadable::{Path, Unreadable};
use crate::time::{Millis, Time};

/// The index's file.
pub const INDEX_FILE: &str = "index.json";

/// The folder in which Flightline keeps these files.
pub const FOLDER: &str = ".flightline/orchestrator";
/// The folder in it for those that were archived.
pub const ARCHIVE: &str = "archive";

const DAY: Millis = 86_400_000;

document! {
    /// What the index says of a checkpoint.
    pub struct IndexEntry {
        /// Its id.
        id "id": Id,
        /// When it was taken.
        created_at "createdAt": Stamp,
        /// Why.
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

/// The numbers the seed's store decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether checkpoints are taken at all.
    pub enabled: bool,
    /// Beyond so many, the oldest are archived.
    pub max_checkpoints: usize,
    /// How files are compressed.
    pub compression: Compression,
    /// One is taken this often; never when it is 0.
    pub auto_checkpoint_interval_ms: Millis,
    /// Older ones are deleted.
    pub retention_days: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            max_checkpoints: 50,
            compression: Compression::Gzip,
            auto_checkpoint_interval_ms: 300_000,
            retention_days: 30,
        }
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

/// Which checkpoints are to be archived, oldest first, so that no more than `most` are left. Archived ones
/// do not count.
#[must_use]
pub fn surplus(entries: &[IndexEntry], most: usize) -> Vec<&Id> {
    let mut live: Vec<&IndexEntry> = entries
        .iter()
        .filter(|entry| entry.status != CheckpointStatus::Archived)
        .collect();
    live.sort_by_key(|entry| (entry.created_at.time(), &entry.id));
    live.truncate(live.len().saturating_sub(most));
    live.into_iter().map(|entry| &entry.id).collect()
}

/// Which checkpoints are older than `days`, oldest first, and are to be deleted. The newest that work can
/// go on from is never among them.
#[must_use]
pub fn expired(entries: &[IndexEntry], days: u64, now: Time) -> Vec<&Id> {
    let newest = entries
        .iter()
        .filter(|entry| entry.can_resume && entry.status == CheckpointStatus::Valid)
        .max_by_key(|entry| (entry.created_at.time(), &entry.id));
    let old = |entry: &&IndexEntry| {
        now.since(entry.created_at.time()) > days.saturating_mul(DAY)
            && newest.is_none_or(|newest| newest.id != entry.id)
    };
    let mut old: Vec<&IndexEntry> = entries.iter().filter(old).collect();
    old.sort_by_key(|entry| (entry.created_at.time(), &entry.id));
    old.into_iter().map(|entry| &entry.id).collect()
}

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many checkpoints.
    pub count: usize,
    /// How many bytes.
    pub total_size: u64,
    /// The first.
    pub oldest: Option<Id>,
    /// The last.
    pub newest: Option<Id>,
}

/// What a store holds.
#[must_use]
pub fn stats(entries: &[IndexEntry]) -> Stats {
    let age = |entry: &&IndexEntry| (entry.created_at.time(), entry.id.clone());
    let sizes = entries.iter().filter_map(|entry| entry.size.as_u64());
    Stats {
        count: entries.len(),
        total_size: sizes.fold(0, u64::saturating_add),
        oldest: entries.iter().min_by_key(age).map(|entry| entry.id.clone()),
        newest: entries.iter().max_by_key(age).map(|entry| entry.id.clone()),
    }
}
