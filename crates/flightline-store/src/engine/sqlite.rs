//! SQLite: the embedded default.

pub(crate) mod anchor;
mod failure;
mod log;
mod objects;
mod place;
mod reserve;
mod upgrade_copy;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flightline_core::Time;
use flightline_workspace::beneath::Dir;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};

use self::failure::{classify, io};
use self::place::{create_private, real_path, refuse_network, repair_modes};
use self::reserve::Reserve;
use super::queue::{Queue, Turn};
use super::upgrade::{Unsealed, seal_all};
use super::{Acknowledged, Anchor, Compaction, Disk, Driver, Durability, SCHEMA_VERSION, Space};
use crate::error::Error;
use crate::steps::Steps;
use crate::value::{Row, Value};

/// The file that holds the store.
pub(crate) const FILE: &str = "flightline.db";
/// Its log, and the index of that.
pub(crate) const LOG: &str = "flightline.db-wal";
pub(crate) const INDEX: &str = "flightline.db-shm";

/// No value of ours is longer: what is came from somewhere else.
const LONGEST_VALUE: i32 = 64 * 1024 * 1024;

/// How large the log may be when a command ends.
const LOG_BOUND: u64 = 512 * 1024;

/// Less free space than this, or than this part of the file, is not worth rewriting the file for.
const WORTH: u64 = 1024 * 1024;
const WORTH_PART: u64 = 4;

/// The pages of a new store.
const PAGE_SIZE: i64 = 8192;

/// `FLTL`: says that a SQLite file is ours.
const APPLICATION_ID: i64 = 0x464C_544C;

const MIGRATIONS: [&str; 10] = [
    include_str!("../schema/sqlite/0001_journal.sql"),
    include_str!("../schema/sqlite/0002_backups.sql"),
    include_str!("../schema/sqlite/0003_timeline.sql"),
    include_str!("../schema/sqlite/0004_plans.sql"),
    include_str!("../schema/sqlite/0005_rows.sql"),
    include_str!("../schema/sqlite/0006_chain.sql"),
    include_str!("../schema/sqlite/0007_cuts.sql"),
    include_str!("../schema/sqlite/0008_watch.sql"),
    include_str!("../schema/sqlite/0009_names.sql"),
    include_str!("../schema/sqlite/0010_work.sql"),
];

/// The migration after which the journal is sealed, and what follows then.
const CHAIN: usize = 6;
const CHAIN_END: &str = include_str!("../schema/sqlite/0006_chain_end.sql");

const TAKE: &str = "SELECT name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum FROM project WHERE id = ?1";
const COLUMNS: &str = "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c \
     WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.name";

const DEFINITIONS: &str = "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name";

/// How long to wait for SQLite's own lock where no queue keeps the order.
const UNQUEUED_WAIT: Duration = Duration::from_secs(5);

/// How a driver is opened.
pub(crate) struct Options {
    pub(crate) purpose: String,
    pub(crate) steps: Steps,
    pub(crate) max_pages: Option<u32>,
    /// Only looked at: nothing is made, upgraded or put right.
    pub(crate) look_only: bool,
    /// Whether a store of an earlier version is copied before it is changed.
    pub(crate) keep_old: bool,
}

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

/// One connection to a SQLite store.
pub(crate) struct Sqlite {
    connection: Connection,
    file: PathBuf,
    identity: Option<log::Identity>,
    log: PathBuf,
    queue: Queue,
    reserve: Reserve,
    turn: Option<Turn>,
    durability: Durability,
    /// A statement of this transaction failed: it can only be rolled back, as on PostgreSQL. SQLite would
    /// commit the rest, or, after some errors, each further statement by itself.
    failed: bool,
    broken: bool,
    /// Only looked at.
    look_only: bool,
    steps: Steps,
    anchor: anchor::Folder,
}

/// Opens the store in `folder`, creating it when `create` says so. Returns what was repaired on the way.
pub(crate) fn open(
    folder: &Path,
    create: bool,
    options: Options,
) -> Result<(Sqlite, Vec<String>), Error> {
    let mut repaired = Vec::new();
    if create {
        options.steps.step();
        create_private(folder)?;
        options.steps.step();
    }
    let place = match Dir::private(folder) {
        Ok(place) => Arc::new(place),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                return Err(Error::Missing(folder.display().to_string()));
            }
            _ => return Err(io("cannot open the store", &error)),
        },
    };
    // Looked at, never opened: closing any descriptor of the database would drop SQLite's own locks
    // for the whole process.
    let mut files = Vec::with_capacity(3);
    for name in [FILE, LOG, INDEX] {
        match place.plain_entry(name) {
            Ok(Some(seen)) => files.push((name, seen)),
            Ok(None) if name == FILE => {
                return Err(Error::Missing(folder.display().to_string()));
            }
            Ok(None) => {}
            Err(_) => return Err(Error::NotOurs(folder.join(name).display().to_string())),
        }
    }
    refuse_network(folder)?;
    if !options.look_only {
        repair_modes(&place, files, &mut repaired);
    }
    let access = match options.look_only {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // A symbolic link on the way to the folder is the user's business; one in its place is not.
    let real = real_path(folder).map_err(|error| io("cannot open the store", &error))?;
    let real = real.join(FILE);
    let connection = Connection::open_with_flags(&real, flags)
        .map_err(|error| classify("cannot open the store", &error))?;
    let mut driver = Sqlite {
        connection,
        broken: is_broken(&real),
        identity: log::Identity::of(&real),
        file: real,
        log: folder.join(LOG),
        queue: Queue::new(Arc::clone(&place), &options.purpose),
        reserve: Reserve::new(Arc::clone(&place), options.max_pages),
        look_only: options.look_only,
        turn: None,
        durability: Durability::Full,
        failed: false,
        steps: options.steps,
        anchor: anchor::Folder::new(place),
    };
    let keep_old = options.keep_old;
    repaired.extend(driver.prepare_connection(folder, create, keep_old)?);
    if let Some(pages) = options.max_pages {
        driver
            .connection
            .pragma_update(None, "max_page_count", pages)
            .map_err(|error| classify("cannot open the store", &error))?;
    }
    Ok((driver, repaired))
}

impl Sqlite {
    /// Makes the connection ready, and the schema current. Returns what is worth saying about that.
    fn prepare_connection(
        &mut self,
        folder: &Path,
        create: bool,
        keep_old: bool,
    ) -> Result<Option<String>, Error> {
        let act = "cannot open the store";
        let not_ours = || Error::NotOurs(folder.join(FILE).display().to_string());
        let said = |error: &rusqlite::Error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => not_ours(),
            _ => classify(act, error),
        };
        self.connection
            .busy_timeout(UNQUEUED_WAIT)
            .map_err(|error| said(&error))?;
        let pragma = |name: &str| {
            self.connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        };
        // In this order: somebody may be making the store right now, and all three change at once.
        let version = pragma("user_version").map_err(|error| said(&error))?;
        let tables = pragma("schema_version").map_err(|error| said(&error))?;
        let ours = pragma("application_id").map_err(|error| said(&error))?;
        let blank = ours == 0 && version == 0 && tables == 0;
        if ours != APPLICATION_ID && !blank {
            return Err(not_ours());
        }
        if blank && !create {
            return Err(Error::Missing(folder.display().to_string()));
        }
        if version > SCHEMA_VERSION {
            return Err(Error::Newer {
                found: version,
                known: SCHEMA_VERSION,
            });
        }
        self.connection
            .execute_batch(
                "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; \
                 PRAGMA cache_size = -8000; PRAGMA wal_autocheckpoint = 500;",
            )
            .map_err(|error| said(&error))?;
        // The checkpoint on the last close would cost every command 14 ms; `bound_log` does it now and then.
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(|error| said(&error))?;
        // A schema that came from somewhere else has no word in what we do.
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
            .map_err(|error| said(&error))?;
        self.connection
            .set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            .map_err(|error| said(&error))?;
        // Else a statement is planned anew for every value that is bound to it, which takes longer than running it.
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .map_err(|error| said(&error))?;
        self.connection.set_prepared_statement_cache_capacity(256);
        match version {
            SCHEMA_VERSION => Ok(None),
            _ if self.look_only => Err(Error::Untrusted),
            old => self.migrate(folder, keep_old && old > 0),
        }
    }

    fn migrate(&mut self, folder: &Path, keep_old: bool) -> Result<Option<String>, Error> {
        let act = "cannot prepare the store's schema";
        let said = |error: rusqlite::Error| classify(act, &error);
        self.turn = Some(self.queue.wait(Duration::from_secs(10))?);
        // Nobody else upgrades it now, and somebody may have done so while we waited.
        let before = self.version().map_err(said)?;
        if before == SCHEMA_VERSION {
            self.turn = None;
            return Ok(None);
        }
        let kept = match keep_old {
            true => {
                self.steps.step();
                let kept = self.copy_before_upgrade(folder, before)?;
                self.steps.step();
                Some(kept)
            }
            false => None,
        };
        // Only a file without tables takes it: events of 2 kB fill larger pages better.
        self.connection
            .pragma_update(None, "page_size", PAGE_SIZE)
            .map_err(said)?;
        self.connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(said)?;
        self.batch(act, "BEGIN IMMEDIATE")?;
        let migrated = self.bring_up_to_date();
        self.steps.step();
        let migrated = migrated.and_then(|()| {
            let committed = self.connection.execute_batch("COMMIT");
            committed.map_err(said)
        });
        if migrated.is_err() {
            self.rollback();
        }
        self.steps.step();
        self.turn = None;
        migrated?;
        Ok(kept.map(|kept| {
            format!(
                "the store was upgraded from schema {before} to {SCHEMA_VERSION}; as it was before it is kept as `{kept}`"
            )
        }))
    }

    fn version(&self) -> Result<i64, rusqlite::Error> {
        self.connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
    }

    fn bring_up_to_date(&mut self) -> Result<(), Error> {
        let said = |error: rusqlite::Error| classify("cannot prepare the store's schema", &error);
        let done = usize::try_from(self.version().map_err(said)?).unwrap_or(0);
        for (number, migration) in (1..).zip(MIGRATIONS).skip(done) {
            self.connection.execute_batch(migration).map_err(said)?;
            if number == CHAIN {
                seal_all(self, &Unsealed::Apart)?;
                self.connection.execute_batch(CHAIN_END).map_err(said)?;
            }
            self.steps.step();
        }
        self.connection
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(said)?;
        self.connection
            .pragma_update(None, "user_version", SCHEMA_VERSION)
            .map_err(said)
    }

    /// Takes rows from now on that no sound store has: for a copy of a damaged one, as it is.
    pub(crate) fn take_anything(&mut self) -> Result<(), Error> {
        self.connection
            .execute_batch("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF;")
            .map_err(|error| classify("cannot prepare the copy", &error))
    }

    /// Folds the log into the file, so that the file alone is the whole store.
    pub(crate) fn seal(self) -> Result<(), Error> {
        self.steps.step();
        self.connection
            .pragma_update(None, "journal_mode", "DELETE")
            .map_err(|error| classify("cannot finish the copy", &error))
    }

    /// Folds the log into the database once it has grown. SQLite's own automatic checkpoint serves only
    /// long-lived processes: what it copied is forgotten when the last connection closes, so that a log
    /// written by one command after another would never start anew, and each of them reads all of it
    /// when it opens the store. Gives way to whoever is writing: the next command will do.
    fn bound_log(&mut self) {
        let grown = fs::symlink_metadata(&self.log).is_ok_and(|seen| seen.len() > LOG_BOUND);
        if !grown || self.look_only || self.broken || !self.connection.is_autocommit() {
            return;
        }
        if let Ok(_turn) = self.queue.wait(Duration::ZERO) {
            let _ = self.connection.busy_timeout(Duration::ZERO);
            let _ = self
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    fn pragma(&mut self, sql: &'static str) -> Result<u64, Error> {
        match self.query(sql, &[])?.first() {
            Some(row) => row.unsigned(0),
            None => Ok(0),
        }
    }

    /// Writes the file anew without its free pages. SQLite does it in one transaction: whoever reads goes
    /// on, and should we die the file is as it was.
    fn rewrite(&mut self) -> Result<(), Error> {
        self.batch("cannot give free space back", "VACUUM")?;
        self.steps.step();
        // The new file is in the log until it is folded in. Readers may keep it from that for a while.
        self.query("PRAGMA wal_checkpoint(TRUNCATE)", &[])?;
        self.steps.step();
        Ok(())
    }

    fn batch(&mut self, act: &'static str, sql: &str) -> Result<(), Error> {
        self.steps.step();
        self.connection
            .execute_batch(sql)
            .map_err(|error| classify(act, &error))
    }

    fn mark(&mut self, sql: &str) -> Result<(), Error> {
        self.steps.step();
        let marked = self.connection.prepare_cached(sql);
        marked
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(|error| classify("cannot write to the store", &error))
    }

    fn begin_immediate(&mut self, durability: Durability, patience: Duration) -> Result<(), Error> {
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
        // Whoever holds the database now does not queue: another program.
        self.connection.busy_timeout(patience).map_err(said)?;
        let begun = self.batch(act, "BEGIN IMMEDIATE");
        self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
        begun
    }

    fn refuse_after_failure(&self) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Engine {
                act: "cannot write to the store",
                cause: "an earlier statement of this transaction failed".to_owned(),
            });
        }
        Ok(())
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.bound_log();
    }
}

impl Driver for Sqlite {
    fn begin_read(&mut self) -> Result<(), Error> {
        self.failed = false;
        self.check_identity()?;
        // Not a step: whoever dies here has touched nothing.
        self.connection
            .execute_batch("BEGIN DEFERRED")
            .map_err(|error| classify("cannot read the store", &error))
    }

    fn begin_write(&mut self, durability: Durability, patience: Duration) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        self.check_identity()?;
        let began = Instant::now();
        self.turn = Some(self.queue.wait(patience)?);
        // Again: another store may have been put in its place while we waited.
        if let Err(replaced) = self.check_identity() {
            self.turn = None;
            return Err(replaced);
        }
        self.failed = false;
        let begun = self.begin_immediate(durability, patience.saturating_sub(began.elapsed()));
        if begun.is_err() {
            self.turn = None;
        }
        begun
    }

    fn take_project(&mut self, project: &str, _hold: bool) -> Result<Option<Row>, Error> {
        Ok(self.query(TAKE, &[Value::from(project)])?.pop())
    }

    fn execute(&mut self, sql: &'static str, params: &[Value]) -> Result<u64, Error> {
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

    fn query(&mut self, sql: &'static str, params: &[Value]) -> Result<Vec<Row>, Error> {
        let said = |error: rusqlite::Error| classify("cannot read the store", &error);
        let mut statement = self.connection.prepare_cached(sql).map_err(said)?;
        let width = statement.column_count();
        let rows = statement
            .query_map(rusqlite::params_from_iter(params), |row| {
                (0..width)
                    .map(|at| row.get_ref(at).map(from_engine))
                    .collect::<Result<Vec<_>, _>>()
            })
            .map_err(said)?;
        rows.map(|row| row.map(Row).map_err(said)).collect()
    }

    fn savepoint(&mut self, anchor: Anchor) -> Result<(), Error> {
        self.mark(anchor.save())
    }

    fn release(&mut self, anchor: Anchor) -> Result<(), Error> {
        self.mark(anchor.release())
    }

    fn roll_back_to(&mut self, anchor: Anchor) -> Result<(), Error> {
        // A full disk, among others, takes the whole transaction: then there is no such place any more, and
        // the next SAVEPOINT would silently begin a transaction of its own.
        self.mark(anchor.back())?;
        self.failed = false;
        Ok(())
    }

    fn is_sound(&self) -> bool {
        !self.failed && !self.connection.is_autocommit()
    }

    fn commit(&mut self) -> Result<(), Error> {
        if let Err(error) = self.refuse_after_failure() {
            self.rollback();
            return Err(error);
        }
        let committed = self.batch("cannot commit to the store", "COMMIT");
        if committed.is_err() {
            self.rollback();
        }
        self.steps.step();
        self.turn = None;
        match committed {
            // After a failed fsync nobody knows what the disk holds, and a later one may lie.
            Err(Error::Engine { cause, .. }) => {
                note_broken(&self.file);
                self.broken = true;
                Err(Error::CommitUnknown(cause))
            }
            committed => committed,
        }
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // What cannot be rolled back is rolled back when the connection closes.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.turn = None;
    }

    fn server_time(&mut self) -> Result<Option<Time>, Error> {
        Ok(None)
    }

    fn integrity(&mut self) -> Result<Vec<String>, Error> {
        let rows = self.query("PRAGMA integrity_check(20)", &[])?;
        let mut said = rows
            .iter()
            .map(|row| row.text(0))
            .collect::<Result<Vec<String>, Error>>()?;
        said.retain(|line| line != "ok");
        for row in self.query("PRAGMA foreign_key_check", &[])?.iter().take(20) {
            said.push(format!("a row of `{}` belongs to no project", row.text(0)?));
        }
        Ok(said)
    }

    fn schema_troubles(&mut self) -> Result<Vec<String>, Error> {
        Ok(self.objects()?.0)
    }

    fn mend_schema(&mut self, patience: Duration) -> Result<Vec<String>, Error> {
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
        // It may lag behind: what was committed stands without it.
        let _ = self.anchor.write(last);
    }

    fn space(&mut self) -> Result<Space, Error> {
        let page = self.pragma("PRAGMA page_size")?;
        let size = |path: &Path| fs::symlink_metadata(path).map_or(0, |seen| seen.len());
        Ok(Space {
            database: size(&self.file),
            log: size(&self.log),
            free: Some(self.pragma("PRAGMA freelist_count")? * page),
        })
    }

    fn disk(&mut self) -> Result<Option<Disk>, Error> {
        self.look_at_disk()
    }

    fn keep_reserve(&mut self) -> Result<(), Error> {
        self.make_reserve()
    }

    fn spend_reserve(&mut self) -> bool {
        self.give_up_reserve()
    }

    fn compact(&mut self, loose: u64, most: u64) -> Result<Compaction, Error> {
        let total = self.pragma("PRAGMA page_count")? * self.pragma("PRAGMA page_size")?;
        let before = self.space()?;
        let free = (before.free.unwrap_or(0) + loose).min(total);
        if free < WORTH || free < total / WORTH_PART {
            return Ok(Compaction::NotWorthIt);
        }
        if total - free > most {
            return Ok(Compaction::Later("it is large"));
        }
        if self.broken || !self.connection.is_autocommit() {
            return Err(Error::Broken);
        }
        let Ok(_turn) = self.queue.wait(Duration::ZERO) else {
            return Ok(Compaction::Later("another process is writing"));
        };
        let said = |error: rusqlite::Error| classify("cannot give free space back", &error);
        self.connection.busy_timeout(Duration::ZERO).map_err(said)?;
        let rewritten = self.rewrite();
        self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
        match rewritten {
            Err(Error::Busy(_)) => return Ok(Compaction::Later("another process is writing")),
            rewritten => rewritten?,
        }
        let after = self.space()?;
        Ok(match before.database.saturating_sub(after.database) {
            0 => Compaction::Later("another process is reading the old pages"),
            bytes => Compaction::Returned(bytes),
        })
    }

    fn fold_log(&mut self, truncate: bool) -> Result<u64, Error> {
        self.fold(truncate)
    }

    fn weaknesses(&mut self) -> Result<Vec<String>, Error> {
        // What it is opened with is ours to say.
        Ok(Vec::new())
    }

    fn columns(&mut self) -> Result<Vec<(String, String)>, Error> {
        self.query(COLUMNS, &[])?
            .iter()
            .map(|row| Ok((row.text(0)?, row.text(1)?)))
            .collect()
    }

    fn definitions(&mut self) -> Result<Vec<String>, Error> {
        let rows = self.query(DEFINITIONS, &[])?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    fn prepare(&mut self, sql: &'static str) -> Result<(), Error> {
        self.connection
            .prepare_cached(sql)
            .map(drop)
            .map_err(|error| classify("cannot prepare a statement", &error))
    }

    fn name(&self) -> &'static str {
        "sqlite"
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
        }))
    }
}

fn from_engine(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        // Our tables are strict and hold neither; shown as text, they fail their checksum.
        ValueRef::Real(value) => Value::Text(value.to_string()),
        ValueRef::Blob(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}
