//! The project's row: its counter, its history, and since when silence can be noticed.

use flightline_core::Time;

use super::statements;
use crate::engine::Driver;
use crate::error::Error;
use crate::value::{Row, params};

statements! {
    INSERT = "INSERT INTO project (id, name, history, rev, created_at, seen_at, awake_since, timeline) \
              VALUES (?1, ?2, ?3, 0, ?4, ?4, ?4, ?5) ON CONFLICT (id) DO NOTHING";
    ADVANCE = "UPDATE project SET rev = ?2, seen_at = ?3, awake_since = ?4, history = ?5, timeline = ?6 WHERE id = ?1";
    WAKE = "UPDATE project SET seen_at = ?2, awake_since = ?2 WHERE id = ?1";
    LIST = "SELECT id FROM project ORDER BY id";
}

/// A project's row.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) history: String,
    pub(crate) rev: u64,
    pub(crate) created_at: Time,
    pub(crate) seen_at: Time,
    pub(crate) awake_since: Time,
    /// That of the database when it was last written.
    pub(crate) timeline: Option<u64>,
}

impl Project {
    /// From the row that the driver's `take_project` returns.
    pub(crate) fn from_row(id: &str, row: &Row) -> Result<Self, Error> {
        Ok(Self {
            id: id.to_owned(),
            name: row.text(0)?,
            history: row.text(1)?,
            rev: row.unsigned(2)?,
            created_at: Time::from_millis(row.int(3)?),
            seen_at: Time::from_millis(row.int(4)?),
            awake_since: Time::from_millis(row.int(5)?),
            timeline: row.opt_unsigned(6)?,
        })
    }
}

pub(crate) fn insert(
    driver: &mut dyn Driver,
    id: &str,
    name: &str,
    history: &str,
    now: Time,
) -> Result<(), Error> {
    let timeline = driver.timeline();
    driver
        .execute(
            INSERT,
            params![id, name, history, now.as_millis(), timeline],
        )
        .map(drop)
}

/// Writes the row back at the end of a write. Once per transaction: PostgreSQL would otherwise keep
/// a dead version of it for every event.
pub(crate) fn advance(driver: &mut dyn Driver, project: &Project) -> Result<(), Error> {
    let changed = driver.execute(
        ADVANCE,
        params![
            project.id.as_str(),
            project.rev,
            project.seen_at.as_millis(),
            project.awake_since.as_millis(),
            project.history.as_str(),
            project.timeline,
        ],
    )?;
    if changed == 1 {
        Ok(())
    } else {
        Err(Error::UnknownProject(project.id.clone()))
    }
}

/// Notes that nobody could notice anything before `now`. Touches nothing else of the row: a heartbeat
/// does not hold it.
pub(crate) fn wake(driver: &mut dyn Driver, id: &str, now: Time) -> Result<(), Error> {
    driver.execute(WAKE, params![id, now.as_millis()]).map(drop)
}

pub(crate) fn list(driver: &mut dyn Driver) -> Result<Vec<String>, Error> {
    driver
        .query(LIST, &[])?
        .iter()
        .map(|row| row.text(0))
        .collect()
}
