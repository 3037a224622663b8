//! Seals the journal of a store that was written before there were seals, and gives the rows beside it their sums. It
//! works in the transaction of the migration, and a page at a time: the journal may be larger than memory.

use crate::crash_points::CrashPoints;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::table::project::{self, ProjectRow};
use crate::table::pulse;
use crate::value::{Row, SqlValue, params};

/// The place of a journal without seals, from which and to which it is written.
pub(crate) enum Unsealed {
    /// The journal is in a table of its own, and each event is copied. Else every page of SQLite's table would be split.
    Apart,
    /// The journal is sealed in its own table.
    InPlace,
}

const READ_APART: &str = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha \
     FROM event_unsealed WHERE project = ?1 AND rev > ?2 ORDER BY rev LIMIT 500";
const WRITE_APART: &str = "INSERT INTO event (project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const READ_IN_PLACE: &str = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha \
     FROM event WHERE project = ?1 AND rev > ?2 ORDER BY rev LIMIT 500";
const WRITE_IN_PLACE: &str =
    "UPDATE event SET prev = ?3, seal = ?4 WHERE project = ?1 AND rev = ?2";
const SUBJECTS: &str = "SELECT kind, id, mission, parent, agent, name, status, percent FROM subject \
     WHERE project = ?1 AND (kind > ?2 OR (kind = ?2 AND id > ?3)) ORDER BY kind, id LIMIT 500";
const SUBJECT: &str = "UPDATE subject SET sum = ?4 WHERE project = ?1 AND kind = ?2 AND id = ?3";
const PULSES: &str = "SELECT agent, epoch, at, data FROM pulse WHERE project = ?1";
const PULSE: &str = "UPDATE pulse SET sum = ?3 WHERE project = ?1 AND agent = ?2";
const REQUESTS: &str = "SELECT actor, key, hash, outcome, at FROM request \
     WHERE project = ?1 AND (actor > ?2 OR (actor = ?2 AND key > ?3)) ORDER BY actor, key LIMIT 500";
const REQUEST: &str = "UPDATE request SET sum = ?4 WHERE project = ?1 AND actor = ?2 AND key = ?3";
const BACKUPS: &str = "SELECT checkpoint, state, at, bytes, sha, why FROM backup \
     WHERE project = ?1 AND (checkpoint > ?2 OR (checkpoint = ?2 AND state > ?3)) ORDER BY checkpoint, state LIMIT 500";
const BACKUP: &str =
    "UPDATE backup SET sum = ?4 WHERE project = ?1 AND checkpoint = ?2 AND state = ?3";

pub(crate) fn seal_all(
    steps: &CrashPoints,
    driver: &mut dyn Driver,
    unsealed: &Unsealed,
) -> Result<(), StoreError> {
    for id in project::list(driver)? {
        let last = seal_events(steps, driver, &id, unsealed)?;
        if let Some(row) = driver.take_project(&id, true)? {
            let mut project = ProjectRow::read(&id, &row)?;
            project.seal = last;
            project::advance(driver, &project)?;
        }
        add_sums(steps, driver, &id)?;
    }
    Ok(())
}

/// Seals the events of a project; returns the seal of the last one.
fn seal_events(
    steps: &CrashPoints,
    driver: &mut dyn Driver,
    project: &str,
    unsealed: &Unsealed,
) -> Result<String, StoreError> {
    let read = match unsealed {
        Unsealed::Apart => READ_APART,
        Unsealed::InPlace => READ_IN_PLACE,
    };
    let (mut prev, mut rev) = (String::new(), 0);
    loop {
        let rows = driver.query(read, params![project, rev])?;
        if rows.is_empty() {
            return Ok(prev);
        }
        steps.step();
        for Row(mut columns) in rows {
            let seal = seal::of_event(&columns, &prev);
            let SqlValue::Int(number) = columns[seal::REV] else {
                return Err(StoreError::Corrupt("a revision is no number".to_owned()));
            };
            rev = number.unsigned_abs();
            match unsealed {
                Unsealed::Apart => {
                    columns.push(SqlValue::from(prev));
                    columns.push(SqlValue::from(seal.as_str()));
                    driver.execute(WRITE_APART, &columns)?;
                }
                Unsealed::InPlace => {
                    driver.post(
                        WRITE_IN_PLACE,
                        vec![
                            SqlValue::from(project),
                            SqlValue::Int(number),
                            SqlValue::from(prev),
                            SqlValue::from(seal.as_str()),
                        ],
                    )?;
                }
            }
            prev = seal;
        }
    }
}

fn add_sums(steps: &CrashPoints, driver: &mut dyn Driver, project: &str) -> Result<(), StoreError> {
    for (read, write) in [(SUBJECTS, SUBJECT), (REQUESTS, REQUEST), (BACKUPS, BACKUP)] {
        let (mut first, mut second) = (String::new(), String::new());
        loop {
            let rows = driver.query(read, params![project, first.as_str(), second.as_str()])?;
            let Some(last) = rows.last() else { break };
            steps.step();
            (first, second) = (last.text(0)?, last.text(1)?);
            for row in &rows {
                let params = params![project, row.text(0)?, row.text(1)?, seal::sum(&row.0)];
                driver.execute(write, params)?;
            }
        }
    }
    for row in driver.query(PULSES, params![project])? {
        let (agent, data) = (row.text(0)?, row.text(3)?);
        let sum = pulse::sum(&agent, row.unsigned(1)?, row.int(2)?, &data);
        driver.execute(PULSE, params![project, agent, sum])?;
    }
    Ok(())
}
