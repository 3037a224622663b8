//! Mends events. No other copy of an event exists, but its seal proves a repair: whatever is put in the place of a damaged
//! byte is right when the seal fits, and nothing else fits. Damage that cannot be repaired that way is set aside, by an
//! event of its own: from then on it is known, and reported as such.

use flightline_core::Kind;
use flightline_core::event::EventType;
use serde_json::json;

use crate::engine::Driver;
use crate::error::StoreError;
use crate::mend::Mended;
use crate::seal;
use crate::table::event;
use crate::table::statements;
use crate::tx::Tx;
use crate::tx::care::NO_VALUE;
use crate::value::{Row, SqlValue, params};
use crate::verify::journal::{hash_alone, is_kept_base};
use crate::verify::{JournalFault, Wrong};

statements! {
    AT = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) \
          FROM event WHERE project = ?1 AND rev = ?2";
    SEAL_BEFORE = "SELECT seal FROM event WHERE project = ?1 AND rev < ?2 ORDER BY rev DESC LIMIT 1";
    PREV_AFTER = "SELECT prev FROM event WHERE project = ?1 AND rev > ?2 ORDER BY rev LIMIT 1";
    MEND = "UPDATE event SET rev = ?3, step = ?4, at = ?5, kind = ?6, mission = ?7, subject_kind = ?8, subject = ?9, actor = ?10, epoch = ?11, \
            data = ?12, change = ?13, sha = ?14, prev = ?15, seal = ?16 WHERE project = ?1 AND rev = ?2";
    TAKE_BASE = "UPDATE event SET base = NULL WHERE project = ?1 AND rev = ?2 AND change <> 'set'";
    TAKE_TEXT = "UPDATE event SET after = NULL, base = NULL WHERE project = ?1 AND rev = ?2 AND change <> 'set'";
    DROP_STRAY = "DELETE FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
}

/// The length in bytes above which texts are not tried byte by byte: it would take too long.
const LONGEST: usize = 4096;

impl Tx<'_> {
    /// Mends a damaged event, where its content is known, or was changed in one place only.
    pub fn mend_event(&mut self, trouble: &JournalFault) -> Result<Mended, StoreError> {
        let project = self.project.id.clone();
        let rows = self
            .driver
            .query(AT, params![project.as_str(), trouble.rev])?;
        let Some(mut row) = rows.into_iter().next() else {
            return Ok(Mended::Refused);
        };
        let kept = is_kept_base(&row);
        event::put_together(&mut row, seal::AFTER);
        if trouble.what == Wrong::Column("after") && seal::is_intact(&row) {
            let take = match kept {
                true => TAKE_BASE,
                false => TAKE_TEXT,
            };
            self.driver
                .execute(take, params![project.as_str(), trouble.rev])?;
            self.record_mending(Kind::Setting, "journal", trouble.rev, "event", "its change")?;
            return Ok(Mended::Healed);
        }
        if seal::is_intact(&row) {
            return Ok(Mended::Sound);
        }
        let Some((columns, what)) = self.as_written(&row, trouble)? else {
            return Ok(Mended::Refused);
        };
        let rev = Row(columns.clone()).unsigned(seal::REV)?;
        if rev != trouble.rev {
            let taken = self.driver.query(AT, params![project.as_str(), rev])?;
            if !taken.is_empty() {
                return Ok(Mended::Refused);
            }
        }
        let mut written = vec![
            SqlValue::from(project.as_str()),
            SqlValue::from(trouble.rev),
        ];
        let kept = columns.into_iter().enumerate().skip(seal::REV);
        written.extend(
            kept.filter(|(at, _)| *at != seal::AFTER)
                .map(|(_, value)| value),
        );
        self.driver.execute(MEND, &written)?;
        self.record_mending(Kind::Setting, "journal", rev, "event", what)?;
        Ok(Mended::Healed)
    }

    /// Finds the columns of an event as they were written, and the source that proved them.
    fn as_written(
        &mut self,
        row: &Row,
        trouble: &JournalFault,
    ) -> Result<Option<(Vec<SqlValue>, &'static str)>, StoreError> {
        let (prev, own) = (row.text(seal::PREV)?, row.text(seal::SEAL)?);
        let mut columns = row.0.clone();
        let project = self.project.id.as_str();
        Ok(match trouble.what {
            Wrong::Column("seal") => {
                let computed = seal::of_event(&row.0, &prev);
                let named = first(self.driver, PREV_AFTER, project, trouble.rev)?;
                let named = named.unwrap_or_else(|| self.project.seal.clone());
                columns[seal::SEAL] = SqlValue::from(computed.as_str());
                (named == computed).then_some((columns, "the event after it"))
            }
            Wrong::Column("prev") => {
                let before = first(self.driver, SEAL_BEFORE, project, trouble.rev)?;
                let before = before.unwrap_or_default();
                let fits = seal::of_event(&row.0, &before) == own;
                columns[seal::PREV] = SqlValue::from(before);
                fits.then_some((columns, "the event before it"))
            }
            Wrong::Column("sha") => hash_alone(row, &prev, &own).map(|sha| {
                columns[seal::SHA] = SqlValue::from(sha);
                (columns, "its value")
            }),
            Wrong::Changed => {
                // The row of its subject knows the hash of the last value.
                let (kind, id) = (row.text(seal::SUBJECT_KIND)?, row.text(seal::SUBJECT)?);
                if let Ok(kind) = event::kind(&kind)
                    && let Some((_, sha)) = self.last_value(kind, &id, trouble.rev)?
                {
                    let mut hashed = columns.clone();
                    hashed[seal::SHA] = SqlValue::from(sha);
                    if seal::of_event(&hashed, &prev) == own {
                        return Ok(Some((hashed, "the row of its subject")));
                    }
                }
                let found = one_place(columns, &prev, &own);
                found.map(|columns| (columns, "its seal"))
            }
            Wrong::Column(_) | Wrong::Gap | Wrong::LostEnd | Wrong::Torn | Wrong::Unlinked => None,
        })
    }

    /// Records that a damage cannot be mended: from now on it is known.
    pub fn set_aside(&mut self, trouble: &JournalFault) -> Result<(), StoreError> {
        let data =
            json!({ "rev": trouble.rev, "what": trouble.to_string(), "found": trouble.found });
        let of = (Kind::Setting, "journal");
        self.record_care(EventType::DamageSetAside, of, None, &data, NO_VALUE)?;
        Ok(())
    }

    /// Removes a row of an unknown kind, or that no event made: the journal knows its former value.
    pub fn drop_stray(&mut self, kind: &str, id: &str) -> Result<(), StoreError> {
        let project = self.project.id.clone();
        self.driver
            .execute(DROP_STRAY, params![project.as_str(), kind, id])?;
        self.record_mending(Kind::Setting, "subject", 0, "stray row", kind)
    }
}

fn first(
    driver: &mut dyn Driver,
    sql: &'static str,
    project: &str,
    rev: u64,
) -> Result<Option<String>, StoreError> {
    let rows = driver.query(sql, params![project, rev])?;
    rows.first().map(|row| row.text(0)).transpose()
}

/// Finds the columns with which the seal fits, when they differ from these in one byte of one column.
fn one_place(mut columns: Vec<SqlValue>, prev: &str, own: &str) -> Option<Vec<SqlValue>> {
    for at in seal::REV..=seal::SHA {
        if at == seal::AFTER {
            continue;
        }
        let damaged = columns[at].clone();
        let fits = |columns: &mut Vec<SqlValue>, value: SqlValue| {
            columns[at] = value;
            seal::of_event(columns, prev) == own
        };
        // An empty column may have become one with a value.
        let optional = matches!(at, seal::MISSION | seal::EPOCH | seal::SHA);
        if optional && damaged != SqlValue::Null && fits(&mut columns, SqlValue::Null) {
            return Some(columns);
        }
        match &damaged {
            SqlValue::Null => {}
            SqlValue::Int(number) => {
                for (byte, other) in
                    (0..8).flat_map(|byte| (1..=255_i64).map(move |other| (byte, other)))
                {
                    let value = SqlValue::Int(number ^ (other << (8 * byte)));
                    if fits(&mut columns, value) {
                        return Some(columns);
                    }
                }
            }
            SqlValue::Text(text) if text.len() <= LONGEST => {
                for candidate in one_byte_off(text) {
                    if fits(&mut columns, SqlValue::Text(candidate)) {
                        return Some(columns);
                    }
                }
            }
            SqlValue::Text(_) => {}
        }
        columns[at] = damaged;
    }
    None
}

/// Lists every text that has another byte in one place. A text that is no UTF-8 any more has a character in its place that
/// stands for that byte.
fn one_byte_off(text: &str) -> impl Iterator<Item = String> + '_ {
    let whole = text
        .char_indices()
        .filter(|(_, c)| c.is_ascii() || *c == char::REPLACEMENT_CHARACTER);
    whole.flat_map(move |(at, c)| {
        (0..128_u8)
            .filter(move |byte| char::from(*byte) != c)
            .map(move |byte| {
                let mut other = String::with_capacity(text.len());
                other.push_str(&text[..at]);
                other.push(char::from(byte));
                other.push_str(&text[at + c.len_utf8()..]);
                other
            })
    })
}
