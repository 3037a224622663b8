//! Seed B: one checkpoint per task, in `progress/checkpoints/{agent}-{task}.json`.
//!
//! The seed shows whole documents and parts of them. A part says what changed, and is applied to the task's document.

mod rules;
mod status;

use super::json::Json;
use super::shape::FieldForm::{
    self, Bool, List, Named, Object, Percent, Score, Text, Time as Stamp, Whole,
};
use super::shape::Need::{Must, Null};
use super::stamped;
use super::unreadable::Unreadable;
use crate::error::Refusal;
use crate::redact::shown;
use crate::text::Name;
use crate::time::Time;

pub use self::rules::{
    Scenario, declared, last_update, part_written, percent, progress, progress_line, scenario,
    written,
};
pub use self::status::{BEGIN, END, StatusRow, place_in_status, status_block};

/// The folder of the checkpoints, from the repository's root.
pub const FOLDER: &str = "progress/checkpoints";
/// The file with the table of the checkpoints, from the repository's root.
pub const STATUS_FILE: &str = "progress/STATUS.md";

const ARCHIVED: &str = "-complete";

pub(super) const CHECKPOINT: FieldForm = Object(&[
    // Agent, task and the time it began, as one word.
    ("checkpoint_id", Must, Text),
    // The kind of agent, and the name of the agent.
    ("agent", Must, Text),
    ("agent_name", Null, Text),
    ("task_id", Must, Text),
    ("task_title", Null, Text),
    // `in_progress`, `complete` or `blocked`.
    ("status", Must, Text),
    ("progress_percent", Null, Percent),
    ("started_at", Null, Stamp),
    ("updated_at", Null, Stamp),
    ("completed_at", Null, Stamp),
    ("subtasks", Null, SUBTASKS),
    ("files_created", Null, List(&Text)),
    ("files_modified", Null, List(&Text)),
    ("acceptance_criteria_met", Null, Named(&Bool)),
    // A reviewer's score is `null` while the review is asked for.
    ("review_scores", Null, Named(&Score)),
    ("errors", Null, List(&ERROR)),
    ("context", Null, CONTEXT),
    ("resumable", Null, Bool),
    ("resume_instructions", Null, Text),
    ("heartbeat", Null, HEARTBEAT),
]);

/// The parts of a task. Not all of them need be listed: the counts are of all.
const SUBTASKS: FieldForm = Object(&[
    ("total", Null, Whole),
    ("completed", Null, Whole),
    ("failed", Null, Whole),
    ("items", Null, List(&ITEM)),
]);

/// A part of a task: `pending`, `in_progress`, `complete` or `failed`, with its result, often a path.
const ITEM: FieldForm = Object(&[
    ("id", Must, Text),
    ("status", Null, Text),
    ("output", Null, Text),
]);

const ERROR: FieldForm = Object(&[
    ("type", Null, Text),
    ("message", Must, Text),
    ("timestamp", Null, Stamp),
    ("blocking", Null, Bool),
]);

const CONTEXT: FieldForm = Object(&[
    ("last_processed", Null, Text),
    ("next_to_process", Null, Text),
    ("notes", Null, Text),
]);

const HEARTBEAT: FieldForm = Object(&[
    ("last_beat", Must, Stamp),
    ("interval_seconds", Null, Whole),
    ("status", Null, Text),
]);

pub fn read_part(text: &str) -> Result<Json, Unreadable> {
    let part = Json::parse(text)?;
    CHECKPOINT.check_part(&part)?;
    Ok(part)
}

/// The file of a task that is being worked on: `migration-T060.json`.
///
/// Two pairs can have the same file (`a-b` with `c`, and `a` with `b-c`), so its content decides whose
/// it is. Refuses an agent or task that cannot be part of a file's name, and a name that would be that of an archive.
pub fn file_name(agent: &str, task: &str) -> Result<String, Refusal> {
    Ok(format!("{}.json", stem(agent, task)?))
}

/// The file of a task that is complete: `migration-T060-complete.json`.
pub fn archive_name(agent: &str, task: &str) -> Result<String, Refusal> {
    Ok(format!("{}{ARCHIVED}.json", stem(agent, task)?))
}

pub fn is_archive(file: &str) -> bool {
    file.strip_suffix(".json")
        .is_some_and(|stem| stem.ends_with(ARCHIVED))
}

/// A checkpoint's id: `migration-T060-20251208-143025`.
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

/// Takes over the content of a part. Content that the part does not mention stays: files are added, parts of the task
/// are known by their id, criteria, scores and the context by their keys; everything else is replaced. A part that
/// names another checkpoint, agent or task is refused, and nothing is changed.
pub fn apply(checkpoint: &mut Json, part: Json) -> Result<(), Refusal> {
    for (what, key) in [
        ("checkpoint", "checkpoint_id"),
        ("agent", "agent"),
        ("task", "task_id"),
    ] {
        let ours = checkpoint.word(key);
        if let Some(theirs) = part.text(key).filter(|theirs| *theirs != ours) {
            return Err(Refusal::invalid(format!(
                "the update is for the {what} `{}`, and the checkpoint of `{}`",
                shown(theirs),
                shown(ours),
            )));
        }
    }
    let fields = match part {
        Json::Object(fields) => fields,
        _ => Vec::new(),
    };
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("checkpoint_id" | "agent" | "task_id", _) | ("status", Json::Null) => {}
            ("files_created" | "files_modified", Json::List(newer)) => {
                let files = CHECKPOINT.slot(checkpoint, &key).list_mut();
                for file in newer {
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
            }
            ("subtasks", Json::Object(newer)) => {
                apply_subtasks(CHECKPOINT.slot(checkpoint, &key), newer);
            }
            ("context", Json::Object(newer)) => {
                replace(CONTEXT, CHECKPOINT.slot(checkpoint, &key), newer);
            }
            ("acceptance_criteria_met" | "review_scores", Json::Object(newer)) => {
                replace(FieldForm::Any, CHECKPOINT.slot(checkpoint, &key), newer);
            }
            // An empty list does not take back known entries.
            (
                "files_created"
                | "files_modified"
                | "subtasks"
                | "context"
                | "acceptance_criteria_met"
                | "review_scores",
                _,
            ) => {}
            (key, value) => *CHECKPOINT.slot(checkpoint, key) = value,
        }
    }
    Ok(())
}

fn apply_subtasks(subtasks: &mut Json, mut newer: Vec<(String, Json)>) {
    let items = newer.iter().position(|(key, _)| key == "items");
    let items = items.map(|place| newer.remove(place).1);
    replace(SUBTASKS, subtasks, newer);
    let Some(Json::List(items)) = items else {
        return;
    };
    let known = SUBTASKS.slot(subtasks, "items").list_mut();
    for item in items {
        let same = known.iter().position(|it| it["id"] == item["id"]);
        match (same, item) {
            (Some(place), Json::Object(newer)) => replace(ITEM, &mut known[place], newer),
            (_, item) => known.push(item),
        }
    }
}

fn replace(form: FieldForm, object: &mut Json, newer: Vec<(String, Json)>) {
    if !matches!(object, Json::Object(_)) {
        *object = Json::Object(Vec::new());
    }
    for (key, value) in newer {
        *form.slot(object, &key) = value;
    }
}
