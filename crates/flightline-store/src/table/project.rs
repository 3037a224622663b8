//! The project's row: its counter, its history, and the time since which silence can be noticed.

use flightline_core::Time;

use super::statements;
use crate::engine::{Driver, OptimisticCommit};
use crate::error::StoreError;
use crate::seal;
use crate::value::{Row, SqlValue, params, values};

statements! {
    INSERT = "INSERT INTO project (id, name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum) \
              VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO NOTHING";
    ADVANCE = "UPDATE project SET rev = ?2, seen_at = ?3, awake_since = ?4, history = ?5, timeline = ?6, seal = ?7, sum = ?8 WHERE id = ?1";
    WAKE = "UPDATE project SET seen_at = ?2, awake_since = ?2, sum = substr(sum, 1, 16) || ?3 WHERE id = ?1";
    MEND = "UPDATE project SET name = ?2, created_at = ?3 WHERE id = ?1";
    LIST = "SELECT id FROM project ORDER BY id";
    LAST = "SELECT rev, seal FROM event WHERE project = ?1 ORDER BY rev DESC LIMIT 1";
}

#[derive(Clone, Debug)]
pub(crate) struct ProjectRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) history: String,
    pub(crate) rev: u64,
    pub(crate) created_at: Time,
    pub(crate) seen_at: Time,
    pub(crate) awake_since: Time,
    /// The timeline of the database when the row was last written.
    pub(crate) timeline: Option<u64>,
    /// The seal of the last event; empty before the first.
    pub(crate) seal: String,
    /// True when the row is as it was written. A damaged row stays known as such until it was mended.
    pub(crate) intact: bool,
    pub(crate) found_sum: String,
}

/// The part of a project's damaged row that is proven to be as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowRepair {
    /// The whole row: its other columns have their sum, with the counter and the seal of the journal.
    Rest,
    /// The whole row: its name had one other byte, and with that the row has its sum.
    Name,
    /// The whole row, in the same way: one byte of its history was restored.
    History,
    /// The whole row, in the same way: one byte of its creation time was restored.
    Created,
    /// Nothing: only the counter and the seal, which are the journal's.
    Nothing,
}

impl ProjectRow {
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
            found_sum: String::new(),
        }
    }

    /// Reads the row that the driver's `take_project` returns. A damaged row takes its counter and its seal from the
    /// journal, whose last event has both.
    pub(crate) fn from_row(
        driver: &mut dyn Driver,
        id: &str,
        row: &Row,
    ) -> Result<Self, StoreError> {
        let mut project = Self::read(id, row)?;
        project.found_sum = row.text(8)?;
        project.intact = project.sum() == project.found_sum;
        if !project.intact
            && let Some(last) = driver.query(LAST, params![id])?.first()
        {
            (project.rev, project.seal) = (last.unsigned(0)?, last.text(1)?);
        }
        Ok(project)
    }

    /// Reads the row, unchecked.
    pub(crate) fn read(id: &str, row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: id.to_owned(),
            name: row.text(0)?,
            history: row.text(1)?,
            // An unreadable revision was never handed out, and fails the sum.
            rev: row.unsigned(2).unwrap_or(0),
            created_at: Time::from_millis(row.int(3)?),
            seen_at: Time::from_millis(row.int(4)?),
            awake_since: Time::from_millis(row.int(5)?),
            timeline: row.opt_unsigned(6).unwrap_or(None),
            seal: row.text(7)?,
            intact: true,
            found_sum: String::new(),
        })
    }

    /// Restores the parts that the row's sum proves. The counter and the seal are the journal's by now; if one byte of
    /// another column changed, the row has its sum only with the byte that was there.
    pub(crate) fn heal(&mut self) -> RowRepair {
        let found = self.found_sum.clone();
        let fits = |project: &Self| found.len() > 16 && found.starts_with(&project.held_sum());
        if fits(self) {
            return RowRepair::Rest;
        }
        let names = one_byte_off(&self.name).map(|name| Self {
            name,
            ..self.clone()
        });
        let histories = one_byte_off(&self.history).map(|history| Self {
            history,
            ..self.clone()
        });
        let created = self.created_at.as_millis().to_be_bytes();
        let times = changes(created.len()).map(|(at, byte)| {
            let mut bytes = created;
            bytes[at] = byte;
            Self {
                created_at: Time::from_millis(i64::from_be_bytes(bytes)),
                ..self.clone()
            }
        });
        let tried = (names.map(|tried| (RowRepair::Name, tried)))
            .chain(histories.map(|tried| (RowRepair::History, tried)))
            .chain(times.map(|tried| (RowRepair::Created, tried)));
        let found = { tried }.find(|(_, tried)| fits(tried));
        match found {
            Some((proven, healed)) => {
                *self = healed;
                proven
            }
            None => RowRepair::Nothing,
        }
    }

    /// The part of the sum that covers the columns written only by a write that holds the row.
    fn held_sum(&self) -> String {
        seal::sum(params![
            self.id.as_str(),
            self.name.as_str(),
            self.history.as_str(),
            self.rev,
            self.created_at.as_millis(),
            self.seal.as_str(),
        ])
    }

    /// The sum of the row: of the columns written only by a write that holds it, and of those that heartbeats may write.
    /// It does not cover the timeline, whose change shows by itself.
    pub(crate) fn sum(&self) -> String {
        self.held_sum() + &heard(&self.id, self.seen_at, self.awake_since)
    }

    /// The sum that is written. The wrong column of a damaged row is unknown, so the row must not pass for a sound one.
    fn stored_sum(&self) -> String {
        match self.intact {
            true => self.sum(),
            false => String::new(),
        }
    }
}

/// The texts that differ from this one by one byte.
fn one_byte_off(text: &str) -> impl Iterator<Item = String> {
    changes(text.len()).filter_map(|(at, byte)| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] = byte;
        String::from_utf8(bytes).ok()
    })
}

/// Lists every byte, at each of `places` places.
fn changes(places: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..places).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte)))
}

/// The part of the sum that covers the columns that heartbeats may write.
fn heard(id: &str, seen_at: Time, awake_since: Time) -> String {
    seal::part(params![id, seen_at.as_millis(), awake_since.as_millis()])
}

/// Makes the project's row, unless it is there.
pub(crate) fn insert(driver: &mut dyn Driver, project: &ProjectRow) -> Result<(), StoreError> {
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
pub(crate) fn advance(driver: &mut dyn Driver, project: &ProjectRow) -> Result<(), StoreError> {
    if driver.execute(ADVANCE, &advanced(project))? == 1 {
        Ok(())
    } else {
        Err(StoreError::UnknownProject(project.id.clone()))
    }
}

/// Ends a write that did not hold the row: writes the row, if it is as it was found.
pub(crate) fn commit_optimistic(
    driver: &mut dyn Driver,
    project: &ProjectRow,
    events: u64,
) -> Result<OptimisticCommit, StoreError> {
    driver.commit_optimistic(ADVANCE, advanced(project), events)
}

fn advanced(project: &ProjectRow) -> Vec<SqlValue> {
    values![
        project.id.as_str(),
        project.rev,
        project.seen_at.as_millis(),
        project.awake_since.as_millis(),
        project.history.as_str(),
        project.timeline,
        project.seal.as_str(),
        project.stored_sum(),
    ]
}

/// Writes the columns that no other write of the row touches, after it was mended.
pub(crate) fn mend(driver: &mut dyn Driver, project: &ProjectRow) -> Result<(), StoreError> {
    let columns = params![
        project.id.as_str(),
        project.name.as_str(),
        project.created_at.as_millis()
    ];
    driver.execute(MEND, columns).map(drop)
}

/// Notes that no sign of life could be noticed before `now`. Touches nothing else of the row: a heartbeat does not hold it.
pub(crate) fn wake(driver: &mut dyn Driver, id: &str, now: Time) -> Result<(), StoreError> {
    let params = params![id, now.as_millis(), heard(id, now, now)];
    driver.execute(WAKE, params).map(drop)
}

pub(crate) fn list(driver: &mut dyn Driver) -> Result<Vec<String>, StoreError> {
    driver
        .query(LIST, &[])?
        .iter()
        .map(|row| row.text(0))
        .collect()
}
