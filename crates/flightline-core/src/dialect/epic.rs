//! Seed C: one checkpoint per agent, in `agent_checkpoints/{agent}.json`.

mod files;
mod monitor;
mod texts;

use super::json::Json;
use super::shape::FieldForm::{self, Bool, List, Object, Text, Time, Whole};
use super::shape::Need::{Must, Out};
use crate::time::Millis;

pub use self::files::{
    ARCHIVE_FOLDER, Ended, FOLDER, archive_name, backup_name, file_name, is_monitored,
    latest_backup, surplus_backups,
};
pub use self::monitor::{MonitorLevel, MonitorVerdict, Thresholds, age_minutes, judge};
pub use self::texts::{
    Escalation, escalation, handoff, resume_message, warning_message, warning_subject,
};

const MINUTE: Millis = 60_000;

pub(super) const CHECKPOINT: FieldForm = Object(&[
    // `Agent-Primary`, `Secondary-A`.
    ("agent_id", Must, Text),
    // `primary` or `secondary`.
    ("agent_type", Out, Text),
    ("session_id", Out, Text),
    ("feature", Out, Text),
    // `S2.P1`, `S2.P2`, `S2.P3`; the phase says it in words for people.
    ("stage", Out, Text),
    ("phase", Out, Text),
    ("last_checkpoint", Must, Time),
    ("next_checkpoint_expected", Out, Time),
    // `IN_PROGRESS`, `WAITING`, `BLOCKED` or `COMPLETE`.
    ("status", Out, Text),
    ("can_resume", Out, Bool),
    ("blockers", Out, List(&Text)),
    ("files_modified", Out, List(&Text)),
    ("recovery_instructions", Out, Text),
    ("current_step", Out, Text),
    ("completed_steps", Out, List(&Text)),
    ("next_steps", Out, List(&Text)),
    ("coordination_state", Out, COORDINATION),
]);

/// The times at which an agent last looked at the things it shares with others.
const COORDINATION: FieldForm = Object(&[
    ("last_inbox_check", Out, Time),
    ("unread_messages", Out, Whole),
    ("last_epic_readme_update", Out, Time),
    ("last_status_update", Out, Time),
]);

/// The agent type of the agent that coordinates the others.
pub const PRIMARY: &str = "primary";
/// The agent type of an agent that works on a feature.
pub const SECONDARY: &str = "secondary";

/// The phase without the agent's addition: of `Specification - In Progress`, `Specification`.
fn phase_name(checkpoint: &Json) -> Option<&str> {
    let phase = checkpoint.text("phase")?;
    Some(phase.split_once(" - ").map_or(phase, |(name, _)| name))
}
