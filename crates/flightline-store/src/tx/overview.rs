//! Answers questions about a project as a whole.

use std::collections::BTreeMap;

use flightline_core::{Kind, MissionId, Subject};

use super::Tx;
use crate::error::StoreError;
use crate::table::overview::{self, ListOrder, MissionFilter, RowList};
use crate::table::subject::{Find, SubjectRow};

impl Tx<'_> {
    /// Returns the id of the mission of this state that was worked on last. The compaction of a context is no work.
    pub fn last_worked_on(&mut self, state: MissionFilter) -> Result<Option<String>, StoreError> {
        let rev = self.project.rev;
        overview::last_worked_on(self.driver, &self.project.id, rev, state)
    }

    /// Counts the subjects of a list.
    pub fn count(&mut self, list: RowList<'_>) -> Result<u64, StoreError> {
        let counts = self.counts(list.kind, list.scope.find())?;
        let listed = counts
            .iter()
            .filter(|(it, _)| !list.without.contains(&&**it));
        Ok(listed.map(|(_, count)| count).sum())
    }

    /// Returns the rows of a list in this order, at most `limit`. No others are read.
    pub fn some_rows(
        &mut self,
        list: RowList<'_>,
        order: ListOrder,
        limit: u64,
    ) -> Result<Vec<SubjectRow>, StoreError> {
        let rows = overview::some(self.driver, &self.project.id, list, order, limit)?;
        let (found, mut rows) = (rows.len(), self.mended_rows(list.kind, rows)?);
        rows.retain(|row| list.has(row));
        if rows.len() == found {
            return Ok(rows);
        }
        // Damaged columns put others into the list: it is read as a whole, so that the page has what is its own.
        let all = overview::some(self.driver, &self.project.id, list, order, u64::MAX)?;
        let mut rows = self.mended_rows(list.kind, all)?;
        rows.retain(|row| list.has(row));
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(rows)
    }

    /// The row of a subject, without its document.
    pub fn row(&mut self, kind: Kind, id: &str) -> Result<Option<SubjectRow>, StoreError> {
        let rows = overview::row(self.driver, &self.project.id, kind, id)?;
        Ok(self.mended_rows(kind, rows)?.pop())
    }

    /// Returns the subjects of a mission that have this status, oldest first, at most `limit`.
    pub fn rows_of_status(
        &mut self,
        kind: Kind,
        mission: MissionId,
        status: &str,
        limit: u64,
    ) -> Result<Vec<SubjectRow>, StoreError> {
        match self.cached_of_status(kind, mission, status, limit)? {
            Some(known) => Ok(known),
            None => self.found_of_status(kind, mission, status, limit),
        }
    }

    pub(super) fn found_of_status(
        &mut self,
        kind: Kind,
        mission: MissionId,
        status: &str,
        limit: u64,
    ) -> Result<Vec<SubjectRow>, StoreError> {
        let (driver, project) = (&mut *self.driver, &self.project.id);
        let rows = overview::of_status(driver, project, kind, (mission, status), limit)?;
        self.mended_rows(kind, rows)
    }

    /// Returns the status of a subject; none when there is no such subject.
    pub fn status_of(&mut self, kind: Kind, id: &str) -> Result<Option<String>, StoreError> {
        let known = match &mut self.cache {
            Some(cache) => cache.get(self.driver, kind, id)?,
            None => None,
        };
        match known {
            Some(entry) => Ok(entry.map(|entry| entry.row.status.clone())),
            None => Ok(self.row(kind, id)?.map(|row| row.status)),
        }
    }

    /// Returns the missions that are under way, oldest first; perhaps some more, whose rows are damaged.
    pub fn missions_under_way(&mut self) -> Result<Vec<SubjectRow>, StoreError> {
        let rows = overview::under_way(self.driver, &self.project.id)?;
        self.mended_rows(Kind::Mission, rows)
    }

    /// Returns the sorties that agents hold, oldest first; perhaps some more, whose rows are damaged.
    pub fn sorties_in_hand(&mut self) -> Result<Vec<SubjectRow>, StoreError> {
        let rows = overview::held(self.driver, &self.project.id)?;
        self.mended_rows(Kind::Sortie, rows)
    }

    /// Counts the messages that each agent has not acknowledged, by its id.
    pub fn unread_by_agent(&mut self) -> Result<BTreeMap<String, u64>, StoreError> {
        let counts = overview::unread(self.driver, &self.project.id)?;
        Ok(counts.into_iter().collect())
    }

    /// The missions that are not over and have sorties that are blocked or failed, by their ids.
    pub fn missions_in_trouble(&mut self) -> Result<Vec<String>, StoreError> {
        overview::troubled(self.driver, &self.project.id)
    }

    /// The missions that are not over and have notes of this status, by their ids.
    pub fn missions_with_notes(&mut self, status: &str) -> Result<Vec<String>, StoreError> {
        overview::noted(self.driver, &self.project.id, status)
    }

    /// Returns the subjects that fit, oldest first, among those whose stored text does not hold `text`: a text that holds
    /// it rules its subject out. For questions without an index. A damaged text may have lost it; its former value is read
    /// from the journal.
    pub fn find_without<S: Subject>(
        &mut self,
        text: &str,
        fits: impl Fn(&S) -> bool,
    ) -> Result<Vec<S>, StoreError> {
        if let Some(known) = self.cached_values(Find::All, &fits)? {
            return Ok(known.iter().map(|it| S::clone(it)).collect());
        }
        let mut read = Vec::new();
        for found in overview::not_holding(self.driver, &self.project.id, S::KIND, text)? {
            read.extend(Some(self.read_document(S::KIND, found)?).filter(&fits));
        }
        Ok(read)
    }
}
