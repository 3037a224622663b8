//! Progress, times, and the troubles that a task can have.

use super::Json;
use crate::dialect::one_line;
use crate::sortie::{Declared, SortieStatus, SubtaskProgress};
use crate::time::{Millis, Time, human_span};

/// The troubles that a task can have.
#[derive(Clone, Debug, PartialEq)]
pub enum Scenario {
    /// The task was in progress, and its agent fell silent.
    SessionTimeout { quiet_ms: Millis },
    /// The task is blocked, and its errors say by what.
    ErrorDuringProcessing { errors: Vec<String> },
    /// The task is complete, and not all of its criteria are met.
    PartialCompletion { unmet: Vec<String> },
}

impl Scenario {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::SessionTimeout { .. } => "session_timeout",
            Self::ErrorDuringProcessing { .. } => "error",
            Self::PartialCompletion { .. } => "partial_completion",
        }
    }

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
pub fn progress_line(task: &str, percent: u8) -> String {
    format!(
        "@orchestrator: Task {} progress: {percent}%",
        one_line(task)
    )
}

/// Returns the progress of the task, counted in parts. The counts are of all parts, so a partial list does not lower
/// them; the percentage is rounded down.
pub fn progress(checkpoint: &Json) -> SubtaskProgress {
    let status = match checkpoint.word("status") {
        "complete" => SortieStatus::Completed,
        _ => SortieStatus::InProgress,
    };
    let Some(subtasks) = checkpoint.given("subtasks") else {
        return SubtaskProgress::of(status, Declared::default(), None);
    };
    let items = subtasks.items("items");
    let count = |wanted: &str| {
        let is = |item: &&Json| item.text("status") == Some(wanted);
        items.iter().filter(is).count() as u64
    };
    let listed = Declared {
        total: items.len() as u64,
        completed: count("complete"),
        failed: count("failed"),
    };
    SubtaskProgress::of(status, listed, Some(declared(subtasks)))
}

pub fn declared(subtasks: &Json) -> Declared {
    let count = |key: &str| subtasks.whole(key).unwrap_or_default();
    Declared {
        total: count("total"),
        completed: count("completed"),
        failed: count("failed"),
    }
}

/// The percentage to show: from the parts if there are any, else as the agent says.
pub fn percent(checkpoint: &Json) -> u8 {
    let progress = progress(checkpoint);
    let declared = checkpoint.whole("progress_percent");
    let declared = declared.and_then(|percent| u8::try_from(percent).ok());
    match declared {
        Some(declared) if progress.total == 0 && checkpoint.word("status") != "complete" => {
            declared
        }
        Some(_) | None => progress.percent,
    }
}

pub fn last_update(checkpoint: &Json) -> Option<Time> {
    let updated = checkpoint.time("updated_at");
    updated.or_else(|| checkpoint.time("started_at"))
}

/// Returns the time at which the checkpoint was written: its last update, or its completion when that came after.
pub fn written(checkpoint: &Json) -> Option<Time> {
    last_update(checkpoint).max(checkpoint.time("completed_at"))
}

/// Returns the time at which a part of a checkpoint was written; none when it does not say.
pub fn part_written(part: &Json) -> Option<Time> {
    let own = part.time("updated_at").max(part.time("completed_at"));
    let errors = part.items("errors").iter();
    let errors = || errors.filter_map(|error| error.time("timestamp")).max();
    own.or_else(errors).or_else(|| part.time("started_at"))
}

/// The trouble of the task, if it needs a decision. A session is lost after more than `timeout` of silence.
pub fn scenario(checkpoint: &Json, timeout: Millis, now: Time) -> Option<Scenario> {
    match checkpoint.word("status") {
        "in_progress" => {
            let quiet_ms = now.since(last_update(checkpoint)?);
            (quiet_ms > timeout).then_some(Scenario::SessionTimeout { quiet_ms })
        }
        "blocked" => {
            let errors = checkpoint.items("errors").iter();
            let errors: Vec<String> = errors.map(|it| one_line(it.word("message"))).collect();
            (!errors.is_empty()).then_some(Scenario::ErrorDuringProcessing { errors })
        }
        "complete" => {
            let criteria = checkpoint.fields("acceptance_criteria_met").iter();
            let unmet = criteria.filter(|(_, met)| *met == Json::Bool(false));
            let unmet: Vec<String> = unmet.map(|(name, _)| one_line(name)).collect();
            (!unmet.is_empty()).then_some(Scenario::PartialCompletion { unmet })
        }
        _ => None,
    }
}
