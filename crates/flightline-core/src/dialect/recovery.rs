//! Seed E: a checkpoint for when tokens run out, in `checkpoints/latest.json` and its kin.

mod context;
mod delta;
mod files;
mod start;

use super::json::Json;
use super::one_line;
use super::shape::FieldForm::{self, Any, List, MaybeTime, Number, Object, Tasks, Text, TextOr};
use super::shape::Need::{Must, Out};
use crate::checkpoint::Reason;

pub use self::context::{CONTEXT_TOKENS, LOAD_LATER, LOAD_NOW, ResumeText, recovery_context};
pub use self::delta::{BoardChange, moved, updated};
pub use self::files::{
    CleanUp, CleanupPlan, FOLDER, FoundFile, LATEST_FILE, backup_name, emergency_name, time_in,
};
pub use self::start::{Expected, Invalid, Start, start};

pub const VERSION: &str = "1.0";
/// The number of tasks of the backlog that are named.
pub const BACKLOG: usize = 5;
/// The seed's word for the completion of a task.
const TASK_COMPLETION: &str = "task_completion";

/// Shown on one line each, as in the seed.
pub(super) const ONE_LINE: &[&str] = &[
    "completedTasks",
    "inProgress",
    "backlogSnapshot",
    "deltaChanges",
];

pub(super) const CHECKPOINT: FieldForm = Object(&[
    ("version", Out, Text),
    // When it was taken; none when there is none to resume from.
    ("timestamp", Must, MaybeTime),
    ("reason", Out, Text),
    ("tokenUsage", Out, TOKEN_USAGE),
    ("state", Out, STATE),
    ("context", Out, CONTEXT),
    ("nextSteps", Out, List(&Text)),
    // Changes that were made and not yet written to the other files; unknown ones are kept.
    ("deltaChanges", Out, List(&Any)),
    ("resumeInstructions", Out, Text),
]);

/// The fill level of the context, and the mode that this led to.
const TOKEN_USAGE: FieldForm = Object(&[
    ("total", Out, Number),
    ("percentage", Out, Number),
    ("mode", Out, Text),
]);

/// The state of the work. Of tasks in progress the seed's text has a list, its example one task.
const STATE: FieldForm = Object(&[
    ("completedTasks", Out, List(&Text)),
    ("inProgress", Out, Tasks),
    ("backlogSnapshot", Out, List(&TextOr(&BACKLOG_TASK))),
    // `bootstrap`, `development`, `testing` or `release`.
    ("currentPhase", Out, Text),
]);

/// A task of the backlog: the example has objects, and an id alone will do.
const BACKLOG_TASK: FieldForm = Object(&[("id", Must, Text), ("title", Out, Text)]);

const CONTEXT: FieldForm = Object(&[
    ("STACK_ID", Out, Text),
    ("currentSprint", Out, Text),
    ("activeObjective", Out, Text),
]);

/// Returns the instructions for a person when a session is interrupted, to the letter.
pub fn resume_instructions(task: Option<&str>) -> String {
    let at = task.map_or_else(String::new, |task| format!(" at {}", one_line(task)));
    format!(
        "Session interrupted{at}. To resume:\n\
         \n\
         1. Start new session\n\
         2. Agent will auto-detect checkpoint\n\
         3. Or manually: \"Resume from last checkpoint\"\n\
         4. System loads minimal context and continues\n"
    )
}

pub fn in_progress(checkpoint: &Json) -> Vec<&str> {
    let state = &checkpoint["state"];
    match state.text("inProgress") {
        Some(task) => vec![task],
        None => state.texts("inProgress"),
    }
}

/// The next tasks of the backlog: the id of each, and its title where it has one.
pub fn backlog(checkpoint: &Json) -> impl Iterator<Item = (&str, Option<&str>)> {
    let items = checkpoint["state"].items("backlogSnapshot").iter();
    items.map(|item| match item.as_text() {
        Some(id) => (id, None),
        None => (item.word("id"), item.text("title")),
    })
}

/// Flightline's reason for one of the seed; none for an unknown word.
pub fn reason_of(word: &str) -> Option<Reason> {
    match word {
        TASK_COMPLETION => Some(Reason::TaskComplete),
        word => Reason::from_word(word),
    }
}

/// The word for one of Flightline's reasons: the seed's where it has one, else ours.
pub const fn word_of(reason: Reason) -> &'static str {
    match reason {
        Reason::TaskComplete => TASK_COMPLETION,
        reason => reason.as_str(),
    }
}
