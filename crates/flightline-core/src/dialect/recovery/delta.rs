//! Delta changes: what was changed and not yet written when the checkpoint was taken.

use std::collections::BTreeMap;

use crate::dialect::field::{Keep, Value, one_line};
use crate::dialect::json::Json;
use crate::dialect::unreadable::{Path, Unreadable};

/// A field's name has at most so many parts.
const MAX_PARTS: usize = 32;

/// A change, as it was written. Unknown changes are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta(pub Json);

impl Value for Delta {
    fn read(json: Json, _: &Path<'_>) -> Result<Self, Unreadable> {
        Ok(Self(json))
    }

    fn write(&self, _: Keep) -> Json {
        self.0.clone()
    }
}

/// What a change says.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    /// A task moved on the board.
    Move {
        /// The task that moves.
        task: &'a str,
        /// From this column.
        from: &'a str,
        /// To this one.
        to: &'a str,
    },
    /// A figure of the progress changed.
    Update {
        /// Its name, with dots: `metrics.currentSprint.completed`.
        field: &'a str,
        /// What it is now.
        value: &'a Json,
    },
    /// Something that the seed does not show.
    Unknown,
}

impl Delta {
    /// A task that moved on the board.
    #[must_use]
    pub fn moved(task: &str, from: &str, to: &str) -> Self {
        let fields = [
            ("file", "taskBoard"),
            ("operation", "move"),
            ("taskId", task),
            ("from", from),
            ("to", to),
        ];
        Self(Json::Object(
            fields
                .map(|(key, value)| (key.to_owned(), value.into()))
                .to_vec(),
        ))
    }

    /// A figure of the progress that changed.
    #[must_use]
    pub fn updated(field: &str, value: Json) -> Self {
        Self(Json::Object(vec![
            ("file".to_owned(), "progress".into()),
            ("operation".to_owned(), "update".into()),
            ("field".to_owned(), field.into()),
            ("value".to_owned(), value),
        ]))
    }

    /// What it says.
    #[must_use]
    pub fn change(&self) -> Change<'_> {
        let text = |key: &str| match self.0.get(key) {
            Some(Json::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let change = match (text("file"), text("operation")) {
            (Some("taskBoard"), Some("move")) => text("taskId")
                .zip(text("from").zip(text("to")))
                .map(|(task, (from, to))| Change::Move { task, from, to }),
            (Some("progress"), Some("update")) => text("field")
                .zip(self.0.get("value"))
                .map(|(field, value)| Change::Update { field, value }),
            _ => None,
        };
        change.unwrap_or(Change::Unknown)
    }
}

/// What deltas are applied to: a task board and figures. Nothing else of a project is theirs to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// The tasks in each column, in order.
    pub columns: BTreeMap<String, Vec<String>>,
    /// Figures, in objects.
    pub progress: Json,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            columns: BTreeMap::new(),
            progress: Json::Object(Vec::new()),
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was made.
    Made,
    /// It had been made before.
    Already,
    /// It was not made, and is kept.
    Kept {
        /// Why the change was not applied.
        why: String,
    },
}

impl Board {
    /// Applies a change. Applied twice, it changes nothing the second time.
    pub fn apply(&mut self, delta: &Delta) -> Applied {
        match delta.change() {
            Change::Move { task, from, to } => self.move_task(task, from, to),
            Change::Update { field, value } => self.update(field, value),
            Change::Unknown => Applied::Kept {
                why: format!("unknown change: {}", one_line(&delta.0.stringify())),
            },
        }
    }

    fn move_task(&mut self, task: &str, from: &str, to: &str) -> Applied {
        let has = |column: &&Vec<String>| column.iter().any(|it| it == task);
        if self.columns.get(to).filter(has).is_some() {
            return Applied::Already;
        }
        let column = self.columns.get_mut(from).and_then(|column| {
            let place = column.iter().position(|it| it == task)?;
            Some((column, place))
        });
        let Some((column, place)) = column else {
            let found = self.columns.iter().find(|(_, column)| has(column));
            return kept_in(task, from, found.map(|(name, _)| name.as_str()));
        };
        let task = column.remove(place);
        self.columns.entry(to.to_owned()).or_default().push(task);
        Applied::Made
    }

    fn update(&mut self, field: &str, value: &Json) -> Applied {
        let kept = |why: String| Applied::Kept { why };
        let parts: Vec<&str> = field.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) || parts.len() > MAX_PARTS {
            return kept(format!("`{}` is no name of a field", one_line(field)));
        }
        // Looked at first, so that nothing is changed when it cannot be.
        let mut at = &self.progress;
        for (index, part) in parts.iter().enumerate() {
            if !matches!(at, Json::Object(_)) {
                let name = one_line(&parts[..index].join("."));
                return kept(format!("`{name}` is {}, not an object", at.kind()));
            }
            let Some(next) = at.get(part) else {
                *entry(&mut self.progress, &parts) = value.clone();
                return Applied::Made;
            };
            at = next;
        }
        if at == value {
            return Applied::Already;
        }
        *entry(&mut self.progress, &parts) = value.clone();
        Applied::Made
    }
}

fn kept_in(task: &str, from: &str, found: Option<&str>) -> Applied {
    let (task, from) = (one_line(task), one_line(from));
    let where_it_is = found.map_or_else(
        || "nowhere".to_owned(),
        |column| format!("in `{}`", one_line(column)),
    );
    Applied::Kept {
        why: format!("`{task}` is {where_it_is}, not in `{from}`"),
    }
}

/// The value under a path of keys; objects that are missing on the way are made.
fn entry<'a>(mut at: &'a mut Json, parts: &[&str]) -> &'a mut Json {
    for part in parts {
        if !matches!(at, Json::Object(_)) {
            *at = Json::Object(Vec::new());
        }
        let Json::Object(fields) = at else {
            unreachable!("it was just made one");
        };
        let place = match fields.iter().position(|(key, _)| key == part) {
            Some(place) => place,
            None => {
                fields.push(((*part).to_owned(), Json::Null));
                fields.len() - 1
            }
        };
        at = &mut fields[place].1;
    }
    at
}
