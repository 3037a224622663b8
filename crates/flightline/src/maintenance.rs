//! Keeps a store fit: proves that it takes writes, and folds its log.

use flightline_store::{DiskSpace, StoreError};

use crate::error::Result;
use crate::fleet::Fleet;

/// The size in bytes from which on SQLite's log gives its space back also while writes come.
const LONG_LOG: u64 = 8 * 1024 * 1024;

/// Writes the project's row, to the disk and back.
pub fn probe(fleet: &mut Fleet) -> Result<()> {
    Ok(fleet.store()?.write(|_| Ok::<_, StoreError>(()))?)
}

/// Returns the last revision.
pub fn last_revision(fleet: &mut Fleet) -> Result<u64> {
    Ok(fleet.store()?.read(|tx| Ok::<_, StoreError>(tx.rev()))?)
}

/// Folds SQLite's log into the database, and gives its space back when nothing was written since revision `before`. Returns
/// the last revision, and the state of the disk where the log stays long.
pub fn fold_log(fleet: &mut Fleet, before: u64) -> Result<(u64, Option<DiskSpace>)> {
    let store = fleet.store()?;
    let (rev, log) = store.read(|tx| Ok::<_, StoreError>((tx.rev(), tx.space()?.log)))?;
    if log > 0 {
        store.fold_log(rev == before || log > LONG_LOG)?;
    }
    let disk = store.disk()?;
    Ok((rev, disk.filter(|disk| disk.log > DiskSpace::LONG_LOG)))
}
