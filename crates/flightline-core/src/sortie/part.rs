//! The parts of a sortie, each a subject of its own: subtasks and their counts, files, errors and reviews.

use serde::{Deserialize, Serialize};

use super::SortieStatus;
use crate::id::{MissionId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText, Title};
use crate::time::Time;

/// Counts an owner declares without listing every subtask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Declared {
    /// The number of subtasks.
    pub total: u64,
    /// Number of completed ones.
    pub completed: u64,
    /// Number of failed ones.
    pub failed: u64,
}

impl Declared {
    /// Counts a subtask that stood elsewhere before, or was not listed.
    pub fn count(&mut self, was: Option<SubtaskStatus>, now: SubtaskStatus) {
        if was == Some(now) {
            return;
        }
        match was {
            Some(SubtaskStatus::Complete) => self.completed = self.completed.saturating_sub(1),
            Some(SubtaskStatus::Failed) => self.failed = self.failed.saturating_sub(1),
            Some(SubtaskStatus::Pending | SubtaskStatus::InProgress) | None => {}
        }
        match now {
            SubtaskStatus::Complete => self.completed = self.completed.saturating_add(1),
            SubtaskStatus::Failed => self.failed = self.failed.saturating_add(1),
            SubtaskStatus::Pending | SubtaskStatus::InProgress => {}
        }
        // More than were declared are there: then the declaration was too small.
        self.total = self.total.max(self.completed.saturating_add(self.failed));
    }
}

/// A part of a sortie, named by its owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subtask {
    /// The sortie that it is a part of.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// Its name within the sortie.
    pub name: Name,
    /// What it is about.
    pub title: Option<Title>,
    /// Where it stands.
    pub status: SubtaskStatus,
    /// What it produced, often a path.
    pub output: Option<Title>,
    /// When it last changed.
    pub updated_at: Time,
}

/// Where a subtask stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SubtaskStatus {
    /// The subtask has not begun.
    Pending,
    /// The subtask has begun.
    InProgress,
    /// The subtask is done.
    Complete,
    /// Not done, given up.
    Failed,
}

impl SubtaskStatus {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }
}

/// How far a sortie is, counted in subtasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubtaskProgress {
    /// The number of subtasks completed.
    pub completed: u64,
    /// The number of subtasks failed.
    pub failed: u64,
    /// The number of subtasks.
    pub total: u64,
    /// The percentage, rounded down: 19 of 29 is 65.
    pub percent: u8,
}

impl SubtaskProgress {
    /// From the listed subtasks, or from what the owner declared when that says more; a completed
    /// sortie is at 100, whatever was counted.
    #[must_use]
    pub fn of(status: SortieStatus, listed: Declared, declared: Option<Declared>) -> Self {
        let declared = declared.unwrap_or_default();
        let total = listed.total.max(declared.total);
        let completed = listed.completed.max(declared.completed).min(total);
        let failed = listed.failed.max(declared.failed).min(total);
        let percent = if status == SortieStatus::Completed {
            100
        } else {
            (u128::from(completed) * 100)
                .checked_div(u128::from(total))
                .and_then(|percent| u8::try_from(percent).ok())
                .unwrap_or(0)
        };
        Self {
            completed,
            failed,
            total,
            percent,
        }
    }
}

/// A file a sortie changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SortieFile {
    /// The sortie that touched the file.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// The path of the file.
    pub path: RepoPath,
    /// The change that was made to it.
    pub change: FileChange,
    /// Who said so.
    pub by: String,
    /// When it was last reported.
    pub at: Time,
}

/// A change that was made to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It is new.
    Created,
    /// It was changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl FileChange {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

/// An error met in a sortie, as its caller reported it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SortieError {
    /// The sortie in which it happened.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// Which error of this sortie: 1, 2, 3 …
    pub number: u64,
    /// What kind of error: `api_error`, `dependency_missing` …
    #[serde(rename = "type")]
    pub kind: Name,
    /// The status code, when it came from an API.
    pub status: Option<u16>,
    /// The text of the error.
    pub message: NoteText,
    /// Whether work cannot go on.
    pub blocking: bool,
    /// When it was reported.
    pub timestamp: Time,
    /// When it was reported as dealt with.
    pub cleared_at: Option<Time>,
}

/// A review of a sortie: one score per reviewer, the last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Review {
    /// The sortie that was reviewed.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// Who reviewed it.
    pub reviewer: Name,
    /// The score; none while the review is asked for and not given.
    pub score: Option<i64>,
    /// What the reviewer said.
    pub note: Option<NoteText>,
    /// When it was reviewed.
    pub at: Time,
}

impl Subject for Subtask {
    const KIND: Kind = Kind::Subtask;

    fn key(&self) -> String {
        format!("{}/{}", self.sortie_id, self.name)
    }

    fn keys(&self) -> Keys {
        part(
            self.mission_id,
            self.sortie_id,
            self.name.to_string(),
            self.status.as_str(),
        )
    }
}

impl Subject for SortieFile {
    const KIND: Kind = Kind::File;

    fn key(&self) -> String {
        format!("{}/{}", self.sortie_id, self.path)
    }

    fn keys(&self) -> Keys {
        part(
            self.mission_id,
            self.sortie_id,
            self.path.to_string(),
            self.change.as_str(),
        )
    }
}

impl Subject for SortieError {
    const KIND: Kind = Kind::Error;

    fn key(&self) -> String {
        format!("{}/{}", self.sortie_id, self.number)
    }

    fn keys(&self) -> Keys {
        let status = if self.cleared_at.is_some() {
            "cleared"
        } else {
            "open"
        };
        part(
            self.mission_id,
            self.sortie_id,
            self.kind.to_string(),
            status,
        )
    }
}

impl Subject for Review {
    const KIND: Kind = Kind::Review;

    fn key(&self) -> String {
        format!("{}/{}", self.sortie_id, self.reviewer)
    }

    fn keys(&self) -> Keys {
        let status = if self.score.is_some() {
            "scored"
        } else {
            "asked"
        };
        part(
            self.mission_id,
            self.sortie_id,
            self.reviewer.to_string(),
            status,
        )
    }
}

fn part(mission: MissionId, sortie: SortieId, name: String, status: &'static str) -> Keys {
    Keys {
        mission: Some(mission),
        parent: Some(sortie.to_string()),
        name: Some(name),
        status,
        ..Keys::default()
    }
}
