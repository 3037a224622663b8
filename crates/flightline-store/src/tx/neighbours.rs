//! Finds the ids beside an id: enough to know how much of it must be shown to tell it from every other.

use flightline_core::Kind;

use super::Tx;
use crate::error::StoreError;
use crate::table::statements;
use crate::value::{SqlValue, params};

statements! {
    NEIGHBOURS = "WITH asked (id) AS (VALUES (CAST(?3 AS TEXT)), (CAST(?4 AS TEXT)), (CAST(?5 AS TEXT)), (CAST(?6 AS TEXT)), (CAST(?7 AS TEXT)), (CAST(?8 AS TEXT)), (CAST(?9 AS TEXT)), (CAST(?10 AS TEXT))) SELECT asked.id, \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id < asked.id AND s.gone IS NULL ORDER BY s.id DESC LIMIT 1), \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id >= asked.id AND s.gone IS NULL ORDER BY s.id LIMIT 1), \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id >= asked.id AND s.gone IS NULL ORDER BY s.id LIMIT 1 OFFSET 1) \
        FROM asked WHERE asked.id IS NOT NULL";
    FIRST_IDS = "SELECT id FROM subject WHERE project = ?1 AND kind = ?2 AND gone IS NULL ORDER BY id LIMIT ?3";
}

/// The number of ids that one statement asks about: few enough that it is prepared quickly for a command that shows one.
const NAMED: usize = 8;
/// The number of ids from which on all ids of the kind are read instead, unless there are many times as many.
const MANY: usize = 4 * NAMED;
/// The factor by which reading an id in order is cheaper than three look-ups.
const PER_NAMED: usize = 4;

/// The ids around an id, or around the beginning of one, among the ids of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbours<'a> {
    /// The greatest id before it.
    pub before: Option<&'a str>,
    /// The two smallest ids from it on: the id itself, or the first that begins with it, if that is there.
    pub from: [Option<&'a str>; 2],
}

impl Tx<'_> {
    /// Finds the ids around each of these ids, or beginnings of ids, of a kind. Each costs three look-ups in an index at
    /// most, however many ids there are.
    pub fn neighbours(
        &mut self,
        kind: Kind,
        ids: &[&str],
        mut tell: impl FnMut(&str, Neighbours<'_>),
    ) -> Result<(), StoreError> {
        if ids.len() >= MANY
            && let Some(all) = self.all_ids_up_to(kind, ids.len() * PER_NAMED)?
        {
            for id in ids {
                tell(id, Neighbours::among(&all, id));
            }
            return Ok(());
        }
        for some in ids.chunks(NAMED) {
            let mut names = vec![
                SqlValue::from(self.project.id.as_str()),
                SqlValue::from(kind.as_str()),
            ];
            let all = some.iter().map(|id| SqlValue::from(*id));
            names.extend(all.chain(std::iter::repeat(SqlValue::Null)).take(NAMED));
            for row in self.driver.query(NEIGHBOURS, &names)? {
                let [before, first, second] = [1, 2, 3].map(|at| row.opt_text(at));
                let (before, from) = (before?, [first?, second?]);
                let neighbours = Neighbours {
                    before: before.as_deref(),
                    from: [from[0].as_deref(), from[1].as_deref()],
                };
                tell(&row.text(0)?, neighbours);
            }
        }
        Ok(())
    }

    /// Returns all ids of a kind in byte order; `None` when there are more than a limit.
    fn all_ids_up_to(
        &mut self,
        kind: Kind,
        most: usize,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let project = self.project.id.as_str();
        let asked = params![project, kind.as_str(), most as u64 + 1];
        let mut ids = Vec::new();
        self.driver.query_each(FIRST_IDS, asked, &mut |mut row| {
            ids.push(row.take_text(0)?);
            Ok(())
        })?;
        Ok((ids.len() <= most).then_some(ids))
    }
}

impl<'a> Neighbours<'a> {
    /// Finds the ids around `id` in `all`, which is in byte order.
    fn among(all: &'a [String], id: &str) -> Self {
        let at = all.partition_point(|other| other.as_str() < id);
        let from = |beyond: usize| all.get(at + beyond).map(String::as_str);
        Self {
            before: all[..at].last().map(String::as_str),
            from: [from(0), from(1)],
        }
    }
}
