//! Counts over the whole fleet, made by the database: no document is transferred, and no table is read through.

use serde_json::Value as Json;

use crate::error::StoreError;
use crate::seal;
use crate::table::event::from_row;
use crate::table::statements;
use crate::tx::Tx;
use crate::value::{Row, params};

statements! {
    NOTABLE = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal, CAST(coalesce(octet_length(after), 0) AS BIGINT) FROM event \
        WHERE project = ?1 AND rev > ?2 AND rev <= ?3 AND kind IN ('fleet_checkpointed', 'fleet_recovered', 'context_compacted', \
        'briefing_offered', 'briefing_repeated', 'briefing_acknowledged', 'briefing_expired', 'lock_reclaimed', 'lock_stolen', \
        'checkpoint_created', 'checkpoint_backup_failed') ORDER BY rev";
    MISSIONS = "SELECT status, CAST(count(*) AS BIGINT) FROM subject WHERE project = ?1 AND kind = 'mission' AND gone IS NULL \
        GROUP BY status ORDER BY status";
    BACKUPS = "SELECT state, CAST(count(*) AS BIGINT) FROM backup WHERE project = ?1 GROUP BY state ORDER BY state";
    UNREAD = "SELECT CAST(count(*) AS BIGINT) FROM subject a JOIN subject d ON d.project = a.project AND d.kind = 'delivery' \
        AND d.agent = a.id AND d.status = 'pending' AND d.gone IS NULL \
        WHERE a.project = ?1 AND a.kind = 'agent' AND a.gone IS NULL";
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventCounts {
    pub rev: u64,
    pub kind: String,
    pub data: Json,
    /// The size in bytes of the event's value.
    pub bytes: u64,
}

impl Tx<'_> {
    /// The events after `rev`, up to `to`, that are counted.
    pub fn notable(&mut self, rev: u64, to: u64) -> Result<Vec<EventCounts>, StoreError> {
        let project = self.project.id.as_str();
        let rows = self.driver.query(NOTABLE, params![project, rev, to])?;
        // A damaged event counts as nothing.
        let intact = rows.iter().filter_map(|row| Some((from_row(row)?, row)));
        intact
            .map(|(event, row)| {
                Ok(EventCounts {
                    rev: event.rev,
                    kind: event.kind,
                    data: event.data,
                    bytes: row.unsigned(seal::SEAL + 1)?,
                })
            })
            .collect()
    }

    pub fn missions_by_status(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        let project = self.project.id.as_str();
        counted(&self.driver.query(MISSIONS, params![project])?)
    }

    /// The numbers of checkpoints that have a copy in a file, wait for one, or could not get one.
    pub fn backups_by_state(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        let project = self.project.id.as_str();
        counted(&self.driver.query(BACKUPS, params![project])?)
    }

    /// The number of checkpoints whose copy is in a state.
    pub fn backups_in(&mut self, state: &str) -> Result<u64, StoreError> {
        let counts = self.backups_by_state()?;
        let found = counts.iter().find(|(known, _)| known == state);
        Ok(found.map_or(0, |(_, count)| *count))
    }

    pub fn unread_messages(&mut self) -> Result<u64, StoreError> {
        let project = self.project.id.as_str();
        let rows = self.driver.query(UNREAD, params![project])?;
        rows.first().map_or(Ok(0), |row| row.unsigned(0))
    }
}

fn counted(rows: &[Row]) -> Result<Vec<(String, u64)>, StoreError> {
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.unsigned(1)?)))
        .collect()
}
