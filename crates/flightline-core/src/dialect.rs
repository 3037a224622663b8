//! Dialects: the files of the four other systems, read and written exactly.
//!
//! | dialect | seed | its files |
//! |---|---|---|
//! | [`sitebuilder`] | B | `progress/checkpoints/{agent}-{task}.json`, `progress/STATUS.md` |
//! | [`epic`] | C | `agent_checkpoints/{agent}.json`, with `archive/` and `backups/` |
//! | [`orchestrator`] | D | `<base>/<uuid>.json[.gz]`, `<base>/index.json` |
//! | [`recovery`] | E | `checkpoints/latest.json`, `checkpoint-{time}.json`, `emergency-{time}.json` |
//!
//! A [`DialectDocument`] is one of any dialect: the [`Json`] that was read, with its order, unknown fields and numbers, of the
//! dialect's shape. Each dialect has the shape of its documents as a table, and its rules as functions of values.
//! [`json`] is the one reader of all of them.

mod arrival;
mod changes;
pub mod compress;
mod document;
pub mod epic;
pub mod json;
mod merge;
pub mod orchestrator;
mod original;
pub mod recovery;
mod shape;
pub mod sitebuilder;
mod unreadable;

pub use self::arrival::DocumentArrival;
pub use self::changes::{changes, says_the_same};
pub use self::document::{Dialect, DialectDocument};
pub use self::json::Json;
pub use self::merge::merge;
pub use self::original::Original;
pub use self::unreadable::{DocumentFault, MAX_BYTES, MAX_DEPTH, Path, SourcePosition, Unreadable};

use crate::time::Time;

pub fn text_of(bytes: &[u8]) -> Result<&str, Unreadable> {
    if bytes.len() > MAX_BYTES {
        return Err(Unreadable::whole(DocumentFault::TooLarge {
            bytes: bytes.len(),
        }));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let sound = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line_start = sound.rfind('\n').map_or(0, |newline| newline + 1);
        Unreadable {
            fault: DocumentFault::NotUtf8,
            place: SourcePosition::Line {
                line: sound.matches('\n').count() + 1,
                column: sound[line_start..].chars().count() + 1,
            },
        }
    })
}

/// `time` in UTC, in `strftime`'s language.
fn stamped(time: Time, format: &str) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis()).map_or_else(
        |_| time.to_string(),
        |stamp| stamp.strftime(format).to_string(),
    )
}

/// `text` as one line: a character that would break the line, or hide in it, becomes a space.
pub(crate) fn one_line(text: &str) -> String {
    let hides = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let kept = text.replace(hides, " ");
    kept.trim().to_owned()
}
