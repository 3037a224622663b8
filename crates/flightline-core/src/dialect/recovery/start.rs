//! Decides the start of a session: whether there is a checkpoint, whether it is good, and the way on when it is not.

use std::collections::BTreeSet;
use std::fmt;

use super::{Json, backlog, in_progress};
use crate::dialect::one_line;
use crate::time::{Millis, Time, human_span};

/// The conditions for resuming from a checkpoint.
pub struct Expected<'a> {
    /// The project's stack; whatever the checkpoint's is will do when the project has none.
    pub stack_id: Option<&'a str>,
    pub task_exists: &'a dyn Fn(&str) -> bool,
    pub max_age: Millis,
    pub now: Time,
}

impl fmt::Debug for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expected")
            .field("stack_id", &self.stack_id)
            .field("max_age", &self.max_age)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Normally: there is no checkpoint.
    Normal,
    Resume,
    /// Normally, though there is a checkpoint: it cannot be used, and is kept.
    Fallback {
        why: Vec<Invalid>,
    },
}

/// The reason why a checkpoint cannot be resumed from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The checkpoint is too old.
    #[error("it is {} old, and one of {} or more is not resumed", human_span(*.age), human_span(*.max_age))]
    TooOld { age: Millis, max_age: Millis },
    #[error("its STACK_ID is {}, and the project's is `{}`", quoted(.theirs.as_deref()), one_line(.ours))]
    OtherStack {
        theirs: Option<String>,
        ours: String,
    },
    #[error("it names tasks that do not exist any more: {}", .0.join(", "))]
    TasksGone(Vec<String>),
}

fn quoted(stack: Option<&str>) -> String {
    stack.map_or_else(
        || "missing".to_owned(),
        |stack| format!("`{}`", one_line(stack)),
    )
}

/// Decides how a session starts when `latest.json` holds this.
pub fn start(checkpoint: &Json, expected: &Expected<'_>) -> Start {
    let Some(taken) = checkpoint.time("timestamp") else {
        return Start::Normal;
    };
    let mut why = Vec::new();
    let age = expected.now.since(taken);
    if age >= expected.max_age {
        why.push(Invalid::TooOld {
            age,
            max_age: expected.max_age,
        });
    }
    let theirs = checkpoint["context"].text("STACK_ID");
    if let Some(ours) = expected.stack_id
        && theirs.is_none_or(|theirs| theirs != ours)
    {
        why.push(Invalid::OtherStack {
            theirs: theirs.map(str::to_owned),
            ours: ours.to_owned(),
        });
    }
    let mut seen = BTreeSet::new();
    let gone: Vec<String> = tasks(checkpoint)
        .filter(|task| seen.insert(*task) && !(expected.task_exists)(task))
        .map(one_line)
        .collect();
    if !gone.is_empty() {
        why.push(Invalid::TasksGone(gone));
    }
    match why.is_empty() {
        true => Start::Resume,
        false => Start::Fallback { why },
    }
}

fn tasks(checkpoint: &Json) -> impl Iterator<Item = &str> {
    let tasks = in_progress(checkpoint).into_iter();
    tasks
        .chain(checkpoint["state"].texts("completedTasks"))
        .chain(backlog(checkpoint).map(|(id, _)| id))
}

impl Start {
    /// The log line when a checkpoint cannot be used.
    pub fn log(&self) -> Option<String> {
        match self {
            Self::Fallback { why } => {
                let why: Vec<String> = why.iter().map(ToString::to_string).collect();
                Some(format!("Checkpoint resume failed: {}", why.join("; ")))
            }
            Self::Normal | Self::Resume => None,
        }
    }
}
