//! Seed B: one checkpoint per task, in `progress/checkpoints/{agent}-{task}.json`.
//!
//! The seed shows whole documents and parts of them. A part is an [`Update`]: it says what changed, and
//! is applied to the task's [`Checkpoint`].

mod rules;
mod status;

use super::field::{Keep, Maybe, Named, Stamp, Value, document, stamped, words};
use super::json::{Json, Number};
use super::unreadable::{Fault, Path, Unreadable};
use crate::error::Refusal;
use crate::text::Name;
use crate::time::Time;

pub use self::rules::{Scenario, progress_line};
pub use self::status::{BEGIN, END, Row, place_in_status, status_block};

/// Where the checkpoints are, from the repository's root.
pub const FOLDER: &str = "progress/checkpoints";
/// Where the table of them is, from the repository's root.
pub const STATUS_FILE: &str = "progress/STATUS.md";

const ARCHIVED: &str = "-complete";
/// Shown on one line each, as in the seed.
const ONE_LINE: &[&str] = &["items"];

document! {
    /// A task's checkpoint.
    pub struct Checkpoint {
        /// Agent, task and the time it began, as one word.
        checkpoint_id "checkpoint_id": String,
        /// The kind of agent.
        agent "agent": String,
        /// What the agent is called.
        agent_name "agent_name": Maybe<String>,
        /// The id of the task.
        task_id "task_id": String,
        /// What the task is about.
        task_title "task_title": Maybe<String>,
        /// Where it stands.
        status "status": TaskStatus,
        /// How far it is, as its agent says.
        progress_percent "progress_percent": Maybe<Percent>,
        /// When work on it began.
        started_at "started_at": Maybe<Stamp>,
        /// When this was last written.
        updated_at "updated_at": Maybe<Stamp>,
        /// When it was completed.
        completed_at "completed_at": Maybe<Stamp>,
        /// The parts of the task.
        subtasks "subtasks": Maybe<Subtasks>,
        /// Files that are new.
        files_created "files_created": Maybe<Vec<String>>,
        /// Files that were changed.
        files_modified "files_modified": Maybe<Vec<String>>,
        /// What must hold, and whether it does.
        acceptance_criteria_met "acceptance_criteria_met": Maybe<Named<bool>>,
        /// What reviewers gave.
        review_scores "review_scores": Maybe<Named<Score>>,
        /// What went wrong.
        errors "errors": Maybe<Vec<TaskError>>,
        /// Where the agent is in its run.
        context "context": Maybe<Context>,
        /// Whether the task can be taken up again.
        resumable "resumable": Maybe<bool>,
        /// How to take it up again.
        resume_instructions "resume_instructions": Maybe<String>,
        /// The agent's last sign of life.
        heartbeat "heartbeat": Maybe<Heartbeat>,
    }

    /// A part of a checkpoint: what changed.
    #[derive(Default)]
    pub struct Update {
        /// Must be the checkpoint's, if it is there.
        checkpoint_id "checkpoint_id": Maybe<String>,
        /// Must be the checkpoint's, if it is there.
        agent "agent": Maybe<String>,
        /// What the agent is called.
        agent_name "agent_name": Maybe<String>,
        /// Must be the checkpoint's, if it is there.
        task_id "task_id": Maybe<String>,
        /// What the task is about.
        task_title "task_title": Maybe<String>,
        /// Where it stands.
        status "status": Maybe<TaskStatus>,
        /// How far it is, as its agent says.
        progress_percent "progress_percent": Maybe<Percent>,
        /// When work on it began.
        started_at "started_at": Maybe<Stamp>,
        /// When this was written.
        updated_at "updated_at": Maybe<Stamp>,
        /// When it was completed.
        completed_at "completed_at": Maybe<Stamp>,
        /// Counts replace counts; items are taken over by their id.
        subtasks "subtasks": Maybe<Subtasks>,
        /// Files to be added to those known.
        files_created "files_created": Maybe<Vec<String>>,
        /// Files to be added to those known.
        files_modified "files_modified": Maybe<Vec<String>>,
        /// Criteria are taken over by their name.
        acceptance_criteria_met "acceptance_criteria_met": Maybe<Named<bool>>,
        /// Scores are taken over by the reviewer's name.
        review_scores "review_scores": Maybe<Named<Score>>,
        /// All errors there are now; an empty list clears them.
        errors "errors": Maybe<Vec<TaskError>>,
        /// What it names is taken over, the rest stays.
        context "context": Maybe<Context>,
        /// Whether the task can be taken up again.
        resumable "resumable": Maybe<bool>,
        /// How to take it up again.
        resume_instructions "resume_instructions": Maybe<String>,
        /// The agent's last sign of life.
        heartbeat "heartbeat": Maybe<Heartbeat>,
    }

    /// The parts of a task. Not all of them need be listed: the counts are of all.
    #[derive(Default)]
    pub struct Subtasks {
        /// How many there are.
        total "total": Maybe<u64>,
        /// How many are done.
        completed "completed": Maybe<u64>,
        /// How many could not be done.
        failed "failed": Maybe<u64>,
        /// Those worth listing.
        items "items": Maybe<Vec<Item>>,
    }

    /// One part of a task.
    pub struct Item {
        /// Its name within the task.
        id "id": String,
        /// Where it stands.
        status "status": Maybe<ItemStatus>,
        /// The result of the subtask, often a path.
        output "output": Maybe<String>,
    }

    /// Something that went wrong.
    pub struct TaskError {
        /// What kind of thing.
        kind "type": Maybe<String>,
        /// The text of the error.
        message "message": String,
        /// When the error happened.
        timestamp "timestamp": Maybe<Stamp>,
        /// Whether work cannot go on.
        blocking "blocking": Maybe<bool>,
    }

    /// Where the agent is in its run.
    #[derive(Default)]
    pub struct Context {
        /// The item that was processed last.
        last_processed "last_processed": Maybe<String>,
        /// Where to start.
        next_to_process "next_to_process": Maybe<String>,
        /// What else is worth knowing.
        notes "notes": Maybe<String>,
    }

    /// A sign of life.
    pub struct Heartbeat {
        /// When it was given.
        last_beat "last_beat": Stamp,
        /// How often one is expected.
        interval_seconds "interval_seconds": Maybe<u64>,
        /// What it says.
        status "status": Maybe<BeatStatus>,
    }
}

words! {
    /// Where a task stands.
    pub enum TaskStatus or Other {
        /// Being worked on.
        InProgress "in_progress",
        /// The task is done.
        Complete "complete",
        /// Something is in the way.
        Blocked "blocked",
    }
}

words! {
    /// Where a part of a task stands.
    pub enum ItemStatus or Other {
        /// The subtask has not begun.
        Pending "pending",
        /// The subtask has begun.
        InProgress "in_progress",
        /// The subtask is done.
        Complete "complete",
        /// Could not be done.
        Failed "failed",
    }
}

words! {
    /// What a sign of life says.
    pub enum BeatStatus or Other {
        /// All is well.
        Alive "alive",
        /// There was no heartbeat for so long that the agent should be asked.
        Warning "warning",
        /// There was none for so long that the task may need recovery.
        Stalled "stalled",
    }
}

/// A percentage, from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// `percent`, if it is one.
    #[must_use]
    pub const fn new(percent: u8) -> Option<Self> {
        match percent {
            0..=100 => Some(Self(percent)),
            101.. => None,
        }
    }

    /// The percentage as a number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Value for Percent {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        let percent = u64::read(json, at)?;
        u8::try_from(percent)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| {
                at.wrong(Fault::Malformed {
                    text: percent.to_string(),
                    expected: "a percentage from 0 to 100",
                })
            })
    }

    fn write(&self, _: Keep) -> Json {
        u64::from(self.0).into()
    }
}

/// What a reviewer gave; none while the review is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Score(pub Option<Number>);

impl Value for Score {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Null => Ok(Self(None)),
            json => Number::read(json, at).map(|score| Self(Some(score))),
        }
    }

    fn write(&self, _: Keep) -> Json {
        self.0.clone().map_or(Json::Null, Json::Number)
    }
}

/// Reads a whole checkpoint.
///
/// # Errors
/// When the text is not one; the error says why and where.
pub fn read(text: &str) -> Result<Checkpoint, Unreadable> {
    Checkpoint::read(Json::parse(text)?, &Path::ROOT)
}

/// Writes a checkpoint, as the seed shows it.
#[must_use]
pub fn write(checkpoint: &Checkpoint) -> String {
    checkpoint.write(Keep::All).pretty(ONE_LINE) + "\n"
}

/// Reads a part of a checkpoint.
///
/// # Errors
/// When the text is not one; the error says why and where.
pub fn read_update(text: &str) -> Result<Update, Unreadable> {
    Update::read(Json::parse(text)?, &Path::ROOT)
}

/// The file of a task that is being worked on: `migration-T060.json`.
///
/// Two pairs can have the same file (`a-b` with `c`, and `a` with `b-c`), so what is in it decides whose
/// it is.
///
/// # Errors
/// When agent or task cannot be part of a file's name, or the name would be that of an archive.
pub fn file_name(agent: &str, task: &str) -> Result<String, Refusal> {
    Ok(format!("{}.json", stem(agent, task)?))
}

/// The file of a task that is complete: `migration-T060-complete.json`.
///
/// # Errors
/// As [`file_name`].
pub fn archive_name(agent: &str, task: &str) -> Result<String, Refusal> {
    Ok(format!("{}{ARCHIVED}.json", stem(agent, task)?))
}

/// Whether a file is an archive by its name.
#[must_use]
pub fn is_archive(file: &str) -> bool {
    file.strip_suffix(".json")
        .is_some_and(|stem| stem.ends_with(ARCHIVED))
}

/// A checkpoint's id: `migration-T060-20251208-143025`.
///
/// # Errors
/// As [`file_name`].
pub fn checkpoint_id(agent: &str, task: &str, started: Time) -> Result<String, Refusal> {
    let stem = stem(agent, task)?;
    Ok(format!("{stem}-{}", stamped(started, "%Y%m%d-%H%M%S")))
}

fn stem(agent: &str, task: &str) -> Result<String, Refusal> {
    let agent = Name::parse("an agent in a file's name", agent)?;
    let task = Name::parse("a task in a file's name", task)?;
    if task.as_str().ends_with(ARCHIVED) {
        return Err(Refusal::invalid(format!(
            "`{task}` cannot be used as a task in a file's name: it ends like an archive"
        )));
    }
    Ok(format!("{agent}-{task}"))
}

impl Checkpoint {
    /// A checkpoint that says no more than it must.
    #[must_use]
    pub fn new(checkpoint_id: String, agent: String, task_id: String, status: TaskStatus) -> Self {
        let Update {
            agent_name,
            task_title,
            progress_percent,
            started_at,
            updated_at,
            completed_at,
            subtasks,
            files_created,
            files_modified,
            acceptance_criteria_met,
            review_scores,
            errors,
            context,
            resumable,
            resume_instructions,
            heartbeat,
            extra,
            checkpoint_id: _,
            agent: _,
            task_id: _,
            status: _,
        } = Update::default();
        Self {
            checkpoint_id,
            agent,
            agent_name,
            task_id,
            task_title,
            status,
            progress_percent,
            started_at,
            updated_at,
            completed_at,
            subtasks,
            files_created,
            files_modified,
            acceptance_criteria_met,
            review_scores,
            errors,
            context,
            resumable,
            resume_instructions,
            heartbeat,
            extra,
        }
    }

    /// Takes over what an update says. What it does not say stays.
    ///
    /// # Errors
    /// When it names another checkpoint, agent or task; then nothing is changed.
    pub fn apply(&mut self, update: Update) -> Result<(), Refusal> {
        for (what, ours, theirs) in [
            ("checkpoint", &self.checkpoint_id, &update.checkpoint_id),
            ("agent", &self.agent, &update.agent),
            ("task", &self.task_id, &update.task_id),
        ] {
            if let Some(theirs) = theirs.get().filter(|theirs| *theirs != ours) {
                return Err(Refusal::invalid(format!(
                    "the update is for the {what} `{}`, and the checkpoint of `{}`",
                    crate::redact::shown(theirs),
                    crate::redact::shown(ours),
                )));
            }
        }
        if let Maybe::Is(status) = update.status {
            self.status = status;
        }
        self.agent_name.replace(update.agent_name);
        self.task_title.replace(update.task_title);
        self.progress_percent.replace(update.progress_percent);
        self.started_at.replace(update.started_at);
        self.updated_at.replace(update.updated_at);
        self.completed_at.replace(update.completed_at);
        self.errors.replace(update.errors);
        self.resumable.replace(update.resumable);
        self.resume_instructions.replace(update.resume_instructions);
        self.heartbeat.replace(update.heartbeat);
        add_all(&mut self.files_created, update.files_created);
        add_all(&mut self.files_modified, update.files_modified);
        if let Maybe::Is(criteria) = update.acceptance_criteria_met {
            self.acceptance_criteria_met
                .get_or_default()
                .replace(criteria);
        }
        if let Maybe::Is(scores) = update.review_scores {
            self.review_scores.get_or_default().replace(scores);
        }
        if let Maybe::Is(newer) = update.context {
            let context = self.context.get_or_default();
            context.last_processed.replace(newer.last_processed);
            context.next_to_process.replace(newer.next_to_process);
            context.notes.replace(newer.notes);
            context.extra.replace(newer.extra);
        }
        if let Maybe::Is(newer) = update.subtasks {
            self.subtasks.get_or_default().apply(newer);
        }
        self.extra.replace(update.extra);
        Ok(())
    }
}

impl Subtasks {
    fn apply(&mut self, newer: Self) {
        self.total.replace(newer.total);
        self.completed.replace(newer.completed);
        self.failed.replace(newer.failed);
        self.extra.replace(newer.extra);
        let Maybe::Is(items) = newer.items else {
            return;
        };
        let known = self.items.get_or_default();
        for item in items {
            match known.iter_mut().find(|known| known.id == item.id) {
                Some(known) => {
                    known.status.replace(item.status);
                    known.output.replace(item.output);
                    known.extra.replace(item.extra);
                }
                None => known.push(item),
            }
        }
    }
}

/// Adds those that are not there yet.
fn add_all(files: &mut Maybe<Vec<String>>, newer: Maybe<Vec<String>>) {
    if let Maybe::Is(newer) = newer {
        let files = files.get_or_default();
        for file in newer {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
}
