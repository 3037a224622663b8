//! Fields of an object: read by the type that is expected, and set.
//!
//! A getter gives nothing when the field is missing, `null` or of another type. A document's shape was checked when it
//! was read, so the last does not happen there.

use std::ops::{Index, IndexMut};

use super::Json;
use crate::time::Time;

impl Json {
    /// The value under a key, unless it is `null`.
    pub fn given(&self, key: &str) -> Option<&Self> {
        self.get(key).filter(|value| !matches!(value, Self::Null))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    /// A text that must be there; empty when it is not.
    pub fn word(&self, key: &str) -> &str {
        self.text(key).unwrap_or_default()
    }

    /// A list of texts; empty when it is not there.
    pub fn texts(&self, key: &str) -> Vec<&str> {
        self.items(key).iter().filter_map(Self::as_text).collect()
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn whole(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    pub fn time(&self, key: &str) -> Option<Time> {
        self.text(key)?.parse().ok()
    }

    /// The items of a list; none when it is not there.
    pub fn items(&self, key: &str) -> &[Self] {
        match self.get(key) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    /// The fields of an object; none when it is not there.
    pub fn fields(&self, key: &str) -> &[(String, Self)] {
        match self.get(key) {
            Some(Self::Object(fields)) => fields,
            _ => &[],
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of this list to be changed; it becomes a list when it is none.
    pub fn list_mut(&mut self) -> &mut Vec<Self> {
        if !matches!(self, Self::List(_)) {
            *self = Self::List(Vec::new());
        }
        match self {
            Self::List(items) => items,
            _ => unreachable!("it was just made one"),
        }
    }
}

/// The value under a key; `null` when there is none.
impl Index<&str> for Json {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or(&Self::Null)
    }
}

/// The value under a key. One that is new goes to the end; a value that is no object becomes one.
impl IndexMut<&str> for Json {
    fn index_mut(&mut self, key: &str) -> &mut Self {
        if !matches!(self, Self::Object(_)) {
            *self = Self::Object(Vec::new());
        }
        let Self::Object(fields) = self else {
            unreachable!("it was just made one");
        };
        let place = fields.iter().position(|(name, _)| name == key);
        let place = place.unwrap_or_else(|| {
            fields.push((key.to_owned(), Self::Null));
            fields.len() - 1
        });
        &mut fields[place].1
    }
}
