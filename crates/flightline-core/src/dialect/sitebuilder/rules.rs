//! Progress, resuming, and what can have happened to a task.

use super::{BeatStatus, Checkpoint, Heartbeat, Item, ItemStatus, Maybe, Stamp, TaskStatus};
use crate::dialect::field::{Extra, one_line};
use crate::sortie::{Declared, SortieStatus, SubtaskProgress};
use crate::time::{Millis, Time, human_span};

/// What can have happened to a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Scenario {
    /// It was in progress, and its agent fell silent.
    SessionTimeout {
        /// For how long.
        quiet_ms: Millis,
    },
    /// It is blocked, and its errors say by what.
    ErrorDuringProcessing {
        /// What the errors say.
        errors: Vec<String>,
    },
    /// It is complete, and not all of its criteria are met.
    PartialCompletion {
        /// The criteria that are not met.
        unmet: Vec<String>,
    },
}

impl Scenario {
    /// The word for it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::SessionTimeout { .. } => "session_timeout",
            Self::ErrorDuringProcessing { .. } => "error",
            Self::PartialCompletion { .. } => "partial_completion",
        }
    }

    /// What happened, in a sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::SessionTimeout { quiet_ms } => {
                format!("in progress, and silent for {}", human_span(*quiet_ms))
            }
            Self::ErrorDuringProcessing { errors } => format!("blocked: {}", errors.join("; ")),
            Self::PartialCompletion { unmet } => {
                format!("complete, but not met: {}", unmet.join(", "))
            }
        }
    }
}

/// The line that is posted to the orchestrator after each update of a task.
#[must_use]
pub fn progress_line(task: &str, percent: u8) -> String {
    format!(
        "@orchestrator: Task {} progress: {percent}%",
        one_line(task)
    )
}

impl Checkpoint {
    /// How far the task is, counted in parts. The counts are of all parts, so a partial list does not
    /// lower them; the percentage is rounded down.
    #[must_use]
    pub fn progress(&self) -> SubtaskProgress {
        let status = match self.status {
            TaskStatus::Complete => SortieStatus::Completed,
            TaskStatus::InProgress | TaskStatus::Blocked | TaskStatus::Other(_) => {
                SortieStatus::InProgress
            }
        };
        let Some(subtasks) = self.subtasks.get() else {
            return SubtaskProgress::of(status, Declared::default(), None);
        };
        let count = |wanted: &ItemStatus| {
            let is = |item: &&Item| item.status.get() == Some(wanted);
            self.items().iter().filter(is).count() as u64
        };
        let listed = Declared {
            total: self.items().len() as u64,
            completed: count(&ItemStatus::Complete),
            failed: count(&ItemStatus::Failed),
        };
        let declared = Declared {
            total: subtasks.total.get().copied().unwrap_or(0),
            completed: subtasks.completed.get().copied().unwrap_or(0),
            failed: subtasks.failed.get().copied().unwrap_or(0),
        };
        SubtaskProgress::of(status, listed, Some(declared))
    }

    /// The percentage to show: from the parts if there are any, else as the agent says.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let progress = self.progress();
        match self.progress_percent.get() {
            Some(declared) if progress.total == 0 && self.status != TaskStatus::Complete => {
                declared.get()
            }
            Some(_) | None => progress.percent,
        }
    }

    /// When the agent last wrote.
    #[must_use]
    pub fn last_update(&self) -> Option<Time> {
        let stamp = self.updated_at.get().or_else(|| self.started_at.get());
        stamp.map(Stamp::time)
    }

    /// The trouble of the task, if it needs a decision. A session is lost after more than `timeout` of silence.
    #[must_use]
    pub fn scenario(&self, timeout: Millis, now: Time) -> Option<Scenario> {
        match self.status {
            TaskStatus::InProgress => {
                let quiet_ms = now.since(self.last_update()?);
                (quiet_ms > timeout).then_some(Scenario::SessionTimeout { quiet_ms })
            }
            TaskStatus::Blocked => {
                let errors = self.errors.get().filter(|errors| !errors.is_empty())?;
                let errors = errors.iter().map(|error| one_line(&error.message));
                Some(Scenario::ErrorDuringProcessing {
                    errors: errors.collect(),
                })
            }
            TaskStatus::Complete => {
                let unmet = self.unmet_criteria();
                (!unmet.is_empty()).then_some(Scenario::PartialCompletion { unmet })
            }
            TaskStatus::Other(_) => None,
        }
    }

    /// Criteria that are not met.
    #[must_use]
    pub fn unmet_criteria(&self) -> Vec<String> {
        let criteria = self.acceptance_criteria_met.get();
        criteria
            .iter()
            .flat_map(|criteria| &criteria.0)
            .filter(|(_, met)| !met)
            .map(|(name, _)| one_line(name))
            .collect()
    }

    fn items(&self) -> &[Item] {
        let subtasks = self.subtasks.get();
        let items = subtasks.and_then(|subtasks| subtasks.items.get());
        items.map_or(&[], Vec::as_slice)
    }
}

impl Heartbeat {
    /// A sign of life at `now`, of which one is expected every `interval`.
    #[must_use]
    pub fn at(now: Time, interval: Millis) -> Self {
        Self {
            last_beat: Stamp::seconds(now),
            interval_seconds: Maybe::Is(interval / 1_000),
            status: Maybe::Is(BeatStatus::Alive),
            extra: Extra::default(),
        }
    }
}
