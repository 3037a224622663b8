//! Pages of a list: a number of entries after one that was given before. A page reads the rows it gives, and the engine counts the
//! others.

use std::sync::{Arc, Mutex, PoisonError};

use flightline_core::Subject;
use flightline_store::{ListOrder, RowList, SubjectRow};

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
    pub fn new(limit: u64, after: Option<String>) -> Self {
        Self {
            limit,
            after,
            given: Arc::default(),
        }
    }

    /// Returns the part that was given by the operation; none when it gave the whole list.
    pub fn given(&self) -> Option<ListPart> {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the part that was given. A second decision gives its part a second time, and the last one counts.
    fn give(&self, part: ListPart) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
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
}

/// The rows of a list that the caller wants: those of its window, or the first `limit` where it has none. No others are read.
pub(crate) fn some_rows(
    ctx: &mut OpContext<'_, '_>,
    list: RowList<'_>,
    mut order: ListOrder,
    limit: u64,
) -> Result<Vec<SubjectRow>> {
    let Some(window) = ctx.caller.window.clone() else {
        return Ok(ctx.tx.some_rows(list, order, limit)?);
    };
    if let Some(after) = &window.after {
        let last = ctx.tx.row(list.kind, after)?;
        let Some(last) = last.filter(|row| list.has(row)) else {
            window.give(ListPart::Gone);
            return Ok(Vec::new());
        };
        order = order.from(last.born);
    }
    let one_more = window.limit.saturating_add(1);
    let mut rows = ctx.tx.some_rows(list, order, one_more)?;
    window.give(ListPart::Given {
        total: ctx.tx.count(list)?,
        more: rows.len() as u64 > window.limit,
    });
    rows.truncate(usize::try_from(window.limit).unwrap_or(usize::MAX));
    Ok(rows)
}

/// The rows of the caller's window, or the first `limit`, out of all rows of a list whose order or filter no column has.
pub(crate) fn part_of(
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

/// The subjects of a list that the caller wants: those of its window, or all of them where it has none.
pub(crate) fn listed<S: Subject>(
    ctx: &mut OpContext<'_, '_>,
    list: RowList<'_>,
    order: ListOrder,
) -> Result<Vec<S>> {
    if ctx.caller.window.is_some() {
        let rows = some_rows(ctx, list, order, u64::MAX)?;
        return documents(ctx, &rows);
    }
    let fits = |subject: &S| !list.without.contains(&subject.keys().status);
    let mut all = ctx.tx.find_those(list.scope.find(), fits)?;
    if matches!(order, ListOrder::NewestBefore(_)) {
        all.reverse();
    }
    Ok(all)
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
