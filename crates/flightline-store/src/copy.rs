//! Copies of a whole project: to a file of its own, and back into a store. The file is a SQLite store whatever the
//! engine, so a backup also moves a project from one engine to the other.
//!
//! SQLite opens its files by path, and takes no handle. So the copy is made and read in a folder of its own, which only
//! this user can enter and whose name cannot be guessed: no link can be put into it. The one name outside that is
//! written is the requested file, and a hard link takes it only where nothing is.
#![expect(clippy::disallowed_methods, reason = "SQLite opens by path: see above")]

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flightline_core::history::LEFT_OUT;
use flightline_workspace::beneath::Dir;
use uuid::Uuid;

use crate::crash_points::CrashPoints;
use crate::engine::{Driver, Durability, sqlite};
use crate::error::StoreError;
use crate::store::{Store, TxAccess};
use crate::table::project::{self, ProjectRow};
use crate::table::statements;
use crate::tx::Tx;
use crate::value::{Row, SqlValue, params};

statements! {
    READ_SUBJECTS = "SELECT project, kind, id, mission, parent, agent, name, status, percent, born, rev, at, sha, doc, gone, sum FROM subject \
                     WHERE project = ?1 AND (kind > ?2 OR (kind = ?2 AND id > ?3)) ORDER BY kind, id LIMIT 500";
    WRITE_SUBJECT = "INSERT INTO subject (project, kind, id, mission, parent, agent, name, status, percent, born, rev, at, sha, doc, gone, sum) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    READ_EVENTS = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base FROM event WHERE project = ?1 AND rev > ?2 ORDER BY rev LIMIT 500";
    WRITE_EVENT = "INSERT INTO event (project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    READ_PULSES = "SELECT project, agent, epoch, at, data, sum FROM pulse WHERE project = ?1 ORDER BY agent";
    WRITE_PULSE = "INSERT INTO pulse (project, agent, epoch, at, data, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    READ_REQUESTS = "SELECT project, actor, key, hash, outcome, at, sum FROM request WHERE project = ?1 ORDER BY actor, key";
    WRITE_REQUEST = "INSERT INTO request (project, actor, key, hash, outcome, at, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    READ_BACKUPS = "SELECT project, checkpoint, state, at, bytes, sha, why, sum FROM backup WHERE project = ?1 ORDER BY checkpoint";
    WRITE_BACKUP = "INSERT INTO backup (project, checkpoint, state, at, bytes, sha, why, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    CLEAR_SUBJECTS = "DELETE FROM subject WHERE project = ?1";
    CLEAR_EVENTS = "DELETE FROM event WHERE project = ?1";
    CLEAR_PULSES = "DELETE FROM pulse WHERE project = ?1";
    CLEAR_WATCHES = "DELETE FROM watch WHERE project = ?1";
    CLEAR_REQUESTS = "DELETE FROM request WHERE project = ?1";
    CLEAR_BACKUPS = "DELETE FROM backup WHERE project = ?1";
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub project: String,
    /// The id of the unbroken journal in the copy.
    pub history: String,
    pub rev: u64,
    pub events: u64,
    pub subjects: u64,
}

impl Store {
    /// Copies the whole project, as of one moment, to `file`, which must not exist. When this returns
    /// `Ok`, the file is complete, verified and durable.
    pub fn back_up(&mut self, file: &Path) -> Result<Copied, StoreError> {
        self.back_up_with(file, Verifying::Yes)
    }

    /// Copies the whole project as it is, damage included: for looking at it later.
    pub fn back_up_as_it_is(&mut self, file: &Path) -> Result<Copied, StoreError> {
        self.back_up_with(file, Verifying::No)
    }

    fn back_up_with(&mut self, file: &Path, verifying: Verifying) -> Result<Copied, StoreError> {
        if fs::symlink_metadata(file).is_ok() {
            return Err(StoreError::Location(format!(
                "{} exists already",
                file.display()
            )));
        }
        let steps = self.steps();
        let side = Side::new(parent_of(file))?;
        self.driver().begin_read()?;
        let copied = self.copy_to(&side, verifying);
        self.driver().rollback();
        let copied = copied?;
        if verifying == Verifying::Yes {
            open_checked(&side.folder, &copied.project, &steps, "copy")?;
        }
        steps.step();
        side.settle(file)?;
        steps.step();
        Ok(copied)
    }

    fn copy_to(&mut self, side: &Side, verifying: Verifying) -> Result<Copied, StoreError> {
        let (project, steps) = (self.project().to_owned(), self.steps());
        let from = self.driver();
        let row = from
            .take_project(&project, false)?
            .ok_or_else(|| StoreError::UnknownProject(project.clone()))?;
        let row = ProjectRow {
            // The timeline is that of the database the row came from: a file has none.
            timeline: None,
            ..ProjectRow::from_row(from, &project, &row)?
        };
        let options = sqlite::Options {
            purpose: "backup".to_owned(),
            steps,
            max_pages: None,
            look_only: false,
            keep_old: false,
            keeps_log: false,
        };
        let (mut to, _) = sqlite::open(&side.folder, true, options)?;
        if verifying == Verifying::No {
            to.take_anything()?;
        }
        to.begin_write(Durability::Full, Duration::from_secs(10))?;
        project::insert(&mut to, &row)?;
        let copied = copy_rows(from, &mut to, &project, &project)?;
        to.commit()?;
        to.seal()?;
        Ok(Copied {
            rev: row.rev,
            history: row.history,
            ..copied
        })
    }

    /// Replaces everything in this project by the content of `file`, or makes the project from it, in one transaction, as
    /// a new history whose counter lies above every revision seen before, and above `above`. `settle` runs in that transaction and may add to
    /// it. When this returns `Err`, nothing has changed.
    pub fn restore_above<T, E: From<StoreError>>(
        &mut self,
        file: &Path,
        above: u64,
        settle: impl FnOnce(&mut Tx<'_>, &Copied) -> Result<T, E>,
    ) -> Result<T, E> {
        self.restore_opened(file, &|| File::open(file), above, settle)
    }

    /// Restores from a file that the closure `open` opens. See [`Store::restore_above`].
    pub fn restore_opened<T, E: From<StoreError>>(
        &mut self,
        file: &Path,
        open: &dyn Fn() -> io::Result<File>,
        above: u64,
        settle: impl FnOnce(&mut Tx<'_>, &Copied) -> Result<T, E>,
    ) -> Result<T, E> {
        refuse_live(file)?;
        let side = Side::new(&std::env::temp_dir())?;
        let copied = open()
            .map_err(|error| unreadable(file, &error))
            .and_then(|opened| copy_database(opened, file, &side.folder.join(sqlite::FILE)));
        self.steps().step();
        copied?;
        let source = sole_project(&side.folder).map_err(|error| named(error, file))?;
        let mut from = open_checked(&side.folder, &source, &self.steps(), "backup")?;
        self.replace(&mut from, &source, above, settle)
    }

    fn replace<T, E: From<StoreError>>(
        &mut self,
        from: &mut Self,
        source: &str,
        above: u64,
        settle: impl FnOnce(&mut Tx<'_>, &Copied) -> Result<T, E>,
    ) -> Result<T, E> {
        let (project, patience) = (self.project().to_owned(), self.patience());
        // A revision that was acknowledged and is lost by now must not be handed out again.
        let above = self.last_acknowledged().max(above);
        self.driver().begin_write(Durability::Full, patience)?;
        let replaced =
            self.replace_rows(from, source, &project)
                .and_then(|(seen, seal, copied)| {
                    let mut tx = self.transaction_as_it_is(TxAccess::Write)?;
                    // The next event follows the last event that was copied.
                    tx.project.seal = seal;
                    // Whatever was wrong with the row, only the name and the time of its making stay of it.
                    tx.project.intact = true;
                    let above = seen.max(copied.rev).max(above);
                    // The part that a replica lacked may have had revisions that were never seen here.
                    let unseen = if tx.was_replaced() { LEFT_OUT } else { 0 };
                    tx.begin_history(above.saturating_add(unseen));
                    Ok((tx, copied))
                });
        let settled = match replaced {
            Ok((mut tx, copied)) => settle(&mut tx, &copied).map(|outcome| (outcome, tx.project)),
            Err(error) => Err(E::from(error)),
        };
        let outcome = settled.and_then(|(outcome, row)| {
            project::advance(self.driver(), &row)?;
            Ok((outcome, row))
        });
        match outcome {
            Ok((outcome, row)) => {
                self.driver().commit()?;
                self.acknowledge(&row);
                Ok(outcome)
            }
            Err(error) => {
                self.driver().rollback();
                Err(error)
            }
        }
    }

    fn replace_rows(
        &mut self,
        from: &mut Self,
        source: &str,
        project: &str,
    ) -> Result<(u64, String, Copied), StoreError> {
        let row = from.driver().take_project(source, false)?;
        let row = row.ok_or_else(|| StoreError::UnknownProject(source.to_owned()))?;
        let theirs = ProjectRow::from_row(from.driver(), source, &row)?;
        let seen = match self.driver().take_project(project, true)? {
            Some(row) => match ProjectRow::from_row(self.driver(), project, &row) {
                Ok(ours) => ours.rev,
                // The replaced store need not be sound: `above` stands for a counter that cannot be read.
                Err(_) => {
                    let sound = ProjectRow {
                        id: project.to_owned(),
                        rev: 0,
                        ..theirs.clone()
                    };
                    project::advance(self.driver(), &sound)?;
                    0
                }
            },
            None => {
                let (name, history) = (&theirs.name, &theirs.history);
                let new = ProjectRow::new(project, name, history, theirs.created_at);
                project::insert(self.driver(), &new)?;
                0
            }
        };
        for clear in [
            CLEAR_SUBJECTS,
            CLEAR_EVENTS,
            CLEAR_PULSES,
            CLEAR_WATCHES,
            CLEAR_REQUESTS,
            CLEAR_BACKUPS,
        ] {
            self.driver().execute(clear, params![project])?;
        }
        let copied = copy_rows(from.driver(), self.driver(), source, project)?;
        let copied = Copied {
            rev: theirs.rev,
            history: theirs.history,
            ..copied
        };
        Ok((seen, theirs.seal, copied))
    }
}

pub(crate) fn copy_rows(
    from: &mut dyn Driver,
    to: &mut dyn Driver,
    source: &str,
    target: &str,
) -> Result<Copied, StoreError> {
    let mut write = |sql: &'static str, rows: Vec<Row>| {
        let count = rows.len() as u64;
        for mut row in rows {
            row.0[0] = SqlValue::from(target);
            to.execute(sql, &row.0)?;
        }
        Ok::<u64, StoreError>(count)
    };
    let (mut subjects, mut kind, mut id) = (0, String::new(), String::new());
    loop {
        let batch = from.query(READ_SUBJECTS, params![source, kind.as_str(), id.as_str()])?;
        let Some(last) = batch.last() else { break };
        (kind, id) = (last.text(1)?, last.text(2)?);
        subjects += write(WRITE_SUBJECT, batch)?;
    }
    let (mut events, mut rev) = (0, 0);
    loop {
        let batch = from.query(READ_EVENTS, params![source, rev])?;
        let Some(last) = batch.last() else { break };
        rev = last.unsigned(1)?;
        events += write(WRITE_EVENT, batch)?;
    }
    write(WRITE_PULSE, from.query(READ_PULSES, params![source])?)?;
    write(WRITE_REQUEST, from.query(READ_REQUESTS, params![source])?)?;
    write(WRITE_BACKUP, from.query(READ_BACKUPS, params![source])?)?;
    Ok(Copied {
        project: source.to_owned(),
        history: String::new(),
        rev,
        events,
        subjects,
    })
}

/// Refuses a database in use. Closing a database that this process has open would drop SQLite's locks on it, and a copy of
/// it would lack the content of its log. A finished backup has neither log nor index beside it.
fn refuse_live(file: &Path) -> Result<(), StoreError> {
    let cannot = |error| unreadable(file, &error);
    let real = file.canonicalize().map_err(cannot)?;
    if !fs::symlink_metadata(&real).map_err(cannot)?.is_file() {
        return Err(StoreError::NotOurs(file.display().to_string()));
    }
    for suffix in ["-wal", "-shm"] {
        let mut beside = real.clone().into_os_string();
        beside.push(suffix);
        if fs::symlink_metadata(&beside).is_ok() {
            return Err(StoreError::Location(format!(
                "{} is a store in use and not a backup",
                file.display()
            )));
        }
    }
    Ok(())
}

/// Copies a database's file. Refuses a file that is no database, or not of the size that its header tells: a file of any
/// size can be made of nothing.
fn copy_database(mut from: File, file: &Path, to: &Path) -> Result<(), StoreError> {
    let cannot = |error| unreadable(file, &error);
    let size = from.metadata().map_err(cannot)?.len();
    let mut header = Vec::with_capacity(HEADER);
    from.by_ref()
        .take(HEADER as u64)
        .read_to_end(&mut header)
        .map_err(cannot)?;
    match database_size(&header) {
        None => return Err(StoreError::NotOurs(file.display().to_string())),
        Some(told) if told != size => {
            return Err(StoreError::Corrupt(format!(
                "{} has {size} bytes, and its header tells {told}",
                file.display()
            )));
        }
        Some(_) => {}
    }
    from.rewind().map_err(cannot)?;
    let mut copy = File::create_new(to).map_err(cannot)?;
    io::copy(&mut from, &mut copy).map_err(cannot)?;
    Ok(())
}

/// The length of the header of SQLite's files.
const HEADER: usize = 100;

/// The size that the header of a database tells: its pages times their size.
fn database_size(header: &[u8]) -> Option<u64> {
    if !header.starts_with(b"SQLite format 3\0") {
        return None;
    }
    let page = match u16::from_be_bytes(header.get(16..18)?.try_into().ok()?) {
        // 65,536 does not fit.
        1 => 65_536,
        page => u64::from(page),
    };
    let pages = u32::from_be_bytes(header.get(28..32)?.try_into().ok()?);
    Some(page * u64::from(pages))
}

fn unreadable(file: &Path, error: &io::Error) -> StoreError {
    StoreError::Location(format!("{} cannot be read: {error}", file.display()))
}

/// Turns an error about our copy of a file into one about the file that the user named.
fn named(error: StoreError, file: &Path) -> StoreError {
    match error {
        StoreError::Missing(_) | StoreError::NotOurs(_) => {
            StoreError::NotOurs(file.display().to_string())
        }
        other => other,
    }
}

fn sole_project(folder: &Path) -> Result<String, StoreError> {
    let location = crate::Location::Folder(folder.to_path_buf());
    let mut store = Store::open(&location, "", watched(&CrashPoints::default()))?;
    match store.projects()?.as_slice() {
        [only] => Ok(only.clone()),
        several => Err(StoreError::NotOurs(format!(
            "a file with {} projects",
            several.len()
        ))),
    }
}

/// The options for opening a copy: its steps count with those of the store.
fn watched(steps: &CrashPoints) -> crate::OpenOptions {
    crate::OpenOptions {
        steps: steps.clone(),
        keep_old: false,
        ..crate::OpenOptions::default()
    }
}

/// The choice of checking a copy before it gets its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verifying {
    Yes,
    No,
}

/// Opens a copy, and checks every row of it.
fn open_checked(
    folder: &Path,
    project: &str,
    steps: &CrashPoints,
    what: &str,
) -> Result<Store, StoreError> {
    let location = crate::Location::Folder(folder.to_path_buf());
    let mut copy = Store::open(&location, project, watched(steps))?;
    let findings = crate::verify::verify(&mut copy)?;
    match findings.into_iter().find(|finding| finding.is_grave()) {
        None => Ok(copy),
        Some(finding) => Err(StoreError::Corrupt(format!(
            "the {what} fails its check of {}: {}",
            finding.check,
            finding.problems.join("; ")
        ))),
    }
}

/// A folder in which a copy is made or read. It goes with this value.
struct Side {
    above: Dir,
    name: String,
    folder: PathBuf,
}

impl Side {
    fn new(parent: &Path) -> Result<Self, StoreError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the name of a folder that is gone before anybody sees it"
        )]
        let name = format!(".flightline-{}", Uuid::new_v4());
        let made = Dir::shared(parent).and_then(|above| above.make(&name, 0o700).map(|_| above));
        let above = made.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly(format!("{}: {error}", parent.display()))
            }
            _ => StoreError::Location(format!("{} cannot be written: {error}", parent.display())),
        })?;
        let folder = parent.join(&name);
        Ok(Self {
            above,
            name,
            folder,
        })
    }

    /// Gives the finished copy its name, beside this folder.
    fn settle(&self, file: &Path) -> Result<(), StoreError> {
        let made = Path::new(&self.name).join(sqlite::FILE);
        let name = file.file_name().unwrap_or_default();
        // The copy's connection is closed: nothing of ours holds this file open.
        let opened = self.above.open_file(&made);
        let synced = opened.and_then(|opened| opened.map_or(Ok(()), |opened| opened.sync_all()));
        // A hard link fails where the name is taken, so nothing that appeared meanwhile is lost.
        synced
            .and_then(|()| self.above.hard_link(&made, name))
            .and_then(|()| self.above.sync())
            .map_err(|error| StoreError::Engine {
                act: "cannot write the backup",
                cause: error.to_string(),
            })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.above.remove_folder(&self.name);
    }
}

fn parent_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}
