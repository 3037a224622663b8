//! Thins values that later ones have replaced. Only their text goes; the event and its hash stay, and the last value of a
//! subject always does. The text of a whole value that is the base of deltas stays until the last of them is thinned, and
//! is shown to no reader.

use std::collections::BTreeSet;

use flightline_core::retention::Superseded;
use flightline_core::{MissionId, Time};

use crate::error::StoreError;
use crate::table::event::kind;
use crate::table::statements;
use crate::tx::Tx;
use crate::value::{Row, SqlValue, params};

statements! {
    SUPERSEDED = "SELECT e.rev, n.rev, e.subject_kind, e.mission, \
        CAST(octet_length(e.after) + (CASE WHEN n.change = 'gone' AND s.gone = n.rev THEN coalesce(octet_length(s.doc), 0) ELSE 0 END) AS BIGINT) \
        FROM event e JOIN event n ON n.project = e.project AND n.rev = (SELECT min(x.rev) FROM event x \
        WHERE x.project = e.project AND x.subject_kind = e.subject_kind AND x.subject = e.subject AND x.rev > e.rev AND x.change <> 'none') \
        JOIN subject s ON s.project = e.project AND s.kind = e.subject_kind AND s.id = e.subject \
        WHERE e.project = ?1 AND e.rev >= ?2 AND e.rev <= ?3 AND e.change = 'set' AND e.at < ?4 AND n.at < ?4 \
        AND (CAST(?5 AS TEXT) IS NULL OR e.mission = ?5) ORDER BY e.rev LIMIT 2000";
    FORGET_DOCUMENTS = "UPDATE subject SET doc = '' WHERE project = ?1 AND gone IS NOT NULL AND doc <> '' AND (kind, id) IN \
        (SELECT e.subject_kind, e.subject FROM event e WHERE e.project = ?1 AND e.change = 'set' AND e.rev IN (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51) \
        AND NOT EXISTS (SELECT 1 FROM event x WHERE x.project = e.project AND x.subject_kind = e.subject_kind AND x.subject = e.subject \
        AND x.rev > e.rev AND x.change IN ('set', 'thinned')))";
    BASES = "SELECT DISTINCT base FROM event WHERE project = ?1 AND base IS NOT NULL AND change = 'set' AND rev IN (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51)";
    THIN = "UPDATE event SET change = 'thinned', after = CASE WHEN base IS NULL THEN after END, base = NULL WHERE project = ?1 AND change = 'set' AND rev IN (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51) \
        AND EXISTS (SELECT 1 FROM event x WHERE x.project = event.project AND x.subject_kind = event.subject_kind \
        AND x.subject = event.subject AND x.rev > event.rev AND x.change <> 'none')";
    // A value is told against the last whole one of its subject, and one of sixteen is whole.
    DROP_TEXTS = "UPDATE event SET after = NULL WHERE project = ?1 AND change = 'thinned' AND after IS NOT NULL AND rev IN (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51) \
        AND NOT EXISTS (SELECT 1 FROM (SELECT x.base, x.change FROM event x WHERE x.project = event.project AND x.subject_kind = event.subject_kind \
        AND x.subject = event.subject AND x.rev > event.rev AND x.change <> 'none' ORDER BY x.rev LIMIT 16) d WHERE d.base = event.rev AND d.change = 'set')";
}

const NAMED: usize = 50;

impl Tx<'_> {
    /// Values of the revisions `from` to `to` that were replaced before `before`, oldest first; 2,000 at
    /// most. Reads no documents.
    pub fn superseded(
        &mut self,
        from: u64,
        to: u64,
        before: Time,
        mission: Option<MissionId>,
    ) -> Result<Vec<Superseded>, StoreError> {
        let mission = mission.map(|id| id.to_string());
        let rows = self.driver.query(
            SUPERSEDED,
            params![
                self.project.id.as_str(),
                from,
                to,
                before.as_millis(),
                mission
            ],
        )?;
        rows.iter().map(superseded).collect()
    }

    /// Takes the text of the values at these revisions, and of the subjects that ended with them. A value that no later
    /// one has replaced stays. Returns how many went.
    pub fn thin(&mut self, revs: &[u64]) -> Result<u64, StoreError> {
        let mut thinned = 0;
        let mut texts: BTreeSet<u64> = revs.iter().copied().collect();
        for some in revs.chunks(NAMED) {
            let names = self.named(some);
            for row in self.driver.query(BASES, &names)? {
                texts.insert(row.unsigned(0)?);
            }
            self.driver.execute(FORGET_DOCUMENTS, &names)?;
            thinned += self.driver.execute(THIN, &names)?;
        }
        // Now that all of them are thinned: the text of a whole value stays as long as another is told against it.
        let texts: Vec<u64> = texts.into_iter().collect();
        for some in texts.chunks(NAMED) {
            let names = self.named(some);
            self.driver.execute(DROP_TEXTS, &names)?;
        }
        if let Some(cache) = &mut self.cache {
            cache.forget_events();
        }
        Ok(thinned)
    }

    /// The parameters of a statement: the project and the revisions; the last revision fills the rest.
    fn named(&self, revs: &[u64]) -> Vec<SqlValue> {
        let last = revs.last().copied().unwrap_or_default();
        let all = revs.iter().copied().chain(std::iter::repeat(last));
        let mut names = vec![SqlValue::from(self.project.id.as_str())];
        names.extend(all.take(NAMED).map(SqlValue::from));
        names
    }
}

fn superseded(row: &Row) -> Result<Superseded, StoreError> {
    let mission = row.opt_text(3)?;
    Ok(Superseded {
        rev: row.unsigned(0)?,
        next: row.unsigned(1)?,
        kind: kind(&row.text(2)?)?,
        mission: mission.map(|id| id.parse()).transpose().map_err(|_| {
            StoreError::Corrupt("an event names a mission that is no id".to_owned())
        })?,
        bytes: row.opt_unsigned(4)?.unwrap_or(0),
    })
}
