//! The write-ahead log of a process that lives long, and whether the database is still the one it opened.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::{Sqlite, UNQUEUED_WAIT, classify};
use crate::engine::Driver as _;
use crate::error::Error;

/// Which file a name stood for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(super) fn of(file: &Path) -> Option<Self> {
        let seen = fs::symlink_metadata(file).ok()?;
        Some(Self {
            device: seen.dev(),
            number: seen.ino(),
        })
    }
}

impl Sqlite {
    /// A file that was removed or replaced goes on to take writes, and nobody would ever find them again.
    pub(super) fn check_identity(&self) -> Result<(), Error> {
        if Identity::of(&self.file) == self.identity {
            return Ok(());
        }
        Err(Error::Unreachable(
            "its file was moved, removed or replaced while it was open".to_owned(),
        ))
    }

    /// Folds the log into the database, as far as nobody has to wait for it; with `truncate` also takes its
    /// space back, if nobody reads or writes just now. Returns how large it is afterwards.
    pub(super) fn fold(&mut self, truncate: bool) -> Result<u64, Error> {
        self.check_identity()?;
        let act = "cannot fold the log into the database";
        let said = |error: rusqlite::Error| classify(act, &error);
        if truncate {
            // Whoever is writing goes first; the next time will do.
            if let Ok(_turn) = self.queue.wait(Duration::ZERO) {
                self.connection.busy_timeout(Duration::ZERO).map_err(said)?;
                let folded = self.query("PRAGMA wal_checkpoint(TRUNCATE)", &[]);
                self.connection.busy_timeout(UNQUEUED_WAIT).map_err(said)?;
                match folded {
                    Ok(_) | Err(Error::Busy(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        } else {
            self.query("PRAGMA wal_checkpoint(PASSIVE)", &[])?;
        }
        Ok(fs::symlink_metadata(&self.log).map_or(0, |seen| seen.len()))
    }
}
