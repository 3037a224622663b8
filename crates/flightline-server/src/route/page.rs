//! Lists, page by page. A cursor is a place in the journal and the last thing that was given: whoever comes
//! with one from another journal, or from one that is ahead of ours, gets no data.

use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use flightline::event::Cursor;
use flightline::{Part, Window};
use serde_json::{Map, Value, json};

use super::events::{place, written};
use super::take::Asked;

/// How many are given at once when nobody says.
pub(crate) const USUAL: u64 = 50;

/// A list of things.
#[derive(Clone, Copy)]
pub(crate) struct List {
    /// What they are called in the answer.
    pub(crate) things: &'static str,
    /// Where in each is what it is known by.
    pub(crate) key: &'static str,
}

/// Which page is asked for.
pub(crate) struct Asking {
    limit: u64,
    after: Option<(Cursor, String)>,
}

impl Asking {
    pub(crate) fn take(asked: &mut Asked) -> Result<Self, Refusal> {
        Ok(Self {
            limit: asked.limit(USUAL)?,
            after: asked.text("cursor").as_deref().map(read).transpose()?,
        })
    }

    /// The page of a list that knows how many to give.
    pub(crate) fn new(limit: u64, cursor: Option<&str>) -> Result<Self, Refusal> {
        Ok(Self {
            limit,
            after: cursor.map(read).transpose()?,
        })
    }

    /// The place in the journal that it goes on from.
    pub(crate) fn place(&self) -> Option<Cursor> {
        self.after.as_ref().map(|(place, _)| place.clone())
    }

    /// The part of the list that it is.
    pub(crate) fn window(&self) -> Window {
        let after = self.after.as_ref().map(|(_, last)| last.clone());
        Window::new(self.limit, after)
    }

    /// How many must be looked at to give this page.
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
    /// A page of everything there is.
    pub(crate) fn page(
        self,
        all: Value,
        since: Option<&Cursor>,
        asking: &Asking,
    ) -> Result<Value, Refusal> {
        let all = things(all);
        let total = all.len() as u64;
        let (page, next) = asking.page_of(all, |thing| self.key_of(thing), total, since)?;
        Ok(self.answer(page, total, next))
    }

    /// A page that the operation itself has cut out of everything there is.
    pub(crate) fn part(
        self,
        page: Value,
        part: Part,
        since: Option<&Cursor>,
    ) -> Result<Value, Refusal> {
        let Part::Given { total, more } = part else {
            return Err(gone());
        };
        let page = things(page);
        let last = page.last().filter(|_| more).map(|last| self.key_of(last));
        let next = since
            .zip(last)
            .map(|(since, last)| format!("{}~{last}", written(since)));
        Ok(self.answer(page, total, next))
    }

    fn key_of(self, thing: &Value) -> String {
        thing.pointer(self.key).map(plain).unwrap_or_default()
    }

    fn answer(self, page: Vec<Value>, total: u64, next: Option<String>) -> Value {
        let mut answer = Map::new();
        answer.insert(self.things.to_owned(), Value::Array(page));
        answer.insert("total".to_owned(), json!(total));
        answer.insert("next_cursor".to_owned(), json!(next));
        Value::Object(answer)
    }
}

fn things(all: Value) -> Vec<Value> {
    match all {
        Value::Array(all) => all,
        other => vec![other],
    }
}

impl Asking {
    /// Of a list that counts by itself, where `all` are the first, as many as [`Asking::needs`]: the page, and where the
    /// next one begins.
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
                // Whoever was given it must not miss what followed, nor get anything twice.
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

fn plain(value: &Value) -> String {
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

/// Which way events are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Oldest first.
    Forwards,
    /// Newest first.
    Back,
}

impl Way {
    const fn word(self) -> &'static str {
        match self {
            Self::Forwards => "after",
            Self::Back => "before",
        }
    }
}

/// Where a list of events goes on: the field of the request, and the place.
pub(crate) fn going_on(text: &str) -> Result<(&'static str, Cursor), Refusal> {
    let (cursor, way) = read(text)?;
    let ways = [Way::Forwards, Way::Back].map(Way::word);
    match ways.into_iter().find(|word| *word == way) {
        Some(word) => Ok((word, cursor)),
        None => Err(no_cursor(text)),
    }
}

/// Events, and where to go on with them when there may be more that way.
pub(crate) fn events(mut list: Value, limit: u64, way: Way) -> Value {
    let events = list["events"].as_array();
    let full = events.filter(|events| events.len() as u64 >= limit);
    let last = full.and_then(|events| events.last()?["rev"].as_u64());
    let history = list["cursor"]["history"].as_str().unwrap_or_default();
    let next = last.map(|rev| format!("{history}.{rev}~{}", way.word()));
    list["next_cursor"] = json!(next);
    list
}
