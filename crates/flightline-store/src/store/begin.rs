//! Begins a transaction: with the project's row, and with the time since which silence can be noticed.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use flightline_core::Time;

use super::{Store, TxAccess};
use crate::error::StoreError;
use crate::table::project::ProjectRow;
use crate::table::{project, pulse, watch};
use crate::tx::{Actor, Trace, Tx};
use crate::write_cache::DocumentCache;

impl Store {
    pub(crate) fn transaction(&mut self, access: TxAccess) -> Result<Tx<'_>, StoreError> {
        let remember = self.options.remember.load(Ordering::Relaxed);
        let mut tx = self.begin(access, remember)?;
        if access == TxAccess::Write {
            tx.go_on()?;
        }
        Ok(tx)
    }

    /// Begins a transaction that replaces the journal: in the history that it finds.
    pub(crate) fn transaction_as_it_is(&mut self, access: TxAccess) -> Result<Tx<'_>, StoreError> {
        self.begin(access, false)
    }

    fn begin(&mut self, access: TxAccess, remember: bool) -> Result<Tx<'_>, StoreError> {
        let row = self
            .driver
            .take_project(&self.project, access == TxAccess::Write)?;
        let row = row.ok_or_else(|| StoreError::UnknownProject(self.project.clone()))?;
        let mut project = ProjectRow::from_row(self.driver.as_mut(), &self.project, &row)?;
        let losses = self.losses_of(&project);
        let now = match access {
            TxAccess::Read => self.now()?,
            TxAccess::Write | TxAccess::Pulse => self.writing_time()?,
        };
        let slept = access != TxAccess::Read && self.has_slept(&project, now)?;
        if slept {
            project.awake_since = now;
            if access == TxAccess::Pulse {
                // The first heartbeat after a pause says so at once: those who look later would see it, and
                // take the pause for a time when others could have been heard. Before it touches a pulse, as
                // a write does, which holds the project first.
                project::wake(self.driver.as_mut(), &project.id, now)?;
            }
            pulse::put_right(self.driver.as_mut(), &project.id, now)?;
            if now < project.seen_at {
                watch::forget_all(self.driver.as_mut(), &project.id)?;
            }
        }
        if access == TxAccess::Write {
            project.seen_at = now;
        }
        if !remember {
            self.caches.forget();
            self.seen = DocumentCache::default();
        }
        let seen = remember.then_some(&mut self.seen);
        let remember = remember && access == TxAccess::Write;
        if remember {
            self.caches.recall(self.driver.as_mut(), &project)?;
        }
        if access != TxAccess::Read
            && let Some(cache) = self.caches.of(&self.project)
        {
            // A heartbeat, and what puts signs of life right, change them behind the cache.
            let version = match access == TxAccess::Write && !slept {
                true => self.driver.data_version()?,
                false => None,
            };
            cache.keep_pulses(version);
        }
        Ok(Tx {
            step: project.rev + 1,
            driver: self.driver.as_mut(),
            project,
            ids: self.options.ids.clone(),
            drawn: RefCell::default(),
            clock: self.options.clock.clone(),
            now,
            happened: None,
            actor: Actor::flightline(),
            began: Instant::now(),
            noticed: Vec::new(),
            losses,
            trace: Trace::default(),
            cache: match remember {
                true => self.caches.of(&self.project),
                false => None,
            },
            seen,
        })
    }

    /// Returns true after a pause of all writing, or a clock that jumped: then silence before this moment proves nothing.
    fn has_slept(&mut self, project: &ProjectRow, now: Time) -> Result<bool, StoreError> {
        if !self.is_pause(project.seen_at, now) {
            return Ok(false);
        }
        let newest = pulse::newest(self.driver.as_mut(), &project.id)?;
        Ok(newest.is_none_or(|seen| self.is_pause(seen, now)))
    }

    /// Returns true when so much lies between one time and another, in either direction, that no sign of life could be
    /// noticed.
    pub(super) fn is_pause(&self, seen: Time, now: Time) -> bool {
        let downtime = self.options.downtime_ms;
        now.since(seen) > downtime || seen.since(now) > downtime
    }
}
