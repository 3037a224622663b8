//! SQLite: the embedded default.

pub(crate) mod anchor;
mod failure;
mod log;
mod member;
mod objects;
mod opening;
mod place;
mod reserve;
mod space;
mod upgrade_copy;

pub(crate) use opening::{Options, open};

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flightline_core::Time;
use flightline_workspace::beneath::Dir;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, StatementStatus, ToSql};

use self::failure::classify;
use self::log::Keeper;
use self::member::Member;
use self::reserve::Reserve;
use super::queue::{Turn, WriterQueue};
use super::{Acknowledged, Anchor, Compaction, DiskSpace, Driver, Durability, SpaceUsed};
use crate::crash_points::CrashPoints;
use crate::error::StoreError;
use crate::value::{Row, SqlValue};

pub(crate) const FILE: &str = "flightline.db";
/// The log of the database, and the index of that log.
pub(crate) const LOG: &str = "flightline.db-wal";
pub(crate) const INDEX: &str = "flightline.db-shm";
/// SQLite's rollback journal. A store has one only for a moment, while it is made.
const ROLLBACK: &str = "flightline.db-journal";

const TAKE: &str = "SELECT name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum FROM project WHERE id = ?1";
const COLUMNS: &str = "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
     WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.name";

const DEFINITIONS: &str = "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name";

/// The time to wait for SQLite's own lock where no queue keeps the order.
const UNQUEUED_WAIT: Duration = Duration::from_secs(5);

/// The files to which a write of this process did not reach the disk: no connection of it writes to them again.
static BROKEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn note_broken(file: &Path) {
    let mut broken = BROKEN.lock().unwrap_or_else(PoisonError::into_inner);
    broken.insert(file.to_path_buf());
}

fn is_broken(file: &Path) -> bool {
    let broken = BROKEN.lock().unwrap_or_else(PoisonError::into_inner);
    broken.contains(file)
}

pub(crate) struct Sqlite {
    connection: Connection,
    file: PathBuf,
    identity: Option<log::LogIdentity>,
    log: PathBuf,
    folder: Arc<Dir>,
    /// The thread that folds the log beside this connection, where it writes again and again.
    keeper: Option<Keeper>,
    queue: WriterQueue,
    reserve: Reserve,
    turn: Option<Turn>,
    durability: Durability,
    member: Member,
    /// True when a statement of this transaction failed: it can only be rolled back, as on PostgreSQL. SQLite would commit
    /// the rest, or, after some errors, each further statement by itself.
    failed: bool,
    broken: bool,
    look_only: bool,
    steps: CrashPoints,
    statements: u64,
    anchor: anchor::AnchorFolder,
}

impl Sqlite {
    /// Accepts rows from now on that no sound store has: for a copy of a damaged store, as it is.
    pub(crate) fn take_anything(&mut self) -> Result<(), StoreError> {
        self.connection
            .execute_batch("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF;")
            .map_err(|error| classify("cannot prepare the copy", &error))
    }

    /// Folds the log into the file, so that the file alone is the whole store.
    pub(crate) fn seal(self) -> Result<(), StoreError> {
        self.steps.step();
        self.connection
            .pragma_update(None, "journal_mode", "DELETE")
            .map_err(|error| classify("cannot finish the copy", &error))
    }

    fn pragma(&mut self, sql: &'static str) -> Result<u64, StoreError> {
        match self.query(sql, &[])?.first() {
            Some(row) => row.unsigned(0),
            None => Ok(0),
        }
    }

    fn batch(&mut self, act: &'static str, sql: &str) -> Result<(), StoreError> {
        self.statements += 1;
        self.steps.step();
        self.connection
            .execute_batch(sql)
            .map_err(|error| classify(act, &error))
    }

    fn mark(&mut self, sql: &str) -> Result<(), StoreError> {
        self.statements += 1;
        self.steps.step();
        let marked = self.connection.prepare_cached(sql);
        marked
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(|error| classify("cannot write to the store", &error))
    }

    fn begin_immediate(
        &mut self,
        durability: Durability,
        patience: Duration,
    ) -> Result<(), StoreError> {
        let act = "cannot write to the store";
        let said = |error: rusqlite::Error| classify(act, &error);
        if durability != self.durability {
            self.batch(
                act,
                match durability {
                    Durability::Full => "PRAGMA synchronous = FULL",
                    Durability::Pulse => "PRAGMA synchronous = NORMAL",
                },
            )?;
            self.durability = durability;
        }
        // The process that holds the database now does not queue: it is another program.
        self.connection.busy_timeout(patience).map_err(said)?;
        let begun = self.batch(act, "BEGIN IMMEDIATE");
        self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
        begun
    }

    fn run(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<u64, StoreError> {
        self.statements += 1;
        self.steps.step();
        self.refuse_after_failure()?;
        let changed = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(params)));
        self.failed = changed.is_err();
        changed
            .map(|changed| changed as u64)
            .map_err(|error| classify("cannot write to the store", &error))
    }

    fn refuse_after_failure(&self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Engine {
                act: "cannot write to the store",
                cause: "an earlier statement of this transaction failed".to_owned(),
            });
        }
        Ok(())
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let kept = self.keeper.take().is_some();
        self.bound_log(kept);
    }
}

impl Sqlite {
    fn each_row(
        &mut self,
        sql: &'static str,
        params: &[SqlValue],
        each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.statements += 1;
        let said = |error: rusqlite::Error| classify("cannot read the store", &error);
        let mut statement = self.connection.prepare_cached(sql).map_err(said)?;
        let (width, mut count) = (statement.column_count(), 0);
        let mut rows = statement
            .query(rusqlite::params_from_iter(params))
            .map_err(said)?;
        while let Some(row) = rows.next().map_err(said)? {
            let mut columns = Vec::with_capacity(width);
            for at in 0..width {
                columns.push(from_engine(row.get_ref(at).map_err(said)?));
            }
            each(Row(columns))?;
            count += 1;
        }
        drop(rows);
        if self.steps.counts() {
            let work = statement.reset_status(StatementStatus::VmStep);
            self.steps.read(sql, count, work.unsigned_abs().into());
        }
        Ok(())
    }
}

impl Driver for Sqlite {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.failed = false;
        self.check_identity()?;
        // Not a step: a process that dies here has touched nothing.
        self.connection
            .execute_batch("BEGIN DEFERRED")
            .map_err(|error| classify("cannot read the store", &error))
    }

    fn begin_write(
        &mut self,
        durability: Durability,
        patience: Duration,
    ) -> Result<(), StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        self.check_identity()?;
        let began = Instant::now();
        let turn = self.queue.wait(patience)?;
        if turn.was_waited_for() {
            // Another store may have been put in its place meanwhile.
            self.check_identity()?;
        }
        self.turn = Some(turn);
        self.failed = false;
        self.member = Member::default();
        let begun = self.begin_immediate(durability, patience.saturating_sub(began.elapsed()));
        if begun.is_err() {
            self.turn = None;
        }
        begun
    }

    fn take_project(&mut self, project: &str, _hold: bool) -> Result<Option<Row>, StoreError> {
        Ok(self.query(TAKE, &[SqlValue::from(project)])?.pop())
    }

    fn execute(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<u64, StoreError> {
        self.deliver()?;
        self.run(sql, params)
    }

    fn post(&mut self, sql: &'static str, params: Vec<SqlValue>) -> Result<(), StoreError> {
        match self.put_off(sql, params, false) {
            Some(params) => self.run(sql, &params).map(drop),
            None => Ok(()),
        }
    }

    fn post_change(
        &mut self,
        sql: &'static str,
        params: Vec<SqlValue>,
    ) -> Result<bool, StoreError> {
        match self.put_off(sql, params, true) {
            Some(params) => Ok(self.run(sql, &params)? == 1),
            None => Ok(true),
        }
    }

    fn data_version(&mut self) -> Result<Option<u64>, StoreError> {
        self.pragma("PRAGMA data_version").map(Some)
    }

    fn is_near(&self) -> bool {
        matches!(self.member, Member::None)
    }

    fn deliver(&mut self) -> Result<(), StoreError> {
        match self.member.has_writes() {
            true => self.mark_member(),
            false => Ok(()),
        }
    }

    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>, StoreError> {
        if self.member.concerns(sql) {
            self.mark_member()?;
        }
        self.query_untouched(sql, params)
    }

    fn query_untouched(
        &mut self,
        sql: &'static str,
        params: &[SqlValue],
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each_row(sql, params, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    fn query_each(
        &mut self,
        sql: &'static str,
        params: &[SqlValue],
        each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.member.concerns(sql) {
            self.mark_member()?;
        }
        self.each_row(sql, params, each)
    }

    fn savepoint(&mut self, anchor: Anchor) -> Result<(), StoreError> {
        match anchor {
            Anchor::Member => {
                self.member.begin();
                Ok(())
            }
            Anchor::Attempt => {
                // A write that fails from now on is one of the attempt.
                self.mark_member()?;
                self.mark(anchor.save())
            }
        }
    }

    fn release(&mut self, anchor: Anchor) -> Result<(), StoreError> {
        match anchor {
            Anchor::Member => self.keep_member(),
            Anchor::Attempt => self.mark(anchor.release()),
        }
    }

    fn roll_back_to(&mut self, anchor: Anchor) -> Result<(), StoreError> {
        // A full disk, among others, takes the whole transaction: then there is no such place any more, and
        // the next SAVEPOINT would silently begin a transaction of its own.
        match anchor {
            Anchor::Member => self.drop_member(),
            Anchor::Attempt => {
                self.mark(anchor.back())?;
                self.failed = false;
                Ok(())
            }
        }
    }

    fn is_sound(&self) -> bool {
        !self.failed && !self.connection.is_autocommit()
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if let Err(error) = self
            .keep_member()
            .and_then(|()| self.refuse_after_failure())
        {
            self.rollback();
            return Err(error);
        }
        let committed = self.batch("cannot commit to the store", "COMMIT");
        if committed.is_err() {
            self.rollback();
        }
        self.steps.step();
        self.turn = None;
        self.watch_log();
        match committed {
            // After a failed fsync the content of the disk is not known, and a later fsync may lie.
            Err(StoreError::Engine { cause, .. }) => {
                note_broken(&self.file);
                self.broken = true;
                Err(StoreError::CommitUnknown(cause))
            }
            committed => committed,
        }
    }

    fn rollback(&mut self) {
        self.member = Member::default();
        if !self.connection.is_autocommit() {
            // A transaction that cannot be rolled back ends when the connection closes.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.turn = None;
    }

    fn server_time(&mut self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        let rows = self.query("PRAGMA integrity_check(20)", &[])?;
        let mut said = rows
            .iter()
            .map(|row| row.text(0))
            .collect::<Result<Vec<String>, StoreError>>()?;
        said.retain(|line| line != "ok");
        for row in self.query("PRAGMA foreign_key_check", &[])?.iter().take(20) {
            said.push(format!("a row of `{}` belongs to no project", row.text(0)?));
        }
        Ok(said)
    }

    fn schema_troubles(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(self.objects()?.0)
    }

    fn mend_schema(&mut self, patience: Duration) -> Result<Vec<String>, StoreError> {
        let (_, missing) = self.objects()?;
        self.begin_write(Durability::Full, patience)?;
        let mut done = Vec::new();
        for sql in missing {
            let name = sql.split(" ON ").next().unwrap_or_default();
            let name = name.split(" AS").next().unwrap_or_default();
            if let Err(error) = self.batch("cannot make it anew", &sql) {
                self.rollback();
                return Err(error);
            }
            done.push(format!("{name}: made anew"));
        }
        self.commit()?;
        Ok(done)
    }

    fn acknowledged(&mut self, project: &str) -> Result<Option<Acknowledged>, String> {
        self.anchor.read(project)
    }

    fn acknowledge(&mut self, last: &Acknowledged) {
        // The anchor may lag behind: a commit stands without it.
        let _ = self.anchor.write(last);
    }

    fn space(&mut self) -> Result<SpaceUsed, StoreError> {
        let page = self.pragma("PRAGMA page_size")?;
        let size = |path: &Path| fs::symlink_metadata(path).map_or(0, |seen| seen.len());
        Ok(SpaceUsed {
            database: size(&self.file),
            log: size(&self.log),
            free: Some(self.pragma("PRAGMA freelist_count")? * page),
        })
    }

    fn disk(&mut self) -> Result<Option<DiskSpace>, StoreError> {
        self.look_at_disk()
    }

    fn keep_reserve(&mut self) -> Result<(), StoreError> {
        self.make_reserve()
    }

    fn spend_reserve(&mut self) -> bool {
        self.give_up_reserve()
    }

    fn compact(&mut self, loose: u64, most: u64) -> Result<Compaction, StoreError> {
        self.give_space_back(loose, most)
    }

    fn fold_log(&mut self, truncate: bool) -> Result<u64, StoreError> {
        self.fold(truncate)
    }

    fn weaknesses(&mut self) -> Result<Vec<String>, StoreError> {
        // Our own code sets how the database is opened: no server has a say in it.
        Ok(Vec::new())
    }

    fn columns(&mut self) -> Result<Vec<(String, String)>, StoreError> {
        self.query(COLUMNS, &[])?
            .iter()
            .map(|row| Ok((row.text(0)?, row.text(1)?)))
            .collect()
    }

    fn definitions(&mut self) -> Result<Vec<String>, StoreError> {
        let rows = self.query(DEFINITIONS, &[])?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    fn prepare(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(sql)
            .map(drop)
            .map_err(|error| classify("cannot prepare a statement", &error))
    }

    fn statements(&self) -> u64 {
        self.statements
    }

    fn name(&self) -> &'static str {
        "sqlite"
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
        }))
    }
}

fn from_engine(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(value) => SqlValue::Int(value),
        ValueRef::Text(bytes) => SqlValue::Text(text_of(bytes)),
        // Our tables are strict and hold neither; shown as text, they fail their checksum.
        ValueRef::Real(value) => SqlValue::Text(value.to_string()),
        ValueRef::Blob(bytes) => SqlValue::Text(text_of(bytes)),
    }
}

fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
