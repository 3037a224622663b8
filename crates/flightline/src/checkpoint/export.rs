//! A checkpoint's whole document, sealed, in a file of the user's choice, and back from there.

use crate::Schema;
use std::io::ErrorKind;

use flightline_core::event::sha256_hex;
use flightline_core::{CheckpointId, Code, Refusal};
use serde::{Deserialize, Serialize};

use super::CheckpointDocument;
use super::files::{MAX_FILE, parse, sealed};
use crate::file::NamedFile;
pub use crate::file::Replacing;

/// A file that holds a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Exported {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The file that was written.
    pub file: String,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 of the file's bytes.
    pub sha256: String,
}

/// The text of a file that holds a whole checkpoint.
pub fn text(document: &CheckpointDocument) -> Result<String, Refusal> {
    sealed(document).map_err(|error| {
        Refusal::new(
            Code::Failed,
            format!("cannot write {}: {error}", document.id),
        )
    })
}

/// Writes a whole checkpoint to a file: private, old or new and never half, read back.
pub fn write(
    document: &CheckpointDocument,
    file: &NamedFile,
    replacing: Replacing,
) -> Result<Exported, Refusal> {
    let text = text(document)?;
    let path = file.path().display();
    file.put(&text, replacing, 0o600)
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Refusal::new(Code::AlreadyExists, format!("{path} exists already"))
                    .hint("choose another name, or replace it with `--force`")
            }
            _ => Refusal::new(Code::Failed, format!("cannot write {path}: {error}")),
        })?;
    Ok(Exported {
        id: document.id,
        file: path.to_string(),
        bytes: text.len() as u64,
        sha256: sha256_hex(&text),
    })
}

/// Reads a whole checkpoint from a file that the user names, and checks everything in it.
pub fn read(file: &NamedFile) -> Result<CheckpointDocument, Refusal> {
    let path = file.path().display();
    let bytes = match file.read(MAX_FILE) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            return Err(Refusal::new(
                Code::NotFound,
                format!("{path} cannot be read: there is no such file"),
            ));
        }
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::Other => Code::InvalidInput,
                _ => Code::Failed,
            };
            return Err(Refusal::new(
                code,
                format!("{path} cannot be read: {error}"),
            ));
        }
    };
    from_text(&String::from_utf8_lossy(&bytes), &path.to_string())
}

/// Reads a whole checkpoint from text that came from `place`, and checks everything in it.
pub fn from_text(text: &str, place: &str) -> Result<CheckpointDocument, Refusal> {
    // A printed document ends with a line break.
    let text = text.strip_suffix('\n').unwrap_or(text);
    parse(text).map_err(|refusal| match refusal.code {
        Code::Integrity => Refusal::new(
            Code::Integrity,
            format!("{place} is not a sound checkpoint: {}", refusal.message),
        )
        .hint("export it again: `fleet checkpoints export ID FILE`"),
        _ => Refusal {
            message: format!("{place}: {}", refusal.message),
            ..refusal
        },
    })
}
