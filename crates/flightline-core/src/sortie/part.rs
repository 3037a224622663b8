//! The parts of a sortie, each a subject of its own: subtasks and their counts, files, errors and reviews.

use crate::Schema;
use serde::{Deserialize, Serialize};

use super::SortieStatus;
use crate::id::{MissionId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText, Title};
use crate::time::Time;

/// The counts that an owner declares without listing every subtask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Declared {
    /// The number of subtasks.
    pub total: u64,
    /// The number of completed subtasks.
    pub completed: u64,
    /// The number of failed subtasks.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Subtask {
    /// The sortie that it is a part of.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// The subtask's name within the sortie.
    pub name: Name,
    /// The title of the subtask.
    pub title: Option<Title>,
    /// The status of the subtask.
    pub status: SubtaskStatus,
    /// The result of the subtask, often a path.
    pub output: Option<Title>,
    /// Time of the subtask's last change.
    pub updated_at: Time,
}

words! {
    /// The status of a subtask.
    pub enum SubtaskStatus {
        /// The subtask has not begun.
        Pending = "pending",
        /// The subtask has begun.
        InProgress = "in_progress",
        /// The subtask is done.
        Complete = "complete",
        /// The subtask is not done, and was given up.
        Failed = "failed",
    }
}

/// The progress of a sortie, counted in subtasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
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
    /// Counts from the listed subtasks, or from those that the owner declared when they are more; a completed sortie is
    /// at 100, whatever was counted.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct SortieFile {
    /// The sortie that touched the file.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// The path of the file.
    pub path: RepoPath,
    /// The change that was made to it.
    pub change: FileChange,
    /// The actor that reported the change: an agent's name, `user:NAME`, or `flightline`.
    pub by: String,
    /// Time of the last report.
    pub at: Time,
}

words! {
    /// A change that was made to a file.
    pub enum FileChange {
        /// The file is new.
        Created = "created",
        /// The file was changed.
        Modified = "modified",
        /// The file is gone.
        Deleted = "deleted",
    }
}

/// An error met in a sortie, as its caller reported it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct SortieError {
    /// The sortie in which it happened.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// The number of the error among those of this sortie: 1, 2, 3 …
    pub number: u64,
    /// The type of the error: `api_error`, `dependency_missing` …
    #[serde(rename = "type")]
    pub kind: Name,
    /// The HTTP status code, when the error came from an API.
    pub status: Option<u16>,
    /// The text of the error.
    pub message: NoteText,
    /// True when work cannot go on.
    pub blocking: bool,
    /// Time at which the error was reported.
    pub timestamp: Time,
    /// Time at which the error was reported as dealt with.
    pub cleared_at: Option<Time>,
}

/// A review of a sortie: one score per reviewer, the last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Review {
    /// The sortie that was reviewed.
    pub sortie_id: SortieId,
    /// The mission of that sortie.
    pub mission_id: MissionId,
    /// The reviewer of the sortie.
    pub reviewer: Name,
    /// The score; none while the review is asked for and not given.
    pub score: Option<i64>,
    /// The reviewer's words about the score.
    pub note: Option<NoteText>,
    /// Time of the review.
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
