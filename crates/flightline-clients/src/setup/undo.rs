//! The way back from an install.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::lines::{changes, lines};

const VERSION: u32 = 1;

/// The way back from an install: the lines of the file that we changed, as they were. It holds no other line, because a settings file
/// may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupUndo {
    version: u32,
    /// The SHA-256 of the text that it leads back from.
    after: String,
    /// True when there was no file.
    created: bool,
    /// The keys that our entries needed and that were there before us.
    kept: Vec<String>,
    hunks: Vec<Hunk>,
}

/// A stretch of the text, and how it read before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hunk {
    at: usize,
    len: usize,
    text: String,
}

impl SetupUndo {
    /// The way from `after` back to `original`.
    pub(super) fn between(original: Option<&str>, after: &str, kept: Vec<String>) -> Self {
        let (now, then) = (lines(after), lines(original.unwrap_or_default()));
        let mut starts = vec![0];
        for line in &now {
            starts.push(starts.last().copied().unwrap_or_default() + line.len());
        }
        let hunks = match original {
            None => Vec::new(),
            Some(_) => changes(&now, &then)
                .into_iter()
                .map(|change| Hunk {
                    at: starts[change.old.start],
                    len: starts[change.old.end] - starts[change.old.start],
                    text: then[change.new].concat(),
                })
                .collect(),
        };
        Self {
            version: VERSION,
            after: digest(after),
            created: original.is_none(),
            kept,
            hunks,
        }
    }

    /// The text from before, when `now` is the text that this leads back from. The inner `None` says that there was no file.
    pub(super) fn restore(&self, now: &str) -> Option<Option<String>> {
        if self.version != VERSION || self.after != digest(now) {
            return None;
        }
        if self.created {
            return Some(None);
        }
        let mut text = String::with_capacity(now.len());
        let mut from = 0;
        for hunk in &self.hunks {
            text.push_str(now.get(from..hunk.at)?);
            text.push_str(&hunk.text);
            from = hunk.at.checked_add(hunk.len)?;
        }
        text.push_str(now.get(from..)?);
        Some(Some(text))
    }

    /// The way back from `next`, a change that followed upon `text`. There is none when this does not lead back from `text`.
    pub(super) fn follow(&self, text: &str, next: &str) -> Option<Self> {
        let original = self.restore(text)?;
        Some(Self::between(original.as_deref(), next, self.kept.clone()))
    }

    pub fn created(&self) -> bool {
        self.created
    }

    /// The keys that were there before us.
    pub(super) fn kept(&self) -> &[String] {
        &self.kept
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            digits.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leads_back_and_holds_no_more_than_it_needs() {
        let original = "a\nsecret\nb\r\nc";
        let after = "a\nsecret\nb,\nnew\nc\n";
        let undo = SetupUndo::between(Some(original), after, Vec::new());
        assert_eq!(undo.restore(after), Some(Some(original.to_owned())));
        assert_eq!(undo.restore("a\n"), None);
        let kept = serde_json::to_string(&undo).unwrap();
        assert!(!kept.contains("secret"), "{kept}");
        assert_eq!(serde_json::from_str::<SetupUndo>(&kept).unwrap(), undo);
        let next = format!("{after}more\n");
        let undo = undo.follow(after, &next).unwrap();
        assert_eq!(undo.restore(&next), Some(Some(original.to_owned())));
        assert_eq!(undo.follow("x", "y"), None);
    }

    #[test]
    fn a_damaged_one_leads_nowhere() {
        let mut undo = SetupUndo::between(Some("a\n"), "b\n", Vec::new());
        undo.hunks[0].len = usize::MAX;
        assert_eq!(undo.restore("b\n"), None);
        undo.version = 2;
        assert_eq!(undo.restore("b\n"), None);
    }
}
