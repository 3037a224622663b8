//! A transaction: the only way to the tables.

mod cached;
pub(crate) mod care;
mod events;
mod history;
pub(crate) mod neighbours;
mod overview;
mod queries;
mod side_tables;
mod state;
mod trace;

pub use cached::NewestWork;
pub(crate) use trace::{EventMark, Trace};

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use flightline_core::event::{Change, EventType, HAPPENED_AT, sha256_hex};
use flightline_core::text::read_stored;
use flightline_core::time::Uptime;
use flightline_core::{Keys, Kind, Subject, Time};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::clock::{Clock, IdSource};
use crate::delta::Base;
use crate::engine::{Anchor, Driver};
use crate::error::StoreError;
use crate::loss::Loss;
use crate::mend::Damage;
use crate::table::event::NewEvent;
use crate::table::project::ProjectRow;
use crate::table::subject::NewValue;
use crate::table::{event, subject};
use crate::write_cache::{DocumentCache, KeptValue, WriteCache};

/// The part of an event that is its subject's value: whole, or as a delta of the value of revision `base`.
struct EventValue<'a> {
    change: Change,
    after: Option<&'a str>,
    base: Option<u64>,
    sha: Option<&'a str>,
}

/// A transaction. A closure that gets one touches nothing else: it may run twice.
pub struct Tx<'a> {
    pub(crate) driver: &'a mut dyn Driver,
    pub(crate) project: ProjectRow,
    pub(crate) ids: IdSource,
    /// The ids that were drawn in this transaction: no earlier subject had one of them.
    pub(crate) drawn: RefCell<Vec<Uuid>>,
    pub(crate) clock: Clock,
    pub(crate) now: Time,
    /// The time at which the reported events happened, where that was before now.
    pub(crate) happened: Option<Time>,
    pub(crate) actor: Actor,
    /// The first revision this transaction hands out.
    pub(crate) step: u64,
    pub(crate) began: Instant,
    /// Values of which one copy was found damaged.
    pub(crate) noticed: Vec<Damage>,
    /// The lost events that were left out.
    pub(crate) losses: Vec<Loss>,
    /// The revisions added to the journal.
    pub(crate) trace: Trace,
    /// The cache of last values, where they are remembered.
    pub(crate) cache: Option<&'a mut WriteCache>,
    /// The cache of documents that were read before, likewise.
    pub(crate) seen: Option<&'a mut DocumentCache>,
}

/// A place in a transaction to come back to.
#[derive(Debug)]
pub struct Savepoint {
    rev: u64,
    /// The seal of the last event before it.
    seal: String,
    actor: Actor,
    /// The place in the write cache to go back to.
    mark: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// An agent's name, `user:NAME`, or `flightline`.
    pub name: String,
    /// The agent's epoch.
    pub epoch: Option<u64>,
}

impl Actor {
    /// The actor of housekeeping: Flightline itself.
    pub fn flightline() -> Self {
        Self {
            name: "flightline".to_owned(),
            epoch: None,
        }
    }
}

/// The record of an earlier request with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// Nothing: the key is new.
    Unknown,
    /// The key was used for this request, which had this outcome.
    Same(String),
    /// The key was used for another request.
    Other,
}

impl Tx<'_> {
    /// The time of this transaction: one moment for all of it. While events of the past are reported, the moment at which
    /// they happened.
    pub fn now(&self) -> Time {
        self.happened.unwrap_or(self.now)
    }

    /// Dates further events at `at`, never later than now: values get that time, and each event says it
    /// ([`Event::happened_at`](flightline_core::event::Event::happened_at)). The journal keeps its own time. Returns the
    /// time set before.
    pub fn happen_at(&mut self, at: Option<Time>) -> Option<Time> {
        let at = at.map(|at| at.min(self.now));
        std::mem::replace(&mut self.happened, at)
    }

    pub fn uuid(&self) -> Uuid {
        let uuid = self.ids.next();
        self.drawn.borrow_mut().push(uuid);
        uuid
    }

    fn is_drawn(&self, id: &str) -> bool {
        let drawn = self.drawn.borrow();
        let mut drawn = drawn.iter();
        drawn.any(|uuid| {
            let mut buffer = Uuid::encode_buffer();
            let text: &str = uuid.hyphenated().encode_lower(&mut buffer);
            id.contains(text)
        })
    }

    pub fn project_name(&self) -> &str {
        &self.project.name
    }

    pub fn project_id(&self) -> &str {
        &self.project.id
    }

    pub fn project_created_at(&self) -> Time {
        self.project.created_at
    }

    /// The uptime of the machine that this transaction runs on, where it can be known.
    pub fn uptime(&self) -> Option<Uptime> {
        self.clock.uptime()
    }

    /// The last revision handed out.
    pub fn rev(&self) -> u64 {
        self.project.rev
    }

    pub fn next_rev(&self) -> u64 {
        self.project.rev + 1
    }

    /// The time since which Flightline has been able to notice signs of life.
    pub fn awake_since(&self) -> Time {
        self.project.awake_since
    }

    /// Sets the actor of further events.
    pub fn act_as(&mut self, actor: Actor) {
        self.actor = actor;
    }

    /// The author of the next events.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Gives the value `set` to its subject and records the event that did it. Returns the event's revision.
    pub fn set<S: Subject>(
        &mut self,
        kind: EventType,
        set: &S,
        data: &Json,
    ) -> Result<u64, StoreError> {
        let doc = serde_json::to_string(set).map_err(|error| StoreError::Engine {
            act: "cannot write a document",
            cause: error.to_string(),
        })?;
        let max = S::KIND.max_document();
        if doc.len() > max {
            return Err(StoreError::TooLarge {
                kind: S::KIND.as_str(),
                size: doc.len(),
                max,
            });
        }
        let (id, keys, sha) = (set.key(), set.keys(), sha256_hex(&doc));
        let base = self.base_of(S::KIND, &id)?;
        let delta = base.as_ref().and_then(|base| base.delta(&doc));
        let value = EventValue {
            change: Change::Set,
            after: Some(delta.as_deref().unwrap_or(&doc)),
            base: base.as_ref().filter(|_| delta.is_some()).map(|it| it.rev),
            sha: Some(&sha),
        };
        let rev = self.tell(kind, (S::KIND, &id), &keys, data, &value)?;
        let in_place = match &mut self.cache {
            Some(cache) if !self.driver.compares_keys() => {
                cache.is_found_by(self.driver, S::KIND, &id, &keys)?
            }
            _ => false,
        };
        let value = NewValue {
            project: &self.project.id,
            kind: S::KIND,
            id: &id,
            keys: &keys,
            rev,
            at: self.now,
            sha: &sha,
            doc: (!S::KIND.is_kept_once()).then_some(doc.as_str()),
            in_place,
        };
        // Before the write: the table is asked for the old value without sending the writes that wait.
        let is_drawn = self.is_drawn(&id);
        if let Some(cache) = &mut self.cache {
            let kept = match value.doc {
                // A text that only the journal keeps is not cached.
                None => KeptValue::InJournal,
                Some(_) => {
                    debug_assert_eq!(written_again::<S>(&doc).as_ref(), Some(&doc));
                    let text: Arc<str> = doc.as_str().into();
                    let base = match base.filter(|_| delta.is_some()) {
                        Some(base) => Base {
                            deltas: base.deltas + 1,
                            ..base
                        },
                        None => Base {
                            rev,
                            text: Arc::clone(&text),
                            deltas: 0,
                        },
                    };
                    let value = Arc::new(set.clone());
                    KeptValue::Here { text, base, value }
                }
            };
            cache.set(self.driver, &value, kept, is_drawn)?;
        }
        subject::upsert(self.driver, &value)?;
        Ok(rev)
    }

    /// Returns the whole value that the next delta of a subject is based on; none when the next value has to be whole, or
    /// when asking would cost more than it saves.
    fn base_of(&mut self, kind: Kind, id: &str) -> Result<Option<Base>, StoreError> {
        // The store has no other copy of a checkpoint's text, so that the text depends on no other.
        if kind.is_kept_once() {
            return Ok(None);
        }
        if let Some(cache) = &mut self.cache {
            let known = match self.driver.compares_keys() {
                true => cache.loaded(kind, id),
                // The cache is asked for the keys of this subject as well, so it may load them here.
                false => cache.get(self.driver, kind, id)?,
            };
            match known {
                // The subject is new, or was removed.
                Some(None) => return Ok(None),
                Some(Some(entry)) if entry.base.is_some() => return Ok(entry.base.clone()),
                Some(Some(_)) | None => {}
            }
        }
        match self.driver.is_near() {
            true => event::base_of(self.driver, &self.project.id, kind, id),
            false => Ok(None),
        }
    }

    /// Removes a subject and records the event that did it. Returns the event's revision.
    pub fn remove<S: Subject>(
        &mut self,
        kind: EventType,
        value: &S,
        data: &Json,
    ) -> Result<u64, StoreError> {
        let id = value.key();
        let rev = self.record::<S>(kind, value, data, Change::Gone)?;
        subject::remove(self.driver, &self.project.id, S::KIND, &id, rev, self.now)?;
        if let Some(cache) = &mut self.cache {
            cache.remove(S::KIND, &id);
        }
        Ok(rev)
    }

    /// Records an event about a subject that did not change it. Returns the event's revision.
    pub fn note<S: Subject>(
        &mut self,
        kind: EventType,
        value: &S,
        data: &Json,
    ) -> Result<u64, StoreError> {
        self.record::<S>(kind, value, data, Change::None)
    }

    fn record<S: Subject>(
        &mut self,
        kind: EventType,
        value: &S,
        data: &Json,
        change: Change,
    ) -> Result<u64, StoreError> {
        let told = EventValue {
            change,
            after: None,
            base: None,
            sha: None,
        };
        self.tell(kind, (S::KIND, &value.key()), &value.keys(), data, &told)
    }

    /// Writes an event, sealed to the one before it. Returns its revision.
    fn tell(
        &mut self,
        kind: EventType,
        (subject_kind, subject): (Kind, &str),
        keys: &Keys,
        data: &Json,
        value: &EventValue<'_>,
    ) -> Result<u64, StoreError> {
        let data = &*self.with_time(data);
        let rev = self.allocate_rev();
        let event = NewEvent {
            project: &self.project.id,
            rev,
            step: self.step,
            at: self.now,
            kind,
            mission: keys.mission.map(|id| id.to_string()),
            subject_kind,
            subject,
            actor: &self.actor.name,
            epoch: self.actor.epoch,
            data,
            change: value.change,
            after: value.after,
            base: value.base,
            sha: value.sha,
            prev: &self.project.seal,
        };
        let seal = event::insert(self.driver, &mut self.trace, &event)?;
        if let Some(cache) = &mut self.cache {
            cache.tell(&event);
        }
        self.project.seal = seal;
        Ok(rev)
    }

    /// Adds to an event's data the time at which it happened.
    fn with_time<'d>(&self, data: &'d Json) -> Cow<'d, Json> {
        let (Some(at), Some(fields)) = (self.happened, data.as_object()) else {
            return Cow::Borrowed(data);
        };
        let mut fields = fields.clone();
        fields.insert(HAPPENED_AT.to_owned(), at.to_string().into());
        Cow::Owned(fields.into())
    }

    pub(crate) fn allocate_rev(&mut self) -> u64 {
        self.project.rev += 1;
        self.project.rev
    }

    /// Marks a place to come back to with [`Tx::roll_back_to`].
    pub fn savepoint(&mut self) -> Result<Savepoint, StoreError> {
        self.driver.savepoint(Anchor::Attempt)?;
        Ok(Savepoint {
            rev: self.project.rev,
            seal: self.project.seal.clone(),
            actor: self.actor.clone(),
            mark: self.cache.as_ref().map_or(0, |cache| cache.mark()),
        })
    }

    /// Sends the writes that were put off so far: an error of one of them shows here.
    pub fn deliver(&mut self) -> Result<(), StoreError> {
        self.driver.deliver()
    }

    /// Keeps the writes since the last savepoint.
    pub fn release(&mut self) -> Result<(), StoreError> {
        self.driver.release(Anchor::Attempt)
    }

    /// Drops the writes since `savepoint`.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        self.driver.roll_back_to(Anchor::Attempt)?;
        self.driver.release(Anchor::Attempt)?;
        if let Some(cache) = &mut self.cache {
            cache.go_back(savepoint.mark);
        }
        self.trace.cut(savepoint.rev);
        self.project.rev = savepoint.rev;
        self.project.seal = savepoint.seal;
        self.actor = savepoint.actor;
        Ok(())
    }

    /// The time in milliseconds that this transaction has taken so far.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The name of the engine: `sqlite` or `postgres`.
    pub fn engine(&self) -> &'static str {
        self.driver.name()
    }
}

/// Reads a document and writes it again: a value that is remembered as it was written is the one that a reader finds.
fn written_again<S: Subject>(doc: &str) -> Option<String> {
    serde_json::to_string(&read_stored::<S>(doc).ok()?).ok()
}
