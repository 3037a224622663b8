//! Sets values without a sound copy aside, so that everything else goes on: a stand-in takes the place of a lost value,
//! and a former value that is lost is known to be. [`flightline_core::stand_in`] says what may stand in.

use flightline_core::agent::Agent;
use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::setting::EpochFloor;
use flightline_core::stand_in::{FoundBy, Remains, StandIn, stand_in};
use flightline_core::subject::keys_of;
use flightline_core::text::read_stored;
use flightline_core::{Keys, Kind};
use serde_json::{Value as Json, json};

use crate::damage::{DamageKind, DamagedValue, OtherCopy};
use crate::error::StoreError;
use crate::mend::{JournalChange, Mended};
use crate::seal;
use crate::table::event::{self, StoredEvent};
use crate::table::pulse;
use crate::table::statements;
use crate::table::subject::{self, Find, SubjectRow};
use crate::tx::care::NO_VALUE;
use crate::tx::{Actor, Tx};
use crate::value::params;
use crate::verify::journal::value_found;

statements! {
    STORED = "SELECT after, sha, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event WHERE project = ?1 AND rev = ?2";
    ROW = "SELECT kind, id, mission, parent, agent, name, status, percent, sum, rev, doc, sha, gone FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    GIVEN = "SELECT kind, mission, data FROM event WHERE project = ?1 AND rev = ?2";
    NO_TEXT = "UPDATE subject SET doc = CASE WHEN doc IS NULL THEN NULL ELSE '' END, sha = ?4 WHERE project = ?1 AND kind = ?2 AND id = ?3";
}

/// The outcome of setting a value aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueAside {
    /// What could be told of the value is the value: its text matches the hash of the lost one.
    Repaired,
    /// The subject has its value of this revision again.
    Former(u64),
    /// The subject has a record that was made of what remained of it, and that allows nothing new.
    Made,
    /// The subject is removed: it had no other value, or none that may stand again.
    Removed,
    /// A former value is known to be lost.
    Known,
}

/// What an event says beside its value: its type, its mission and its data.
type Given = (Option<EventType>, Option<String>, Json);

/// The change that puts a stand-in into the place of a lost value.
enum Replacement {
    Value {
        text: String,
        keys: Keys,
        /// The revision from which the value is, when it stood before.
        former: Option<u64>,
    },
    /// The subject is removed. Its row keeps the hash of the last value that the journal knows.
    Removal { sha: Option<String> },
}

/// A subject's row, as far as setting its value aside needs it.
struct LostRow {
    rev: u64,
    doc: Option<String>,
    sha: Option<String>,
    is_gone: bool,
    mission: Option<String>,
    /// The columns by which the subject is found, where they match their sum.
    columns: Option<FoundBy>,
}

impl Tx<'_> {
    /// Returns the rows of a kind as they are, damaged or not.
    pub fn rows_as_they_are(&mut self, kind: Kind) -> Result<Vec<SubjectRow>, StoreError> {
        let rows = subject::rows(self.driver, &self.project.id, kind, Find::All)?;
        Ok(rows.into_iter().map(|(row, _)| row).collect())
    }

    /// Returns true when nothing can bring this value back, and the store can go on without it.
    pub fn can_set_aside(&mut self, damaged: &DamagedValue) -> Result<bool, StoreError> {
        match damaged.what {
            DamageKind::Journal(OtherCopy::None) => self.is_former(damaged),
            DamageKind::Lost(OtherCopy::None)
            | DamageKind::LastValue(OtherCopy::None)
            | DamageKind::Missing => Ok(self.replacement(damaged)?.is_some()),
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
        let (kind, id) = (damaged.kind, &*damaged.id);
        let row = self.lost_row(damaged)?;
        if row.as_ref().is_some_and(|row| row.is_gone) {
            return Ok(None);
        }
        let mut told = self.told(kind, id)?;
        let last = told.last().map_or(damaged.rev, |it| it.rev);
        let (text, sha) = self.stored(row.as_ref().map_or(last, |row| row.rev))?;
        let fits = |text: Option<String>, sha: Option<String>| match (text, sha) {
            (Some(text), Some(sha)) => sha256_hex(&text) == sha,
            _ => false,
        };
        let (columns, is_right) = match row {
            Some(row) => (row.columns, fits(row.doc, sha) || fits(text, row.sha)),
            None => (None, fits(text, sha)),
        };
        if is_right {
            return Ok(None);
        }
        // Only an event that is as it was written says what happened.
        let is_told = told.iter().any(|it| it.rev == damaged.rev);
        let given = match is_told {
            true => self.given(damaged.rev)?,
            false => None,
        };
        let (event, mission, data) = given.unwrap_or_default();
        let sha = told.iter().rfind(|it| it.change == Change::Set);
        let sha = sha.map(|it| it.sha.clone());
        let changes = told.len();
        // A value from before a removal was taken away on purpose.
        let removed = told.iter().rposition(|it| it.change == Change::Gone);
        told.drain(..removed.map_or(0, |at| at + 1));
        let readable = |it: &JournalChange| it.is_sound() && keys_of(kind, &it.text).is_ok();
        let former = told.into_iter().rfind(readable);
        let recipients = match kind {
            Kind::Message => {
                let find = Find::Parent(id);
                subject::rows(self.driver, &self.project.id, Kind::Delivery, find)?
            }
            _ => Vec::new(),
        };
        let recipients = recipients.iter().filter_map(|(row, _)| row.agent.as_ref());
        let chosen = stand_in(&Remains {
            kind,
            id,
            former: former.as_ref().map(|it| &*it.text),
            columns,
            event,
            mission,
            data,
            changes: u32::try_from(changes).unwrap_or(u32::MAX),
            recipients: recipients.filter_map(|id| id.parse().ok()).collect(),
            highest_epoch: match kind {
                Kind::Agent | Kind::Setting => self.highest_known_epoch()?,
                _ => 0,
            },
            rev: self.project.rev,
            now: self.now,
        });
        let value = |text: String, former| {
            let keys = keys_of(kind, &text).ok()?;
            Some(Replacement::Value { text, keys, former })
        };
        Ok(match chosen {
            Some(StandIn::Former) => former.and_then(|it| value(it.text, Some(it.rev))),
            Some(StandIn::Made(text)) => value(text, None),
            Some(StandIn::Removal) => Some(Replacement::Removal { sha }),
            None => None,
        })
    }

    /// The type, the mission and the data of an event.
    fn given(&mut self, rev: u64) -> Result<Option<Given>, StoreError> {
        let params = params![self.project.id.as_str(), rev];
        let rows = self.driver.query(GIVEN, params)?;
        let read = |row: &crate::value::Row| {
            let data = serde_json::from_str(&row.text(2)?).unwrap_or_default();
            Ok((EventType::from_word(&row.text(0)?), row.opt_text(1)?, data))
        };
        rows.first().map(read).transpose()
    }

    /// The highest epoch that any readable record names.
    fn highest_known_epoch(&mut self) -> Result<u64, StoreError> {
        let readable = |found: Result<u64, StoreError>| match found {
            Err(StoreError::Corrupt(_)) => Ok(0),
            found => found,
        };
        let floor = self.get::<EpochFloor>(EpochFloor::KEY);
        let floor = readable(floor.map(|floor| floor.map_or(0, |floor| floor.epoch)))?;
        let mut highest = floor.max(readable(self.epochs_above())?);
        // A floor that is lost is still told by the events that raised it.
        for raised in self.told(Kind::Setting, EpochFloor::KEY)? {
            let data = self.given(raised.rev)?.map(|(_, _, data)| data);
            let above = data.and_then(|data| data["above"].as_u64());
            highest = highest.max(above.unwrap_or(0));
        }
        for pulse in pulse::all(self.driver, &self.project.id)? {
            highest = highest.max(pulse.epoch);
        }
        for id in subject::ids(self.driver, &self.project.id, Kind::Agent)? {
            let agent = self.get::<Agent>(&id);
            let epoch = readable(agent.map(|agent| agent.map_or(0, |agent| agent.epoch)))?;
            highest = highest.max(epoch);
        }
        Ok(highest)
    }

    fn lost_row(&mut self, damaged: &DamagedValue) -> Result<Option<LostRow>, StoreError> {
        let project = self.project.id.as_str();
        let params = params![project, damaged.kind.as_str(), damaged.id.as_str()];
        let rows = self.driver.query(ROW, params)?;
        let read = |row: &crate::value::Row| {
            let is_as_written = seal::is_sum(&row.text(8)?, &row.0[..8]);
            let columns = FoundBy {
                mission: row.opt_text(2)?,
                parent: row.opt_text(3)?,
                agent: row.opt_text(4)?,
                name: row.opt_text(5)?,
                status: row.text(6)?,
            };
            Ok(LostRow {
                rev: row.unsigned(9)?,
                doc: row.opt_text(10)?,
                sha: row.opt_text(11)?,
                is_gone: row.opt_int(12)?.is_some(),
                mission: columns.mission.clone(),
                columns: is_as_written.then_some(columns),
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

    /// Lets no agent begin at an epoch that a stand-in has left behind, nor a further stand-in.
    fn raise_floor(&mut self, agent: &str) -> Result<(), StoreError> {
        let Ok(agent) = read_stored::<Agent>(agent) else {
            return Ok(());
        };
        let who = self.actor().clone();
        self.act_as(Actor::flightline());
        let floor = EpochFloor { epoch: agent.epoch };
        let data = json!({ "reason": "an agent was set aside", "above": floor.epoch });
        self.set(EventType::EpochsForgotten, &floor, &data)?;
        self.act_as(who);
        Ok(())
    }

    /// Returns true when the journal has the hash of this text at a revision.
    fn is_text_of(&mut self, rev: u64, text: &str) -> Result<bool, StoreError> {
        let (_, sha) = self.stored(rev)?;
        Ok(sha == Some(sha256_hex(text)))
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
            Replacement::Value { text, .. } if self.is_text_of(damaged.rev, &text)? => {
                let copy = StoredEvent {
                    kind,
                    id: id.to_owned(),
                    rev: damaged.rev,
                    sha: sha256_hex(&text),
                    text,
                };
                let mended = self.mend_value(&copy, "what remained of it")?;
                if mended == Mended::Refused || self.mend_row(kind, id)? != Mended::Healed {
                    let why = format!("{kind} {id} cannot be given its value again");
                    return Err(StoreError::Corrupt(why));
                }
                ValueAside::Repaired
            }
            Replacement::Value { text, keys, former } => {
                if let Some(rev) = former {
                    data["former"] = rev.into();
                }
                let mission = keys.mission.map(|id| id.to_string());
                let value = (Change::Set, Some((&*text, &*sha256_hex(&text))));
                self.record_care(event, (kind, id), mission, &data, value)?;
                if kind == Kind::Agent {
                    self.raise_floor(&text)?;
                }
                // From the event that was just written.
                match self.mend_row(kind, id)? {
                    Mended::Healed => former.map_or(ValueAside::Made, ValueAside::Former),
                    Mended::Sound | Mended::Refused => {
                        let why = format!("{kind} {id} cannot be given another value");
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
