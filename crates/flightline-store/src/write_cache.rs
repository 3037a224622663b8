//! Caches the last values of a project's subjects in the memory of a process that writes again and again, so that it need
//! not ask for its own writes. The cache is used only inside a transaction that holds the project's row, and is only as
//! good as that row's revision: the writes of others meanwhile are read first. The journal and the rows stay the truth;
//! values that are damaged, large or unusual are read from them.

mod document_cache;
mod kind_index;
mod of_mission;
mod queries;
mod recent_events;

pub(crate) use document_cache::DocumentCache;
pub(crate) use recent_events::RecentLookup;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use flightline_core::event::{Event, sha256_hex};
use flightline_core::text::read_stored;
use flightline_core::{Keys, Kind, MissionId, Subject, Time};
use serde_json::Value as Json;

use crate::delta::Base;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::table::event::{self, NewEvent};
use crate::table::project::ProjectRow;
use crate::table::pulse::{self, Pulse};
use crate::table::statements;
use crate::table::subject::{self, SubjectRow};
use crate::value::{Row, params};

use self::kind_index::KindIndex;
use self::recent_events::{PulseNews, RecentEvents};

statements! {
    SIZE = "SELECT CAST(count(*) AS BIGINT), CAST(coalesce(sum(octet_length(doc)), 0) AS BIGINT) FROM subject \
            WHERE project = ?1 AND kind = ?2 AND gone IS NULL";
    LOAD = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, doc, gone, kind FROM subject \
            WHERE project = ?1 AND kind = ?2 AND gone IS NULL";
    // A cross join keeps its order: the few events lead to their subjects, and not every subject to its events.
    MISSED = "SELECT s.id, s.mission, s.parent, s.agent, s.name, s.status, s.born, s.rev, s.at, s.sha, s.doc, s.gone, s.kind FROM event e \
              CROSS JOIN subject s WHERE e.project = ?1 AND e.rev > ?2 AND (e.change <> 'none' OR e.kind = 'value_repaired') \
              AND s.project = e.project AND s.kind = e.subject_kind AND s.id = e.subject LIMIT ?3";
}

/// The most projects that are cached at a time.
const PROJECTS: usize = 4;
/// The most subjects of a kind that is cached.
const MOST_ROWS: u64 = 20_000;
/// The most bytes of all texts in the cache: a kind that does not fit is not cached.
const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// The most changes by others that are caught up with: after more, the cache begins anew.
const MOST_MISSED: u64 = 1_000;

#[derive(Default)]
pub(crate) struct WriteCaches {
    /// The caches of projects; the one used last is at the end.
    of: Vec<WriteCache>,
    /// The projects that were written to last and are not cached yet.
    last: Vec<String>,
}

impl WriteCaches {
    /// Brings the cache of a project up to the revision of its row, which the transaction holds.
    pub(crate) fn recall(
        &mut self,
        driver: &mut dyn Driver,
        project: &ProjectRow,
    ) -> Result<(), StoreError> {
        let mut cache = match self.of.iter().position(|it| it.project == project.id) {
            Some(at) => self.of.remove(at),
            // A connection that writes to many projects in turn would only load and forget.
            None if !self.is_again(&project.id) => return Ok(()),
            None => WriteCache::new(project),
        };
        if self.of.len() >= PROJECTS {
            self.of.remove(0);
        }
        cache.catch_up(driver, project)?;
        self.of.push(cache);
        Ok(())
    }

    /// Returns true when this project was one of the last that were written to.
    fn is_again(&mut self, project: &str) -> bool {
        let known = self.last.iter().position(|last| last == project);
        if let Some(at) = known {
            self.last.remove(at);
        } else if self.last.len() >= PROJECTS {
            self.last.remove(0);
        }
        self.last.push(project.to_owned());
        known.is_some()
    }

    pub(crate) fn of(&mut self, project: &str) -> Option<&mut WriteCache> {
        self.of.iter_mut().find(|it| it.project == project)
    }

    /// Forgets everything: the content of the store is unknown.
    pub(crate) fn forget(&mut self) {
        self.of.clear();
    }
}

pub(crate) struct WriteCache {
    project: String,
    history: String,
    rev: u64,
    /// The cached subjects by kind; none for a kind that is too large.
    indexes: HashMap<Kind, Option<KindIndex>>,
    /// The steps for going back, as long as the writes may be dropped.
    undo: Vec<Undo>,
    written: HashSet<Kind>,
    recent: RecentEvents,
}

enum Undo {
    /// An event of this mission was recorded.
    Told(MissionId),
    /// The newest events of this mission were read, with writes that may be dropped.
    Learned(MissionId),
    /// A kind was loaded, with writes that may be dropped.
    Loaded(Kind),
    PastValue(Kind, String, Option<Arc<CachedSubject>>),
    /// An agent's earlier sign of life.
    Heard(String, Option<Pulse>),
    /// The signs of life were read, with writes that may be dropped.
    HeardAll,
}

pub(crate) struct CachedSubject {
    pub(crate) row: SubjectRow,
    pub(crate) text: Arc<str>,
    /// The whole value in the journal that the next delta can be based on, where it is known.
    pub(crate) base: Option<Base>,
    /// True when the text has its hash.
    sound: bool,
    value: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// The part of a written value that the cache keeps.
pub(crate) enum KeptValue {
    /// The row alone: the text is in the journal alone.
    InJournal,
    Here {
        text: Arc<str>,
        base: Base,
        value: Arc<dyn Any + Send + Sync>,
    },
}

impl CachedSubject {
    fn new(row: SubjectRow, text: Arc<str>, sound: bool) -> Self {
        Self {
            row,
            text,
            base: None,
            sound,
            value: OnceLock::new(),
        }
    }

    /// The subject's value; none when its text is damaged or cannot be read.
    pub(crate) fn value<S: Subject>(&self) -> Option<&S> {
        self.any_value::<S>()?.downcast_ref::<S>()
    }

    /// The subject's value, shared with the cache, likewise.
    pub(crate) fn shared_value<S: Subject>(&self) -> Option<Arc<S>> {
        Arc::clone(self.any_value::<S>()?).downcast().ok()
    }

    fn any_value<S: Subject>(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        if !self.sound {
            return None;
        }
        if self.value.get().is_none() {
            let value: S = read_stored(&self.text).ok()?;
            let _ = self.value.set(Arc::new(value));
        }
        self.value.get()
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.sound
    }

    /// The length of the subject's texts in bytes.
    fn bytes(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |base| base.text.len());
        (self.text.len() + base) as u64
    }
}

impl WriteCache {
    fn new(project: &ProjectRow) -> Self {
        Self {
            project: project.id.clone(),
            history: project.history.clone(),
            rev: project.rev,
            indexes: HashMap::new(),
            undo: Vec::new(),
            written: HashSet::new(),
            recent: RecentEvents::default(),
        }
    }

    /// Reads the writes of others since.
    fn catch_up(
        &mut self,
        driver: &mut dyn Driver,
        project: &ProjectRow,
    ) -> Result<(), StoreError> {
        self.settle();
        if self.history != project.history || self.rev > project.rev {
            *self = Self::new(project);
        }
        if self.rev < project.rev {
            self.recent.forget();
        }
        if self.rev < project.rev && !self.indexes.is_empty() {
            let missed =
                driver.query(MISSED, params![project.id.as_str(), self.rev, MOST_MISSED])?;
            if missed.len() as u64 >= MOST_MISSED {
                *self = Self::new(project);
            }
            for row in missed {
                let id = row.text(0)?;
                let (kind, entry) = read(row)?;
                self.put(kind, &id, entry);
            }
        }
        self.settle();
        self.rev = project.rev;
        Ok(())
    }

    /// Forgets how to go back: the writes can no longer be dropped.
    fn settle(&mut self) {
        self.undo.clear();
        self.written.clear();
    }

    /// Takes the state of the project after a commit: none of its writes is taken back any more.
    pub(crate) fn stands_at(&mut self, project: &ProjectRow) {
        self.settle();
        self.rev = project.rev;
        if self.history != project.history {
            *self = Self::new(project);
        }
    }

    /// Returns a place to come back to.
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Goes back to a mark: the writes since were dropped.
    pub(crate) fn go_back(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Loaded(kind)) => drop(self.indexes.remove(&kind)),
                Some(Undo::Told(mission)) => self.recent.take_back(mission),
                Some(Undo::Learned(mission)) => self.recent.forget_mission(mission),
                Some(Undo::Heard(agent, before)) => self.recent.restore_pulse(&agent, before),
                Some(Undo::HeardAll) => self.recent.forget_pulses(),
                Some(Undo::PastValue(kind, id, before)) => {
                    if let Some(Some(index)) = self.indexes.get_mut(&kind) {
                        index.put(&id, before);
                    }
                }
                None => return,
            }
        }
    }

    pub(crate) fn newest_event(
        &self,
        mission: MissionId,
        fits: &mut dyn FnMut(&Event) -> bool,
    ) -> RecentLookup<'_> {
        self.recent.newest(mission, fits)
    }

    /// Remembers the newest events of a mission, newest first; `whole` when there are no others.
    pub(crate) fn learn_events(&mut self, mission: MissionId, events: &[Event], whole: bool) {
        self.recent.learn(mission, events, whole);
        self.undo.push(Undo::Learned(mission));
    }

    pub(crate) fn tell(&mut self, event: &NewEvent<'_>) {
        let told = self.recent.add(event);
        self.undo.extend(told.map(Undo::Told));
    }

    /// Forgets the events: they are changed behind the cache's back.
    pub(crate) fn forget_events(&mut self) {
        self.recent.forget();
    }

    /// The signs of life, as far as this transaction knows them.
    pub(crate) fn pulses(&self) -> Option<&Vec<Pulse>> {
        self.recent.pulses()
    }

    pub(crate) fn learn_pulses(&mut self, pulses: Vec<Pulse>, now: Time) {
        self.recent.learn_pulses(pulses, now);
        self.undo.push(Undo::HeardAll);
    }

    /// Returns true when the signs of life, once they are read, stay known from one write to the next.
    pub(crate) fn follows_pulses(&self) -> bool {
        self.recent.follows_pulses()
    }

    /// Forgets the signs of life, unless the database has this version and had it when they were known last.
    pub(crate) fn keep_pulses(&mut self, version: Option<u64>) {
        self.recent.keep_pulses(version);
    }

    /// Reads the signs of life, unless they were read a moment ago.
    pub(crate) fn hear(&mut self, driver: &mut dyn Driver, now: Time) -> Result<(), StoreError> {
        if !self.recent.has_fresh_pulses(now) {
            let pulses = pulse::all(driver, &self.project)?;
            self.recent.learn_pulses(pulses, now);
        }
        Ok(())
    }

    /// Remembers a sign of life. Returns false when it tells nothing new: then it need not be noted.
    pub(crate) fn beat(&mut self, agent: &str, epoch: u64, at: Time, data: &Json) -> bool {
        let beat = self.recent.beat(agent, epoch, at, data);
        self.heard(agent, beat)
    }

    /// Remembers a sign of life of the past that was noted.
    pub(crate) fn record_past_pulse(&mut self, agent: &str, epoch: u64, at: Time) {
        let beat = self.recent.record_past_pulse(agent, epoch, at);
        self.heard(agent, beat);
    }

    fn heard(&mut self, agent: &str, beat: PulseNews) -> bool {
        match beat {
            PulseNews::Known => false,
            PulseNews::Unknown => true,
            PulseNews::News(before) => {
                self.undo.push(Undo::Heard(agent.to_owned(), before));
                true
            }
        }
    }

    /// Forgets a kind: it is changed behind the cache's back.
    pub(crate) fn forget(&mut self, kind: Kind) {
        self.written.insert(kind);
        self.indexes.remove(&kind);
    }

    fn put(&mut self, kind: Kind, id: &str, entry: Option<Arc<CachedSubject>>) {
        let Some(Some(index)) = self.indexes.get_mut(&kind) else {
            return;
        };
        let before = index.put(id, entry);
        let too_large = index.is_too_large();
        self.undo.push(Undo::PastValue(kind, id.to_owned(), before));
        if too_large {
            self.indexes.insert(kind, None);
            self.undo.push(Undo::Loaded(kind));
        }
    }

    /// Remembers a value that is written; `is_new` when nothing can have had its id before.
    pub(crate) fn set(
        &mut self,
        driver: &mut dyn Driver,
        value: &subject::NewValue<'_>,
        kept: KeptValue,
        is_new: bool,
    ) -> Result<(), StoreError> {
        self.written.insert(value.kind);
        let Some(Some(index)) = self.indexes.get(&value.kind) else {
            return Ok(());
        };
        let born = match index.get(value.id) {
            Some(known) => known.row.born,
            None if is_new => value.rev,
            // The subject may have been there before, and been removed.
            None => {
                subject::born(driver, value.project, value.kind, value.id)?.unwrap_or(value.rev)
            }
        };
        let row = row_of(value, value.keys, born);
        let entry = match kept {
            KeptValue::InJournal => CachedSubject::new(row, "".into(), false),
            KeptValue::Here { text, base, value } => CachedSubject {
                base: Some(base),
                value: OnceLock::from(value),
                ..CachedSubject::new(row, text, true)
            },
        };
        self.put(value.kind, value.id, Some(Arc::new(entry)));
        Ok(())
    }

    /// Returns true when the subject exists, and is found by exactly these keys.
    pub(crate) fn is_found_by(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        id: &str,
        keys: &Keys,
    ) -> Result<bool, StoreError> {
        let Some(Some(entry)) = self.get(driver, kind, id)? else {
            return Ok(false);
        };
        let row = &entry.row;
        Ok(keys.percent.is_none()
            && row.mission == keys.mission.map(|id| id.to_string())
            && row.parent == keys.parent
            && row.agent == keys.agent.map(|id| id.to_string())
            && row.name == keys.name
            && row.status == keys.status)
    }

    /// Forgets a subject that was removed.
    pub(crate) fn remove(&mut self, kind: Kind, id: &str) {
        self.written.insert(kind);
        self.put(kind, id, None);
    }
}

fn load(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    room: u64,
) -> Result<Option<KindIndex>, StoreError> {
    let size = driver.query(SIZE, params![project, kind.as_str()])?;
    let (rows, bytes) = match size.first() {
        Some(row) => (row.unsigned(0)?, row.unsigned(1)?),
        None => (0, 0),
    };
    if rows > MOST_ROWS || bytes > room {
        return Ok(None);
    }
    let mut index = KindIndex::new(kind);
    for row in driver.query(LOAD, params![project, kind.as_str()])? {
        let id = row.text(0)?;
        let (_, entry) = read(row)?;
        index.put(&id, entry);
    }
    Ok(Some(index))
}

/// Reads a row of [`LOAD`] or [`MISSED`]; none when the subject is gone.
fn read(mut row: Row) -> Result<(Kind, Option<Arc<CachedSubject>>), StoreError> {
    let kind = event::kind(&row.take_text(12)?)?;
    if row.opt_int(11)?.is_some() {
        return Ok((kind, None));
    }
    let text = row.take_opt_text(10)?.unwrap_or_default();
    let stored = subject::from_row(row)?;
    let sound = sha256_hex(&text) == stored.sha;
    Ok((
        kind,
        Some(Arc::new(CachedSubject::new(stored, text.into(), sound))),
    ))
}

fn row_of(value: &subject::NewValue<'_>, keys: &Keys, born: u64) -> SubjectRow {
    SubjectRow {
        id: value.id.to_owned(),
        mission: keys.mission.map(|id| id.to_string()),
        parent: keys.parent.clone(),
        agent: keys.agent.map(|id| id.to_string()),
        name: keys.name.clone(),
        status: keys.status.to_owned(),
        born,
        rev: value.rev,
        at: value.at,
        sha: value.sha.to_owned(),
    }
}
