//! What agents tell each other, to the letter.

use std::fmt::Write as _;

use super::{Checkpoint, Maybe, Thresholds, age_minutes};
use crate::dialect::field::{one_line, stamped};
use crate::time::Time;

/// The subject of the message to an agent that is silent.
#[must_use]
pub fn warning_subject(thresholds: &Thresholds) -> String {
    format!(
        "CHECKPOINT WARNING - No Update in {} Minutes",
        thresholds.warning_minutes
    )
}

/// The message to an agent that is silent; `number` is its place in the inbox.
#[must_use]
pub fn warning_message(
    checkpoint: &Checkpoint,
    number: &str,
    thresholds: &Thresholds,
    now: Time,
) -> String {
    let last = checkpoint.last_checkpoint.time();
    format!(
        "## Message {} ({}) ⏳ UNREAD\n\
         **Subject:** {}\n\
         **Action:** Please update your checkpoint and confirm you're still working\n\
         **Details:** Your last checkpoint was at {} ({} ago)\n         \
         Expected checkpoint every {}\n         \
         Are you still actively working?\n\
         **Next:** Reply \"Still working\" and update checkpoint ASAP\n\
         **Acknowledge:** Reply immediately\n",
        one_line(number),
        stamped(now, "%Y-%m-%d %H:%M"),
        warning_subject(thresholds),
        stamped(last, "%H:%M"),
        minutes(age_minutes(last, now)),
        minutes(i64::try_from(thresholds.expected_minutes).unwrap_or(i64::MAX)),
    )
}

/// The texts about an agent that has likely crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escalation {
    /// For the epic's page.
    pub status: String,
    /// For the person.
    pub notice: String,
}

/// The texts about an agent that has likely crashed.
#[must_use]
pub fn escalation(checkpoint: &Checkpoint, now: Time) -> Escalation {
    let agent = one_line(&checkpoint.agent_id);
    let age = age_minutes(checkpoint.last_checkpoint.time(), now);
    Escalation {
        status: format!("{agent}: STALE (likely crashed)"),
        notice: format!("{agent} hasn't updated checkpoint in {}", minutes(age)),
    }
}

/// What an agent says when it goes on in a new session. `current_state` is what it found in the files;
/// without it, the files are named.
#[must_use]
pub fn resume_message(checkpoint: &Checkpoint, current_state: &[String], now: Time) -> String {
    let last = checkpoint.last_checkpoint.time();
    let mut text = "✅ Checkpoint found! Resuming work...\n\n**Previous Session:**\n".to_owned();
    let stage = checkpoint.stage.get().map(|stage| one_line(stage));
    let stage = match (stage, checkpoint.phase_name().map(one_line)) {
        (Some(stage), Some(phase)) => Some(format!("{stage} ({phase})")),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => None,
    };
    // Writing to a String cannot fail.
    if let Some(stage) = stage {
        let _ = writeln!(text, "- Stage: {stage}");
    }
    let _ = writeln!(
        text,
        "- Last Update: {} ({} ago)",
        stamped(last, "%H:%M"),
        minutes(age_minutes(last, now))
    );
    if let Some(status) = checkpoint.status.get() {
        let _ = writeln!(text, "- Status: {}", one_line(status.as_str()));
    }
    let state = if current_state.is_empty() {
        list(&checkpoint.files_modified)
    } else {
        current_state
    };
    if !state.is_empty() {
        text.push_str("\n**Current State:**\n");
        for line in state {
            let _ = writeln!(text, "- {}", one_line(line));
        }
    }
    if let Some(step) = checkpoint.current_step.get() {
        let _ = writeln!(text, "\n**Resuming from:** {}", one_line(step));
    }
    let next_steps = list(&checkpoint.next_steps);
    if !next_steps.is_empty() {
        text.push_str("\n**Next Steps:**\n");
        for (number, step) in (1..).zip(next_steps) {
            let _ = writeln!(text, "{number}. {}", one_line(step));
        }
    }
    text + "\nI'll continue where I left off...\n"
}

/// What a person gives to a new agent that takes the work over. `file` is where the checkpoint is now.
#[must_use]
pub fn handoff(checkpoint: &Checkpoint, file: &str) -> String {
    let feature = checkpoint.feature.get().map_or("the work", String::as_str);
    let phase = checkpoint.phase_name().map(|phase| {
        let phase = one_line(phase);
        if phase.ends_with("Phase") {
            phase
        } else {
            format!("{phase} Phase")
        }
    });
    let stage = checkpoint.stage.get().map(|stage| one_line(stage));
    let from: Vec<String> = [stage, phase].into_iter().flatten().collect();
    let from = match from.is_empty() {
        true => "the beginning".to_owned(),
        false => from.join(" "),
    };
    format!(
        "I'm taking over {} from crashed {}.\n\
         \n\
         Checkpoint File: {}\n\
         Resume from: {from}\n",
        one_line(feature),
        one_line(&checkpoint.agent_id),
        one_line(file),
    )
}

fn list(field: &Maybe<Vec<String>>) -> &[String] {
    field.get().map_or(&[], Vec::as_slice)
}

fn minutes(count: i64) -> String {
    match count {
        1 => "1 minute".to_owned(),
        count => format!("{count} minutes"),
    }
}
