//! A commit whose answer was lost: whether it was made is found out, never guessed.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Store, drive};
use crate::engine::Durability;
use crate::error::Error;
use crate::table::event;
use crate::tx::Trace;

/// How long to wait before the next attempt to reach the store.
const PAUSE: Duration = Duration::from_millis(100);

impl Store {
    /// Finds out whether a commit was made: over a new connection, by taking the project's row first, which
    /// waits for whatever is left of the old one, and then by looking for what was written. `Ok` when it was
    /// made.
    ///
    /// # Errors
    /// [`Error::Collision`] when it was not made, so that everything may be run again;
    /// [`Error::CommitUnknown`] when the store cannot be reached in time.
    pub(super) fn settle(&mut self, trace: &Trace, cause: &str) -> Result<(), Error> {
        let deadline = Instant::now() + self.options.patience;
        loop {
            match self.look_for(trace) {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Error::Collision(cause.to_owned())),
                Err(Error::Unreachable(_) | Error::Busy(_)) if Instant::now() < deadline => {
                    sleep(PAUSE);
                }
                Err(_) => return Err(Error::CommitUnknown(cause.to_owned())),
            }
        }
    }

    fn look_for(&mut self, trace: &Trace) -> Result<bool, Error> {
        (self.driver, _) = drive(&self.location, &self.options, false)?;
        self.driver
            .begin_write(Durability::Full, self.options.patience)?;
        let found = self.is_there(trace);
        self.driver.rollback();
        found
    }

    fn is_there(&mut self, trace: &Trace) -> Result<bool, Error> {
        let driver = self.driver.as_mut();
        if driver.take_project(&self.project, true)?.is_none() {
            return Err(Error::UnknownProject(self.project.clone()));
        }
        match trace.bounds() {
            // What left no trace can be run again.
            None => Ok(false),
            Some((first, last)) => Ok(event::trace(driver, &self.project, first, last)? == *trace),
        }
    }
}
