//! The ids beside an id: enough to say how much of it must be shown to tell it from every other.

use std::collections::BTreeMap;

use flightline_core::Kind;

use super::Tx;
use crate::error::StoreError;
use crate::table::statements;
use crate::value::SqlValue;

statements! {
    NEIGHBOURS = "WITH asked (id) AS (VALUES (CAST(?3 AS TEXT)), (CAST(?4 AS TEXT)), (CAST(?5 AS TEXT)), (CAST(?6 AS TEXT)), (CAST(?7 AS TEXT)), (CAST(?8 AS TEXT)), (CAST(?9 AS TEXT)), (CAST(?10 AS TEXT))) SELECT asked.id, \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id < asked.id AND s.gone IS NULL ORDER BY s.id DESC LIMIT 1), \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id >= asked.id AND s.gone IS NULL ORDER BY s.id LIMIT 1), \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id >= asked.id AND s.gone IS NULL ORDER BY s.id LIMIT 1 OFFSET 1) \
        FROM asked WHERE asked.id IS NOT NULL";
}

/// How many ids one statement asks about: few enough that it is prepared quickly for a command that shows one.
const NAMED: usize = 8;

/// What lies around an id, or the beginning of one, among the ids of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The greatest id before it.
    pub before: Option<String>,
    /// The two smallest ids from it on: itself or what it begins first, if that is there.
    pub from: Vec<String>,
}

impl Tx<'_> {
    /// What lies around each of these ids, or beginnings of ids, of a kind. Each costs three look-ups in an index, however many
    /// ids there are.
    pub fn neighbours(
        &mut self,
        kind: Kind,
        ids: &[String],
    ) -> Result<BTreeMap<String, Neighbours>, StoreError> {
        let mut found = BTreeMap::new();
        for some in ids.chunks(NAMED) {
            let mut names = vec![
                SqlValue::from(self.project.id.as_str()),
                SqlValue::from(kind.as_str()),
            ];
            let all = some.iter().map(|id| SqlValue::from(id.as_str()));
            names.extend(all.chain(std::iter::repeat(SqlValue::Null)).take(NAMED));
            for row in self.driver.query(NEIGHBOURS, &names)? {
                let from = [row.opt_text(2)?, row.opt_text(3)?];
                let neighbours = Neighbours {
                    before: row.opt_text(1)?,
                    from: from.into_iter().flatten().collect(),
                };
                found.insert(row.text(0)?, neighbours);
            }
        }
        Ok(found)
    }
}
