//! Notes: what the fleet has learned and must not forget.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CheckpointId, MessageId, MissionId, NoteId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text;
use crate::time::Time;

/// A note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Note {
    /// The note's id.
    pub id: NoteId,
    /// What kind of note.
    pub kind: NoteKind,
    /// The mission it belongs to.
    pub mission_id: MissionId,
    /// The sortie it belongs to.
    pub sortie_id: Option<SortieId>,
    /// What it says.
    pub text: text::NoteText,
    /// Why, for a decision.
    pub rationale: Option<text::NoteText>,
    /// The file, for an artifact.
    pub path: Option<RepoPath>,
    /// The SHA-256 of that file's bytes when it was noted.
    pub checksum: Option<String>,
    /// What sort of artifact: `spec`, `report` …
    pub artifact_type: Option<text::Name>,
    /// Who wrote it.
    pub author: String,
    /// The author, when it is an agent.
    pub author_id: Option<AgentId>,
    /// When it was written.
    pub at: Time,
    /// The checkpoint that the mission went back to after this was written: it was learned on a way that
    /// was not gone to its end. Found out when it is read, never stored.
    #[serde(default)]
    pub after_cut: Option<CheckpointId>,
    /// The note that this one was written instead of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NoteId>,
    /// How it came to an end; none while it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<NoteEnd>,
    /// What failed, when Flightline noted that: it ends by itself once that has worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// A failure that refused a request, and is a blocker until the request has worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Failure {
    /// Locks could not be had in time.
    LockTimeout {
        /// The files that were to be locked.
        files: Vec<RepoPath>,
    },
    /// A message reached no recipient.
    Undelivered {
        /// What it was about.
        subject: text::Title,
    },
    /// A message was not acknowledged in time.
    Unacknowledged {
        /// The message that was not acknowledged.
        message: MessageId,
    },
}

/// How a note came to an end. It is kept, and counts for nothing any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteEnd {
    /// How the note ended.
    pub how: NoteEnding,
    /// Who said so.
    pub by: String,
    /// When the note ended.
    pub at: Time,
    /// Why the note ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<text::NoteText>,
}

/// The ways in which a note comes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoteEnding {
    /// It is dealt with: done, answered, no longer in the way.
    Closed,
    /// It should not have been written, or does not hold any more.
    Withdrawn,
    /// Another note says it better.
    Replaced {
        /// The note that replaced it.
        by: NoteId,
    },
}

impl NoteEnding {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Withdrawn => "withdrawn",
            Self::Replaced { .. } => "replaced",
        }
    }
}

impl Note {
    /// Whether it holds: it was not closed, withdrawn or replaced.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether an agent that is not dispatch may end it: its own note in every way, and close what another wrote,
    /// unless that binds the agent.
    #[must_use]
    pub fn may_be_ended(&self, by: Option<AgentId>, how: NoteEnding) -> bool {
        let own = by.is_some() && self.author_id == by;
        own || (how == NoteEnding::Closed && self.kind != NoteKind::Constraint)
    }

    /// Its kind while it holds, else how it ended.
    #[must_use]
    pub fn status(&self) -> &'static str {
        let ended = self.ended.as_ref();
        ended.map_or(self.kind.as_str(), |end| end.how.as_str())
    }

    /// What it says, and whether the mission went back to before it was written.
    #[must_use]
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

/// What kind of note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Something was decided, for a reason.
    Decision,
    /// Something was learned.
    Lesson,
    /// A rule that must be kept, verbatim.
    Constraint,
    /// Something was tried and does not work.
    DeadEnd,
    /// A file worth knowing.
    Artifact,
    /// Something is in the way.
    Blocker,
    /// Something is to be done.
    NextStep,
    /// Something that was said while the server could not be reached, and came too late to be done.
    Late,
}

impl NoteKind {
    pub const ALL: [Self; 8] = [
        Self::Decision,
        Self::Lesson,
        Self::Constraint,
        Self::DeadEnd,
        Self::Artifact,
        Self::Blocker,
        Self::NextStep,
        Self::Late,
    ];

    /// Whether people and agents write notes of this kind. The others only Flightline writes.
    #[must_use]
    pub const fn is_written(self) -> bool {
        !matches!(self, Self::Late)
    }

    /// The kind that this word means, with dashes or without.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.replace('-', "_");
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Lesson => "lesson",
            Self::Constraint => "constraint",
            Self::DeadEnd => "dead_end",
            Self::Artifact => "artifact",
            Self::Blocker => "blocker",
            Self::NextStep => "next_step",
            Self::Late => "late",
        }
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
