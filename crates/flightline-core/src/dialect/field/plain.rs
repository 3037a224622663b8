//! Plain values: text, numbers, lists, names of the file's choice, points in time.

use std::fmt;

use super::{Keep, Value, mismatch};
use crate::dialect::json::{Json, Number, same_fields};
use crate::dialect::unreadable::{Fault, Path, Unreadable};
use crate::time::{NotATime, Time};

impl Value for Json {
    fn read(json: Json, _: &Path<'_>) -> Result<Self, Unreadable> {
        Ok(json)
    }

    fn write(&self, _: Keep) -> Json {
        self.clone()
    }
}

impl Value for String {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Text(text) => Ok(text),
            other => Err(mismatch("text", &other, at)),
        }
    }

    fn write(&self, _: Keep) -> Json {
        Json::Text(self.clone())
    }
}

impl Value for bool {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Bool(value) => Ok(value),
            other => Err(mismatch("true or false", &other, at)),
        }
    }

    fn write(&self, _: Keep) -> Json {
        Json::Bool(*self)
    }
}

impl Value for Number {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::Number(number) => Ok(number),
            other => Err(mismatch("a number", &other, at)),
        }
    }

    fn write(&self, _: Keep) -> Json {
        Json::Number(self.clone())
    }
}

impl Value for u64 {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        const EXPECTED: &str = "a whole number";
        match json {
            Json::Number(number) => number.as_u64().ok_or_else(|| {
                at.wrong(Fault::Malformed {
                    text: number.to_string(),
                    expected: EXPECTED,
                })
            }),
            other => Err(mismatch(EXPECTED, &other, at)),
        }
    }

    fn write(&self, _: Keep) -> Json {
        (*self).into()
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        match json {
            Json::List(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| T::read(item, &at.index(index)))
                .collect(),
            other => Err(mismatch("a list", &other, at)),
        }
    }

    fn write(&self, keep: Keep) -> Json {
        Json::List(self.iter().map(|item| item.write(keep)).collect())
    }
}

/// Values under names that the file chooses, in its order. Two are equal in any order.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T: PartialEq> PartialEq for Named<T> {
    fn eq(&self, other: &Self) -> bool {
        same_fields(&self.0, &other.0)
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    /// Takes over what `newer` holds.
    pub fn replace(&mut self, newer: Self) {
        for (name, value) in newer.0 {
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => self.0.push((name, value)),
            }
        }
    }
}

impl<T: Value> Value for Named<T> {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        let Json::Object(fields) = json else {
            return Err(mismatch("an object", &json, at));
        };
        let read = |(name, value): (String, Json)| {
            let value = T::read(value, &at.key(&name))?;
            Ok((name, value))
        };
        fields
            .into_iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn write(&self, keep: Keep) -> Json {
        let write = |(name, value): &(String, T)| (name.clone(), value.write(keep));
        Json::Object(self.0.iter().map(write).collect())
    }
}

/// A point in time, with the text it was written as.
#[derive(Clone, PartialEq, Eq)]
pub struct Stamp {
    text: String,
    time: Time,
}

impl Stamp {
    /// A point in time to the second, as seeds B, C and E write it: `2025-12-08T14:30:25Z`.
    #[must_use]
    pub fn seconds(time: Time) -> Self {
        Self {
            text: time.to_seconds(),
            time: Time::from_millis(time.as_millis().div_euclid(1000).saturating_mul(1000)),
        }
    }

    /// A point in time to the millisecond, as JavaScript writes it: `2025-12-08T14:30:25.000Z`.
    #[must_use]
    pub fn millis(time: Time) -> Self {
        Self {
            text: time.to_string(),
            time,
        }
    }

    /// A point in time as short as it can be written without losing anything.
    #[must_use]
    pub fn exact(time: Time) -> Self {
        match time.as_millis().rem_euclid(1000) {
            0 => Self::seconds(time),
            _ => Self::millis(time),
        }
    }

    /// The point in time.
    #[must_use]
    pub const fn time(&self) -> Time {
        self.time
    }

    /// How it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The time in this text.
    pub(in crate::dialect) fn parse(text: String, at: &Path<'_>) -> Result<Self, Unreadable> {
        match text.parse() {
            Ok(time) => Ok(Self { text, time }),
            Err(NotATime::Malformed(_)) => Err(at.wrong(Fault::Malformed {
                text,
                expected: "a time such as 2026-01-04T15:30:00Z",
            })),
            Err(NotATime::OutOfRange(_)) => Err(at.wrong(Fault::Malformed {
                text,
                expected: "a time from 1970 to 2199",
            })),
        }
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl Value for Stamp {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        Self::parse(String::read(json, at)?, at)
    }

    fn write(&self, _: Keep) -> Json {
        Json::Text(self.text.clone())
    }
}

/// `time` in UTC, in `strftime`'s language.
pub(in crate::dialect) fn stamped(time: Time, format: &str) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis()).map_or_else(
        |_| time.to_string(),
        |stamp| stamp.strftime(format).to_string(),
    )
}

/// `text` as one line: what would break it, or hide in it, becomes a space.
pub(crate) fn one_line(text: &str) -> String {
    let kept: String = text
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
                ' '
            } else {
                c
            }
        })
        .collect();
    kept.trim().to_owned()
}
