//! Care of a store's files and engine besides transactions: room, the log, the schema.

use super::Store;
use crate::engine::{Compaction, DiskSpace};
use crate::error::StoreError;

impl Store {
    /// Gives free space back to the file system, when it is worth it and no process is writing: more than a quarter of
    /// the file, and a megabyte. `loose` bytes are known to be free though their pages are not yet; a store with more
    /// than `most` bytes in use is left alone, because every writer has to wait meanwhile. Whether it fails or is
    /// interrupted, the store holds what it held.
    pub fn compact(&mut self, loose: u64, most: u64) -> Result<Compaction, StoreError> {
        self.driver.compact(loose, most)
    }

    /// Folds the log beside the database into it, without making a process wait; with `truncate` its space is given back,
    /// too, if no other process is there. For processes that live long. Returns the log's size afterwards.
    pub fn fold_log(&mut self, truncate: bool) -> Result<u64, StoreError> {
        self.driver.fold_log(truncate)
    }

    /// The state of the store's disk, where that is ours to know.
    pub fn disk(&mut self) -> Result<Option<DiskSpace>, StoreError> {
        self.driver.disk()
    }

    /// Makes sure that some room on the disk is reserved for writes that end trouble. Every other write asks this first.
    /// Returns [`StoreError::Full`] when the reserve was given up and there is not enough room to keep one again.
    pub fn keep_reserve(&mut self) -> Result<(), StoreError> {
        self.driver.keep_reserve()
    }

    /// Gives the room up that was reserved for writes that end trouble. Returns true when there was some: then the failed
    /// write may be tried again.
    pub fn spend_reserve(&mut self) -> bool {
        self.driver.spend_reserve()
    }

    /// Makes the missing indexes and views anew, and returns their names. Fails when rows that a unique index must keep
    /// apart are there twice.
    pub fn mend_schema(&mut self) -> Result<Vec<String>, StoreError> {
        let patience = self.options.patience;
        self.driver.mend_schema(patience)
    }

    /// The number of statements that this connection has run; of PostgreSQL, the number of round trips to the server. For
    /// figures that do not depend on the machine.
    pub fn statements(&self) -> u64 {
        self.driver.statements()
    }

    /// The settings of the database server with which a power cut can lose acknowledged writes. The administrator decided
    /// so, perhaps for a database that is thrown away: it is reported, and not refused.
    pub fn weaknesses(&mut self) -> Result<Vec<String>, StoreError> {
        self.driver.weaknesses()
    }

    /// Tables with their columns, for the test that compares the schemas of the engines.
    pub fn columns(&mut self) -> Result<Vec<(String, String)>, StoreError> {
        self.driver.columns()
    }
}
