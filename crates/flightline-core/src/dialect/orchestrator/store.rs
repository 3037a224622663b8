//! The seed's store: names of files, and the index.

use super::{Bool, FieldForm, Json, List, Must, Number, Object, STATUSES, Text, Time, Uuid, Word};
use crate::dialect::compress::Compression;
use crate::dialect::document::DialectDocument;
use crate::dialect::shape::is_uuid;
use crate::dialect::unreadable::{Path, Unreadable};

pub const INDEX_FILE: &str = "index.json";

pub const FOLDER: &str = ".flightline/orchestrator";
/// The folder in it for those that were archived.
pub const ARCHIVE: &str = "archive";

const INDEX: FieldForm = List(&Object(&[
    ("id", Must, Uuid),
    ("createdAt", Must, Time),
    ("trigger", Must, Text),
    ("status", Must, Word(STATUSES)),
    // The state the workflow was in.
    ("state", Must, Text),
    ("canResume", Must, Bool),
    ("size", Must, Number),
    // To be compared with `file_name`, never to be opened as it stands.
    ("path", Must, Text),
]));

/// The file of a checkpoint: `<uuid>.json`, `<uuid>.json.gz`. The seed itself finds only these two.
pub fn file_name(id: &str, compression: Compression) -> String {
    format!("{id}.json{}", compression.suffix())
}

/// The id of the checkpoint a file belongs to, by its name.
pub fn id_of(file: &str) -> Option<(&str, Compression)> {
    Compression::ALL.into_iter().find_map(|compression| {
        let stem = file.strip_suffix(compression.suffix())?;
        let id = stem.strip_suffix(".json").filter(|id| is_uuid(id))?;
        Some((id, compression))
    })
}

/// Returns true when a file may be a checkpoint's, by its name: every name that the seed would read, and names of files
/// that are compressed in other ways.
pub fn is_document(file: &str) -> bool {
    let stem = file.strip_suffix(Compression::named(file).suffix());
    !file.starts_with('.') && file != INDEX_FILE && stem.is_some_and(|it| it.ends_with(".json"))
}

pub fn read_index(text: &str) -> Result<Vec<Json>, Unreadable> {
    let index = Json::parse(text)?;
    INDEX.check(&index, &Path::ROOT)?;
    match index {
        Json::List(entries) => Ok(entries),
        _ => Ok(Vec::new()),
    }
}

/// Writes the index, as `JSON.stringify(entries, null, 2)` does.
pub fn write_index(entries: &[Json]) -> String {
    Json::List(entries.to_vec()).pretty(&[])
}

/// Returns the index entry of this checkpoint, whose file has `size` bytes and is at `path`.
pub fn index_entry(checkpoint: &Json, size: u64, path: &str) -> Json {
    let mut entry = Json::Null;
    for key in ["id", "createdAt", "trigger", "status"] {
        entry[key] = checkpoint[key].clone();
    }
    entry["state"] = checkpoint["workflow"]["currentState"].clone();
    entry["canResume"] = checkpoint["recovery"]["canResume"].clone();
    entry["size"] = size.into();
    entry["path"] = path.into();
    entry
}

/// Returns true when the path of an entry names its own file, wherever that is.
pub fn names_its_file(entry: &Json) -> bool {
    let file = entry.word("path").rsplit(['/', '\\']).next();
    let named = id_of(file.unwrap_or_default());
    named.is_some_and(|(id, _)| id == entry.word("id"))
}

/// Returns the differences between an index and the checkpoints beside it, one sentence for each.
pub fn drift(entries: &[Json], checkpoints: &[DialectDocument]) -> Vec<String> {
    let mut said = Vec::new();
    for entry in entries {
        let id = entry.word("id");
        if !names_its_file(entry) {
            said.push(format!("its entry {id} names another's file"));
        }
        let Some(checkpoint) = checkpoints.iter().find(|it| it.word("id") == id) else {
            said.push(format!("it lists {id}, which is not there"));
            continue;
        };
        let told = index_entry(checkpoint, 0, "");
        for key in ["createdAt", "trigger", "status", "state", "canResume"] {
            if entry[key] != told[key] {
                said.push(format!("its entry {id} has another `{key}`"));
            }
        }
    }
    for checkpoint in checkpoints {
        let id = checkpoint.word("id");
        if !entries.iter().any(|entry| entry.word("id") == id) {
            said.push(format!("it does not list {id}"));
        }
    }
    said
}
