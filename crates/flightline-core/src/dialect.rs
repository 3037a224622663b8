//! Dialects: the files of the four other systems, read and written exactly.
//!
//! | dialect | seed | its files |
//! |---|---|---|
//! | [`sitebuilder`] | B | `progress/checkpoints/{agent}-{task}.json`, `progress/STATUS.md` |
//! | [`epic`] | C | `agent_checkpoints/{agent}.json`, with `archive/` and `backups/` |
//! | [`orchestrator`] | D | `<base>/<uuid>.json[.gz]`, `<base>/index.json` |
//! | [`recovery`] | E | `checkpoints/latest.json`, `checkpoint-{time}.json`, `emergency-{time}.json` |
//!
//! Each has types that hold its documents as they are (field names, order, absent fields, `null` fields and unknown
//! fields), `read` and `write`, and its rules as functions of values. [`json`] is the one reader of all of them. A
//! [`Document`] is one of any dialect.

mod arrival;
mod changes;
pub mod compress;
mod document;
pub mod epic;
pub mod field;
pub mod json;
mod merge;
pub mod orchestrator;
mod original;
pub mod recovery;
pub mod sitebuilder;
mod unreadable;

pub use self::arrival::Arrival;
pub use self::changes::{changes, says_the_same};
pub use self::document::{Dialect, Document};
pub use self::json::Json;
pub use self::merge::merge;
pub use self::original::Original;
pub use self::unreadable::{Fault, MAX_BYTES, MAX_DEPTH, Path, Place, Unreadable};

/// The text in a file's bytes.
///
/// # Errors
/// When there are too many of them, or they are not UTF-8; the error says where.
pub fn text_of(bytes: &[u8]) -> Result<&str, Unreadable> {
    if bytes.len() > MAX_BYTES {
        return Err(Unreadable::whole(Fault::TooLarge { bytes: bytes.len() }));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let sound = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line_start = sound.rfind('\n').map_or(0, |newline| newline + 1);
        Unreadable {
            fault: Fault::NotUtf8,
            place: Place::Line {
                line: sound.matches('\n').count() + 1,
                column: sound[line_start..].chars().count() + 1,
            },
        }
    })
}
