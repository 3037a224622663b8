//! Lists events of the journal.

use crate::Schema;
use std::collections::{BTreeMap, BTreeSet};

use flightline_core::event::{Event, EventType};
use flightline_core::note::Note;
use flightline_core::redact::shown;
use flightline_core::text::closest;
use flightline_core::{Code, Kind, MissionId, Refusal, Time};
use flightline_store::{EventFilter, Find, Tx};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Lists events of the journal.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// List only events of this mission.
    pub mission: Option<String>,
    /// List only events about the record with this full id.
    pub subject: Option<String>,
    /// List only events of this type.
    pub kind: Option<String>,
    /// List only events from this time on.
    pub since: Option<Time>,
    /// List events after this position, oldest first; without one, the newest events, newest first.
    pub after: Option<Cursor>,
    /// Of the newest events, list those before this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Cursor>,
    /// Maximum number of entries.
    pub limit: u64,
    /// List only events that are part of the story, not Flightline's own bookkeeping; with the names of things.
    #[serde(default)]
    pub story: bool,
}

/// A position in one unbroken journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Cursor {
    /// The id of the history.
    pub history: String,
    /// The last revision that was seen.
    pub rev: u64,
}

impl Cursor {
    /// Refuses a cursor of another journal, or of a lost part of this one: other events follow it here.
    pub(crate) fn check(&self, tx: &mut Tx<'_>) -> Result<()> {
        match tx.part_of(&self.history)? {
            Some(last) if self.rev <= last => Ok(()),
            Some(last) if self.history != tx.history() => {
                Err(lost(self.rev, tx.history().to_owned(), last))
            }
            Some(_) | None => Err(elsewhere()),
        }
    }
}

/// The caller saw events that are lost; the refusal names where it can continue.
fn lost(seen: u64, history: String, last: u64) -> Error {
    let message = format!(
        "revision {seen} was lost when a replica replaced the database; revisions up to {last} exist"
    );
    let after = Cursor { history, rev: last };
    Refusal::new(Code::HistoryChanged, message)
        .hint(format!(
            "discard everything after it, and continue from there: `fleet events tail --after {last}`"
        ))
        .details(json!({ "after": after }))
        .into()
}

fn elsewhere() -> Error {
    Refusal::new(
        Code::HistoryChanged,
        "the journal was replaced since you last looked",
    )
    .hint("start again from the beginning: `fleet events list`")
    .into()
}

/// Returns true when this event begins a history in which revision `rev` was left out.
fn leaves_out(event: &Event, rev: u64) -> bool {
    let left_at = event.data["before"]["rev"].as_u64();
    event.is(EventType::HistoryBegun) && left_at.is_some_and(|left_at| left_at < rev)
}

/// A list of events, and the position at which to continue.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct EventList {
    /// The events that were found.
    pub events: Vec<Event>,
    /// The position at which to continue.
    pub cursor: Cursor,
    /// The names of the things in a story, by id; empty where no story was requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

impl Operation for ListEvents {
    const NAME: &'static str = "list_events";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = EventList;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<EventList> {
        let mission = match &self.mission {
            Some(reference) => Some(ctx.mission(Some(reference))?.id),
            None => None,
        };
        // Any text may be looked for, but PostgreSQL takes no NUL.
        let clean = |text: &Option<String>| text.as_ref().map(|text| text.replace('\0', ""));
        let filter = EventFilter {
            mission,
            subject: clean(&self.subject),
            kind: clean(&self.kind),
            since: self.since,
            up_to: self
                .before
                .as_ref()
                .map(|place| place.rev.saturating_sub(1)),
            limit: self.limit.min(10_000),
        };
        if let Some(kind) = filter.kind.as_deref() {
            refuse_unknown(ctx, kind)?;
        }
        let (history, rev) = (ctx.tx.history().to_owned(), ctx.tx.rev());
        for place in self.after.iter().chain(&self.before) {
            place.check(ctx.tx)?;
        }
        let Some(after) = &self.after else {
            let events = if self.story {
                story(ctx, filter)?
            } else {
                ctx.tx.newest_events(&filter)?
            };
            return Ok(EventList {
                names: self.names(ctx, &events)?,
                events,
                cursor: Cursor { history, rev },
            });
        };
        let mut events = ctx.tx.events_after(after.rev, &filter)?;
        // The caller made up a place that never was one.
        if events
            .first()
            .is_some_and(|next| leaves_out(next, after.rev))
        {
            return Err(elsewhere());
        }
        let full = events.len() as u64 >= filter.limit;
        let rev = if full {
            events.last().map_or(rev, |event| event.rev)
        } else {
            rev
        };
        if self.story {
            events.retain(|event| !event.is_detail());
        }
        Ok(EventList {
            names: self.names(ctx, &events)?,
            events,
            cursor: Cursor { history, rev },
        })
    }
}

impl ListEvents {
    /// Returns the names of the things in a story.
    fn names(
        &self,
        ctx: &mut OpContext<'_, '_>,
        events: &[Event],
    ) -> Result<BTreeMap<String, String>> {
        match self.story {
            true => names_of(ctx, events),
            false => Ok(BTreeMap::new()),
        }
    }
}

/// Refuses a type that no event has: nothing would ever be found.
fn refuse_unknown(ctx: &mut OpContext<'_, '_>, kind: &str) -> Result<()> {
    let one = EventFilter {
        kind: Some(kind.to_owned()),
        limit: 1,
        ..EventFilter::default()
    };
    let listed = EventType::from_word(kind).is_some_and(EventType::is_listed);
    // An older version may have written what this one does not know.
    if listed || !ctx.tx.newest_events(&one)?.is_empty() {
        return Ok(());
    }
    let hint = match closest(kind, EventType::listed()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let noun = kind.split('_').next().unwrap_or_default();
            let like: Vec<&str> = EventType::listed()
                .filter(|it| it.starts_with(noun))
                .collect();
            match like.is_empty() || noun.is_empty() {
                true => {
                    let nouns = EventType::listed().filter_map(|it| it.split('_').next());
                    let nouns: BTreeSet<&str> = nouns.collect();
                    let nouns: Vec<&str> = nouns.into_iter().collect();
                    let nouns = nouns.join(", ");
                    format!("types look like `sortie_claimed`, and begin with: {nouns}")
                }
                false => format!("types of that name: {}", like.join(", ")),
            }
        }
    };
    Err(
        Refusal::invalid(format!("there is no event of type `{}`", shown(kind)))
            .hint(hint)
            .into(),
    )
}

/// Returns the names of the subjects of events: agents by name, missions and sorties by title, notes by their text.
pub(crate) fn names_of(
    ctx: &mut OpContext<'_, '_>,
    events: &[Event],
) -> Result<BTreeMap<String, String>> {
    let mut names = BTreeMap::new();
    let mut kinds = vec![(Kind::Agent, Find::All), (Kind::Mission, Find::All)];
    let missions: BTreeSet<MissionId> =
        events.iter().filter_map(|event| event.mission_id).collect();
    kinds.extend(
        missions
            .into_iter()
            .map(|id| (Kind::Sortie, Find::Mission(id))),
    );
    for (kind, find) in kinds {
        let rows = ctx.tx.rows(kind, find)?.into_iter();
        names.extend(rows.filter_map(|row| Some((row.id, row.name?))));
    }
    for event in events
        .iter()
        .filter(|event| event.subject_kind == Kind::Note)
    {
        // A damaged note is told without its text.
        if let Ok(Some(note)) = ctx.tx.get::<Note>(&event.subject) {
            names.insert(event.subject.clone(), note.text.to_string());
        }
    }
    Ok(names)
}

/// Returns as many of the newest events as were requested, without events that are only bookkeeping.
fn story(ctx: &mut OpContext<'_, '_>, mut filter: EventFilter) -> Result<Vec<Event>> {
    let wanted = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    loop {
        let mut events = ctx.tx.newest_events(&filter)?;
        let all = (events.len() as u64) < filter.limit;
        events.retain(|event| !event.is_detail());
        if all || events.len() >= wanted {
            events.truncate(wanted);
            return Ok(events);
        }
        filter.limit = filter.limit.saturating_mul(4);
    }
}
