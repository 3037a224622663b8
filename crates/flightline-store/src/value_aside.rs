//! Sets values without a sound copy aside, so that everything else goes on: the newest sound value of the subject takes
//! the place of a lost one, and a former value that is lost is known to be.

use flightline_core::Kind;
use flightline_core::agent::Agent;
use flightline_core::event::{Change, EventType};
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
    NO_TEXT = "UPDATE subject SET doc = '' WHERE project = ?1 AND kind = ?2 AND id = ?3 AND doc IS NOT NULL";
    MISSION = "SELECT mission FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
}

/// The outcome of setting a value aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueAside {
    /// The subject has its value of this revision again.
    Former(u64),
    /// The subject had no other value: it is removed.
    Removed,
    /// A former value is known to be lost.
    Known,
}

impl DamagedValue {
    /// Returns true when no copy can be found for this value, and the store can go on without it. Checkpoints are
    /// quarantined instead, and deleted by their names.
    #[must_use]
    pub fn can_be_set_aside(&self) -> bool {
        self.kind != Kind::Checkpoint
            && matches!(
                self.what,
                DamageKind::Journal(OtherCopy::None)
                    | DamageKind::Lost(OtherCopy::None)
                    | DamageKind::LastValue(OtherCopy::None)
            )
    }
}

impl Tx<'_> {
    /// Sets a value without a sound copy aside. Returns none where this damage cannot be.
    pub fn set_value_aside(
        &mut self,
        damaged: &DamagedValue,
    ) -> Result<Option<ValueAside>, StoreError> {
        if !damaged.can_be_set_aside() {
            return Ok(None);
        }
        match damaged.what {
            DamageKind::Journal(_) => self.note_lost_value(damaged).map(Some),
            _ => self.replace_lost_value(damaged).map(Some),
        }
    }

    /// Records that the text of a former value is damaged: from now on that is known.
    fn note_lost_value(&mut self, damaged: &DamagedValue) -> Result<ValueAside, StoreError> {
        let project = self.project.id.clone();
        let params = params![project.as_str(), damaged.rev];
        let rows = event::query_values(self.driver, STORED, params, 0)?;
        let found = rows.first().map(|row| value_found(&row.0[0], &row.0[1]));
        let data = json!({ "rev": damaged.rev, "what": damaged.to_string(), "found": found });
        let of = (Kind::Setting, "journal");
        self.record_care(EventType::DamageSetAside, of, None, &data, NO_VALUE)?;
        Ok(ValueAside::Known)
    }

    /// Gives a subject the newest sound value that it had, or removes it when it had none.
    fn replace_lost_value(&mut self, damaged: &DamagedValue) -> Result<ValueAside, StoreError> {
        let (kind, id) = (damaged.kind, damaged.id.as_str());
        let project = self.project.id.clone();
        let readable = |it: &JournalChange| it.is_sound() && keys_of(kind, &it.text).is_ok();
        let former = match kind {
            // A token may have been revoked since: none stands again.
            Kind::Token => None,
            _ => self.told(kind, id)?.into_iter().rfind(readable),
        };
        if kind == Kind::Agent {
            // The lost value may have had a later epoch, and none is handed out twice.
            let epoch = former.as_ref().map_or(0, epoch_of);
            let reason = json!({ "reason": "the value of an agent was lost" });
            self.continue_in_new_history(reason, epoch)?;
        }
        let mut data = json!({ "rev": damaged.rev, "what": damaged.to_string() });
        let outcome = match &former {
            Some(former) => {
                let keys = keys_of(kind, &former.text)
                    .map_err(|_| StoreError::Corrupt(format!("{kind} {id} cannot be read")))?;
                data["former"] = former.rev.into();
                let mission = keys.mission.map(|id| id.to_string());
                let value = (Change::Set, Some((&*former.text, &*former.sha)));
                self.record_care(EventType::DamageSetAside, (kind, id), mission, &data, value)?;
                // From the event that was just written.
                match self.mend_row(kind, id)? {
                    Mended::Healed => ValueAside::Former(former.rev),
                    Mended::Sound | Mended::Refused => {
                        let why = format!("{kind} {id} cannot be given its former value");
                        return Err(StoreError::Corrupt(why));
                    }
                }
            }
            None => {
                let params = params![project.as_str(), kind.as_str(), id];
                let rows = self.driver.query(MISSION, params)?;
                let mission = rows.first().map_or(Ok(None), |row| row.opt_text(0))?;
                let (event, gone) = (EventType::DamageSetAside, (Change::Gone, None));
                let rev = self.record_care(event, (kind, id), mission, &data, gone)?;
                subject::remove(self.driver, &project, kind, id, rev, self.now)?;
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

fn epoch_of(former: &JournalChange) -> u64 {
    serde_json::from_str(&former.text).map_or(0, |agent: Agent| agent.epoch)
}
