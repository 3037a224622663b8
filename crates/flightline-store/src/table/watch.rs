//! Waiting agents: the time since which an agent has been asking for a lock that is held, beside the journal.

use flightline_core::lock::LockWatch;
use flightline_core::{LockId, Time};

use super::statements;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::value::{params, values};

statements! {
    OF = "SELECT lock, since, at, sum FROM watch WHERE project = ?1 AND lock = ?2";
    SET = "INSERT INTO watch (project, lock, since, at, sum) VALUES (?1, ?2, ?3, ?4, ?5) \
           ON CONFLICT (project, lock) DO UPDATE SET since = excluded.since, at = excluded.at, sum = excluded.sum";
    END = "DELETE FROM watch WHERE project = ?1 AND lock = ?2";
    FORGET_ALL = "DELETE FROM watch WHERE project = ?1";
    FORGET = "DELETE FROM watch WHERE project = ?1 AND NOT EXISTS (SELECT 1 FROM subject s WHERE s.project = watch.project \
              AND s.kind = 'lock' AND s.id = watch.lock AND s.gone IS NULL)";
}

pub(crate) fn of(
    driver: &mut dyn Driver,
    project: &str,
    lock: LockId,
) -> Result<Option<LockWatch>, StoreError> {
    let rows = driver.query(OF, params![project, lock.to_string()])?;
    // A damaged row says nothing: the present caller is the first.
    let sound = rows
        .first()
        .filter(|row| seal::has_its_sum(row).unwrap_or(false));
    let Some(row) = sound else {
        return Ok(None);
    };
    Ok(Some(LockWatch {
        since: Time::from_millis(row.int(1)?),
        at: Time::from_millis(row.int(2)?),
    }))
}

pub(crate) fn set(
    driver: &mut dyn Driver,
    project: &str,
    lock: LockId,
    watch: LockWatch,
) -> Result<(), StoreError> {
    let (lock, since, at) = (
        lock.to_string(),
        watch.since.as_millis(),
        watch.at.as_millis(),
    );
    let sum = seal::sum(params![lock.as_str(), since, at]);
    driver.post(SET, values![project, lock, since, at, sum])
}

pub(crate) fn end(driver: &mut dyn Driver, project: &str, lock: LockId) -> Result<(), StoreError> {
    driver.post(END, values![project, lock.to_string()])
}

/// Forgets all watches: a wait observed by a clock that jumped proves nothing.
pub(crate) fn forget_all(driver: &mut dyn Driver, project: &str) -> Result<(), StoreError> {
    driver.execute(FORGET_ALL, params![project]).map(drop)
}

/// Forgets the watches of locks that are gone.
pub(crate) fn forget(driver: &mut dyn Driver, project: &str) -> Result<(), StoreError> {
    driver.execute(FORGET, params![project]).map(drop)
}
