//! Beginning a sortie again from scratch.

use super::{Sortie, SortieStatus, Subtask, SubtaskStatus, TokenUsage, WorkCursor};
use crate::time::Time;

impl Sortie {
    /// The sortie as it was given: the task stays, all progress goes.
    pub fn from_scratch(&self, now: Time) -> Self {
        Self {
            status: SortieStatus::Pending,
            assigned_to: None,
            assigned_epoch: None,
            assigned_at: None,
            attempts: 0,
            progress_notes: None,
            cursor: WorkCursor::default(),
            declared: None,
            acceptance_criteria: self
                .acceptance_criteria
                .keys()
                .map(|name| (name.clone(), false))
                .collect(),
            resumable: true,
            resume_instructions: None,
            blocked_reason: None,
            failure: None,
            approval: None,
            token_usage: TokenUsage::default(),
            output: None,
            updated_at: now,
            started_at: None,
            completed_at: None,
            interrupted: None,
            ..self.clone()
        }
    }
}

impl Subtask {
    pub fn from_scratch(&self, now: Time) -> Self {
        Self {
            status: SubtaskStatus::Pending,
            output: None,
            updated_at: now,
            ..self.clone()
        }
    }
}
