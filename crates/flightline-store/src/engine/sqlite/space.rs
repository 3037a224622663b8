//! Measures free space in the database, and gives it back to the file system.

use std::time::Duration;

use super::{Sqlite, UNQUEUED_WAIT, classify};
use crate::engine::{Compaction, Driver as _};
use crate::error::StoreError;

/// The free space in bytes, and its least share of the file, below which rewriting the file is not worth it.
const WORTH: u64 = 1024 * 1024;
const WORTH_PART: u64 = 4;

impl Sqlite {
    pub(super) fn give_space_back(
        &mut self,
        loose: u64,
        most: u64,
    ) -> Result<Compaction, StoreError> {
        let total = self.pragma("PRAGMA page_count")? * self.pragma("PRAGMA page_size")?;
        let free = (self.space()?.free.unwrap_or(0) + loose).min(total);
        if free < WORTH || free < total / WORTH_PART {
            return Ok(Compaction::NotWorthIt);
        }
        if total - free > most {
            return Ok(Compaction::Later("it is large"));
        }
        if self.broken || !self.connection.is_autocommit() {
            return Err(StoreError::Broken);
        }
        let Ok(_turn) = self.queue.wait(Duration::ZERO) else {
            return Ok(Compaction::Later("another process is writing"));
        };
        let said = |error: rusqlite::Error| classify("cannot give free space back", &error);
        self.connection.busy_timeout(Duration::ZERO).map_err(said)?;
        let rewritten = self.rewrite();
        self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
        match rewritten {
            Err(StoreError::Busy(_)) => return Ok(Compaction::Later("another process is writing")),
            rewritten => rewritten?,
        }
        let after = self.space()?;
        // As long as the new file is in the log, the old one is as large as it was.
        Ok(match after.log {
            0 => Compaction::Returned(total.saturating_sub(after.database)),
            _ => Compaction::Later("another process is reading the old pages"),
        })
    }

    /// Writes the file anew without its free pages. SQLite does it in one transaction: readers go on, and if this process
    /// dies the file is as it was.
    fn rewrite(&mut self) -> Result<(), StoreError> {
        let act = "cannot give free space back";
        // The new one is made in a file: it may be larger than memory.
        self.batch(act, "PRAGMA temp_store = FILE")?;
        let rewritten = self.batch(act, "VACUUM");
        self.batch(act, "PRAGMA temp_store = MEMORY")?;
        rewritten?;
        self.steps.step();
        // The new file is in the log until it is folded in. Readers may keep it from that for a while.
        self.query("PRAGMA wal_checkpoint(TRUNCATE)", &[])?;
        self.steps.step();
        Ok(())
    }
}
