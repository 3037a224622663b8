//! Puts a state of the past together out of the journal: the value that each subject had at a revision, and the lost
//! events for which a value may be older than it should be.

use std::collections::{BTreeSet, HashMap};

use flightline_core::MissionId;
use flightline_core::event::Change;

use super::{StoredEvent, change, kind, query_values};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::table::statements;
use crate::value::{Row, params};

statements! {
    AT_ALL = "SELECT s.kind, s.id, e.rev, e.change, e.after, e.sha, s.rev, s.gone, e.base, (SELECT b.after FROM event b WHERE b.project = e.project AND b.rev = e.base) FROM subject s LEFT JOIN event e \
              ON e.project = s.project AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project \
              AND x.subject_kind = s.kind AND x.subject = s.id AND x.rev <= ?2 AND x.change <> 'none') \
              WHERE s.project = ?1 AND s.born <= ?2 ORDER BY s.kind, s.id";
    AT_MISSION = "SELECT s.kind, s.id, e.rev, e.change, e.after, e.sha, s.rev, s.gone, e.base, (SELECT b.after FROM event b WHERE b.project = e.project AND b.rev = e.base) FROM subject s LEFT JOIN event e \
              ON e.project = s.project AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project \
              AND x.subject_kind = s.kind AND x.subject = s.id AND x.rev <= ?2 AND x.change <> 'none') \
              WHERE s.project = ?1 AND s.born <= ?2 AND (s.mission = ?3 OR s.kind = 'lock') \
              AND (s.kind <> 'lock' OR e.mission = ?3 OR (e.rev IS NULL AND s.mission = ?3)) ORDER BY s.kind, s.id";
    // By the records up to the revision, whatever became of them since. Of all that a cut names only a lock can have belonged
    // to another mission than its row says now (those that older versions moved): the rows lead to everything else.
    AT_CUT = "SELECT s.kind, s.id, e.rev, e.change, e.after, e.sha, s.rev, s.gone, e.base, (SELECT b.after FROM event b WHERE b.project = e.project AND b.rev = e.base) FROM ( \
              SELECT kind, id, rev, gone FROM subject WHERE project = ?1 AND gone IS NULL AND mission = ?3 AND born <= ?2 \
              AND kind IN ('mission', 'sortie', 'subtask', 'file', 'error', 'review', 'agent', 'step', 'lock', 'message', 'delivery', 'note', 'effect') \
              UNION ALL SELECT kind, id, rev, gone FROM subject WHERE project = ?1 AND gone IS NULL AND mission IS NULL AND born <= ?2 \
              AND kind IN ('agent', 'step', 'lock') \
              UNION ALL SELECT kind, id, rev, gone FROM subject WHERE project = ?1 AND gone IS NULL AND kind = 'lock' AND name >= '' AND mission <> ?3 \
              AND born <= ?2 AND rev > ?2 \
              UNION ALL SELECT kind, id, rev, gone FROM subject WHERE project = ?1 AND gone > ?2 AND born <= ?2 \
              AND (mission = ?3 OR kind = 'lock' OR (mission IS NULL AND kind IN ('agent', 'step'))) \
              AND kind IN ('mission', 'sortie', 'subtask', 'file', 'error', 'review', 'agent', 'step', 'lock', 'message', 'delivery', 'note', 'effect')) s LEFT JOIN event e \
              ON e.project = ?1 AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = ?1 \
              AND x.subject_kind = s.kind AND x.subject = s.id AND x.rev <= ?2 AND x.change <> 'none') \
              WHERE s.rev <= ?2 OR s.kind <> 'lock' OR e.mission = ?3 OR e.mission IS NULL ORDER BY s.kind, s.id";
    LINKS = "SELECT rev, prev, seal, subject_kind, subject, change, CAST(CASE WHEN sha IS NULL THEN 0 ELSE 1 END AS BIGINT) FROM event \
             WHERE project = ?1 AND rev >= ?2 AND rev <= ?3 ORDER BY rev LIMIT ?4";
    HAS_ROW = "SELECT rev FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
}

const LINKS_AT_ONCE: u64 = 1_000;
/// The column of a state of the past that holds the text of a value.
const AT_TEXT: usize = 4;
/// The most lost events that are named.
const LOST_AT_MOST: usize = 20;

#[derive(Debug)]
pub(crate) struct ValuesAt {
    /// The values of the subjects that were there.
    pub(crate) values: Vec<StoredEvent>,
    /// The revision after which an event must be lost for one of the values to be older than it should be. None where the
    /// subjects' own rows say that each was changed no more.
    pub(crate) unsure_after: Option<u64>,
}

/// Returns every subject's value at `rev`, those gone by then left out.
pub(crate) fn state_at(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    mission: Option<MissionId>,
) -> Result<ValuesAt, StoreError> {
    let rows = match mission {
        Some(mission) => {
            let params = params![project, rev, mission.to_string()];
            query_values(driver, AT_MISSION, params, AT_TEXT)?
        }
        None => query_values(driver, AT_ALL, params![project, rev], AT_TEXT)?,
    };
    read_state(rows, rev)
}

/// Returns the first few events from one revision to another that are lost, or give a value to a subject that does not
/// exist: the subjects they changed show an older value. An event that names another subject than it did, or another
/// change, can be found without reading it. `sound` are values whose subjects are known to have rows.
pub(crate) fn lost_between(
    driver: &mut dyn Driver,
    project: &str,
    (first, last): (u64, u64),
    sound: &[StoredEvent],
) -> Result<BTreeSet<u64>, StoreError> {
    let mut has_row: HashMap<(String, String), bool> = sound
        .iter()
        .map(|value| ((value.kind.as_str().to_owned(), value.id.clone()), true))
        .collect();
    let (mut lost, mut next, mut before) = (BTreeSet::new(), first, None);
    loop {
        let rows = driver.query(LINKS, params![project, next, last, LINKS_AT_ONCE])?;
        let all = (rows.len() as u64) < LINKS_AT_ONCE;
        for mut row in rows {
            let rev = row.unsigned(0)?;
            let (prev, seal) = (row.take_text(1)?, row.take_text(2)?);
            let subject = (row.take_text(3)?, row.take_text(4)?);
            let is_nobodys = match row.take_text(5)? == Change::None.as_str() {
                true => row.int(6)? == 1,
                false => match has_row.get(&subject) {
                    Some(has_row) => !has_row,
                    None => {
                        let (kind, id) = (subject.0.as_str(), subject.1.as_str());
                        let found = driver.query(HAS_ROW, params![project, kind, id])?;
                        has_row.insert(subject, !found.is_empty());
                        found.is_empty()
                    }
                },
            };
            if is_nobodys {
                lost.insert(rev);
            } else if before.is_some_and(|before| before != prev) {
                lost.insert(rev - 1);
            }
            (before, next) = (Some(seal), rev + 1);
        }
        if all || lost.len() >= LOST_AT_MOST {
            return Ok(lost);
        }
    }
}

/// Returns the values that a checkpoint of `mission` at exactly `rev` names.
pub(crate) fn values_at(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    mission: MissionId,
) -> Result<ValuesAt, StoreError> {
    let params = params![project, rev, mission.to_string()];
    let rows = query_values(driver, AT_CUT, params, AT_TEXT)?;
    read_state(rows, rev)
}

fn read_state(rows: Vec<Row>, rev: u64) -> Result<ValuesAt, StoreError> {
    let (mut state, mut unsure_after) = (Vec::with_capacity(rows.len()), None::<u64>);
    for mut row in rows {
        let (kind, id) = (kind(&row.take_text(0)?)?, row.take_text(1)?);
        let (told, last) = (row.opt_unsigned(2)?, row.unsigned(6)?);
        // The row says which change was the last one: if it is another, one of those between them may be lost.
        if told != Some(last) {
            let known = told.unwrap_or(0);
            unsure_after = Some(unsure_after.map_or(known, |unsure| unsure.min(known)));
        }
        // The row knows of a value whose event is lost: an older one must not pass for it.
        if last <= rev && told != Some(last) && row.opt_int(7)?.is_none() {
            let (text, sha) = (String::new(), String::new());
            state.push(StoredEvent {
                kind,
                id,
                rev: last,
                text,
                sha,
            });
            continue;
        }
        let (Some(told), Some(word)) = (told, row.take_opt_text(3)?) else {
            continue;
        };
        // A word that is none was damaged, and says nothing of an older value either.
        match change(&word).unwrap_or(Change::Set) {
            Change::Set => {
                state.push(StoredEvent {
                    kind,
                    id,
                    rev: told,
                    text: row.take_opt_text(4)?.unwrap_or_default(),
                    sha: row.take_opt_text(5)?.unwrap_or_default(),
                });
            }
            Change::Thinned => {
                return Err(StoreError::Thinned {
                    subject: id,
                    rev,
                    nearest: Vec::new(),
                });
            }
            Change::Gone | Change::None => {}
        }
    }
    Ok(ValuesAt {
        values: state,
        unsure_after,
    })
}
