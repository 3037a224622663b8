//! Bounds and folds the write-ahead log of a process that lives long, and checks that the database is still the one it
//! opened.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::failure::io;
use super::{FILE, Options, Sqlite, UNQUEUED_WAIT, classify, open};
use crate::crash_points::CrashPoints;
use crate::engine::Driver as _;
use crate::error::StoreError;

/// The size in bytes that the log may have when a command ends.
const LOG_BOUND: u64 = 512 * 1024;

/// The number of pages at which the log of a keeper is folded and begins anew: 16 MB.
const FOLDED_AT: u64 = 2_048;
/// The time for which a keeper waits for its turn to have the log begin anew, and then for readers of its last pages. The
/// next 16 MB give it another chance.
const TURN_WAIT: Duration = Duration::from_secs(1);
const READERS_WAIT: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogIdentity {
    device: u64,
    number: u64,
}

impl LogIdentity {
    pub(super) fn of(file: &Path) -> Option<Self> {
        let seen = fs::symlink_metadata(file).ok()?;
        Some(Self {
            device: seen.dev(),
            number: seen.ino(),
        })
    }
}

impl Sqlite {
    /// Refuses a file that was removed or replaced: it would go on to take writes, which could never be found again.
    pub(super) fn check_identity(&self) -> Result<(), StoreError> {
        if LogIdentity::of(&self.file) == self.identity {
            return Ok(());
        }
        Err(StoreError::Unreachable(
            "its file was moved, removed or replaced while it was open".to_owned(),
        ))
    }

    /// Folds the log into the database, as far as no process has to wait for it; with `truncate` also takes its space
    /// back, if no process reads or writes just now. Returns the log's size afterwards.
    pub(super) fn fold(&mut self, truncate: bool) -> Result<u64, StoreError> {
        let act = "cannot fold the log into the database";
        self.check_foldable(act)?;
        let said = |error: rusqlite::Error| classify(act, &error);
        if truncate {
            // A process that is writing goes first; the next time will do.
            if let Ok(_turn) = self.queue.wait(Duration::ZERO) {
                self.connection.busy_timeout(Duration::ZERO).map_err(said)?;
                let folded = self.query("PRAGMA wal_checkpoint(TRUNCATE)", &[]);
                self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
                match folded {
                    Ok(_) | Err(StoreError::Busy(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        } else {
            self.query("PRAGMA wal_checkpoint(PASSIVE)", &[])?;
        }
        Ok(fs::symlink_metadata(&self.log).map_or(0, |seen| seen.len()))
    }

    /// Folds the log into the database once it has grown. SQLite's own automatic checkpoint serves only
    /// long-lived processes: what it copied is forgotten when the last connection closes, so that a log
    /// written by one command after another would never start anew, and each of them reads all of it
    /// when it opens the store. A writer goes first: the next command folds the log. A log that a keeper
    /// folds is left to that.
    pub(super) fn bound_log(&mut self, kept: bool) {
        let grown = fs::symlink_metadata(&self.log).is_ok_and(|seen| seen.len() > LOG_BOUND);
        if !grown || self.look_only || self.broken || !self.connection.is_autocommit() {
            return;
        }
        if !kept && self.folder.is_held() {
            return;
        }
        if let Ok(_turn) = self.queue.wait(Duration::ZERO) {
            let _ = self.connection.busy_timeout(Duration::ZERO);
            let _ = self
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    /// Has the log folded when it has grown, by the keeper's thread if there can be one. A failed attempt is repeated
    /// later.
    pub(super) fn watch_log(&mut self) {
        if self.keeper.is_none() || self.broken {
            return;
        }
        // Does nothing, and says how many pages the log has.
        let Ok(pages) = self.pages_of_log("PRAGMA wal_checkpoint(NOOP)") else {
            return;
        };
        if let Some(keeper) = &mut self.keeper
            && keeper.wants_to_fold(pages)
            && !keeper.wake()
        {
            let _ = self.fold_and_restart();
        }
    }

    /// Folds the log beside the writer, and then, in its turn, the pages added meanwhile: so the next writer begins the
    /// log anew, in the room that it has.
    fn fold_and_restart(&mut self) -> Result<(), StoreError> {
        let act = "cannot fold the log into the database";
        self.check_foldable(act)?;
        if self.pages_of_log("PRAGMA wal_checkpoint(PASSIVE)")? < FOLDED_AT {
            return Ok(());
        }
        let said = |error: rusqlite::Error| classify(act, &error);
        let Ok(_turn) = self.queue.wait(TURN_WAIT) else {
            return Ok(());
        };
        self.connection.busy_timeout(READERS_WAIT).map_err(said)?;
        let restarted = self.pages_of_log("PRAGMA wal_checkpoint(RESTART)");
        self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
        restarted.map(drop)
    }

    /// Refuses to fold the log where nothing can be written any more: SQLite would end the process when it notes, in
    /// memory that it shares through a file, how much of the log it is about to fold.
    fn check_foldable(&self, act: &'static str) -> Result<(), StoreError> {
        self.check_identity()?;
        let writable = self.folder.check_writable(FILE);
        writable.map_err(|error| io(act, &error))
    }

    fn pages_of_log(&mut self, checkpoint: &'static str) -> Result<u64, StoreError> {
        let rows = self.query(checkpoint, &[])?;
        rows.first().map_or(Ok(0), |row| row.unsigned(1))
    }
}

/// Folds the log of a connection that writes again and again, on a thread of its own with a connection of its own. The
/// keeper's connection copies pages to the database and waits for the disk, and the connection that writes does neither.
pub(super) struct Keeper {
    folder: PathBuf,
    purpose: String,
    /// The number of pages of the log after the last commit.
    pages: u64,
    /// The number of pages at which the log is folded next.
    next: u64,
    thread: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Keeper {
    pub(super) fn new(folder: &Path, purpose: &str) -> Self {
        Self {
            folder: folder.to_path_buf(),
            purpose: purpose.to_owned(),
            pages: 0,
            next: FOLDED_AT,
            thread: None,
        }
    }

    /// Returns true when a log of this many pages is to be folded. After an attempt, not before it has grown as much
    /// again.
    fn wants_to_fold(&mut self, pages: u64) -> bool {
        if pages < self.pages {
            // The log began anew.
            self.next = FOLDED_AT;
        }
        self.pages = pages;
        let wants = pages >= self.next;
        if wants {
            self.next = pages + FOLDED_AT;
        }
        wants
    }

    /// Wakes the thread, which is started when it is first needed. False when there is none.
    fn wake(&mut self) -> bool {
        if self.thread.is_none() {
            let (wake, wakes) = sync_channel(1);
            let (folder, purpose) = (self.folder.clone(), self.purpose.clone());
            let thread = thread::Builder::new().name("fleet-log".to_owned());
            let started = thread.spawn(move || keep(&folder, &purpose, &wakes));
            self.thread = started.ok().map(|thread| (wake, thread));
        }
        match &self.thread {
            // A keeper that is still at work looks again when it is done.
            Some((wake, _)) => !matches!(wake.try_send(()), Err(TrySendError::Disconnected(()))),
            None => false,
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some((wake, thread)) = self.thread.take() {
            drop(wake);
            // A failure of the keeper left the log as it was.
            let _ = thread.join();
        }
    }
}

/// Runs a keeper's thread.
fn keep(folder: &Path, purpose: &str, wakes: &Receiver<()>) {
    let mut connection = None;
    while wakes.recv().is_ok() {
        if connection.is_none() {
            let options = Options {
                purpose: purpose.to_owned(),
                steps: CrashPoints::default(),
                max_pages: None,
                look_only: false,
                keep_old: true,
                keeps_log: false,
            };
            connection = open(folder, false, options).ok();
        }
        let folded = connection
            .as_mut()
            .map_or(Ok(()), |(driver, _)| driver.fold_and_restart());
        // A replaced file is opened anew; a reader in the way is not waited for.
        if !matches!(folded, Ok(()) | Err(StoreError::Busy(_))) {
            connection = None;
        }
    }
}
