//! Sets values without a sound copy aside, so that everything else goes on: the newest sound value of the subject takes
//! the place of a lost one, and a former value that is lost is known to be. Values on which authority rests (agents,
//! tokens, missions, mail, settings) are never replaced: an older one may allow what was forbidden since.

use flightline_core::Kind;
use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::subject::keys_of;
use serde_json::json;

use crate::damage::{DamageKind, DamagedValue, OtherCopy};
use crate::error::StoreError;
use crate::mend::{JournalChange, Mended};
use crate::table::event;
use crate::table::statements;
use crate::table::subject;
use crate::tx::Tx;
use crate::tx::care::NO_VALUE;
use crate::value::params;
use crate::verify::journal::value_found;

statements! {
    STORED = "SELECT after, sha, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event WHERE project = ?1 AND rev = ?2";
    ROW = "SELECT rev, mission, doc, sha, gone FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    NO_TEXT = "UPDATE subject SET doc = CASE WHEN doc IS NULL THEN NULL ELSE '' END, sha = ?4 WHERE project = ?1 AND kind = ?2 AND id = ?3";
}

/// The outcome of setting a value aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueAside {
    /// The subject has its value of this revision again.
    Former(u64),
    /// The subject is removed: it had no other value, or none that may stand again.
    Removed,
    /// A former value is known to be lost.
    Known,
}

/// What takes the place of a lost value.
enum Replacement {
    Former(JournalChange),
    /// The subject is removed. Its row keeps the hash of the last value that the journal knows.
    Removal {
        sha: Option<String>,
    },
}

/// A subject's row, as far as setting its value aside needs it.
struct LostRow {
    rev: u64,
    mission: Option<String>,
    doc: Option<String>,
    sha: Option<String>,
    is_gone: bool,
}

impl Tx<'_> {
    /// Returns true when nothing can bring this value back, and the store can go on without it.
    pub fn can_set_aside(&mut self, damaged: &DamagedValue) -> Result<bool, StoreError> {
        match damaged.what {
            DamageKind::Journal(OtherCopy::None) => self.is_former(damaged),
            DamageKind::Lost(OtherCopy::None) | DamageKind::LastValue(OtherCopy::None) => {
                Ok(self.replacement(damaged)?.is_some())
            }
            _ => Ok(false),
        }
    }

    /// Sets a value aside; returns none when it cannot be. Last values go first: then their texts in the journal are those
    /// of former ones.
    pub fn set_value_aside(
        &mut self,
        damaged: &DamagedValue,
    ) -> Result<Option<ValueAside>, StoreError> {
        if !self.can_set_aside(damaged)? {
            return Ok(None);
        }
        match damaged.what {
            DamageKind::Journal(_) => self.note_lost_value(damaged).map(Some),
            _ => match self.replacement(damaged)? {
                Some(replacement) => self.replace(damaged, replacement).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Returns true when a value in the journal is none that is still in force, and the row of its subject has no copy of
    /// it. Checkpoints are quarantined instead, and deleted by their names.
    fn is_former(&mut self, damaged: &DamagedValue) -> Result<bool, StoreError> {
        if damaged.kind == Kind::Checkpoint {
            return Ok(false);
        }
        let Some(row) = self.lost_row(damaged)? else {
            return Ok(true);
        };
        let (_, sha) = self.stored(damaged.rev)?;
        let is_copy = row.doc.is_some_and(|doc| Some(sha256_hex(&doc)) == sha);
        Ok(!is_copy && (row.is_gone || row.rev != damaged.rev))
    }

    /// Returns what can take the place of a lost value; none where nothing may, or where one of its texts matches the other's
    /// hash and may be the right one.
    fn replacement(&mut self, damaged: &DamagedValue) -> Result<Option<Replacement>, StoreError> {
        let Some(row) = self.lost_row(damaged)?.filter(|row| !row.is_gone) else {
            return Ok(None);
        };
        let (text, sha) = self.stored(row.rev)?;
        let fits = |text: Option<String>, sha: Option<String>| match (text, sha) {
            (Some(text), Some(sha)) => sha256_hex(&text) == sha,
            _ => false,
        };
        if fits(row.doc, sha) || fits(text, row.sha) {
            return Ok(None);
        }
        let kind = damaged.kind;
        let mut told = self.told(kind, &damaged.id)?;
        let sha = told.iter().rfind(|it| it.change == Change::Set);
        let removal = Replacement::Removal {
            sha: sha.map(|it| it.sha.clone()),
        };
        // A value from before a removal was taken away on purpose.
        let removed = told.iter().rposition(|it| it.change == Change::Gone);
        told.drain(..removed.map_or(0, |at| at + 1));
        let readable = |it: &JournalChange| it.is_sound() && keys_of(kind, &it.text).is_ok();
        let former = told.into_iter().rfind(readable).map(Replacement::Former);
        Ok(match kind {
            // A fence that was voided must not be valid again.
            Kind::Lock => Some(removal),
            Kind::Note | Kind::Subtask | Kind::File | Kind::Error | Kind::Review | Kind::Step => {
                Some(former.unwrap_or(removal))
            }
            // Without it, work or an act on the world outside could be done twice.
            Kind::Sortie | Kind::Effect => former,
            _ => None,
        })
    }

    fn lost_row(&mut self, damaged: &DamagedValue) -> Result<Option<LostRow>, StoreError> {
        let project = self.project.id.as_str();
        let params = params![project, damaged.kind.as_str(), damaged.id.as_str()];
        let rows = self.driver.query(ROW, params)?;
        let read = |row: &crate::value::Row| {
            Ok(LostRow {
                rev: row.unsigned(0)?,
                mission: row.opt_text(1)?,
                doc: row.opt_text(2)?,
                sha: row.opt_text(3)?,
                is_gone: row.opt_int(4)?.is_some(),
            })
        };
        rows.first().map(read).transpose()
    }

    /// The text and the hash of a value as the journal has them.
    fn stored(&mut self, rev: u64) -> Result<(Option<String>, Option<String>), StoreError> {
        let params = params![self.project.id.as_str(), rev];
        let rows = event::query_values(self.driver, STORED, params, 0)?;
        match rows.first() {
            Some(row) => Ok((row.opt_text(0)?, row.opt_text(1)?)),
            None => Ok((None, None)),
        }
    }

    /// Records that the text of a former value is damaged: from now on that is known.
    fn note_lost_value(&mut self, damaged: &DamagedValue) -> Result<ValueAside, StoreError> {
        let params = params![self.project.id.as_str(), damaged.rev];
        let rows = event::query_values(self.driver, STORED, params, 0)?;
        let found = rows.first().map(|row| value_found(&row.0[0], &row.0[1]));
        let data = json!({ "rev": damaged.rev, "what": damaged.to_string(), "found": found });
        let of = (Kind::Setting, "journal");
        self.record_care(EventType::DamageSetAside, of, None, &data, NO_VALUE)?;
        Ok(ValueAside::Known)
    }

    fn replace(
        &mut self,
        damaged: &DamagedValue,
        replacement: Replacement,
    ) -> Result<ValueAside, StoreError> {
        let (kind, id, event) = (damaged.kind, &*damaged.id, EventType::DamageSetAside);
        let mut data = json!({ "rev": damaged.rev, "what": damaged.to_string() });
        let outcome = match replacement {
            Replacement::Former(former) => {
                let keys = keys_of(kind, &former.text)
                    .map_err(|_| StoreError::Corrupt(format!("{kind} {id} cannot be read")))?;
                data["former"] = former.rev.into();
                let mission = keys.mission.map(|id| id.to_string());
                let value = (Change::Set, Some((&*former.text, &*former.sha)));
                self.record_care(event, (kind, id), mission, &data, value)?;
                // From the event that was just written.
                match self.mend_row(kind, id)? {
                    Mended::Healed => ValueAside::Former(former.rev),
                    Mended::Sound | Mended::Refused => {
                        let why = format!("{kind} {id} cannot be given its former value");
                        return Err(StoreError::Corrupt(why));
                    }
                }
            }
            Replacement::Removal { sha } => {
                let project = self.project.id.clone();
                let row = self.lost_row(damaged)?;
                let (mission, row_sha) = row.map_or((None, None), |row| (row.mission, row.sha));
                let gone = (Change::Gone, None);
                let rev = self.record_care(event, (kind, id), mission, &data, gone)?;
                subject::remove(self.driver, &project, kind, id, rev, self.now)?;
                let sha = sha.or(row_sha);
                let params = params![project.as_str(), kind.as_str(), id, sha];
                self.driver.execute(NO_TEXT, params)?;
                ValueAside::Removed
            }
        };
        if let Some(cache) = &mut self.cache {
            cache.forget(kind);
        }
        Ok(outcome)
    }
}
