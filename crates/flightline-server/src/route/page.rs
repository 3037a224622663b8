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

    /// The number of items to look at in order to give this page.
    pub(crate) fn needs(&self) -> u64 {
        match &self.after {
            None => self.limit,
            Some(_) => u64::MAX,
        }
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
    pub(crate) fn page(
        self,
        all: &RawValue,
        since: Option<&Cursor>,
        asking: &PageRequest,
    ) -> Result<Box<RawValue>, Refusal> {
        let all = things(all)?;
        let total = all.len() as u64;
        let (page, next) = asking.page_of(all, |thing| self.key_of(thing), total, since)?;
        self.answer(&page, total, next)
    }

    /// A page that the operation itself has cut out of the whole list.
    pub(crate) fn part(
        self,
        page: &RawValue,
        part: ListPart,
        since: Option<&Cursor>,
    ) -> Result<Box<RawValue>, Refusal> {
        let ListPart::Given { total, more } = part else {
            return Err(gone());
        };
        let page = things(page)?;
        let last = page.last().filter(|_| more).map(|last| self.key_of(last));
        let next = since
            .zip(last)
            .map(|(since, last)| format!("{}~{last}", written(since)));
        self.answer(&page, total, next)
    }

    fn key_of(self, thing: &RawValue) -> String {
        let thing = serde_json::from_str::<Value>(thing.get()).unwrap_or_default();
        thing.pointer(self.key).map(to_text).unwrap_or_default()
    }

    fn answer(
        self,
        page: &[&RawValue],
        total: u64,
        next: Option<String>,
    ) -> Result<Box<RawValue>, Refusal> {
        let things = to_raw_value(page).map_err(|error| unreadable(&error))?;
        let (total, next) = (json!(total), json!(next));
        RawValue::from_string(format!(
            "{{\"{}\":{things},\"total\":{total},\"next_cursor\":{next}}}",
            self.things
        ))
        .map_err(|error| unreadable(&error))
    }
}

/// The items of a list, as the operation wrote them. Only the key of the last item is read.
fn things(all: &RawValue) -> Result<Vec<&RawValue>, Refusal> {
    serde_json::from_str(all.get()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Refusal {
    Refusal::new(Code::Failed, format!("cannot read the outcome: {error}"))
}

impl PageRequest {
    /// Makes a page of a list whose operation counts for itself: `all` are the first items, as many as
    /// [`PageRequest::needs`]. The cursor of the next page comes with it.
    pub(crate) fn page_of<T>(
        &self,
        all: Vec<T>,
        key: impl Fn(&T) -> String,
        total: u64,
        since: Option<&Cursor>,
    ) -> Result<(Vec<T>, Option<String>), Refusal> {
        let from = match (&self.after, since) {
            (None, _) => 0,
            (Some((_, last)), Some(_)) => {
                let found = all.iter().position(|thing| key(thing) == *last);
                // The next page must begin right after the last given item, without a gap and without a repetition.
                found.ok_or_else(gone)?.saturating_add(1)
            }
            (Some(_), None) => return Err(gone()),
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let page: Vec<T> = all.into_iter().skip(from).take(limit).collect();
        let given = (from as u64).saturating_add(page.len() as u64);
        let next = match (page.last(), since) {
            (Some(last), Some(since)) if given < total => {
                Some(format!("{}~{}", written(since), key(last)))
            }
            _ => None,
        };
        Ok((page, next))
    }
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
