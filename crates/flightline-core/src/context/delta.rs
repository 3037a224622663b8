//! Lists the changes on a mission since the checkpoint before, in the words of seed E's task board.

use crate::Schema;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::dialect::recovery::{BoardChange, moved, updated};
use crate::dialect::{Json, one_line};
use crate::sortie::{Sortie, SortieStatus};

/// The figure that says how many tasks are completed.
const COMPLETED: &str = "metrics.currentSprint.completed";
/// A figure's name has at most so many parts.
const MAX_PARTS: usize = 32;

/// A change on a mission, written as seed E writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "operation")]
pub enum DeltaChange {
    /// A task moved on the board.
    Move {
        /// The board on which it moves.
        file: DeltaFile,
        /// The task: its own id, or its sortie's where it has none.
        #[serde(rename = "taskId")]
        task: String,
        /// The column that the task leaves.
        from: String,
        /// The column that the task enters.
        to: String,
    },
    /// A figure of the progress changed.
    Update {
        /// The file that holds the figure.
        file: DeltaFile,
        /// The name of the figure.
        field: String,
        /// The new value of the figure.
        value: u64,
    },
}

/// The file that a change was made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
pub enum DeltaFile {
    /// The board of tasks.
    TaskBoard,
    /// The file with the figures of progress.
    Progress,
}

impl DeltaChange {
    pub fn to_delta(&self) -> Json {
        match self {
            Self::Move { task, from, to, .. } => moved(task, from, to),
            Self::Update { field, value, .. } => updated(field, (*value).into()),
        }
    }
}

/// The column of the seed's board for a status. A blocked sortie is being worked on, and one that was only assigned is not.
pub const fn column_of(status: SortieStatus) -> &'static str {
    match status {
        SortieStatus::Pending | SortieStatus::Assigned => "backlog",
        SortieStatus::InProgress | SortieStatus::Blocked => "inProgress",
        SortieStatus::Completed => "done",
        SortieStatus::Failed => "failed",
        SortieStatus::Skipped => "skipped",
    }
}

/// The column that a sortie stands in: an interrupted one is still being worked on, by its next owner.
fn column(sortie: &Sortie) -> &'static str {
    match sortie.is_interrupted() {
        true => column_of(SortieStatus::InProgress),
        false => column_of(sortie.status),
    }
}

/// Returns the seed's name for a sortie: its task's id, or its own.
pub fn task_label(sortie: &Sortie) -> String {
    match &sortie.task_id {
        Some(task) => task.to_string(),
        None => sortie.id.to_string(),
    }
}

/// The changes between two states of a mission's sorties. The whole way of a task is one move; a new task comes from the
/// backlog.
pub fn changes(before: &[Sortie], now: &[Sortie]) -> Vec<DeltaChange> {
    let was: BTreeMap<_, _> = before.iter().map(|it| (it.id, column(it))).collect();
    let mut changes: Vec<DeltaChange> = Vec::new();
    for sortie in now {
        let from = was
            .get(&sortie.id)
            .copied()
            .unwrap_or(column_of(SortieStatus::Pending));
        let to = column(sortie);
        if from != to {
            changes.push(DeltaChange::Move {
                file: DeltaFile::TaskBoard,
                task: task_label(sortie),
                from: from.to_owned(),
                to: to.to_owned(),
            });
        }
    }
    if completed(before) != completed(now) {
        changes.push(DeltaChange::Update {
            file: DeltaFile::Progress,
            field: COMPLETED.to_owned(),
            value: completed(now),
        });
    }
    changes
}

/// The decision on a change that another program wrote down.
#[derive(Clone, Debug, PartialEq)]
pub enum DeltaDecision<'a> {
    Move {
        sortie: &'a Sortie,
        to: SortieStatus,
    },
    Already,
    /// The change is kept as it is, and nothing is done about it.
    Kept {
        why: String,
    },
}

/// Decides about a change, by the sorties as they are. Only tasks on the board can be moved: figures are
/// counted here, and unknown figures are not guessed.
pub fn decide<'a>(delta: &Json, sorties: &'a [Sortie]) -> DeltaDecision<'a> {
    let kept = |why: String| DeltaDecision::Kept { why };
    let (task, from, to) = match BoardChange::of(delta) {
        BoardChange::Move { task, from, to } => (task, from, to),
        BoardChange::Update { field, value } => return figure(field, value, sorties),
        BoardChange::Unknown => {
            return kept(format!("unknown change: {}", one_line(&delta.stringify())));
        }
    };
    let is_named = |it: &&Sortie| task_label(it) == task || it.id.to_string() == task;
    let named: Vec<&Sortie> = sorties.iter().filter(is_named).collect();
    match named.as_slice() {
        [] => kept(format!(
            "`{}` is nowhere, not in `{}`",
            one_line(task),
            one_line(from)
        )),
        [sortie] if column(sortie) == to => DeltaDecision::Already,
        [sortie] if column(sortie) != from => kept(format!(
            "`{}` is in `{}`, not in `{}`",
            one_line(&task_label(sortie)),
            column(sortie),
            one_line(from)
        )),
        [sortie] => match status_of(to) {
            Some(to) => DeltaDecision::Move { sortie, to },
            None => kept(format!("the board has no column `{}`", one_line(to))),
        },
        [..] => kept(format!("several tasks are called `{}`", one_line(task))),
    }
}

/// The decision on a change of a figure: it is counted here, and so already right or only kept.
fn figure<'a>(field: &str, value: &Json, sorties: &[Sortie]) -> DeltaDecision<'a> {
    let kept = |why: String| DeltaDecision::Kept { why };
    let parts: Vec<&str> = field.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) || parts.len() > MAX_PARTS {
        return kept(format!("`{}` is no name of a field", one_line(field)));
    }
    let completed = completed(sorties);
    let figures = Json::from(json!({ "metrics": { "currentSprint": { "completed": completed } } }));
    let mut at = Some(&figures);
    for (index, part) in parts.iter().enumerate() {
        if let Some(other) = at.filter(|at| !matches!(at, Json::Object(_))) {
            let name = one_line(&parts[..index].join("."));
            return kept(format!("`{name}` is {}, not an object", other.kind()));
        }
        at = at.and_then(|at| at.get(part));
    }
    match at == Some(value) {
        true => DeltaDecision::Already,
        false => kept(format!("`{}` is counted here, not set", one_line(field))),
    }
}

fn completed(sorties: &[Sortie]) -> u64 {
    let done = |it: &&Sortie| it.status == SortieStatus::Completed;
    sorties.iter().filter(done).count() as u64
}

fn status_of(column: &str) -> Option<SortieStatus> {
    let first = [
        SortieStatus::Pending,
        SortieStatus::InProgress,
        SortieStatus::Completed,
        SortieStatus::Failed,
        SortieStatus::Skipped,
    ];
    first
        .into_iter()
        .find(|status| column_of(*status) == column)
}
