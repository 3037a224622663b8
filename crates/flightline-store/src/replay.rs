//! Reads the journal of a mission in pages, forwards and back, with the values that events gave. A mission's part of the
//! journal is that of its checkpoints: its own subjects, all agents, and locks of no mission.

use flightline_core::checkpoint::section_of;
use flightline_core::event::{Change, Event};
use flightline_core::{Kind, MissionId};

use crate::StoredEvent;
use crate::error::StoreError;
use crate::seal;
use crate::table::event::{change, intact_rows, query_values};
use crate::table::subject;
use crate::table::{event, statements};
use crate::tx::Tx;
use crate::value::{Row, params};

// Two statements and a merge instead of one with OR: each runs along its index and stops at its limit.
statements! {
    OWN_AFTER = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event \
                 WHERE project = ?1 AND mission = ?2 AND rev > ?3 ORDER BY rev LIMIT ?4";
    OWN_BEFORE = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event \
                  WHERE project = ?1 AND mission = ?2 AND rev < ?3 ORDER BY rev DESC LIMIT ?4";
    FREE_AFTER = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event \
                  WHERE project = ?1 AND mission IS NULL AND rev > ?2 AND subject_kind IN ('agent', 'step', 'lock') \
                  ORDER BY rev LIMIT ?3";
    FREE_BEFORE = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event \
                   WHERE project = ?1 AND mission IS NULL AND rev < ?2 AND subject_kind IN ('agent', 'step', 'lock') \
                   ORDER BY rev DESC LIMIT ?3";
    LAST_CHANGE = "SELECT rev, change, after, sha, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event WHERE project = ?1 AND subject_kind = ?2 AND subject = ?3 \
                   AND rev < ?4 AND change <> 'none' ORDER BY rev DESC LIMIT 1";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// The events after a revision, oldest first.
    After(u64),
    /// The events before a revision, newest first.
    Before(u64),
}

#[derive(Clone, Debug)]
pub struct ReplayEvent {
    pub event: Event,
    /// The state of the subject after the event; none when the event changed nothing that a checkpoint names.
    pub after: Option<PastValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastValue {
    /// The subject had this value, which was checked against its hash.
    There(StoredEvent),
    /// The subject was not there: not yet, or not any more.
    NotThere,
    /// Retention has taken that value.
    Thinned,
    /// No copy of that value is sound.
    Damaged,
}

impl Tx<'_> {
    /// Returns events of a mission, at most `limit`, from one place in the journal onwards.
    pub fn happenings(
        &mut self,
        mission: MissionId,
        way: ReplayFrom,
        limit: u64,
    ) -> Result<Vec<ReplayEvent>, StoreError> {
        let (project, id) = (self.project.id.as_str(), mission.to_string());
        let (own, free, rev) = match way {
            ReplayFrom::After(rev) => (OWN_AFTER, FREE_AFTER, rev),
            ReplayFrom::Before(rev) => (OWN_BEFORE, FREE_BEFORE, rev),
        };
        let driver = &mut *self.driver;
        let own = intact_rows(limit, |last, limit| {
            let params = params![project, id.as_str(), last.unwrap_or(rev), limit];
            query_values(driver, own, params, seal::AFTER)
        })?;
        let free = intact_rows(limit, |last, limit| {
            let params = params![project, last.unwrap_or(rev), limit];
            query_values(driver, free, params, seal::AFTER)
        })?;
        let mut read = self.intact(own);
        read.extend(self.intact(free));
        read.sort_by_key(|(event, _)| event.rev);
        if let ReplayFrom::Before(_) = way {
            read.reverse();
        }
        read.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        read.into_iter()
            .map(|(event, row)| {
                let value = |row: &Row| text_and_sha(row, seal::AFTER, seal::SHA);
                let (kind, id, rev) = (event.subject_kind, event.subject.clone(), event.rev);
                let after = match event.change {
                    Change::None => None,
                    _ if section_of(kind).is_none() => None,
                    change => Some(self.was(kind, &id, rev, change, value(&row)?)?),
                };
                Ok(ReplayEvent { event, after })
            })
            .collect()
    }

    pub fn was_before(&mut self, kind: Kind, id: &str, rev: u64) -> Result<PastValue, StoreError> {
        let project = self.project.id.as_str();
        let params = params![project, kind.as_str(), id, rev];
        let rows = query_values(self.driver, LAST_CHANGE, params, 2)?;
        match rows.first() {
            None => Ok(PastValue::NotThere),
            Some(row) => {
                let Ok(change) = change(&row.text(1)?) else {
                    return Ok(PastValue::Damaged);
                };
                self.was(kind, id, row.unsigned(0)?, change, text_and_sha(row, 2, 3)?)
            }
        }
    }

    fn was(
        &mut self,
        kind: Kind,
        id: &str,
        rev: u64,
        change: Change,
        (text, sha): (String, String),
    ) -> Result<PastValue, StoreError> {
        match change {
            Change::Gone | Change::None => Ok(PastValue::NotThere),
            Change::Thinned => Ok(PastValue::Thinned),
            Change::Set => {
                let id = id.to_owned();
                match self.sound_value(StoredEvent {
                    kind,
                    id,
                    rev,
                    text,
                    sha,
                }) {
                    Ok(value) => Ok(PastValue::There(value)),
                    Err(StoreError::Corrupt(_)) => Ok(PastValue::Damaged),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Returns the first revision of the request that a revision belongs to; none when there is no such revision.
    pub fn step_of(&mut self, rev: u64) -> Result<Option<u64>, StoreError> {
        event::step_of(self.driver, &self.project.id, rev)
    }

    /// The checkpoints of a mission just before and just after a revision, whose values are kept.
    pub fn nearest_checkpoints(
        &mut self,
        rev: u64,
        mission: MissionId,
    ) -> Result<Vec<String>, StoreError> {
        subject::nearest(self.driver, &self.project.id, rev, Some(mission))
    }
}

fn text_and_sha(row: &Row, text: usize, sha: usize) -> Result<(String, String), StoreError> {
    Ok((
        row.opt_text(text)?.unwrap_or_default(),
        row.opt_text(sha)?.unwrap_or_default(),
    ))
}
