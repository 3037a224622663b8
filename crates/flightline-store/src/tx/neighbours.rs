//! The ids beside an id: enough to say how much of it must be shown to tell it from every other.

use std::collections::BTreeMap;

use flightline_core::Kind;

use super::Tx;
use crate::error::Error;
use crate::table::statements;
use crate::value::Value;

statements! {
    NEIGHBOURS = "WITH asked (id) AS (VALUES (CAST(?3 AS TEXT)), (CAST(?4 AS TEXT)), (CAST(?5 AS TEXT)), (CAST(?6 AS TEXT)), (CAST(?7 AS TEXT)), (CAST(?8 AS TEXT)), (CAST(?9 AS TEXT)), (CAST(?10 AS TEXT)), (CAST(?11 AS TEXT)), (CAST(?12 AS TEXT)), (CAST(?13 AS TEXT)), (CAST(?14 AS TEXT)), (CAST(?15 AS TEXT)), (CAST(?16 AS TEXT)), (CAST(?17 AS TEXT)), (CAST(?18 AS TEXT)), (CAST(?19 AS TEXT)), (CAST(?20 AS TEXT)), (CAST(?21 AS TEXT)), (CAST(?22 AS TEXT)), (CAST(?23 AS TEXT)), (CAST(?24 AS TEXT)), (CAST(?25 AS TEXT)), (CAST(?26 AS TEXT)), (CAST(?27 AS TEXT)), (CAST(?28 AS TEXT)), (CAST(?29 AS TEXT)), (CAST(?30 AS TEXT)), (CAST(?31 AS TEXT)), (CAST(?32 AS TEXT)), (CAST(?33 AS TEXT)), (CAST(?34 AS TEXT))) SELECT asked.id, \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id < asked.id AND s.gone IS NULL ORDER BY s.id DESC LIMIT 1), \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id >= asked.id AND s.gone IS NULL ORDER BY s.id LIMIT 1), \
        (SELECT s.id FROM subject s WHERE s.project = ?1 AND s.kind = ?2 AND s.id >= asked.id AND s.gone IS NULL ORDER BY s.id LIMIT 1 OFFSET 1) \
        FROM asked";
}

/// How many ids one statement asks about.
const NAMED: usize = 32;

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
    /// ids there are, and all of them together one statement for 32 of them.
    pub fn neighbours(
        &mut self,
        kind: Kind,
        ids: &[String],
    ) -> Result<BTreeMap<String, Neighbours>, Error> {
        let mut found = BTreeMap::new();
        for some in ids.chunks(NAMED) {
            let mut names = vec![
                Value::from(self.project.id.as_str()),
                Value::from(kind.as_str()),
            ];
            // A statement names so many; the last one fills the rest.
            let last = some.last().map(String::as_str).unwrap_or_default();
            let all = some.iter().map(String::as_str);
            let all = all.chain(std::iter::repeat(last));
            names.extend(all.take(NAMED).map(Value::from));
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
