//! Notes: knowledge that the fleet has gained and must not forget.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CheckpointId, MessageId, MissionId, NoteId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text;
use crate::time::Time;

/// A note of an agent or a person about a mission, or of Flightline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Note {
    /// The note's id.
    pub id: NoteId,
    /// The kind of the note.
    pub kind: NoteKind,
    /// The mission that the note belongs to.
    pub mission_id: MissionId,
    /// The sortie that the note belongs to.
    pub sortie_id: Option<SortieId>,
    /// The text of the note.
    pub text: text::NoteText,
    /// The reason for a decision.
    pub rationale: Option<text::NoteText>,
    /// The path of an artifact.
    pub path: Option<RepoPath>,
    /// The SHA-256 of that file's bytes when it was noted.
    pub checksum: Option<String>,
    /// The type of an artifact: `spec`, `report` …
    pub artifact_type: Option<text::Name>,
    /// The author of the note: an agent's name, `user:NAME`, or `flightline`.
    pub author: String,
    /// The author, when it is an agent.
    pub author_id: Option<AgentId>,
    /// Time at which the note was written.
    pub at: Time,
    /// The checkpoint that the mission went back to after this note was written: the note is about work that the rewind
    /// discarded. Computed when the note is read, never stored.
    #[serde(default)]
    pub after_cut: Option<CheckpointId>,
    /// The note that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NoteId>,
    /// The note's end; none while it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<NoteEnd>,
    /// The failure that Flightline noted: the note ends by itself once the request has worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// A failure that refused a request, and is a blocker until the request has worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Failure {
    /// The locks could not be had in time.
    LockTimeout {
        /// The files that were to be locked.
        files: Vec<RepoPath>,
    },
    /// The message reached no recipient.
    Undelivered {
        /// The subject of the message.
        subject: text::Title,
    },
    /// The message was not acknowledged in time.
    Unacknowledged {
        /// The message that was not acknowledged.
        message: MessageId,
    },
}

/// The end of a note. The note is kept, and counts for nothing any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct NoteEnd {
    /// The way in which the note ended.
    pub how: NoteEnding,
    /// The actor that ended the note.
    pub by: String,
    /// Time at which the note ended.
    pub at: Time,
    /// The reason why the note ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<text::NoteText>,
}

/// The ways in which a note comes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum NoteEnding {
    /// The note is dealt with: done, answered, no longer in the way.
    Closed,
    /// The note should not have been written, or does not hold any more.
    Withdrawn,
    /// The note was replaced by a better one.
    Replaced {
        /// The note that replaced it.
        by: NoteId,
    },
}

impl NoteEnding {
    pub const WORDS: [&'static str; 3] = ["closed", "withdrawn", "replaced"];

    pub const fn as_str(self) -> &'static str {
        let [closed, withdrawn, replaced] = Self::WORDS;
        match self {
            Self::Closed => closed,
            Self::Withdrawn => withdrawn,
            Self::Replaced { .. } => replaced,
        }
    }
}

impl Note {
    /// Returns true when the note holds: it was not closed, withdrawn or replaced.
    pub const fn holds(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns true when an agent that is not dispatch may end the note: an agent may end its own note in every way,
    /// and close what another wrote, unless that binds the agent.
    pub fn may_be_ended(&self, by: Option<AgentId>, how: NoteEnding) -> bool {
        let own = by.is_some() && self.author_id == by;
        own || (how == NoteEnding::Closed && self.kind != NoteKind::Constraint)
    }

    /// Returns the note's kind while it holds, else the way in which it ended.
    pub fn status(&self) -> &'static str {
        let ended = self.ended.as_ref();
        ended.map_or(self.kind.as_str(), |end| end.how.as_str())
    }

    /// Returns the text of the note, and says when the mission went back to before it was written.
    pub fn told(&self) -> String {
        match self.after_cut {
            None => self.text.to_string(),
            Some(id) => {
                let id = id.to_string();
                let id = id.get(..12).unwrap_or(&id);
                format!(
                    "{} (written before the mission went back to {id})",
                    self.text
                )
            }
        }
    }
}

words! {
    /// The kind of a note.
    pub enum NoteKind {
        /// A decision, with its reason.
        Decision = "decision",
        /// A lesson that was learned.
        Lesson = "lesson",
        /// A rule that must be kept, verbatim.
        Constraint = "constraint",
        /// An attempt that does not work.
        DeadEnd = "dead_end",
        /// A file that is worth knowing.
        Artifact = "artifact",
        /// An obstacle to the work.
        Blocker = "blocker",
        /// A thing to be done.
        NextStep = "next_step",
        /// A write that was queued while the server could not be reached, and came too late to be done.
        Late = "late",
    }
}

impl NoteKind {
    /// Returns true when people and agents write notes of this kind. Flightline alone writes the others.
    pub const fn is_written(self) -> bool {
        !matches!(self, Self::Late)
    }

    /// Returns the kind that this word means, with dashes or without.
    pub fn from_spelling(word: &str) -> Option<Self> {
        Self::from_word(&word.replace('-', "_"))
    }
}

impl Subject for Note {
    const KIND: Kind = Kind::Note;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.mission_id),
            parent: self.sortie_id.map(|id| id.to_string()),
            agent: self.author_id,
            status: self.status(),
            ..Keys::default()
        }
    }
}
