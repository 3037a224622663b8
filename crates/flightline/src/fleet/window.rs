//! A part of a list: so many, after one that was given before. What a page costs does not depend on how long the list is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use flightline_core::Kind;
use flightline_store::SubjectRow;

use crate::desk::Desk;
use crate::error::Result;

/// Which part of a list is wanted, and which was given.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// How many at most.
    limit: u64,
    /// After the one that is known by this.
    after: Option<String>,
    /// All copies of the window hear of it.
    given: Arc<Mutex<Option<Part>>>,
}

/// Which part of a list was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The one that it was to go on after is not in the list any more.
    Gone,
    /// These, of so many.
    Given {
        /// How many there are in all.
        total: u64,
        /// Whether there are more after these.
        more: bool,
    },
}

impl Window {
    /// So many at most, after the one that is known by `after`.
    #[must_use]
    pub fn new(limit: u64, after: Option<String>) -> Self {
        Self {
            limit,
            after,
            given: Arc::default(),
        }
    }

    /// Which part was given by the operation that was asked through this window; none when it gave all there is.
    #[must_use]
    pub fn given(&self) -> Option<Part> {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A second decision gives its part a second time, and the last one counts.
    fn give(&self, part: Part) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
    }

    /// The revision that made the one that was given last: none when it begins at the beginning; nothing at all when that one
    /// is not in the list any more.
    pub(crate) fn place(
        &self,
        desk: &mut Desk<'_, '_>,
        kind: Kind,
        without: Option<&str>,
    ) -> Result<Option<Option<u64>>> {
        let Some(after) = &self.after else {
            return Ok(Some(None));
        };
        let row = desk.tx.row(kind, after)?;
        let listed = row.filter(|row| without != Some(row.status.as_str()));
        if listed.is_none() {
            self.give(Part::Gone);
        }
        Ok(listed.map(|row| Some(row.born)))
    }

    /// How many are read, to know whether there are more.
    pub(crate) fn one_more(&self) -> u64 {
        self.limit.saturating_add(1)
    }

    /// The rows of this part, of [`Window::one_more`] that were read.
    pub(crate) fn cut(
        &self,
        mut rows: Vec<SubjectRow>,
        counts: &BTreeMap<String, u64>,
        without: Option<&str>,
    ) -> Vec<SubjectRow> {
        let counted = counts
            .iter()
            .filter(|(status, _)| without != Some(status.as_str()));
        self.give(Part::Given {
            total: counted.map(|(_, count)| count).sum(),
            more: rows.len() as u64 > self.limit,
        });
        rows.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        rows
    }
}
