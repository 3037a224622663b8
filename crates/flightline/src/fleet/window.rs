//! Pages of a list: a number of entries after one that was given before. A page costs the same however long the list is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use flightline_core::{Kind, Subject};
use flightline_store::{Find, ListOrder, SubjectRow};

use crate::error::Result;
use crate::op_context::OpContext;

/// The part of a list that a caller wants, and the part that it was given.
#[derive(Clone, Debug, Default)]
pub struct Window {
    limit: u64,
    /// The id after which the part begins.
    after: Option<String>,
    /// The part that was given, shared by all copies of the window.
    given: Arc<Mutex<Option<ListPart>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The one that it was to go on after is not in the list any more.
    Gone,
    Given {
        total: u64,
        more: bool,
    },
}

impl Window {
    /// Creates a window of `limit` entries at most, after the one with the id `after`.
    #[must_use]
    pub fn new(limit: u64, after: Option<String>) -> Self {
        Self {
            limit,
            after,
            given: Arc::default(),
        }
    }

    /// Returns the part that was given by the operation; none when it gave the whole list.
    #[must_use]
    pub fn given(&self) -> Option<ListPart> {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the part that was given. A second decision gives its part a second time, and the last one counts.
    fn give(&self, part: ListPart) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
    }

    /// The revision that made the one that was given last: none when it begins at the beginning; nothing at all when that one
    /// is not in the list any more.
    pub(crate) fn place(
        &self,
        ctx: &mut OpContext<'_, '_>,
        kind: Kind,
        without: Option<&str>,
    ) -> Result<Option<Option<u64>>> {
        let Some(after) = &self.after else {
            return Ok(Some(None));
        };
        let row = ctx.tx.row(kind, after)?;
        let listed = row.filter(|row| without != Some(row.status.as_str()));
        if listed.is_none() {
            self.give(ListPart::Gone);
        }
        Ok(listed.map(|row| Some(row.born)))
    }

    /// Returns this part of all rows of a list, in the list's order.
    fn part_of(&self, rows: Vec<SubjectRow>) -> Vec<SubjectRow> {
        let last = |after: &String| rows.iter().position(|row| row.id == *after);
        let from = match self.after.as_ref().map(last) {
            None => 0,
            Some(Some(at)) => at + 1,
            Some(None) => {
                self.give(ListPart::Gone);
                return Vec::new();
            }
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        self.give(ListPart::Given {
            total: rows.len() as u64,
            more: rows.len() - from > limit,
        });
        rows.into_iter().skip(from).take(limit).collect()
    }

    /// Returns the number of rows to read, to know whether there are more.
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
        self.give(ListPart::Given {
            total: counted.map(|(_, count)| count).sum(),
            more: rows.len() as u64 > self.limit,
        });
        rows.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        rows
    }
}

/// The newest rows of a kind, without those of one status: those of the caller's window, or the first `limit`. No others are read.
pub(crate) fn newest(
    ctx: &mut OpContext<'_, '_>,
    kind: Kind,
    without: Option<&str>,
    limit: u64,
) -> Result<Vec<SubjectRow>> {
    let Some(window) = ctx.caller.window.clone() else {
        return Ok(ctx.tx.some_rows(kind, without, ListOrder::NEWEST, limit)?);
    };
    let Some(born) = window.place(ctx, kind, without)? else {
        return Ok(Vec::new());
    };
    let order = ListOrder::NewestBefore(born.unwrap_or(u64::MAX));
    let rows = ctx.tx.some_rows(kind, without, order, window.one_more())?;
    let counts = ctx.tx.counts_by_status(kind)?;
    Ok(window.cut(rows, &counts, without))
}

/// The rows of a list that the caller wants: those of its window, or the first `limit` where it has none.
pub(crate) fn wanted(
    ctx: &OpContext<'_, '_>,
    mut rows: Vec<SubjectRow>,
    limit: u64,
) -> Vec<SubjectRow> {
    match &ctx.caller.window {
        Some(window) => window.part_of(rows),
        None => {
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            rows
        }
    }
}

/// The subjects of the caller's window, oldest first, of those whose rows fit: documents are read of these alone. Nothing when it
/// has no window.
pub(crate) fn page<S: Subject>(
    ctx: &mut OpContext<'_, '_>,
    find: Find<'_>,
    fits: impl Fn(&SubjectRow) -> bool,
) -> Result<Option<Vec<S>>> {
    let Some(window) = ctx.caller.window.clone() else {
        return Ok(None);
    };
    let mut rows = ctx.tx.rows(S::KIND, find)?;
    rows.retain(fits);
    documents(ctx, &window.part_of(rows)).map(Some)
}

pub(crate) fn documents<S: Subject>(
    ctx: &mut OpContext<'_, '_>,
    rows: &[SubjectRow],
) -> Result<Vec<S>> {
    let mut documents = Vec::with_capacity(rows.len());
    for row in rows {
        documents.extend(ctx.tx.get::<S>(&row.id)?);
    }
    Ok(documents)
}
