//! The shape of a dialect's documents: their fields, in the seed's order, and the values that may stand in them.
//!
//! A document is kept as the [`Json`] that was read, so that unknown fields, order and numbers survive. Its shape is
//! checked once, at reading; after that, the getters of [`Json`] meet no value of another type. We do this by hand and
//! not with `#[serde(flatten)]`, whose messages do not say where something is wrong (STYLE.md, rule 12) and which
//! knows nothing of order.

use super::json::Json;
use super::unreadable::{DocumentFault, Path, Unreadable};
use crate::time::{NotATime, Time};

/// The fields of an object that a seed knows, in its order.
pub(super) type FieldReader = &'static [(&'static str, Need, FieldForm)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Must,
    /// The field may be left out, but is never `null`: seed D.
    May,
    /// The field may be left out or be `null`; documents that we make have `null` there: seed B.
    Null,
    /// The field may be left out or be `null`; documents that we make leave it out: seeds C and E.
    Out,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FieldForm {
    Any,
    Text,
    Bool,
    Number,
    /// A whole number that is not negative.
    Whole,
    /// A whole number from 0 to 100.
    Percent,
    /// A number, or `null` while it is not known.
    Score,
    Time,
    /// A point in time; empty or `null` when there is none.
    MaybeTime,
    Uuid,
    Word(&'static [&'static str]),
    /// The id of a task, or a list of ids.
    Tasks,
    List(&'static FieldForm),
    /// An object whose keys the file chooses.
    Named(&'static FieldForm),
    Object(FieldReader),
    TextOr(&'static FieldForm),
}

impl FieldForm {
    /// Refuses a value of another form; the error says where.
    pub(super) fn check(&self, json: &Json, at: &Path<'_>) -> Result<(), Unreadable> {
        let malformed = |text: String, expected: &'static str| {
            Err(at.wrong(DocumentFault::Malformed { text, expected }))
        };
        match (self, json) {
            (Self::Any, _)
            | (Self::Text | Self::Tasks | Self::TextOr(_), Json::Text(_))
            | (Self::Bool, Json::Bool(_))
            | (Self::Number | Self::Score, Json::Number(_))
            | (Self::Score | Self::MaybeTime, Json::Null) => Ok(()),
            (Self::Whole | Self::Percent, Json::Number(number)) => match (self, number.as_u64()) {
                (_, None) => malformed(number.to_string(), "a whole number"),
                (Self::Percent, Some(percent @ 101..)) => {
                    malformed(percent.to_string(), "a percentage from 0 to 100")
                }
                (_, Some(_)) => Ok(()),
            },
            (Self::MaybeTime, Json::Text(text)) if text.is_empty() => Ok(()),
            (Self::Time | Self::MaybeTime, Json::Text(text)) => match text.parse::<Time>() {
                Ok(_) => Ok(()),
                Err(NotATime::Malformed(_)) => {
                    malformed(text.clone(), "a time such as 2026-01-04T15:30:00Z")
                }
                Err(NotATime::OutOfRange(_)) => malformed(text.clone(), "a time from 1970 to 2199"),
            },
            (Self::Uuid, Json::Text(text)) if !is_uuid(text) => malformed(text.clone(), "a UUID"),
            (Self::Word(known), Json::Text(word)) if !known.contains(&word.as_str()) => {
                let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
                Err(at.wrong(DocumentFault::UnknownWord {
                    word: word.clone(),
                    known: known.join(", "),
                }))
            }
            (Self::Uuid | Self::Word(_), Json::Text(_)) => Ok(()),
            (Self::Tasks, Json::List(items)) => check_all(&Self::Text, items, at),
            (Self::List(form), Json::List(items)) => check_all(form, items, at),
            (Self::Named(form), Json::Object(fields)) => fields
                .iter()
                .try_for_each(|(name, value)| form.check(value, &at.key(name))),
            (Self::Object(known), Json::Object(_)) => known
                .iter()
                .try_for_each(|(key, need, form)| check_field(json, key, *need, form, at)),
            (Self::TextOr(form), json) => form.check(json, at),
            (form, other) => Err(at.wrong(DocumentFault::WrongType {
                expected: form.expected(),
                found: other.kind(),
            })),
        }
    }

    /// Refuses a part of a document that has a field of another form. No field must be there.
    pub(super) fn check_part(&self, json: &Json) -> Result<(), Unreadable> {
        match (self, json) {
            (Self::Object(known), Json::Object(_)) => {
                known.iter().try_for_each(|(key, _, form)| {
                    check_field(json, key, Need::Null, form, &Path::ROOT)
                })
            }
            (form, json) => form.check(json, &Path::ROOT),
        }
    }

    /// The fields that the seed knows, in its order, without those that we leave out when they are `null`.
    pub(super) fn arranged(&self, json: &Json) -> Json {
        match (self, json) {
            (Self::Object(known), Json::Object(_)) => Json::Object(
                known
                    .iter()
                    .filter_map(|(key, need, form)| {
                        let value = json.get(key)?;
                        let is_kept = *value != Json::Null || *need == Need::Null;
                        is_kept.then(|| ((*key).to_owned(), form.arranged(value)))
                    })
                    .collect(),
            ),
            (Self::List(form), Json::List(items)) => {
                Json::List(items.iter().map(|item| form.arranged(item)).collect())
            }
            (Self::TextOr(form), json) => form.arranged(json),
            (_, json) => json.clone(),
        }
    }

    /// The place of a field in an object. A field that is new goes behind the one that it follows in the seed.
    pub(super) fn slot<'a>(&self, json: &'a mut Json, key: &str) -> &'a mut Json {
        let known = match self {
            Self::Object(known) => known,
            _ => &[][..],
        };
        if let Json::Object(found) = json {
            let place = |key: &str| found.iter().position(|(name, _)| name == key);
            if let (None, Some(rank)) = (place(key), known.iter().position(|it| it.0 == key)) {
                let before = known[..rank].iter().rev().find_map(|it| place(it.0));
                let index = before.map_or(0, |before| before + 1);
                found.insert(index, (key.to_owned(), Json::Null));
            }
        }
        &mut json[key]
    }

    const fn expected(&self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Text
            | Self::Time
            | Self::MaybeTime
            | Self::Uuid
            | Self::Word(_)
            | Self::TextOr(_) => "text",
            Self::Bool => "true or false",
            Self::Number | Self::Score => "a number",
            Self::Whole | Self::Percent => "a whole number",
            Self::Tasks => "a task or a list of tasks",
            Self::List(_) => "a list",
            Self::Named(_) | Self::Object(_) => "an object",
        }
    }
}

fn check_all(form: &FieldForm, items: &[Json], at: &Path<'_>) -> Result<(), Unreadable> {
    let mut items = items.iter().enumerate();
    items.try_for_each(|(index, item)| form.check(item, &at.index(index)))
}

fn check_field(
    json: &Json,
    key: &'static str,
    need: Need,
    form: &FieldForm,
    at: &Path<'_>,
) -> Result<(), Unreadable> {
    match (json.get(key), need) {
        (None, Need::Must) => Err(at.wrong(DocumentFault::Missing { key })),
        (None, _) | (Some(Json::Null), Need::Null | Need::Out) => Ok(()),
        (Some(value), _) => form.check(value, &at.key(key)),
    }
}

/// Returns true when the text is a UUID with hyphens and nothing around it, so that it can be a file's name.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}
