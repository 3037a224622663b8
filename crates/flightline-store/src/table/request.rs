//! Idempotency keys and the outcome of the first request that used each.

use flightline_core::Time;

use super::project::ProjectRow;
use super::statements;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::value::{params, values};

statements! {
    GET = "SELECT actor, key, hash, outcome, at, sum FROM request WHERE project = ?1 AND actor = ?2 AND key = ?3";
    INSERT = "INSERT INTO request (project, actor, key, hash, outcome, at, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    ANY_OLD = "SELECT key FROM request WHERE project = ?1 AND at < ?2 AND at >= ?3 ORDER BY at, actor, key LIMIT 1";
    FORGET = "DELETE FROM request WHERE project = ?1 AND at < ?2 AND at >= ?3";
}

/// The time in milliseconds for which an outcome is remembered.
const REMEMBERED: u64 = 30 * 86_400_000;

pub(crate) struct Remembered {
    pub(crate) hash: String,
    pub(crate) outcome: String,
}

pub(crate) fn get(
    driver: &mut dyn Driver,
    project: &str,
    actor: &str,
    key: &str,
) -> Result<Option<Remembered>, StoreError> {
    match driver.query(GET, params![project, actor, key])?.first() {
        Some(row) if !seal::has_its_sum(row)? => Err(StoreError::Corrupt(
            "the stored outcome of the request with this key is damaged".to_owned(),
        )),
        Some(row) => Ok(Some(Remembered {
            hash: row.text(2)?,
            outcome: row.text(3)?,
        })),
        None => Ok(None),
    }
}

/// Returns true when there are outcomes whose time is over.
pub(crate) fn any_old(
    driver: &mut dyn Driver,
    project: &ProjectRow,
    now: Time,
) -> Result<bool, StoreError> {
    let (from, to) = old(project, now);
    let rows = driver.query(ANY_OLD, params![project.id.as_str(), to, from])?;
    Ok(!rows.is_empty())
}

pub(crate) fn forget(
    driver: &mut dyn Driver,
    project: &ProjectRow,
    now: Time,
) -> Result<u64, StoreError> {
    let (from, to) = old(project, now);
    driver.execute(FORGET, params![project.id.as_str(), to, from])
}

/// The range of times of outcomes that are too old. An outcome dated before the project was made was noted by a clock that
/// was behind, and may be of today.
fn old(project: &ProjectRow, now: Time) -> (i64, i64) {
    let to = now.minus(REMEMBERED).as_millis();
    (project.created_at.as_millis(), to)
}

pub(crate) fn insert(
    driver: &mut dyn Driver,
    project: &str,
    actor: &str,
    key: &str,
    remembered: &Remembered,
    now: Time,
) -> Result<(), StoreError> {
    let (hash, outcome) = (remembered.hash.as_str(), remembered.outcome.as_str());
    let at = now.as_millis();
    let sum = seal::sum(params![actor, key, hash, outcome, at]);
    driver.post(INSERT, values![project, actor, key, hash, outcome, at, sum])
}
