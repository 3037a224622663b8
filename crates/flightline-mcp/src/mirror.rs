//! The outcome of a call, for people and for models that read text only: at most ten lines.

use serde_json::Value;

use crate::room::{FieldMap, to_text};

pub(crate) const LINES: usize = 10;
const WIDTH: usize = 160;

#[derive(Debug, Default)]
pub(crate) struct ToolOutput {
    pub(crate) content: FieldMap,
    pub(crate) lines: Vec<String>,
    /// A text that is meant to be read whole: a briefing, a letter.
    pub(crate) document: Option<String>,
}

impl ToolOutput {
    pub(crate) fn object(value: Value, line: String) -> Self {
        let content = match value {
            Value::Object(fields) => fields,
            other => FieldMap::from_iter([("value".to_owned(), other)]),
        };
        Self {
            content,
            lines: vec![line],
            document: None,
        }
    }

    /// Adds a text that is meant to be read whole.
    pub(crate) fn with_document(self, document: Option<String>) -> Self {
        Self { document, ..self }
    }

    pub(crate) fn with_lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.lines.extend(lines);
        self
    }

    pub(crate) fn text(&self) -> String {
        let over = self.lines.len().saturating_sub(LINES);
        let kept = match over {
            0 => LINES,
            _ => LINES - 1,
        };
        let mut lines: Vec<String> = self.lines.iter().take(kept).map(|it| line(it)).collect();
        if over > 0 {
            lines.push(format!("… and {} more", over + 1));
        }
        lines.join("\n")
    }
}

fn line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match text.chars().count() > WIDTH {
        true => text.chars().take(WIDTH - 1).chain(['…']).collect(),
        false => text,
    }
}

/// The text at a place, or nothing.
pub(crate) fn at(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(found) => to_text(found),
    }
}

/// The beginning of an id, which is enough to name the thing.
pub(crate) fn short(value: &Value, pointer: &str) -> String {
    at(value, pointer).chars().take(12).collect()
}

/// Several texts in one line, without those that are empty.
pub(crate) fn row<const N: usize>(parts: [String; N]) -> String {
    let mut row = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if !row.is_empty() {
            row.push_str("  ");
        }
        row.push_str(part);
    }
    row
}

/// A number of things, in words.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Counts the items of the list at a place.
pub(crate) fn length(value: &Value, pointer: &str) -> usize {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.map_or(0, Vec::len)
}
