//! Lists, page by page. A cursor is a place in the journal and the last item that was given: a cursor of another journal, or
//! of one that is ahead of ours, gets no data.

use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use flightline::event::Cursor;
use flightline::{ListPart, Window};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::events::{place, written};
use super::take::RequestParts;

/// The size of a page when the request names none.
pub(crate) const USUAL: u64 = 50;

#[derive(Clone, Copy)]
pub(crate) struct List {
    pub(crate) things: &'static str,
    /// The pointer to the key of each item.
    pub(crate) key: &'static str,
}

pub(crate) struct PageRequest {
    limit: u64,
    after: Option<(Cursor, String)>,
}

impl PageRequest {
    pub(crate) fn take(asked: &mut RequestParts) -> Result<Self, Refusal> {
        Ok(Self {
            limit: asked.limit(USUAL)?,
            after: asked.text("cursor").as_deref().map(read).transpose()?,
        })
    }

    /// Reads the request for a page whose size the route has determined.
    pub(crate) fn new(limit: u64, cursor: Option<&str>) -> Result<Self, Refusal> {
        Ok(Self {
            limit,
            after: cursor.map(read).transpose()?,
        })
    }

    pub(crate) fn place(&self) -> Option<Cursor> {
        self.after.as_ref().map(|(place, _)| place.clone())
    }

    pub(crate) fn window(&self) -> Window {
        let after = self.after.as_ref().map(|(_, last)| last.clone());
        Window::new(self.limit, after)
    }
}

fn read(text: &str) -> Result<(Cursor, String), Refusal> {
    let parts = text.split_once('~').and_then(|(at, key)| {
        let at = place(at).ok()?;
        Some((at, key.to_owned()))
    });
    parts.ok_or_else(|| no_cursor(text))
}

fn no_cursor(text: &str) -> Refusal {
    Refusal::invalid(format!("`{}` is not a cursor", shown(text)))
        .hint("take `next_cursor` of the page before, as it is")
}

impl List {
    /// Makes a page of an operation's outcome: the part of the list that it says, or the whole list.
    pub(crate) fn page(
        self,
        given: &RawValue,
        part: Option<ListPart>,
        since: Option<&Cursor>,
        asking: &PageRequest,
    ) -> Result<Box<RawValue>, Refusal> {
        let mut page: Vec<&RawValue> =
            serde_json::from_str(given.get()).map_err(|error| unreadable(&error))?;
        let part = match part {
            Some(part) => part,
            None => self.cut(&mut page, asking)?,
        };
        let last = page.last().map(|last| self.key_of(last));
        let (total, next) = next(Some(part), last, since)?;
        let things = to_raw_value(&page).map_err(|error| unreadable(&error))?;
        let (total, next) = (json!(total), json!(next));
        RawValue::from_string(format!(
            "{{\"{}\":{things},\"total\":{total},\"next_cursor\":{next}}}",
            self.things
        ))
        .map_err(|error| unreadable(&error))
    }

    /// Cuts a page out of the whole list.
    fn cut(self, list: &mut Vec<&RawValue>, asking: &PageRequest) -> Result<ListPart, Refusal> {
        let total = list.len() as u64;
        if let Some((_, after)) = &asking.after {
            // The next page must begin right after the last given item, without a gap and without a repetition.
            let last = list.iter().position(|thing| self.key_of(thing) == *after);
            list.drain(..=last.ok_or_else(gone)?);
        }
        let more = list.len() as u64 > asking.limit;
        list.truncate(usize::try_from(asking.limit).unwrap_or(usize::MAX));
        Ok(ListPart::Given { total, more })
    }

    fn key_of(self, thing: &RawValue) -> String {
        let thing = serde_json::from_str::<Value>(thing.get()).unwrap_or_default();
        thing.pointer(self.key).map(to_text).unwrap_or_default()
    }
}

fn unreadable(error: &serde_json::Error) -> Refusal {
    Refusal::new(Code::Failed, format!("cannot read the outcome: {error}"))
}

/// Returns the length of a list of which an operation gave a part, and the cursor of the next page; `last` is the key of the
/// last item that it gave.
pub(crate) fn next(
    part: Option<ListPart>,
    last: Option<String>,
    since: Option<&Cursor>,
) -> Result<(u64, Option<String>), Refusal> {
    let Some(ListPart::Given { total, more }) = part else {
        return Err(gone());
    };
    let last = since.zip(last).filter(|_| more);
    let next = last.map(|(since, last)| format!("{}~{last}", written(since)));
    Ok((total, next))
}

fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn gone() -> Refusal {
    Refusal::new(
        Code::HistoryChanged,
        "the last item of the previous page is no longer in the list",
    )
    .hint("start again without `cursor`")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The oldest event comes first.
    Forwards,
    /// The newest event comes first.
    Back,
}

impl Direction {
    const fn word(self) -> &'static str {
        match self {
            Self::Forwards => "after",
            Self::Back => "before",
        }
    }
}

/// Reads a cursor of a list of events: the field of the request, and the place.
pub(crate) fn going_on(text: &str) -> Result<(&'static str, Cursor), Refusal> {
    let (cursor, way) = read(text)?;
    let ways = [Direction::Forwards, Direction::Back].map(Direction::word);
    match ways.into_iter().find(|word| *word == way) {
        Some(word) => Ok((word, cursor)),
        None => Err(no_cursor(text)),
    }
}

/// The part of a list of events that says where it continues.
#[derive(Deserialize)]
struct Events<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    cursor: Cursor,
}

/// The part of an event that says where the list continues.
#[derive(Deserialize)]
struct Rev {
    rev: u64,
}

/// Makes a page of events, with the cursor for going on when there may be more that way.
pub(crate) fn events(
    list: &RawValue,
    limit: u64,
    way: Direction,
) -> Result<Box<RawValue>, Refusal> {
    let text = list.get();
    let read: Events<'_> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    let full = read.events.len() as u64 >= limit;
    let last = read.events.last().filter(|_| full);
    let last = last.map(|last| serde_json::from_str::<Rev>(last.get()));
    let last = last.transpose().map_err(|error| unreadable(&error))?;
    let history = &read.cursor.history;
    let next = json!(last.map(|Rev { rev }| format!("{history}.{rev}~{}", way.word())));
    let fields = text.strip_suffix('}').unwrap_or(text);
    RawValue::from_string(format!("{fields},\"next_cursor\":{next}}}"))
        .map_err(|error| unreadable(&error))
}
