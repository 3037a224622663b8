//! JSON as the other systems' files hold it: keys in their order, numbers as they were written.
//!
//! `serde_json` is not used for reading here, for four reasons that all matter to files which others
//! write: it takes the last of two equal keys without a word, sorts keys, rounds numbers, and its
//! messages about wrong types do not say where. Seed D's checksums are over the very text that
//! JavaScript makes of a value, so order and numbers must survive.

mod field;
mod parse;
mod write;

use std::fmt;

use super::unreadable::Unreadable;
use crate::text::{clean_field, clean_text};

/// A JSON value. Two are equal when they mean the same: the order of keys does not count.
#[derive(Clone, Debug)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    /// An object, its keys in their order; no key twice.
    Object(Vec<(String, Json)>),
}

/// A number, exactly as it was written.
#[derive(Clone, Debug)]
pub struct Number(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// Written as an `i64` is.
    Whole(i64),
    /// Any other JSON number that a double can hold, rounded perhaps.
    Written(Box<str>),
}

impl Json {
    /// Reads a document. A byte order mark in front is passed over, because editors on Windows put one
    /// there and nothing is lost without it; it is never written. Refuses a document that is larger than
    /// [`MAX_BYTES`](super::MAX_BYTES), nested deeper than [`MAX_DEPTH`](super::MAX_DEPTH), has a key twice in one object,
    /// half a surrogate pair, or a number that no double can hold.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        parse::document(text)
    }

    /// Returns the kind of the value, for messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value)
    }

    /// Returns this value with every text in it cleaned and without secrets, keys included, as [`crate::text`] does it.
    #[must_use]
    pub fn cleaned(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(clean_text(&text)),
            Self::List(items) => Self::List(items.into_iter().map(Self::cleaned).collect()),
            Self::Object(fields) => Self::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| {
                        let value = match value {
                            Self::Text(text) => Self::Text(clean_field(&key, &text)),
                            value => value.cleaned(),
                        };
                        (clean_text(&key), value)
                    })
                    .collect(),
            ),
            plain @ (Self::Null | Self::Bool(_) | Self::Number(_)) => plain,
        }
    }

    /// The text for a file: two spaces a level, as the seeds show it. The value of a key of `one_line` is written on
    /// one line; of a list of objects, each object is.
    pub fn pretty(&self, one_line: &[&str]) -> String {
        write::pretty(self, one_line)
    }

    /// The text that JavaScript's `JSON.stringify` makes of the value after reading it, to the letter.
    pub fn stringify(&self) -> String {
        write::stringify(self)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::Number(one), Self::Number(two)) => one == two,
            (Self::Text(one), Self::Text(two)) => one == two,
            (Self::List(one), Self::List(two)) => one == two,
            (Self::Object(one), Self::Object(two)) => same_fields(one, two),
            _ => false,
        }
    }
}

/// Returns true when two objects' fields are the same, in any order.
pub(super) fn same_fields<T: PartialEq>(one: &[(String, T)], two: &[(String, T)]) -> bool {
    let sorted = |fields: &[(String, T)]| {
        let mut order: Vec<usize> = (0..fields.len()).collect();
        order.sort_by(|a, b| fields[*a].0.cmp(&fields[*b].0));
        order
    };
    one.len() == two.len()
        && sorted(one)
            .into_iter()
            .zip(sorted(two))
            .all(|(a, b)| one[a] == two[b])
}

impl Number {
    /// A number from its JSON text, which must be one.
    fn written(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse::<i64>()
            && whole.to_string() == text
        {
            return Some(Self(Repr::Whole(whole)));
        }
        let finite = text.parse::<f64>().is_ok_and(f64::is_finite);
        finite.then(|| Self(Repr::Written(text.into())))
    }

    pub const fn whole(value: i64) -> Self {
        Self(Repr::Whole(value))
    }

    /// Returns the number as a double, which is what JavaScript makes of it.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            // JavaScript rounds beyond 2^53 just so.
            Repr::Whole(whole) => *whole as f64,
            Repr::Written(text) => text.parse().unwrap_or(0.0),
        }
    }

    /// Returns the number, if it is a whole number that is not negative; `65.0` is.
    pub fn as_u64(&self) -> Option<u64> {
        match &self.0 {
            Repr::Whole(whole) => u64::try_from(*whole).ok(),
            Repr::Written(text) => text.parse().ok().or_else(|| whole(self.as_f64())),
        }
    }
}

/// Beyond 2^53 a double does not say which whole number was meant.
fn whole(value: f64) -> Option<u64> {
    let exact = (0.0..=9_007_199_254_740_992.0).contains(&value) && value.fract() == 0.0;
    exact.then_some(value as u64)
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Whole(one), Repr::Whole(two)) => one == two,
            (Repr::Written(one), Repr::Written(two)) if one == two => true,
            // One number can be written in several ways.
            _ => self.as_f64() == other.as_f64(),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Whole(whole) => write!(f, "{whole}"),
            Repr::Written(text) => f.write_str(text),
        }
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        match i64::try_from(value) {
            Ok(whole) => Self(Repr::Whole(whole)),
            Err(_) => Self(Repr::Written(value.to_string().into())),
        }
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl From<Json> for serde_json::Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            // `serde_json` rounds a number that it cannot hold exactly; the text is a number, or it was not read.
            Json::Number(number) => number.to_string().parse().map_or(Self::Null, Self::Number),
            Json::Text(text) => Self::String(text),
            Json::List(items) => Self::Array(items.into_iter().map(Into::into).collect()),
            Json::Object(fields) => Self::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| (key, value.into()))
                    .collect(),
            ),
        }
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => {
                Number::written(&number.to_string()).map_or(Self::Null, Self::Number)
            }
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Into::into).collect()),
            Value::Object(fields) => Self::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| (key, value.into()))
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
