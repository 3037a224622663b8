//! Sorties: units of work with one owner, and the parts that grow with them.

mod part;
mod scratch;

use crate::Schema;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, MissionId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::{JsonData, Name, NoteText, Title};
use crate::time::{Millis, Time};

pub use self::part::{
    Declared, FileChange, Review, SortieError, SortieFile, Subtask, SubtaskProgress, SubtaskStatus,
};

/// A sortie. Its subtasks, files, errors and reviews are subjects of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Sortie {
    /// The sortie's id.
    pub id: SortieId,
    /// The mission that the sortie belongs to.
    pub mission_id: MissionId,
    /// The id that other tools know the sortie by, such as `T060`.
    pub task_id: Option<Name>,
    /// The work to be done, in one line.
    pub title: Title,
    /// The work to be done, at length.
    pub description: Option<NoteText>,
    /// The status of the sortie.
    pub status: SortieStatus,
    /// The sortie's place in the mission's order.
    pub position: u64,
    /// The priority of the sortie: higher goes first.
    pub priority: i32,
    /// The agent that the sortie belongs to.
    pub assigned_to: Option<AgentId>,
    /// The owner's incarnation at the time it took the sortie.
    pub assigned_epoch: Option<u64>,
    /// Sorties that must be completed first.
    pub depends_on: Vec<SortieId>,
    /// The files that the sortie is expected to touch.
    pub files: Vec<RepoPath>,
    /// The number of times that work on the sortie has begun.
    pub attempts: u32,
    /// The last status update, in the owner's words.
    pub progress_notes: Option<NoteText>,
    /// The owner's place in a longer run of items.
    pub cursor: WorkCursor,
    /// Subtask counts and percentage as the owner declared them, when the owner does not list the subtasks.
    pub declared: Option<Declared>,
    /// Acceptance criteria, and whether each is met.
    pub acceptance_criteria: BTreeMap<Name, bool>,
    /// The full text of a criterion, where its name was made of that.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub criteria_texts: BTreeMap<Name, Title>,
    /// True when the sortie can be taken up again after an interruption.
    pub resumable: bool,
    /// Instructions for taking the sortie up again.
    pub resume_instructions: Option<NoteText>,
    /// The obstacle that blocks the sortie, while it is blocked.
    pub blocked_reason: Option<NoteText>,
    /// The reason why the sortie failed.
    pub failure: Option<NoteText>,
    /// The last verdict of a person or reviewer on the sortie.
    pub approval: Option<Approval>,
    /// The expected time for the sortie, in milliseconds.
    pub estimate_ms: Option<Millis>,
    /// Tokens spent on the sortie so far.
    pub token_usage: TokenUsage,
    /// The input that the work starts from.
    pub input: Option<JsonData>,
    /// The result of the work.
    pub output: Option<JsonData>,
    /// Time at which the sortie was added.
    pub created_at: Time,
    /// Time of the last change of the sortie's record.
    pub updated_at: Time,
    /// Time at which the current owner got the sortie.
    pub assigned_at: Option<Time>,
    /// Time at which work on the sortie first began.
    pub started_at: Option<Time>,
    /// Time at which the sortie was completed.
    pub completed_at: Option<Time>,
    /// The way in which the last owner lost the sortie, until its next owner reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interruption>,
}

impl Sortie {
    /// The record of a sortie that has no owner yet.
    pub fn new(id: SortieId, mission_id: MissionId, title: Title, now: Time) -> Self {
        Self {
            id,
            mission_id,
            task_id: None,
            title,
            description: None,
            status: SortieStatus::Pending,
            position: 0,
            priority: 0,
            assigned_to: None,
            assigned_epoch: None,
            depends_on: Vec::new(),
            files: Vec::new(),
            attempts: 0,
            progress_notes: None,
            cursor: WorkCursor::default(),
            declared: None,
            acceptance_criteria: BTreeMap::new(),
            criteria_texts: BTreeMap::new(),
            resumable: true,
            resume_instructions: None,
            blocked_reason: None,
            failure: None,
            approval: None,
            estimate_ms: None,
            token_usage: TokenUsage::default(),
            input: None,
            output: None,
            created_at: now,
            updated_at: now,
            assigned_at: None,
            started_at: None,
            completed_at: None,
            interrupted: None,
        }
    }
}

/// Work that was cut short: its owner was gone, and a recovery freed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Interruption {
    /// The agent that had the sortie.
    pub owner: Name,
    /// Time at which the sortie was freed.
    pub at: Time,
    /// Paths that the agent had locked for the sortie: acquired again for the next owner.
    pub locks: Vec<RepoPath>,
    /// The obstacle that the sortie was waiting for.
    pub blocked_reason: Option<NoteText>,
}

impl Interruption {
    /// The most locks that are remembered: a document has a size.
    pub const MOST_LOCKS: usize = 100;
}

impl Sortie {
    /// Returns the time that the work took, or has taken so far.
    pub fn actual_ms(&self, now: Time) -> Option<Millis> {
        self.started_at
            .map(|started| self.completed_at.unwrap_or(now).since(started))
    }

    /// Returns true when work on the sortie was cut short, and no agent has taken it up since.
    pub const fn is_interrupted(&self) -> bool {
        matches!(self.status, SortieStatus::Pending) && self.interrupted.is_some()
    }

    /// Leaves the sortie without an owner.
    pub fn unassign(&mut self) {
        self.assigned_to = None;
        self.assigned_epoch = None;
        self.assigned_at = None;
    }

    pub fn called(&self) -> String {
        called(self.task_id.as_ref(), self.title.as_str())
    }
}

/// Returns the name of a sortie for people: `T060: Convert the trail`, where other tools know it by an id.
pub fn called(task_id: Option<&Name>, title: &str) -> String {
    match task_id {
        Some(task) if !title.starts_with(task.as_str()) => format!("{task}: {title}"),
        _ => title.to_owned(),
    }
}

words! {
    /// The status of a sortie.
    pub enum SortieStatus {
        /// The sortie has no owner.
        Pending = "pending",
        /// The sortie has an owner, who has not begun.
        Assigned = "assigned",
        /// The sortie is being worked on.
        InProgress = "in_progress",
        /// The sortie is waiting for something.
        Blocked = "blocked",
        /// The work on the sortie is done.
        Completed = "completed",
        /// The work failed, and no agent is at it.
        Failed = "failed",
        /// The mission goes on without the sortie: it failed, or was cancelled.
        Skipped = "skipped",
    }
}

impl SortieStatus {
    #[must_use]
    pub const fn next(self) -> &'static [Self] {
        use SortieStatus::{Assigned, Blocked, Completed, Failed, InProgress, Pending, Skipped};
        match self {
            Self::Pending => &[Assigned, InProgress, Failed, Skipped],
            Self::Assigned => &[Pending, Assigned, InProgress, Blocked, Failed, Skipped],
            Self::InProgress => &[Pending, Assigned, Blocked, Completed, Failed, Skipped],
            Self::Blocked => &[Pending, Assigned, InProgress, Failed, Skipped],
            // A rejected review sends it back.
            Self::Completed => &[InProgress],
            Self::Failed => &[Pending, Assigned, InProgress, Skipped],
            // An agent does it after all.
            Self::Skipped => &[Pending, Assigned, InProgress],
        }
    }

    pub const fn is_held(self) -> bool {
        matches!(self, Self::Assigned | Self::InProgress | Self::Blocked)
    }

    /// Returns true when nothing waits for the sortie any more: it is done, or the mission goes on without it.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }
}

/// The place of an owner in a longer run of items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct WorkCursor {
    /// The item that was processed last.
    pub last_processed: Option<Title>,
    /// The item that comes next.
    pub next_to_process: Option<Title>,
    /// Further notes on the place.
    pub notes: Option<NoteText>,
}

/// The number of tokens that were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TokenUsage {
    /// The number of tokens read.
    pub input: u64,
    /// The number of tokens written.
    pub output: u64,
}

/// A verdict on a sortie's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Approval {
    /// The verdict: approved or rejected.
    pub verdict: Verdict,
    /// The reviewer or person that decided.
    pub by: String,
    /// The reason for the verdict.
    pub reason: Option<NoteText>,
    /// Time at which it was decided.
    pub at: Time,
}

/// A verdict on work: approved or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The work is good.
    Approved,
    /// The work is to be done again.
    Rejected,
}

impl Subject for Sortie {
    const KIND: Kind = Kind::Sortie;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.mission_id),
            agent: self.assigned_to,
            name: Some(self.title.to_string()),
            status: self.status.as_str(),
            ..Keys::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn subtask_percentages_round_down() {
        let listed = Declared {
            total: 29,
            completed: 19,
            failed: 0,
        };
        assert_eq!(
            SubtaskProgress::of(SortieStatus::InProgress, listed, None).percent,
            65
        );
        assert_eq!(
            SubtaskProgress::of(SortieStatus::InProgress, Declared::default(), None).percent,
            0
        );
        assert_eq!(
            SubtaskProgress::of(SortieStatus::Completed, Declared::default(), None).percent,
            100
        );
    }

    #[test]
    fn declared_totals_survive_a_partial_list() {
        let listed = Declared {
            total: 4,
            completed: 2,
            failed: 0,
        };
        let declared = Some(Declared {
            total: 29,
            completed: 19,
            failed: 0,
        });
        let progress = SubtaskProgress::of(SortieStatus::InProgress, listed, declared);
        assert_eq!(
            (progress.completed, progress.total, progress.percent),
            (19, 29, 65)
        );
    }

    proptest! {
        #[test]
        fn every_walk_stays_legal_and_can_always_go_on(steps in prop::collection::vec(0usize..7, 0..40)) {
            let mut status = SortieStatus::Pending;
            for step in steps {
                let next = status.next();
                prop_assert!(!next.is_empty());
                status = next[step % next.len()];
            }
            prop_assert_eq!(SortieStatus::from_word(status.as_str()), Some(status));
        }
    }
}
