//! Maps parts of an HTTP request (path, query, body) to fields of an operation's request.

use std::collections::BTreeMap;

use axum::extract::Query as AxumQuery;
use axum::http::Uri;
use flightline::Operation;
use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use flightline::event::ListEvents;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::events::place;
use super::page::{Direction, going_on};
use super::table::unknown;

pub(crate) const MOST: u64 = 1_000;

/// Fields that only a client on the fleet's own machine can fill: no route has them.
pub(crate) const NOT_FROM_AFAR: [&str; 2] = ["sightings", "tree"];

/// A part of a request, and the field that it becomes.
#[derive(Clone, Copy)]
pub(crate) enum Take {
    /// `{id}` of the address becomes this field.
    Id(&'static str),
    /// `{key}` of the address becomes this field.
    Key(&'static str),
    /// `{id}` becomes the only item of this list.
    Ids(&'static str),
    ActsAs,
    /// A field that always holds this word.
    Is(&'static str, &'static str),
    /// A switch that is always off.
    Not(&'static str),
    /// A text of the query becomes this field.
    Text(&'static str, &'static str),
    /// A number of the query becomes this field.
    Number(&'static str, &'static str),
    /// A switch of the query becomes this field; off when it is not there.
    Switch(&'static str, &'static str),
    /// `limit` of the query; this number when it is not there.
    Limit(u64),
    /// The whole list: the part that is given is decided afterwards.
    All,
    /// The body holds the further fields of this act.
    Act(&'static str),
    /// An act without further fields.
    Bare(&'static str),
    /// The body is one sortie, or several as `sorties`.
    Sorties,
    /// The body says how to mark a checkpoint.
    Mark,
    /// `{other}` is another checkpoint, or `now`.
    Other,
    /// A page of a history: `step`, else `after`, else `before`; its beginning when none is named.
    Place,
    /// The place at which events begin: `after` a place, or where a list went on (`cursor`).
    After,
    /// Only events of the story, page by page (`cursor`).
    Story,
}

/// The fields of a request by name, each as it was written: the operation reads them, once.
pub(crate) type RawFields = BTreeMap<String, Box<RawValue>>;

/// The request as it came in: the names in the path, the query, and the body, which becomes the operation's request.
pub(crate) struct RequestParts {
    names: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    pub(crate) body: RawFields,
    /// The agent or person as which the request acts, when the address says so.
    pub(crate) acts_as: Option<String>,
}

impl RequestParts {
    pub(crate) fn new(names: BTreeMap<String, String>, uri: &Uri) -> Result<Self, Refusal> {
        let pairs = AxumQuery::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Refusal::invalid("the query cannot be read"))?;
        let mut query = BTreeMap::new();
        for (name, value) in pairs.0 {
            if query.insert(name.clone(), value).is_some() {
                let twice = format!("`{}` is asked for twice", shown(&name));
                return Err(Refusal::invalid(twice));
            }
        }
        Ok(Self {
            names,
            query,
            body: RawFields::new(),
            acts_as: None,
        })
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_default()
    }

    /// Sets a field that the route decides on. A body that has it too is refused.
    pub(crate) fn set(&mut self, field: &str, value: impl Into<Value>) -> Result<(), Refusal> {
        self.put(field, raw(&value.into())?)
    }

    fn put(&mut self, field: &str, value: Box<RawValue>) -> Result<(), Refusal> {
        match self.body.insert(field.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(unknown(field)),
        }
    }

    pub(crate) fn request(&self) -> Result<String, Refusal> {
        serde_json::to_string(&self.body).map_err(|error| unwritable(&error))
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.query.remove(name)
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Refusal> {
        let text = self.query.remove(name);
        text.map(|text| text.parse().map_err(|_| wrong(name, &text, "a number")))
            .transpose()
    }

    pub(crate) fn limit(&mut self, usual: u64) -> Result<u64, Refusal> {
        match self.number("limit")? {
            Some(limit) if !(1..=MOST).contains(&limit) => {
                Err(wrong("limit", &limit.to_string(), "from 1 to 1000"))
            }
            limit => Ok(limit.unwrap_or(usual)),
        }
    }

    fn switch(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.query.remove(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(wrong(name, text, "true or false")),
        }
    }

    pub(crate) fn reject_unknown_fields(&self) -> Result<(), Refusal> {
        let mut fields = self.body.keys().map(String::as_str);
        let from_afar = fields.find(|field| NOT_FROM_AFAR.contains(field));
        match self.query.keys().next().map(String::as_str).or(from_afar) {
            Some(name) => Err(unknown(name)),
            None => Ok(()),
        }
    }

    /// The number and the direction of the events that are asked for, if any are.
    pub(crate) fn events(&self, operation: &str) -> Option<(u64, Direction)> {
        let limit = self.body.get("limit");
        let limit = limit.and_then(|limit| limit.get().parse().ok());
        let way = match self.body.contains_key("after") {
            true => Direction::Forwards,
            false => Direction::Back,
        };
        (operation == ListEvents::NAME).then_some((limit.unwrap_or(MOST), way))
    }

    pub(crate) fn take_all(&mut self, takes: &[Take]) -> Result<(), Refusal> {
        takes.iter().try_for_each(|take| self.take(*take))
    }

    fn take(&mut self, take: Take) -> Result<(), Refusal> {
        match take {
            Take::Id(field) => self.set(field, self.name("id")),
            Take::Key(field) => self.set(field, self.name("key")),
            Take::Ids(field) => self.set(field, json!([self.name("id")])),
            Take::ActsAs => {
                self.acts_as = Some(self.name("id"));
                Ok(())
            }
            Take::Is(field, word) => self.set(field, word),
            Take::Not(field) => self.set(field, false),
            Take::Text(name, field) => match self.text(name) {
                Some(text) => self.set(field, text),
                None => Ok(()),
            },
            Take::Number(name, field) => match self.number(name)? {
                Some(number) => self.set(field, number),
                None => Ok(()),
            },
            Take::Switch(name, field) => {
                let on = self.switch(name)?;
                self.set(field, on)
            }
            Take::Limit(usual) => {
                let limit = self.limit(usual)?;
                self.set("limit", limit)
            }
            Take::All => self.set("limit", u64::MAX),
            Take::Act(word) => self.act(word, true),
            Take::Bare(word) => self.act(word, false),
            Take::Sorties => self.sorties(),
            Take::Mark => self.mark(),
            Take::Other => {
                let other = self.name("other");
                self.set("b", (other != "now").then_some(other))
            }
            Take::Place => self.place(),
            Take::After => self.after(),
            Take::Story => {
                self.set("story", true)?;
                match self.text("cursor") {
                    Some(text) => self.go_on(&text),
                    None => Ok(()),
                }
            }
        }
    }

    fn act(&mut self, word: &str, says_more: bool) -> Result<(), Refusal> {
        let apart: &[&str] = match says_more {
            true => &["sortie", "keep_locks", "checkpoint"],
            false => &["sortie"],
        };
        let apart = apart.iter().map(|field| self.body.remove_entry(*field));
        let apart: Vec<_> = apart.collect();
        let more = std::mem::take(&mut self.body);
        if let Some(field) = more.keys().next().filter(|_| !says_more) {
            return Err(unknown(field));
        }
        self.body.extend(apart.into_iter().flatten());
        let action = match says_more {
            true => raw(&BTreeMap::from([(word, more)]))?,
            false => raw(&word)?,
        };
        self.put("action", action)
    }

    fn sorties(&mut self) -> Result<(), Refusal> {
        if self.body.contains_key("sorties") {
            return Ok(());
        }
        let mission = self.body.remove("mission");
        let one = std::mem::take(&mut self.body);
        self.body
            .extend(mission.map(|id| ("mission".to_owned(), id)));
        self.put("sorties", raw(&[one])?)
    }

    fn mark(&mut self) -> Result<(), Refusal> {
        let (note, pinned) = (self.body.remove("note"), self.body.remove("pinned"));
        let mark = match (&note, pinned.as_deref().map(RawValue::get)) {
            (Some(note), None) => raw(&BTreeMap::from([(
                "note",
                BTreeMap::from([("text", note)]),
            )]))?,
            (None, Some("true")) => raw("pin")?,
            (None, Some("false")) => raw("unpin")?,
            _ => return Err(Refusal::invalid("give either `note` or `pinned`")),
        };
        if let Some(field) = self.body.keys().find(|field| *field != "checkpoint") {
            return Err(unknown(field));
        }
        self.put("mark", mark)
    }

    fn place(&mut self) -> Result<(), Refusal> {
        let (step, after, before) = (
            self.text("step"),
            self.number("after")?,
            self.number("before")?,
        );
        let place = match (step, after, before) {
            (Some(step), _, _) => json!({ "at": { "of": step } }),
            (None, Some(rev), _) => json!({ "after": { "rev": rev } }),
            (None, None, Some(step)) => json!({ "before": { "step": step } }),
            (None, None, None) => json!("first"),
        };
        self.set("place", place)
    }

    fn after(&mut self) -> Result<(), Refusal> {
        match (self.text("after"), self.text("cursor")) {
            (None, None) => Ok(()),
            (Some(text), None) => self.set("after", json!(place(&text)?)),
            // A request for the next page repeats the first one, and adds its cursor.
            (_, Some(text)) => self.go_on(&text),
        }
    }

    fn go_on(&mut self, text: &str) -> Result<(), Refusal> {
        let (field, place) = going_on(text)?;
        self.set(field, json!(place))
    }
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(value).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> Refusal {
    Refusal::new(Code::Failed, format!("cannot write JSON: {error}"))
}

fn wrong(name: &str, text: &str, what: &str) -> Refusal {
    Refusal::invalid(format!(
        "`{name}` is `{}`, which is not {what}",
        shown(text)
    ))
}
