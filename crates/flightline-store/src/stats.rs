//! Measures the content of a store, counted in the database: no document is transferred.

use flightline_core::{Kind, MissionId};

use crate::engine::{DiskSpace, SpaceUsed};
use crate::error::StoreError;
use crate::table::event::kind;
use crate::table::statements;
use crate::tx::Tx;
use crate::value::params;

statements! {
    BY_KIND = "SELECT subject_kind, CAST(count(*) AS BIGINT), CAST(coalesce(sum(CASE WHEN change = 'set' THEN 1 ELSE 0 END), 0) AS BIGINT), \
        CAST(coalesce(sum(CASE WHEN change = 'thinned' THEN 1 ELSE 0 END), 0) AS BIGINT), CAST(coalesce(sum(octet_length(after)), 0) AS BIGINT) \
        FROM event WHERE project = ?1 GROUP BY subject_kind ORDER BY subject_kind";
    SUBJECTS = "SELECT kind, CAST(coalesce(sum(CASE WHEN gone IS NULL THEN 1 ELSE 0 END), 0) AS BIGINT), CAST(coalesce(sum(octet_length(doc)), 0) AS BIGINT) \
        FROM subject WHERE project = ?1 GROUP BY kind ORDER BY kind";
    BY_MISSION = "SELECT mission, CAST(count(*) AS BIGINT) AS events, CAST(coalesce(sum(octet_length(after)), 0) AS BIGINT) AS bytes \
        FROM event WHERE project = ?1 AND mission IS NOT NULL GROUP BY mission ORDER BY bytes DESC, mission LIMIT ?2";
    REQUESTS = "SELECT CAST(count(*) AS BIGINT) FROM request WHERE project = ?1";
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSize {
    pub kind: Kind,
    pub live: u64,
    /// The size in bytes of the last values of this kind, where they are kept beside the journal.
    pub live_bytes: u64,
    pub events: u64,
    /// The number of those events that carry a value.
    pub values: u64,
    pub thinned: u64,
    pub value_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissionSize {
    pub mission: MissionId,
    pub events: u64,
    pub value_bytes: u64,
}

impl Tx<'_> {
    pub fn space(&mut self) -> Result<SpaceUsed, StoreError> {
        self.driver.space()
    }

    /// The state of the store's disk, where that is ours to know.
    pub fn disk(&mut self) -> Result<Option<DiskSpace>, StoreError> {
        self.driver.disk()
    }

    pub fn kind_sizes(&mut self) -> Result<Vec<KindSize>, StoreError> {
        let project = self.project.id.as_str();
        let subjects = self.driver.query(SUBJECTS, params![project])?;
        let mut sizes = Vec::new();
        for row in self.driver.query(BY_KIND, params![project])? {
            let word = row.text(0)?;
            let mut size = KindSize {
                kind: kind(&word)?,
                live: 0,
                live_bytes: 0,
                events: row.unsigned(1)?,
                values: row.unsigned(2)?,
                thinned: row.unsigned(3)?,
                value_bytes: row.unsigned(4)?,
            };
            for row in &subjects {
                if row.text(0)? == word {
                    (size.live, size.live_bytes) = (row.unsigned(1)?, row.unsigned(2)?);
                }
            }
            sizes.push(size);
        }
        Ok(sizes)
    }

    /// Returns the missions that take the most room in the journal, largest first.
    pub fn largest_missions(&mut self, limit: u64) -> Result<Vec<MissionSize>, StoreError> {
        let project = self.project.id.as_str();
        let rows = self.driver.query(BY_MISSION, params![project, limit])?;
        rows.iter()
            .map(|row| {
                Ok(MissionSize {
                    mission: row.text(0)?.parse().map_err(|_| {
                        StoreError::Corrupt("an event names a mission that is no id".to_owned())
                    })?,
                    events: row.unsigned(1)?,
                    value_bytes: row.unsigned(2)?,
                })
            })
            .collect()
    }

    pub fn remembered_requests(&mut self) -> Result<u64, StoreError> {
        let project = self.project.id.as_str();
        let rows = self.driver.query(REQUESTS, params![project])?;
        rows.first().map_or(Ok(0), |row| row.unsigned(0))
    }
}
