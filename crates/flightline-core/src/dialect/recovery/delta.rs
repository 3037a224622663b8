//! Delta changes: changes that were not yet written when the checkpoint was taken.

use crate::dialect::json::Json;

#[derive(Clone, Debug, PartialEq)]
pub enum BoardChange<'a> {
    Move {
        task: &'a str,
        from: &'a str,
        to: &'a str,
    },
    Update {
        /// The name of the figure, with dots: `metrics.currentSprint.completed`.
        field: &'a str,
        value: &'a Json,
    },
    /// A change that the seed does not show.
    Unknown,
}

/// The change of a task that moved on the board, as the seed writes it.
pub fn moved(task: &str, from: &str, to: &str) -> Json {
    Json::Object(vec![
        ("file".to_owned(), "taskBoard".into()),
        ("operation".to_owned(), "move".into()),
        ("taskId".to_owned(), task.into()),
        ("from".to_owned(), from.into()),
        ("to".to_owned(), to.into()),
    ])
}

/// The change of a figure of the progress, as the seed writes it.
pub fn updated(field: &str, value: Json) -> Json {
    Json::Object(vec![
        ("file".to_owned(), "progress".into()),
        ("operation".to_owned(), "update".into()),
        ("field".to_owned(), field.into()),
        ("value".to_owned(), value),
    ])
}

impl<'a> BoardChange<'a> {
    /// Reads a change as another program wrote it.
    pub fn of(delta: &'a Json) -> Self {
        let text = |key: &str| delta.text(key);
        let change = match (text("file"), text("operation")) {
            (Some("taskBoard"), Some("move")) => text("taskId")
                .zip(text("from").zip(text("to")))
                .map(|(task, (from, to))| Self::Move { task, from, to }),
            (Some("progress"), Some("update")) => text("field")
                .zip(delta.get("value"))
                .map(|(field, value)| Self::Update { field, value }),
            _ => None,
        };
        change.unwrap_or(Self::Unknown)
    }
}
