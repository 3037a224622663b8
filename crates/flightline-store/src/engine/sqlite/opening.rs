//! Opens a SQLite store: looks at its files first, then makes the connection ready and the schema current.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flightline_workspace::beneath::{Dir, DirEntry};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::failure::{classify, io};
use super::log::Keeper;
use super::member::Member;
use super::place::{create_private, real_path, refuse_network, repair_modes};
use super::reserve::Reserve;
use super::{FILE, INDEX, LOG, ROLLBACK, Sqlite, UNQUEUED_WAIT, anchor, is_broken, log};
use crate::crash_points::CrashPoints;
use crate::engine::queue::WriterQueue;
use crate::engine::upgrade::{Unsealed, seal_all};
use crate::engine::{Driver as _, Durability, SCHEMA_VERSION};
use crate::error::StoreError;

/// The most bytes of a value of ours: a longer one came from somewhere else.
const LONGEST_VALUE: i32 = 64 * 1024 * 1024;

pub(super) const PAGE_SIZE: u32 = 8192;

/// The length of a rollback journal that holds no page.
const EMPTY_ROLLBACK: u64 = 512;

/// The mark of a SQLite file that is ours: `FLTL`.
const APPLICATION_ID: i64 = 0x464C_544C;

pub(super) const MIGRATIONS: [&str; 12] = [
    include_str!("../../schema/sqlite/0001_journal.sql"),
    include_str!("../../schema/sqlite/0002_backups.sql"),
    include_str!("../../schema/sqlite/0003_timeline.sql"),
    include_str!("../../schema/sqlite/0004_plans.sql"),
    include_str!("../../schema/sqlite/0005_rows.sql"),
    include_str!("../../schema/sqlite/0006_chain.sql"),
    include_str!("../../schema/sqlite/0007_cuts.sql"),
    include_str!("../../schema/sqlite/0008_watch.sql"),
    include_str!("../../schema/sqlite/0009_names.sql"),
    include_str!("../../schema/sqlite/0010_work.sql"),
    include_str!("../../schema/sqlite/0011_deltas.sql"),
    include_str!("../../schema/sqlite/0012_pages.sql"),
];

/// The migration after which the journal is sealed, and the statements that follow then.
pub(super) const CHAIN: usize = 6;
pub(super) const CHAIN_END: &str = include_str!("../../schema/sqlite/0006_chain_end.sql");

pub(crate) struct Options {
    pub(crate) purpose: String,
    pub(crate) steps: CrashPoints,
    pub(crate) max_pages: Option<u32>,
    /// True when the store is only looked at: nothing is made, upgraded or put right.
    pub(crate) look_only: bool,
    /// True when a store of an earlier version is copied before it is changed.
    pub(crate) keep_old: bool,
    /// True when the store is written to again and again: its log is folded beside it, and more of it stays in memory.
    pub(crate) keeps_log: bool,
}

/// Opens the store in `folder`, creating it when `create` says so. Returns the repairs made on the way.
pub(crate) fn open(
    folder: &Path,
    create: bool,
    options: Options,
) -> Result<(Sqlite, Vec<String>), StoreError> {
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
                return Err(StoreError::Missing(folder.display().to_string()));
            }
            _ => return Err(io("cannot open the store", &error)),
        },
    };
    // The files are looked at, never opened: closing any descriptor of the database would drop SQLite's own locks for
    // the whole process.
    let mut files = Vec::with_capacity(3);
    for name in [FILE, LOG, INDEX] {
        match place.plain_entry(name) {
            Ok(Some(seen)) => files.push((name, seen)),
            Ok(None) if name == FILE => {
                return Err(StoreError::Missing(folder.display().to_string()));
            }
            Ok(None) => {}
            Err(error) => return Err(unusable(folder, name, &error)),
        }
    }
    refuse_rollback(&place, folder, &files)?;
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
    let keeper = options.keeps_log.then(|| {
        // Without this hold, commands that end would fold the log, too, which costs time and does no harm.
        let _ = place.hold();
        Keeper::new(folder, &options.purpose)
    });
    let mut driver = Sqlite {
        connection,
        folder: Arc::clone(&place),
        keeper,
        broken: is_broken(&real),
        identity: log::LogIdentity::of(&real),
        file: real,
        log: folder.join(LOG),
        queue: WriterQueue::new(Arc::clone(&place), &options.purpose),
        reserve: Reserve::new(Arc::clone(&place), options.max_pages),
        look_only: options.look_only,
        turn: None,
        durability: Durability::Full,
        failed: false,
        steps: options.steps,
        statements: 0,
        member: Member::default(),
        anchor: anchor::AnchorFolder::new(place),
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

/// Returns the refusal of a file of the store that may not be used.
fn unusable(folder: &Path, name: &str, error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::PermissionDenied => StoreError::OfAnother(error.to_string()),
        _ => StoreError::NotOurs(folder.join(name).display().to_string()),
    }
}

/// Refuses a rollback journal beside the database. SQLite would play it back, and our database never has one: it writes a
/// log ahead. Only while a database is made there is one for a moment, without a page in it.
fn refuse_rollback(
    place: &Dir,
    folder: &Path,
    files: &[(&str, DirEntry)],
) -> Result<(), StoreError> {
    let rollback = || StoreError::Rollback(folder.join(ROLLBACK).display().to_string());
    let journal = match place.plain_entry(ROLLBACK) {
        Ok(Some(journal)) => journal,
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(unusable(folder, ROLLBACK, &error));
        }
        Err(_) => return Err(rollback()),
    };
    let size = |name: &str| {
        let seen = files.iter().find(|(known, _)| *known == name);
        seen.map_or(0, |(_, seen)| seen.size)
    };
    let is_being_made = size(FILE) <= u64::from(PAGE_SIZE) && size(LOG) == 0;
    match is_being_made && journal.size <= EMPTY_ROLLBACK {
        true => Ok(()),
        false => Err(rollback()),
    }
}

impl Sqlite {
    /// Makes the connection ready, and the schema current. Returns sentences about the changes.
    fn prepare_connection(
        &mut self,
        folder: &Path,
        create: bool,
        keep_old: bool,
    ) -> Result<Option<String>, StoreError> {
        let act = "cannot open the store";
        let not_ours = || StoreError::NotOurs(folder.join(FILE).display().to_string());
        let said = |error: &rusqlite::Error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => not_ours(),
            _ => classify(act, error),
        };
        self.connection
            .busy_timeout(UNQUEUED_WAIT)
            .map_err(|error| said(&error))?;
        let batch = |sql: &str| {
            let done = self.connection.execute_batch(sql);
            done.map_err(|error| said(&error))
        };
        let pragma = |name: &str| {
            let found = self
                .connection
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            found.map_err(|error| said(&error))
        };
        // At one moment: another process may be making the store right now.
        batch("BEGIN")?;
        let version = pragma("user_version")?;
        let tables = pragma("schema_version")?;
        let ours = pragma("application_id")?;
        let blank = ours == 0 && version == 0 && tables == 0;
        if ours != APPLICATION_ID && !blank {
            return Err(not_ours());
        }
        if blank && !create {
            return Err(StoreError::Missing(folder.display().to_string()));
        }
        if version > SCHEMA_VERSION {
            return Err(StoreError::Newer {
                found: version,
                known: SCHEMA_VERSION,
            });
        }
        // The first of these reads the schema: at the same moment, too.
        batch(match self.keeper {
            Some(_) => "PRAGMA cache_size = -64000; PRAGMA wal_autocheckpoint = 0; COMMIT",
            // Larger than a log that a server keeps: a command beside one leaves it alone.
            None if self.folder.is_held() => {
                "PRAGMA cache_size = -16000; PRAGMA wal_autocheckpoint = 4096; COMMIT"
            }
            // 4 MB: a log that begins anew writes over its own room, and one that grows waits longer for the disk.
            None => "PRAGMA cache_size = -16000; PRAGMA wal_autocheckpoint = 512; COMMIT",
        })?;
        // Without `temp_store = MEMORY`, SQLite would write the journal of a savepoint to a file.
        batch(
            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; \
             PRAGMA temp_store = MEMORY",
        )?;
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
            _ if self.look_only => Err(StoreError::Untrusted),
            old => self.migrate(folder, keep_old && old > 0),
        }
    }

    fn migrate(&mut self, folder: &Path, keep_old: bool) -> Result<Option<String>, StoreError> {
        let act = "cannot prepare the store's schema";
        let said = |error: rusqlite::Error| classify(act, &error);
        self.turn = Some(self.queue.wait(Duration::from_secs(10))?);
        // No other process upgrades it now, but one may have done so while we waited.
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
        // Only a file without tables takes it: records of checkpoints fill larger pages better.
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

    fn bring_up_to_date(&mut self) -> Result<(), StoreError> {
        let said = |error: rusqlite::Error| classify("cannot prepare the store's schema", &error);
        let done = usize::try_from(self.version().map_err(said)?).unwrap_or(0);
        for (number, migration) in (1..).zip(MIGRATIONS).skip(done) {
            self.connection.execute_batch(migration).map_err(said)?;
            if number == CHAIN {
                seal_all(&self.steps.clone(), self, &Unsealed::Apart)?;
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
}
