//! Renders changes in plain words.

use std::collections::BTreeMap;

use flightline::checkpoint::inspect::Difference;
use serde_json::Value;

use crate::app::DisplayIds;
use crate::ui::Page;

/// The most characters of a value on one line.
const WIDTH: usize = 100;

/// The names of things: short ids, and the names of agents.
pub struct Words<'a> {
    pub short: &'a DisplayIds,
    pub names: &'a BTreeMap<String, String>,
}

impl Words<'_> {
    /// Names a thing: its id as people read it, with the part of it that is meant.
    pub fn thing(&self, id: &str) -> String {
        match id.split_once('/') {
            Some((id, part)) => format!("{} {}", self.short.id(id), self.name_or(part)),
            None => self.short.id(id),
        }
    }

    /// Prints the fields of a difference, one per line: before → after.
    pub fn fields(&self, page: &mut Page, indent: usize, difference: &Difference) {
        for (field, (was, is)) in &difference.fields {
            page.line(format_args!(
                "{:indent$}{}: {} → {}",
                "",
                field.replace('_', " "),
                self.value(was),
                self.value(is)
            ));
        }
    }

    fn value(&self, value: &Value) -> String {
        let said = self.say(value);
        match said.char_indices().nth(WIDTH) {
            Some((end, _)) => format!("{}…", &said[..end]),
            None => said,
        }
    }

    fn say(&self, value: &Value) -> String {
        match value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::String(text) if text.is_empty() => "nothing".to_owned(),
            Value::String(text) if is_word(text) => text.replace('_', " "),
            Value::String(text) if text.contains(char::is_whitespace) => format!("\"{text}\""),
            Value::String(text) => self.name_or(text),
            Value::Array(items) if items.is_empty() => "nothing".to_owned(),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.say(item)).collect();
                items.join(", ")
            }
            Value::Object(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(name, value)| format!("{} {}", name.replace('_', " "), self.say(value)))
                    .collect();
                match fields.is_empty() {
                    true => "nothing".to_owned(),
                    false => fields.join(", "),
                }
            }
        }
    }

    /// The name of an agent, the short form of another id, and any other text as it is.
    fn name_or(&self, text: &str) -> String {
        match text.split_once('-') {
            Some(("agt", _)) => match self.names.get(text) {
                Some(name) => name.clone(),
                None => self.short.id(text),
            },
            Some(("msn" | "srt" | "chk" | "lck" | "msg", _)) => self.short.id(text),
            _ => text.to_owned(),
        }
    }
}

/// Returns true for a word of ours, such as `in_progress`.
fn is_word(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
