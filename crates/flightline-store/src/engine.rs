//! The two engines. A driver begins, runs and ends transactions, and classifies its engine's errors; it knows nothing of
//! the stored documents.

pub(crate) mod postgres;
pub(crate) mod queue;
pub(crate) mod sqlite;
mod upgrade;

use std::time::Duration;

use flightline_core::Time;

use crate::error::StoreError;
use crate::loss::Loss;
use crate::table::project::ProjectRow;
use crate::value::{Row, SqlValue};

/// The number of the newest schema this version knows.
pub(crate) const SCHEMA_VERSION: i64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The write survives a power cut.
    Full,
    /// The write survives the end of every process; a power cut may take it. For heartbeats only.
    Pulse,
}

/// A place in a transaction to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The place before an attempt within one request.
    Attempt,
    /// The place before a write that shares its commit with others.
    Member,
}

impl Anchor {
    pub(crate) const fn save(self) -> &'static str {
        match self {
            Self::Attempt => "SAVEPOINT attempt",
            Self::Member => "SAVEPOINT member",
        }
    }

    pub(crate) const fn release(self) -> &'static str {
        match self {
            Self::Attempt => "RELEASE SAVEPOINT attempt",
            Self::Member => "RELEASE SAVEPOINT member",
        }
    }

    pub(crate) const fn back(self) -> &'static str {
        match self {
            Self::Attempt => "ROLLBACK TO SAVEPOINT attempt",
            Self::Member => "ROLLBACK TO SAVEPOINT member",
        }
    }
}

/// The room that a store takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsed {
    /// The database: its file, or the server's tables and indexes, which all projects in it share.
    pub database: u64,
    /// The log beside it that is not folded into it yet.
    pub log: u64,
    /// The part of the database that is free and will be used again. A server keeps that to itself.
    pub free: Option<u64>,
}

/// The state of the store's disk, as far as it is ours to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// The number of bytes that are left for this store.
    pub free: u64,
    /// True when only writes that end trouble are still accepted.
    pub is_full: bool,
    /// The size of the log beside the database in bytes.
    pub log: u64,
}

impl DiskSpace {
    /// The size from which on a log counts as stuck: it is not folded into the database, because a process still reads an
    /// older snapshot.
    pub const LONG_LOG: u64 = 64 * 1024 * 1024;
}

/// The outcome of giving free space back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// The free space is too little to be worth the work, and will be used again.
    NotWorthIt,
    /// The file system has this many bytes back.
    Returned(u64),
    /// Giving space back would be worth it, but not now, for this reason.
    Later(&'static str),
    ByServer,
}

/// The last revision that was acknowledged, as it is kept apart from the database: a database that is behind it has lost
/// something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) project: String,
    pub(crate) history: String,
    pub(crate) rev: u64,
    pub(crate) seal: String,
}

impl Acknowledged {
    /// The acknowledged revisions that are not in the database. Histories that follow one another have ever higher
    /// revisions.
    pub(crate) fn lost_since(&self, project: &ProjectRow) -> Option<Loss> {
        (self.project == project.id && self.rev > project.rev).then_some(Loss::Tail {
            from: project.rev + 1,
            to: self.rev,
        })
    }
}

/// A project's row as it is found by a write that does not hold it.
pub(crate) struct OptimisticRow {
    /// The row as [`Driver::take_project`] gives it.
    pub(crate) row: Row,
    pub(crate) now: Time,
}

/// The outcome of a write that did not hold the project's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptimisticCommit {
    /// The write is made, and durable.
    Made,
    /// Another process wrote to the project meanwhile: nothing was written, and the whole write has to be decided again.
    Overtaken,
    /// The write does not fit into one statement. The project is held from now on, and the write goes on as one that held
    /// it from its beginning: no other process wrote meanwhile.
    Held,
}

/// Returns the table that a statement writes to; empty when it is not known, which concerns all tables.
pub(crate) fn written_table(sql: &str) -> &str {
    let rest = ["INSERT INTO ", "UPDATE ", "DELETE FROM "]
        .iter()
        .find_map(|verb| sql.strip_prefix(verb));
    let name = rest.and_then(|rest| rest.split(' ').next());
    name.unwrap_or_default()
}

pub(crate) trait Driver: Send {
    /// Begins a transaction that sees one snapshot and writes nothing.
    fn begin_read(&mut self) -> Result<(), StoreError>;

    /// Begins a transaction that may write, after waiting at most `patience` for its turn.
    fn begin_write(&mut self, durability: Durability, patience: Duration)
    -> Result<(), StoreError>;

    /// Begins a write that does not hold the project's row. Its questions are answered by the state at that moment; its
    /// writes wait, and [`Driver::commit_optimistic`] makes all of them at once, if no process wrote to the project since the returned
    /// row was found. As soon as the write needs more than that, it holds the row, or fails with [`StoreError::Collision`]
    /// where the row has changed by then. `None` where a write holds the project from its beginning.
    fn begin_ahead(&mut self, _project: &str) -> Result<Option<OptimisticRow>, StoreError> {
        Ok(None)
    }

    /// Returns true when the write under way does not hold the project's row.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Returns true when a waiting write could be seen by a question only if the project were held.
    fn is_blind(&self) -> bool {
        false
    }

    /// Has a write that does not hold the project's row hold it. [`StoreError::Collision`] when another process wrote
    /// meanwhile.
    fn hold(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns true when another process wrote to the project while the last write that did not hold it was under way.
    fn was_overtaken(&self) -> bool {
        false
    }

    /// Ends a write that does not hold the project's row: `advance` writes the row, and this many events must have been
    /// added.
    fn commit_optimistic(
        &mut self,
        _advance: &'static str,
        _params: Vec<SqlValue>,
        _events: u64,
    ) -> Result<OptimisticCommit, StoreError> {
        Ok(OptimisticCommit::Held)
    }

    /// Reads the project's row; in a write, holds it until the end.
    fn take_project(&mut self, project: &str, hold: bool) -> Result<Option<Row>, StoreError>;

    /// Runs a statement, and returns how many rows it changed.
    fn execute(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<u64, StoreError>;

    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>, StoreError>;

    /// Runs a query for rows that this write has not touched: waiting writes cannot concern it.
    fn query_untouched(
        &mut self,
        sql: &'static str,
        params: &[SqlValue],
    ) -> Result<Vec<Row>, StoreError> {
        self.query(sql, params)
    }

    /// Runs a query that may have many rows, one of which is kept at a time where the engine can do that.
    fn query_each(
        &mut self,
        sql: &'static str,
        params: &[SqlValue],
        each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.query(sql, params)?.into_iter().try_for_each(each)
    }

    /// Runs a write whose row count the caller does not need. An engine may put it off, at the latest until a query has
    /// to see it, until its savepoint is released, or until the commit: if it fails, that fails.
    fn post(&mut self, sql: &'static str, params: Vec<SqlValue>) -> Result<(), StoreError> {
        self.execute(sql, &params).map(drop)
    }

    /// Changes a row that is known to be there; false when it is not. Where the change is put off, a row that is not there fails it
    /// then.
    fn post_change(
        &mut self,
        sql: &'static str,
        params: Vec<SqlValue>,
    ) -> Result<bool, StoreError> {
        Ok(self.execute(sql, &params)? == 1)
    }

    /// Returns true when an update that gives a row the keys it has leaves the indexes alone by itself.
    fn compares_keys(&self) -> bool {
        false
    }

    /// A number that changes when another connection has written to the database; none where there is no such number.
    fn data_version(&mut self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Returns true when a question costs next to nothing now. To a server it is a round trip, and the waiting writes
    /// would be sent before it.
    fn is_near(&self) -> bool {
        true
    }

    /// Sends the writes that were put off so far.
    fn deliver(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Marks a place in the transaction to come back to. Places may lie within one another.
    fn savepoint(&mut self, anchor: Anchor) -> Result<(), StoreError>;

    /// Forgets the last such place, and keeps the writes since.
    fn release(&mut self, anchor: Anchor) -> Result<(), StoreError>;

    /// Goes back to a place: drops the writes since, and every place within it. It stays itself. Fails when the
    /// whole transaction is gone.
    fn roll_back_to(&mut self, anchor: Anchor) -> Result<(), StoreError>;

    /// Returns true when the transaction can go on: it is still there, and no statement of it has failed since the last
    /// place that was come back to.
    fn is_sound(&self) -> bool;

    /// The identity of the database and of its present life, as far as it says so: another one when a replica took its
    /// place, or another cluster. Known in a write. A file has one life.
    fn timeline(&self) -> Option<u64> {
        None
    }

    fn is_closed(&self) -> bool {
        false
    }

    /// Ends the transaction and keeps its writes. When this returns `Ok`, they are durable.
    fn commit(&mut self) -> Result<(), StoreError>;

    /// Ends the transaction and drops its writes.
    fn rollback(&mut self);

    /// The engine's own clock, when it has one that all its clients share.
    fn server_time(&mut self) -> Result<Option<Time>, StoreError>;

    /// The engine's own findings about the soundness of its files; empty when all is well.
    fn integrity(&mut self) -> Result<Vec<String>, StoreError>;

    /// The tables, indexes and views that are not as the schema has them; empty when all is well.
    fn schema_troubles(&mut self) -> Result<Vec<String>, StoreError>;

    /// Makes the missing indexes and views anew, and returns their names.
    fn mend_schema(&mut self, patience: Duration) -> Result<Vec<String>, StoreError>;

    /// The last revision of a project that was acknowledged, where that is kept; or the reason for which it cannot be
    /// read.
    fn acknowledged(&mut self, _project: &str) -> Result<Option<Acknowledged>, String> {
        Ok(None)
    }

    /// Keeps the last acknowledged revision. Committed writes stand even when that fails.
    fn acknowledge(&mut self, _last: &Acknowledged) {}

    fn space(&mut self) -> Result<SpaceUsed, StoreError>;

    /// The state of the disk. A server keeps that to itself.
    fn disk(&mut self) -> Result<Option<DiskSpace>, StoreError> {
        Ok(None)
    }

    /// Makes sure that room is reserved for writes that end trouble; [`StoreError::Full`] when there is none left for it.
    fn keep_reserve(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Gives the reserved room up. Returns true when there was some.
    fn spend_reserve(&mut self) -> bool {
        false
    }

    /// Gives free space back to the file system, when it is worth it and no process is writing. `loose` bytes are known
    /// to be free though their pages are not; a store with more than `most` bytes in use is left alone. When this
    /// fails, the store is as it was.
    fn compact(&mut self, loose: u64, most: u64) -> Result<Compaction, StoreError>;

    /// Folds the log beside the database into it, as far as no process has to wait; with `truncate` takes its space back,
    /// too, if no process reads or writes. Returns the log's size afterwards.
    fn fold_log(&mut self, truncate: bool) -> Result<u64, StoreError>;

    /// The settings of a database server with which a power cut can lose acknowledged writes.
    fn weaknesses(&mut self) -> Result<Vec<String>, StoreError>;

    /// The names of tables and their columns, for the test that compares the two schemas.
    fn columns(&mut self) -> Result<Vec<(String, String)>, StoreError>;

    /// The definitions of all tables, indexes and views, where these can be damaged by themselves.
    fn definitions(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn prepare(&mut self, sql: &'static str) -> Result<(), StoreError>;

    /// The number of statements that this connection has run; of PostgreSQL, the number of round trips to the server.
    fn statements(&self) -> u64;

    /// The name of the engine: `sqlite` or `postgres`.
    fn name(&self) -> &'static str;
}
