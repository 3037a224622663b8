//! The state of each checkpoint's file. It is kept beside the journal, like heartbeats: it says where files are, not where
//! the fleet stands.

use flightline_core::checkpoint::Backup;
use flightline_core::{CheckpointId, MissionId, Time};

use super::statements;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::value::{Row, params, values};

statements! {
    SET = "INSERT INTO backup (project, checkpoint, state, at, bytes, sha, why, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
           ON CONFLICT (project, checkpoint) DO UPDATE SET state = excluded.state, at = excluded.at, bytes = excluded.bytes, \
           sha = excluded.sha, why = excluded.why, sum = excluded.sum";
    OF = "SELECT checkpoint, state, at, bytes, sha, why, sum FROM backup WHERE project = ?1 AND checkpoint = ?2";
    ALL = "SELECT checkpoint, state, at, bytes, sha, why, sum FROM backup WHERE project = ?1 ORDER BY checkpoint";
    OF_NEWEST = "SELECT b.checkpoint, b.state, b.at, b.bytes, b.sha, b.why, b.sum FROM subject s \
           JOIN backup b ON b.project = s.project AND b.checkpoint = s.id \
           WHERE s.project = ?1 AND s.kind = 'checkpoint' AND s.mission = ?2 AND s.gone IS NULL \
           AND (CAST(?3 AS TEXT) IS NULL OR s.status <> ?3) AND s.born < ?4 ORDER BY s.born DESC LIMIT CAST(?5 AS BIGINT)";
    UNSETTLED = "SELECT checkpoint FROM backup WHERE project = ?1 AND state IN ('pending', 'failed') ORDER BY state DESC, at, checkpoint";
    WAITING = "SELECT b.checkpoint, b.state, s.mission, s.born, b.at FROM backup b \
           JOIN subject s ON s.project = b.project AND s.kind = 'checkpoint' AND s.id = b.checkpoint \
           WHERE b.project = ?1 AND b.state IN ('pending', 'failed') AND s.gone IS NULL ORDER BY b.state DESC, b.at, b.checkpoint LIMIT ?2";
    WRITTEN = "SELECT b.checkpoint, s.born, b.at FROM ( \
           SELECT project, id, born FROM subject WHERE project = ?1 AND kind = 'checkpoint' AND mission = ?2 AND gone IS NULL \
           ORDER BY born DESC LIMIT ?3) s JOIN backup b ON b.project = s.project AND b.checkpoint = s.id WHERE b.state = 'written'";
    NEWER = "SELECT s.born, b.state FROM ( \
           SELECT project, id, born FROM subject WHERE project = ?1 AND kind = 'checkpoint' AND mission = ?2 AND gone IS NULL AND born > ?3 \
           ORDER BY born DESC LIMIT ?4) s LEFT JOIN backup b ON b.project = s.project AND b.checkpoint = s.id ORDER BY s.born DESC";
    FORGET = "DELETE FROM backup WHERE project = ?1 AND checkpoint = ?2";
}

/// A checkpoint whose copy in a file is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingBackup {
    pub checkpoint: CheckpointId,
    pub mission: MissionId,
    /// The revision of the checkpoint's record.
    pub born: u64,
    pub is_new: bool,
    /// The time since which the checkpoint waits, or of the last attempt.
    pub since: Time,
}

/// A checkpoint that has its copy in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenBackup {
    pub checkpoint: CheckpointId,
    /// The revision of the checkpoint's record.
    pub born: u64,
    pub at: Time,
}

pub(crate) fn set(
    driver: &mut dyn Driver,
    project: &str,
    checkpoint: CheckpointId,
    backup: &Backup,
    now: Time,
) -> Result<(), StoreError> {
    // `why` also says, of a file that was written, on which node.
    let (state, at, bytes, sha, why) = match backup {
        Backup::Pending => ("pending", now, None, None, None),
        Backup::Written {
            at,
            bytes,
            sha256,
            node,
        } => (
            "written",
            *at,
            Some(*bytes),
            Some(sha256.as_str()),
            node.as_deref(),
        ),
        Backup::Failed { at, why } => ("failed", *at, None, None, Some(why.as_str())),
        Backup::Shared => ("shared", now, None, None, None),
    };
    let (checkpoint, at) = (checkpoint.to_string(), at.as_millis());
    let sum = seal::sum(params![checkpoint.as_str(), state, at, bytes, sha, why]);
    driver.post(
        SET,
        values![project, checkpoint, state, at, bytes, sha, why, sum],
    )
}

pub(crate) fn of(
    driver: &mut dyn Driver,
    project: &str,
    checkpoint: CheckpointId,
) -> Result<Option<Backup>, StoreError> {
    let rows = driver.query(OF, params![project, checkpoint.to_string()])?;
    Ok(intact(&rows)?.pop().map(|(_, backup)| backup))
}

pub(crate) fn all(
    driver: &mut dyn Driver,
    project: &str,
) -> Result<Vec<(CheckpointId, Backup)>, StoreError> {
    intact(&driver.query(ALL, params![project])?)
}

pub(crate) fn of_newest(
    driver: &mut dyn Driver,
    project: &str,
    mission: MissionId,
    without: Option<&str>,
    before: u64,
    limit: u64,
) -> Result<Vec<(CheckpointId, Backup)>, StoreError> {
    let of = params![project, mission.to_string(), without, before, limit];
    intact(&driver.query(OF_NEWEST, of)?)
}

pub(crate) fn unsettled(
    driver: &mut dyn Driver,
    project: &str,
) -> Result<Vec<CheckpointId>, StoreError> {
    let rows = driver.query(UNSETTLED, params![project])?;
    // A row that names no checkpoint is the doctor's business, and holds up no other.
    Ok(rows.iter().flat_map(checkpoint).collect())
}

/// The checkpoints that wait for a file, new ones first.
pub(crate) fn waiting(
    driver: &mut dyn Driver,
    project: &str,
    limit: u64,
) -> Result<Vec<WaitingBackup>, StoreError> {
    let rows = driver.query(WAITING, params![project, limit])?;
    let mut waiting = Vec::with_capacity(rows.len());
    for row in &rows {
        // A damaged row is the doctor's business, and holds up no other.
        if let (Ok(checkpoint), Ok(Ok(mission))) =
            (checkpoint(row), row.text(2).map(|id| id.parse()))
        {
            waiting.push(WaitingBackup {
                checkpoint,
                mission,
                is_new: row.text(1)? == "pending",
                born: row.unsigned(3)?,
                since: Time::from_millis(row.int(4)?),
            });
        }
    }
    Ok(waiting)
}

/// The number of newer checkpoints that are looked at for one with a file.
const NEWER_LOOKED_AT: u64 = 64;

/// Returns the revision of the record of a mission's newest checkpoint that has a file, if that is after `born`. When very
/// many are newer and none of those looked at has a file, the newest of them counts as if it had one: it will have its
/// file soon.
pub(crate) fn written_after(
    driver: &mut dyn Driver,
    project: &str,
    mission: MissionId,
    born: u64,
) -> Result<Option<u64>, StoreError> {
    let params = params![project, mission.to_string(), born, NEWER_LOOKED_AT];
    let rows = driver.query(NEWER, params)?;
    let many = rows.len() as u64 >= NEWER_LOOKED_AT;
    for row in &rows {
        if row.opt_text(1)?.as_deref() == Some("written") {
            return row.opt_unsigned(0);
        }
    }
    let newest = rows.first().filter(|_| many);
    newest.map(|row| row.unsigned(0)).transpose()
}

/// Returns those of a mission's newest checkpoints that have a file.
pub(crate) fn written(
    driver: &mut dyn Driver,
    project: &str,
    mission: MissionId,
    newest: u64,
) -> Result<Vec<WrittenBackup>, StoreError> {
    let rows = driver.query(WRITTEN, params![project, mission.to_string(), newest])?;
    let written = rows.iter().map(|row| {
        Ok(WrittenBackup {
            checkpoint: checkpoint(row)?,
            born: row.unsigned(1)?,
            at: Time::from_millis(row.int(2)?),
        })
    });
    written.collect()
}

pub(crate) fn forget(
    driver: &mut dyn Driver,
    project: &str,
    checkpoint: CheckpointId,
) -> Result<(), StoreError> {
    driver.post(FORGET, values![project, checkpoint.to_string()])
}

fn checkpoint(row: &Row) -> Result<CheckpointId, StoreError> {
    row.text(0)?
        .parse()
        .map_err(|_| StoreError::Corrupt("a backup names a checkpoint that is no id".to_owned()))
}

/// Reads the rows that are intact. A damaged row counts as if it were not there.
fn intact(rows: &[Row]) -> Result<Vec<(CheckpointId, Backup)>, StoreError> {
    let mut known = Vec::with_capacity(rows.len());
    for row in rows {
        if seal::has_its_sum(row)? {
            known.push(from_row(row)?);
        }
    }
    Ok(known)
}

fn from_row(row: &Row) -> Result<(CheckpointId, Backup), StoreError> {
    let at = Time::from_millis(row.int(2)?);
    let backup = match row.text(1)?.as_str() {
        "pending" => Backup::Pending,
        "written" => Backup::Written {
            at,
            bytes: row.unsigned(3)?,
            sha256: row.text(4)?,
            node: row.opt_text(5)?,
        },
        "failed" => Backup::Failed {
            at,
            why: row.text(5)?,
        },
        "shared" => Backup::Shared,
        word => {
            return Err(StoreError::Corrupt(format!(
                "`{word}` is not what becomes of a backup"
            )));
        }
    };
    Ok((checkpoint(row)?, backup))
}
