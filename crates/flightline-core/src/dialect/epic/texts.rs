//! Writes the messages of agents to each other, to the letter.

use std::fmt::Write as _;

use super::monitor::last_checkpoint;
use super::{Thresholds, age_minutes, phase_name};
use crate::dialect::json::Json;
use crate::dialect::{one_line, stamped};
use crate::time::Time;

/// The subject of the message to an agent that is silent.
pub fn warning_subject(thresholds: &Thresholds) -> String {
    format!(
        "CHECKPOINT WARNING - No Update in {} Minutes",
        thresholds.warning_minutes
    )
}

/// The message to an agent that is silent; `number` is its place in the inbox.
pub fn warning_message(
    checkpoint: &Json,
    number: &str,
    thresholds: &Thresholds,
    now: Time,
) -> String {
    let last = last_checkpoint(checkpoint);
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
    /// The agent's status for the epic's page.
    pub status: String,
    /// The notice for the person.
    pub notice: String,
}

/// The texts about an agent that has likely crashed.
pub fn escalation(checkpoint: &Json, now: Time) -> Escalation {
    let agent = one_line(checkpoint.word("agent_id"));
    let age = age_minutes(last_checkpoint(checkpoint), now);
    Escalation {
        status: format!("{agent}: STALE (likely crashed)"),
        notice: format!("{agent} hasn't updated checkpoint in {}", minutes(age)),
    }
}

/// Returns the message of an agent that goes on in a new session. `current_state` is the state that it found in the
/// files; without it, the files are named.
pub fn resume_message(checkpoint: &Json, current_state: &[String], now: Time) -> String {
    let last = last_checkpoint(checkpoint);
    let mut text = "✅ Checkpoint found! Resuming work...\n\n**Previous Session:**\n".to_owned();
    let stage = checkpoint.text("stage").map(one_line);
    let stage = match (stage, phase_name(checkpoint).map(one_line)) {
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
    if let Some(status) = checkpoint.text("status") {
        let _ = writeln!(text, "- Status: {}", one_line(status));
    }
    let state: Vec<&str> = match current_state.is_empty() {
        true => checkpoint.texts("files_modified"),
        false => current_state.iter().map(String::as_str).collect(),
    };
    if !state.is_empty() {
        text.push_str("\n**Current State:**\n");
        for line in state {
            let _ = writeln!(text, "- {}", one_line(line));
        }
    }
    if let Some(step) = checkpoint.text("current_step") {
        let _ = writeln!(text, "\n**Resuming from:** {}", one_line(step));
    }
    let next_steps = checkpoint.texts("next_steps");
    if !next_steps.is_empty() {
        text.push_str("\n**Next Steps:**\n");
        for (number, step) in (1..).zip(next_steps) {
            let _ = writeln!(text, "{number}. {}", one_line(step));
        }
    }
    text + "\nI'll continue where I left off...\n"
}

/// Returns the text that a person gives to a new agent that takes the work over. `file` is where the checkpoint is now.
pub fn handoff(checkpoint: &Json, file: &str) -> String {
    let feature = checkpoint.text("feature").unwrap_or("the work");
    let phase = phase_name(checkpoint).map(|phase| {
        let phase = one_line(phase);
        if phase.ends_with("Phase") {
            phase
        } else {
            format!("{phase} Phase")
        }
    });
    let stage = checkpoint.text("stage").map(one_line);
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
        one_line(checkpoint.word("agent_id")),
        one_line(file),
    )
}

fn minutes(count: i64) -> String {
    match count {
        1 => "1 minute".to_owned(),
        count => format!("{count} minutes"),
    }
}
