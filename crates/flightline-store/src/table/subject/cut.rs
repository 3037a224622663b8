//! The subjects that a checkpoint names when it is taken now, and the checkpoints nearest to a revision.

use flightline_core::checkpoint::DigestLine;
use flightline_core::{Kind, MissionId};

use crate::engine::Driver;
use crate::error::StoreError;
use crate::table::event::StoredEvent;
use crate::table::statements;
use crate::value::{Row, params};

statements! {
    LINES = "SELECT kind, id, rev, sha FROM subject WHERE project = ?1 AND mission = ?2 AND gone IS NULL \
           AND kind IN ('mission', 'sortie', 'subtask', 'file', 'error', 'review', 'agent', 'step', 'lock', 'message', 'delivery', 'note', 'effect') \
           UNION ALL SELECT kind, id, rev, sha FROM subject WHERE project = ?1 AND mission IS NULL AND gone IS NULL \
           AND kind IN ('agent', 'step', 'lock')";
    CUT_NOW = "SELECT kind, id, rev, sha, doc FROM subject WHERE project = ?1 AND mission = ?2 AND gone IS NULL \
           AND kind IN ('mission', 'sortie', 'subtask', 'file', 'error', 'review', 'agent', 'step', 'lock', 'message', 'delivery', 'note', 'effect') \
           UNION ALL SELECT kind, id, rev, sha, doc FROM subject WHERE project = ?1 AND mission IS NULL AND gone IS NULL \
           AND kind IN ('agent', 'step', 'lock')";
    CUT_BEFORE = "SELECT id FROM subject WHERE project = ?1 AND kind = 'checkpoint' AND gone IS NULL \
           AND (CAST(?2 AS TEXT) IS NULL OR mission = ?2) AND born <= ?3 ORDER BY born DESC, id LIMIT 1";
    CUT_AFTER = "SELECT id FROM subject WHERE project = ?1 AND kind = 'checkpoint' AND gone IS NULL \
           AND (CAST(?2 AS TEXT) IS NULL OR mission = ?2) AND born > ?3 ORDER BY born, id LIMIT 1";
}

/// The kinds of a mission that a checkpoint names, as [`LINES`] and others list them.
pub(crate) const CUT: [Kind; 13] = [
    Kind::Mission,
    Kind::Sortie,
    Kind::Subtask,
    Kind::File,
    Kind::Error,
    Kind::Review,
    Kind::Agent,
    Kind::Step,
    Kind::Lock,
    Kind::Message,
    Kind::Delivery,
    Kind::Note,
    Kind::Effect,
];
/// The kinds of a checkpoint whose subjects may belong to no mission, and then to all.
pub(crate) const CUT_OF_ALL: [Kind; 3] = [Kind::Agent, Kind::Step, Kind::Lock];

/// Returns the lines of a checkpoint of `mission` taken now: each value by its revision and hash. They are in no order: by
/// kind and id, both engines would look through every mission of the project instead of using the index by mission. The
/// caller that hashes them sorts them.
pub(crate) fn lines(
    driver: &mut dyn Driver,
    project: &str,
    mission: MissionId,
) -> Result<Vec<DigestLine>, StoreError> {
    let rows = driver.query(LINES, params![project, mission.to_string()])?;
    rows.iter().map(line).collect()
}

fn line(row: &Row) -> Result<DigestLine, StoreError> {
    let kind = row.text(0)?;
    Ok(DigestLine {
        kind: kind
            .parse()
            .map_err(|error: flightline_core::subject::UnknownKind| {
                StoreError::Corrupt(error.to_string())
            })?,
        id: row.text(1)?,
        rev: row.unsigned(2)?,
        sha: row.text(3)?,
    })
}

/// Returns the values that [`lines`] names, with their texts, unchecked; by kind and id.
pub(crate) fn cut_now(
    driver: &mut dyn Driver,
    project: &str,
    mission: MissionId,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = driver.query(CUT_NOW, params![project, mission.to_string()])?;
    let mut values = Vec::with_capacity(rows.len());
    for row in &rows {
        let DigestLine { kind, id, rev, sha } = line(row)?;
        let text = row.text(4)?;
        values.push(StoredEvent {
            kind,
            id,
            rev,
            text,
            sha,
        });
    }
    Ok(in_order(values))
}

/// Sorts values by kind and id.
pub(crate) fn in_order(mut values: Vec<StoredEvent>) -> Vec<StoredEvent> {
    values.sort_by(|a, b| (a.kind.as_str(), &a.id).cmp(&(b.kind.as_str(), &b.id)));
    values
}

/// Returns the checkpoints just before and just after a revision. The record of a checkpoint comes right after the
/// revision it names.
pub(crate) fn nearest(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    mission: Option<MissionId>,
) -> Result<Vec<String>, StoreError> {
    let mission = mission.map(|id| id.to_string());
    let mut found = Vec::new();
    for sql in [CUT_BEFORE, CUT_AFTER] {
        let rows = driver.query(
            sql,
            params![project, mission.as_deref(), rev.saturating_add(1)],
        )?;
        for row in &rows {
            found.push(row.text(0)?);
        }
    }
    Ok(found)
}
