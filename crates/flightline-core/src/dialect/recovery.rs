//! Seed E: a checkpoint for when tokens run out, in `checkpoints/latest.json` and its kin.

mod context;
mod delta;
mod files;
mod start;

use super::field::{Extra, Keep, Maybe, Stamp, Value, document, mismatch, one_line, words};
use super::json::{Json, Number};
use super::unreadable::{Path, Unreadable, check_version};
use crate::checkpoint::Reason;

pub use self::context::{CONTEXT_TOKENS, LOAD_LATER, LOAD_NOW, RecoveryContext, recovery_context};
pub use self::delta::{Change, moved, updated};
pub use self::files::{
    CleanUp, FOLDER, FoundFile, LATEST_FILE, Plan, backup_name, emergency_name, time_in,
};
pub use self::start::{Expected, Invalid, Start, start};

/// The version of the documents this code writes.
pub const VERSION: &str = "1.0";
/// So many tasks of the backlog are named.
pub const BACKLOG: usize = 5;

/// Shown on one line each, as in the seed.
const ONE_LINE: &[&str] = &[
    "completedTasks",
    "inProgress",
    "backlogSnapshot",
    "deltaChanges",
];

document! {
    /// A checkpoint.
    pub struct Checkpoint {
        /// The version of this document.
        version "version": Maybe<String>,
        /// When it was taken; empty when there is none to resume from.
        timestamp "timestamp": Timestamp,
        /// Why it was taken.
        reason "reason": Maybe<CheckpointReason>,
        /// How full the context was.
        token_usage "tokenUsage": Maybe<TokenUsage>,
        /// Where the work stood.
        state "state": Maybe<State>,
        /// What it was about.
        context "context": Maybe<Context>,
        /// The next steps of the session.
        next_steps "nextSteps": Maybe<Vec<String>>,
        /// Changes that were made and not yet written to the other files.
        delta_changes "deltaChanges": Maybe<Vec<Json>>,
        /// How to go on.
        resume_instructions "resumeInstructions": Maybe<String>,
    }

    /// How full the context was.
    #[derive(Default)]
    pub struct TokenUsage {
        /// The number of tokens used.
        total "total": Maybe<Number>,
        /// The used share of all tokens, in percent.
        percentage "percentage": Maybe<Number>,
        /// Which mode this led to.
        mode "mode": Maybe<String>,
    }

    /// Where the work stood.
    #[derive(Default)]
    pub struct State {
        /// Tasks that were done.
        completed_tasks "completedTasks": Maybe<Vec<String>>,
        /// Tasks that were being worked on.
        in_progress "inProgress": Maybe<Tasks>,
        /// The next tasks of the backlog.
        backlog_snapshot "backlogSnapshot": Maybe<Vec<BacklogItem>>,
        /// The phase the project was in.
        current_phase "currentPhase": Maybe<Phase>,
    }

    /// What the work was about.
    #[derive(Default)]
    pub struct Context {
        /// Which stack the project is built on.
        stack_id "STACK_ID": Maybe<String>,
        /// The sprint that is under way.
        current_sprint "currentSprint": Maybe<String>,
        /// The objective of the session.
        active_objective "activeObjective": Maybe<String>,
    }

    /// A task of the backlog.
    pub struct BacklogTask {
        /// The id of the task.
        id "id": String,
        /// What it is about.
        title "title": Maybe<String>,
    }
}

words! {
    /// Why a checkpoint was taken.
    pub enum CheckpointReason or Other {
        /// The context was 75 % full.
        TokenWarning "token_warning",
        /// The context was 90 % full.
        TokenCritical "token_critical",
        /// The session ended.
        SessionEnd "session_end",
        /// A task was completed.
        TaskCompletion "task_completion",
        /// A person or an agent asked for it.
        Manual "manual",
    }
}

words! {
    /// The phase a project is in.
    pub enum Phase or Other {
        /// The project is being set up.
        Bootstrap "bootstrap",
        /// The project is being built.
        Development "development",
        /// The project is being tested.
        Testing "testing",
        /// The project is being released.
        Release "release",
    }
}

/// When a checkpoint was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timestamp {
    /// Never: there is no checkpoint.
    Empty,
    /// Never, written as `null`.
    Null,
    /// At this moment.
    At(Stamp),
}

impl Value for Timestamp {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Null => Ok(Self::Null),
            Json::Text(text) if text.is_empty() => Ok(Self::Empty),
            json => Stamp::read(json, at).map(Self::At),
        }
    }

    fn write(&self, keep: Keep) -> Json {
        match self {
            Self::Empty => "".into(),
            Self::Null => Json::Null,
            Self::At(stamp) => stamp.write(keep),
        }
    }
}

/// Tasks that are being worked on: the seed's text has a list, its example one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// Exactly one task, as a string.
    One(String),
    /// Any number of tasks, as a list.
    Many(Vec<String>),
}

impl Tasks {
    /// All of them.
    #[must_use]
    pub fn ids(&self) -> &[String] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }
}

impl Value for Tasks {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Text(id) => Ok(Self::One(id)),
            Json::List(_) => Vec::read(json, at).map(Self::Many),
            other => Err(mismatch("a task or a list of tasks", &other, at)),
        }
    }

    fn write(&self, keep: Keep) -> Json {
        match self {
            Self::One(id) => id.write(keep),
            Self::Many(ids) => ids.write(keep),
        }
    }
}

/// A task of the backlog: the example has objects, and an id alone will do.
#[derive(Clone, Debug, PartialEq)]
pub enum BacklogItem {
    /// The id of a task alone.
    Id(String),
    /// Its id and more.
    Task(BacklogTask),
}

impl BacklogItem {
    /// A task with a title.
    #[must_use]
    pub fn new(id: String, title: String) -> Self {
        Self::Task(BacklogTask {
            id,
            title: Maybe::Is(title),
            extra: Extra::default(),
        })
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Task(task) => &task.id,
        }
    }

    /// What it is about.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Task(task) => task.title.get().map(String::as_str),
        }
    }
}

impl Value for BacklogItem {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Text(id) => Ok(Self::Id(id)),
            json => BacklogTask::read(json, at).map(Self::Task),
        }
    }

    fn write(&self, keep: Keep) -> Json {
        match self {
            Self::Id(id) => id.write(keep),
            Self::Task(task) => task.write(keep),
        }
    }
}

/// Reads a checkpoint.
///
/// # Errors
/// When the text is not one, or of a newer version; the error says why and where.
pub fn read(text: &str) -> Result<Checkpoint, Unreadable> {
    let json = Json::parse(text)?;
    check_version(&json, "1")?;
    Checkpoint::read(json, &Path::ROOT)
}

/// Writes a checkpoint, as the seed shows it.
#[must_use]
pub fn write(checkpoint: &Checkpoint) -> String {
    checkpoint.write(Keep::All).pretty(ONE_LINE) + "\n"
}

/// The next tasks of the backlog, as many as a checkpoint names.
pub fn backlog_snapshot(backlog: impl IntoIterator<Item = BacklogItem>) -> Vec<BacklogItem> {
    backlog.into_iter().take(BACKLOG).collect()
}

/// What a person is told when a session is interrupted, to the letter.
#[must_use]
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

impl Checkpoint {
    /// A checkpoint that says no more than it must.
    #[must_use]
    pub fn new(timestamp: Timestamp) -> Self {
        Self {
            version: Maybe::Is(VERSION.to_owned()),
            timestamp,
            reason: Maybe::Absent,
            token_usage: Maybe::Absent,
            state: Maybe::Absent,
            context: Maybe::Absent,
            next_steps: Maybe::Absent,
            delta_changes: Maybe::Absent,
            resume_instructions: Maybe::Absent,
            extra: Extra::default(),
        }
    }

    /// Tasks that are being worked on.
    #[must_use]
    pub fn in_progress(&self) -> &[String] {
        let tasks = self.state.get().and_then(|state| state.in_progress.get());
        tasks.map_or(&[], Tasks::ids)
    }
}

impl CheckpointReason {
    /// Flightline's reason for it; none for an unknown word.
    #[must_use]
    pub fn to_reason(&self) -> Option<Reason> {
        match self {
            Self::TokenWarning => Some(Reason::TokenWarning),
            Self::TokenCritical => Some(Reason::TokenCritical),
            Self::SessionEnd => Some(Reason::SessionEnd),
            Self::TaskCompletion => Some(Reason::TaskComplete),
            Self::Manual => Some(Reason::Manual),
            Self::Other(word) => Reason::from_word(word),
        }
    }

    /// The word for one of Flightline's reasons: the seed's where it has one, else ours.
    #[must_use]
    pub fn of(reason: Reason) -> Self {
        match reason {
            Reason::TaskComplete => Self::TaskCompletion,
            reason => Self::from_word(reason.as_str()),
        }
    }
}
