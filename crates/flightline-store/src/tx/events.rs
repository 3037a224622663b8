//! Asks the journal for events that fit, without damaged ones, and for the revisions at which something happened.

use flightline_core::event::Event;
use flightline_core::{Kind, MissionId, Time};

use super::Tx;
use crate::error::StoreError;
use crate::loss::Loss;
use crate::table::event::{self, EventFilter, EventsRead};

impl Tx<'_> {
    /// Returns the events that are as they were written. Damaged ones are noticed as lost.
    pub(crate) fn intact<T>(&mut self, listed: EventsRead<T>) -> Vec<T> {
        for rev in listed.damaged {
            self.miss(Loss::Event { rev });
        }
        listed.events
    }

    /// Returns events after `rev`, oldest first. A damaged event is left out, and hides no other.
    pub fn events_after(
        &mut self,
        rev: u64,
        filter: &EventFilter,
    ) -> Result<Vec<Event>, StoreError> {
        let listed = event::after(self.driver, &self.project.id, rev, filter)?;
        Ok(self.intact(listed))
    }

    /// The newest events, newest first.
    pub fn newest_events(&mut self, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
        let listed = event::before(self.driver, &self.project.id, self.project.rev, filter)?;
        Ok(self.intact(listed))
    }

    /// The events that took subjects of a kind away, newest first.
    pub fn removals(&mut self, kind: Kind, limit: u64) -> Result<Vec<Event>, StoreError> {
        let (project, rev) = (&self.project.id, self.project.rev);
        let listed = event::removals(self.driver, project, kind, rev, limit)?;
        Ok(self.intact(listed))
    }

    /// Events after `rev` about missions, checkpoints and recoveries, not about the work itself, oldest
    /// first.
    pub fn events_above_work(&mut self, rev: u64, limit: u64) -> Result<Vec<Event>, StoreError> {
        let listed = event::after_above_work(self.driver, &self.project.id, rev, limit)?;
        Ok(self.intact(listed))
    }

    /// The newest events about one subject, newest first.
    pub fn events_of(
        &mut self,
        kind: Kind,
        id: &str,
        limit: u64,
    ) -> Result<Vec<Event>, StoreError> {
        let listed = event::of_subject(self.driver, &self.project.id, kind, id, limit)?;
        Ok(self.intact(listed))
    }

    /// The last revision that was written at this time or before; 0 when there was none.
    pub fn rev_at(&mut self, at: Time) -> Result<u64, StoreError> {
        event::rev_at(self.driver, &self.project.id, at)
    }

    pub fn has_events_between(&mut self, from: Time, to: Time) -> Result<bool, StoreError> {
        event::any_between(self.driver, &self.project.id, from, to)
    }

    /// The revision of the last work on a mission. The compaction of a context is no work.
    pub fn last_work_rev(&mut self, mission: MissionId) -> Result<Option<u64>, StoreError> {
        event::last_work(self.driver, &self.project.id, &mission.to_string())
    }

    /// Counts the events after `rev`.
    pub fn events_since(&mut self, rev: u64) -> Result<u64, StoreError> {
        let (project, first) = (&self.project.id, rev.saturating_add(1));
        event::between(self.driver, project, first, self.project.rev)
    }
}
