//! Settles a commit whose answer was lost: finds out whether it was made, and never guesses.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Store, drive};
use crate::engine::Durability;
use crate::error::StoreError;
use crate::location::Location;
use crate::table::event;
use crate::table::project::{self, ProjectRow};
use crate::tx::Trace;

/// The pause before the next attempt to reach the store.
const PAUSE: Duration = Duration::from_millis(100);

impl Store {
    /// Returns true when the outcome can be found out: on a server that lives on when our connection does not. A disk that
    /// failed is not asked again.
    pub(super) fn can_settle(&self) -> bool {
        matches!(self.location, Location::Postgres(_))
    }

    /// Finds out whether a commit was made: over a new connection, by taking the project's row first, which
    /// waits for whatever is left of the old one, and then by looking for the writes. `Ok` when it was
    /// made. [`StoreError::Collision`] when it was not made, so that everything may be run again;
    /// [`StoreError::CommitUnknown`] when the store cannot be reached in time.
    pub(super) fn settle(&mut self, trace: &Trace, cause: &str) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.options.patience;
        loop {
            match self.look_for(trace) {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(StoreError::Collision(cause.to_owned())),
                Err(StoreError::Unreachable(_) | StoreError::Busy(_))
                    if Instant::now() < deadline =>
                {
                    sleep(PAUSE);
                }
                Err(_) => return Err(StoreError::CommitUnknown(cause.to_owned())),
            }
        }
    }

    fn look_for(&mut self, trace: &Trace) -> Result<bool, StoreError> {
        (self.driver, _) = drive(&self.location, &self.options, false)?;
        self.driver
            .begin_write(Durability::Full, self.options.patience)?;
        let found = self.is_there(trace);
        if found.is_err() {
            self.driver.rollback();
            return found;
        }
        // Seen is not yet safe: the commit may still wait for a replica. One of our own waits for it as well. And a commit that is not there may
        // still be on its way, if it held nothing: it finds another row than it knows once ours is committed.
        self.driver
            .commit()
            .map_err(|error| StoreError::Unreachable(error.to_string()))?;
        found
    }

    fn is_there(&mut self, trace: &Trace) -> Result<bool, StoreError> {
        let driver = self.driver.as_mut();
        let row = driver.take_project(&self.project, true)?;
        let row = row.ok_or_else(|| StoreError::UnknownProject(self.project.clone()))?;
        // A transaction without events can be run again.
        let found = match trace.bounds() {
            Some((first, last)) => event::trace(driver, &self.project, first, last)? == *trace,
            None => false,
        };
        let project = ProjectRow::from_row(driver, &self.project, &row)?;
        project::advance(driver, &project)?;
        Ok(found)
    }
}
