//! What changed on a mission since the checkpoint before, in the words of seed E's task board.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dialect::Json;
use crate::dialect::field::one_line;
use crate::dialect::recovery::{Applied, Board, Change, Delta};
use crate::sortie::{Sortie, SortieStatus};

/// The figure that says how many tasks are completed.
const COMPLETED: &str = "metrics.currentSprint.completed";

/// A change, written as the seed writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "operation")]
pub enum DeltaChange {
    /// A task moved on the board.
    Move {
        /// The board on which it moves.
        file: DeltaFile,
        /// The task: its own id, or its sortie's where it has none.
        #[serde(rename = "taskId")]
        task: String,
        /// From this column.
        from: String,
        /// To this one.
        to: String,
    },
    /// A figure changed.
    Update {
        /// Where it stands.
        file: DeltaFile,
        /// The name of the figure.
        field: String,
        /// What it is now.
        value: u64,
    },
}

/// What a change was made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum DeltaFile {
    /// The board of tasks.
    TaskBoard,
    /// The file with the figures of progress.
    Progress,
}

impl DeltaChange {
    /// This change as the dialect has it.
    #[must_use]
    pub fn to_delta(&self) -> Delta {
        match self {
            Self::Move { task, from, to, .. } => Delta::moved(task, from, to),
            Self::Update { field, value, .. } => Delta::updated(field, (*value).into()),
        }
    }
}

/// The column of the seed's board for a status. A blocked sortie is being worked on, and one that was only assigned is not.
#[must_use]
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

/// What the seed calls a sortie: its task's id, or its own.
#[must_use]
pub fn task_label(sortie: &Sortie) -> String {
    match &sortie.task_id {
        Some(task) => task.to_string(),
        None => sortie.id.to_string(),
    }
}

/// The changes between two states of a mission's sorties. The whole way of a task is one move; a new task comes from the
/// backlog.
#[must_use]
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
    let completed = |sorties: &[Sortie]| {
        let done = sorties
            .iter()
            .filter(|it| it.status == SortieStatus::Completed);
        done.count() as u64
    };
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
pub enum Decision<'a> {
    /// The sortie is put where the change says.
    Move {
        /// The sortie that moves.
        sortie: &'a Sortie,
        /// The status that it moves to.
        to: SortieStatus,
    },
    /// It is there already.
    Already,
    /// Nothing: the change is kept as it is.
    Kept {
        /// Why the change is not applied.
        why: String,
    },
}

/// Decides about a change, by the sorties as they are. Only tasks on the board can be moved: figures are
/// counted here, and what is not known is not guessed.
#[must_use]
pub fn decide<'a>(delta: &Delta, sorties: &'a [Sortie]) -> Decision<'a> {
    let kept = |why: String| Decision::Kept { why };
    let named: Vec<&Sortie> = match delta.change() {
        Change::Move { task, .. } => sorties
            .iter()
            .filter(|it| task_label(it) == task || it.id.to_string() == task)
            .collect(),
        Change::Update { .. } | Change::Unknown => Vec::new(),
    };
    // By whichever of its two names the task goes, the board knows it by one, and looks at no other.
    let (delta, sorties) = match (delta.change(), named.as_slice()) {
        (Change::Move { task, .. }, [_, _, ..]) => {
            return kept(format!("several tasks are called `{}`", one_line(task)));
        }
        (Change::Move { from, to, .. }, [sortie]) => (
            Delta::moved(&task_label(sortie), from, to),
            std::slice::from_ref(*sortie),
        ),
        _ => (delta.clone(), sorties),
    };
    let applied = board(sorties).apply(&delta);
    match (applied, delta.change()) {
        (Applied::Already, _) => Decision::Already,
        (Applied::Kept { why }, _) => kept(why),
        (Applied::Made, Change::Move { to, .. }) => match (status_of(to), named.first()) {
            (Some(to), Some(sortie)) => Decision::Move { sortie, to },
            _ => kept(format!("the board has no column `{}`", one_line(to))),
        },
        (Applied::Made, Change::Update { field, .. }) => {
            kept(format!("`{}` is counted here, not set", one_line(field)))
        }
        (Applied::Made, Change::Unknown) => kept("unknown change".to_owned()),
    }
}

/// Where a task of a column stands.
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

/// The seed's board and figures, as a mission's sorties have them.
fn board(sorties: &[Sortie]) -> Board {
    let mut board = Board::default();
    let mut completed = 0;
    for sortie in sorties {
        completed += u64::from(sortie.status == SortieStatus::Completed);
        let tasks = board.columns.entry(column(sortie).to_owned());
        tasks.or_default().push(task_label(sortie));
    }
    board.apply(&Delta::updated(COMPLETED, Json::from(completed)));
    board
}
