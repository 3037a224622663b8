//! The project's row: its counter, its history, and since when silence can be noticed.

use flightline_core::Time;

use super::statements;
use crate::engine::Driver;
use crate::error::Error;
use crate::seal;
use crate::value::{Row, params};

statements! {
    INSERT = "INSERT INTO project (id, name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum) \
              VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO NOTHING";
    ADVANCE = "UPDATE project SET rev = ?2, seen_at = ?3, awake_since = ?4, history = ?5, timeline = ?6, seal = ?7, sum = ?8 WHERE id = ?1";
    WAKE = "UPDATE project SET seen_at = ?2, awake_since = ?2, sum = substr(sum, 1, 16) || ?3 WHERE id = ?1";
    LIST = "SELECT id FROM project ORDER BY id";
    LAST = "SELECT rev, seal FROM event WHERE project = ?1 ORDER BY rev DESC LIMIT 1";
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
    /// The seal of the last event; empty before the first.
    pub(crate) seal: String,
    /// Whether the row is as it was written. One that is not stays known by that until it was mended.
    pub(crate) intact: bool,
}

impl Project {
    /// A project in which nothing has happened yet.
    pub(crate) fn new(id: &str, name: &str, history: &str, now: Time) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            history: history.to_owned(),
            rev: 0,
            created_at: now,
            seen_at: now,
            awake_since: now,
            timeline: None,
            seal: String::new(),
            intact: true,
        }
    }

    /// From the row that the driver's `take_project` returns. One that is damaged takes its counter and its seal from
    /// the journal, whose last event has both.
    pub(crate) fn from_row(driver: &mut dyn Driver, id: &str, row: &Row) -> Result<Self, Error> {
        let mut project = Self::read(id, row)?;
        project.intact = project.sum() == row.text(8)?;
        if !project.intact
            && let Some(last) = driver.query(LAST, params![id])?.first()
        {
            (project.rev, project.seal) = (last.unsigned(0)?, last.text(1)?);
        }
        Ok(project)
    }

    /// What the row says, unchecked.
    pub(crate) fn read(id: &str, row: &Row) -> Result<Self, Error> {
        Ok(Self {
            id: id.to_owned(),
            name: row.text(0)?,
            history: row.text(1)?,
            // What is no revision is none that was ever handed out, and fails the sum.
            rev: row.unsigned(2).unwrap_or(0),
            created_at: Time::from_millis(row.int(3)?),
            seen_at: Time::from_millis(row.int(4)?),
            awake_since: Time::from_millis(row.int(5)?),
            timeline: row.opt_unsigned(6).unwrap_or(None),
            seal: row.text(7)?,
            intact: true,
        })
    }

    /// The sum of the row: of what only those write who hold it, and of what heartbeats may write, too. Not of the
    /// timeline, which says for itself when it is another.
    pub(crate) fn sum(&self) -> String {
        let held = params![
            self.id.as_str(),
            self.name.as_str(),
            self.history.as_str(),
            self.rev,
            self.created_at.as_millis(),
            self.seal.as_str(),
        ];
        seal::sum(held) + &heard(&self.id, self.seen_at, self.awake_since)
    }

    /// The sum that is written. Nobody knows which column of a damaged row is wrong: it must not pass for a sound one.
    fn stored_sum(&self) -> String {
        match self.intact {
            true => self.sum(),
            false => String::new(),
        }
    }
}

/// The part of the sum that covers what heartbeats may write.
fn heard(id: &str, seen_at: Time, awake_since: Time) -> String {
    seal::part(params![id, seen_at.as_millis(), awake_since.as_millis()])
}

/// Makes the project's row, unless it is there.
pub(crate) fn insert(driver: &mut dyn Driver, project: &Project) -> Result<(), Error> {
    driver
        .execute(
            INSERT,
            params![
                project.id.as_str(),
                project.name.as_str(),
                project.history.as_str(),
                project.rev,
                project.created_at.as_millis(),
                project.seen_at.as_millis(),
                project.awake_since.as_millis(),
                project.timeline,
                project.seal.as_str(),
                project.stored_sum(),
            ],
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
            project.seal.as_str(),
            project.stored_sum(),
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
    let params = params![id, now.as_millis(), heard(id, now, now)];
    driver.execute(WAKE, params).map(drop)
}

pub(crate) fn list(driver: &mut dyn Driver) -> Result<Vec<String>, Error> {
    driver
        .query(LIST, &[])?
        .iter()
        .map(|row| row.text(0))
        .collect()
}
