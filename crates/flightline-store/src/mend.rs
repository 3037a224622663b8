//! Mends values. Every value is kept twice: in the journal, and as the last value of its subject. Where one copy fails its
//! hash, the other one is used, which is reported, and can mend it. Mending puts back exactly the text that a stored hash
//! names, so it changes nothing that ever happened; it has an event of its own.

use std::fmt;

use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::history::Branch;
use flightline_core::subject::keys_of;
use flightline_core::{Kind, MissionId, Time};
use serde_json::json;

use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::table::event::{self, NewEvent, StoredEvent};
use crate::table::statements;
use crate::table::subject::{self, Find, StoredDocument, SubjectRow};
use crate::tx::Tx;
use crate::tx::care::NO_VALUE;
use crate::value::{Row, params};

statements! {
    IN_JOURNAL = "SELECT subject_kind, subject, change, after, sha, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event WHERE project = ?1 AND rev = ?2";
    LAST_VALUE = "SELECT rev, doc, sha FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3 AND gone IS NULL";
    NEXT = "SELECT kind, step, at, prev FROM event WHERE project = ?1 AND rev > ?2 ORDER BY rev LIMIT 1";
    BEFORE = "SELECT seal FROM event WHERE project = ?1 AND rev < ?2 ORDER BY rev DESC LIMIT 1";
    CHANGES = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base, (SELECT b.after FROM event b WHERE b.project = event.project AND b.rev = event.base) FROM event WHERE project = ?1 AND subject_kind = ?2 AND subject = ?3 \
               AND change <> 'none' ORDER BY rev";
    RESUM = "UPDATE subject SET sum = ?4, doc = CASE WHEN gone IS NOT NULL AND doc IS NOT NULL THEN '' ELSE doc END WHERE project = ?1 AND kind = ?2 AND id = ?3";
    KEYS = "SELECT kind, id, mission, parent, agent, name, status, percent FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    ROW = "SELECT rev, born FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    KNOWN = "SELECT id FROM subject WHERE project = ?1 AND kind = ?2 AND mission = ?3 ORDER BY id";
    MEND_JOURNAL = "UPDATE event SET after = ?3, base = NULL, sha = ?4 WHERE project = ?1 AND rev = ?2";
    MEND_LAST_VALUE = "UPDATE subject SET doc = ?5, sha = ?6 WHERE project = ?1 AND kind = ?2 AND id = ?3 AND rev = ?4";
    MEND_ROW = "INSERT INTO subject (project, kind, id, mission, parent, agent, name, status, percent, born, rev, at, sha, doc, gone, sum) \
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
                ON CONFLICT (project, kind, id) DO UPDATE SET mission = excluded.mission, parent = excluded.parent, \
                agent = excluded.agent, name = excluded.name, status = excluded.status, percent = excluded.percent, \
                born = excluded.born, rev = excluded.rev, at = excluded.at, sha = excluded.sha, doc = excluded.doc, gone = excluded.gone, sum = excluded.sum";
}

/// The field in which an event that stands in the place of a lost one holds the seal of the lost one.
pub(crate) const IN_PLACE_OF: &str = "in_place_of";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyLocation {
    Journal,
    LastValue,
    /// The copy in the columns by which the subject is found and listed.
    Columns,
}

/// A value of which one copy is damaged; the other one is sound, and was used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    pub kind: Kind,
    pub id: String,
    pub rev: u64,
    pub place: CopyLocation,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, rev, .. } = self;
        match self.place {
            CopyLocation::Journal => write!(
                f,
                "{kind} {id} is damaged in the journal (revision {rev}); its last value is sound and was used"
            ),
            CopyLocation::LastValue => write!(
                f,
                "the last value of {kind} {id} is damaged; the journal's (revision {rev}) is sound and was used"
            ),
            CopyLocation::Columns => write!(
                f,
                "{kind} {id} is listed by damaged columns; its document (revision {rev}) is sound and was used"
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mended {
    Sound,
    /// The copy was damaged or lost, and is sound now.
    Healed,
    /// Nothing was changed: the offered text does not fit the stored hash.
    Refused,
}

impl Tx<'_> {
    /// Takes the values of which one copy was found damaged in this transaction. The caller that takes them reports them.
    pub fn take_noticed(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.noticed)
    }

    /// Returns every change of a subject, oldest first, from the journal. An event that is not as it was written counts
    /// for nothing; the texts are unchecked.
    pub fn told(&mut self, kind: Kind, id: &str) -> Result<Vec<JournalChange>, StoreError> {
        let project = self.project.id.as_str();
        let params = params![project, kind.as_str(), id];
        let rows = event::query_values(self.driver, CHANGES, params, seal::AFTER)?;
        let intact = rows.iter().filter(|row| seal::is_intact(row));
        intact.map(JournalChange::read).collect()
    }

    /// Returns true when a subject has a row, also when it is gone.
    pub fn has_row(&mut self, kind: Kind, id: &str) -> Result<bool, StoreError> {
        let project = self.project.id.as_str();
        let rows = self
            .driver
            .query(ROW, params![project, kind.as_str(), id])?;
        Ok(!rows.is_empty())
    }

    /// The ids of a kind that a mission has or ever had.
    pub fn known(&mut self, kind: Kind, mission: MissionId) -> Result<Vec<String>, StoreError> {
        let project = self.project.id.as_str();
        let rows = self
            .driver
            .query(KNOWN, params![project, kind.as_str(), mission.to_string()])?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    /// The revisions of the values that a checkpoint of `mission` at exactly `rev` names and of which the
    /// store has no sound copy. Fails when a value that is needed was thinned away.
    pub fn damaged_at(&mut self, rev: u64, mission: MissionId) -> Result<Vec<u64>, StoreError> {
        let mut damaged = Vec::new();
        let found = event::values_at(self.driver, &self.project.id, rev, mission)?;
        for value in found.values {
            let rev = value.rev;
            match self.sound_value(value) {
                Ok(_) => {}
                Err(StoreError::Corrupt(_)) => damaged.push(rev),
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    /// Returns the value, from its subject's row when the journal's text fails its hash.
    pub(crate) fn sound_value(&mut self, value: StoredEvent) -> Result<StoredEvent, StoreError> {
        if sha256_hex(&value.text) == value.sha {
            return Ok(value);
        }
        match self.last_value(value.kind, &value.id, value.rev)? {
            Some((text, sha)) => {
                self.notice(value.kind, &value.id, value.rev, CopyLocation::Journal);
                Ok(StoredEvent { text, sha, ..value })
            }
            None => Err(StoreError::Corrupt(format!(
                "{} {} (revision {}) does not match its checksum",
                value.kind, value.id, value.rev
            ))),
        }
    }

    /// Returns the text of a subject's last value, from the journal when the row's own fails its hash.
    pub(crate) fn sound_text(
        &mut self,
        kind: Kind,
        id: &str,
        document: StoredDocument,
    ) -> Result<String, StoreError> {
        if sha256_hex(&document.text) == document.sha {
            return Ok(document.text);
        }
        match self.in_journal(document.rev)? {
            Some(found) if found.is_value_of(kind, id) && found.is_sound() => {
                self.notice(kind, id, document.rev, CopyLocation::LastValue);
                Ok(found.text)
            }
            _ => Err(StoreError::Corrupt(format!(
                "{kind} {id} does not match its checksum"
            ))),
        }
    }

    /// Returns the subjects that fit, oldest first. A subject whose columns are not as they were written is read from its
    /// document.
    pub(crate) fn sound_rows(
        &mut self,
        kind: Kind,
        find: Find<'_>,
    ) -> Result<Vec<SubjectRow>, StoreError> {
        let rows = subject::rows(self.driver, &self.project.id, kind, find)?;
        self.mended_rows(kind, rows)
    }

    /// Returns these rows; where the columns of one are damaged, with the values of its document.
    pub(crate) fn mended_rows(
        &mut self,
        kind: Kind,
        rows: Vec<(SubjectRow, bool)>,
    ) -> Result<Vec<SubjectRow>, StoreError> {
        let row = |(row, sound): (SubjectRow, bool)| match sound {
            true => Ok(row),
            false => self.row_of_document(kind, row),
        };
        rows.into_iter().map(row).collect()
    }

    fn row_of_document(&mut self, kind: Kind, row: SubjectRow) -> Result<SubjectRow, StoreError> {
        let unknown = || StoreError::Corrupt(format!("{kind} {} does not match its sum", row.id));
        let document = subject::get(self.driver, &self.project.id, kind, &row.id)?;
        let text = self.sound_text(kind, &row.id, document.ok_or_else(unknown)?)?;
        let keys = keys_of(kind, &text).map_err(|_| unknown())?;
        self.notice(kind, &row.id, row.rev, CopyLocation::Columns);
        Ok(SubjectRow {
            mission: keys.mission.map(|id| id.to_string()),
            parent: keys.parent,
            agent: keys.agent.map(|id| id.to_string()),
            name: keys.name,
            status: keys.status.to_string(),
            ..row
        })
    }

    fn notice(&mut self, kind: Kind, id: &str, rev: u64, place: CopyLocation) {
        let damage = Damage {
            kind,
            id: id.to_owned(),
            rev,
            place,
        };
        if !self.noticed.contains(&damage) {
            self.noticed.push(damage);
        }
    }

    /// Mends the damaged copy of a value from the sound one.
    pub fn mend(&mut self, damage: &Damage) -> Result<Mended, StoreError> {
        let Damage {
            kind,
            id,
            rev,
            place,
        } = damage;
        match place {
            CopyLocation::Journal => match self.last_value(*kind, id, *rev)? {
                Some((text, sha)) => {
                    let copy = StoredEvent {
                        kind: *kind,
                        id: id.clone(),
                        rev: *rev,
                        text,
                        sha,
                    };
                    match self.in_journal(*rev)? {
                        Some(_) => self.mend_value(&copy, "last value"),
                        None => self.bring_back(&copy, "last value"),
                    }
                }
                None => Ok(Mended::Refused),
            },
            CopyLocation::LastValue => match self.in_journal(*rev)? {
                Some(found) if found.is_value_of(*kind, id) && found.is_sound() => {
                    let project = self.project.id.as_str();
                    let changed = self.driver.execute(
                        MEND_LAST_VALUE,
                        params![
                            project,
                            kind.as_str(),
                            id.as_str(),
                            *rev,
                            (!kind.is_kept_once()).then_some(found.text.as_str()),
                            found.sha.as_str()
                        ],
                    )?;
                    if changed == 0 {
                        return Ok(Mended::Refused);
                    }
                    self.record_mending(*kind, id, *rev, "last value", "journal")?;
                    Ok(Mended::Healed)
                }
                _ => Ok(Mended::Refused),
            },
            CopyLocation::Columns => self.mend_row(*kind, id),
        }
    }

    /// Mends the journal's text at a revision by a copy of it from elsewhere: only where the stored text fails its hash
    /// and the copy is exactly the one that either hash names. A sound value is never written over.
    pub fn mend_value(&mut self, copy: &StoredEvent, from: &str) -> Result<Mended, StoreError> {
        if sha256_hex(&copy.text) != copy.sha {
            return Ok(Mended::Refused);
        }
        let Some(found) = self.in_journal(copy.rev)? else {
            return Ok(Mended::Refused);
        };
        if !found.is_value_of(copy.kind, &copy.id) {
            return Ok(Mended::Refused);
        }
        match (found.is_sound(), found.sha == copy.sha) {
            (true, true) => return Ok(Mended::Sound),
            (false, true) => {}
            // The text is as it was, and only its hash was damaged.
            (false, false) if found.text == copy.text => {}
            (_, false) => return Ok(Mended::Refused),
        }
        let project = self.project.id.as_str();
        self.driver.execute(
            MEND_JOURNAL,
            params![project, copy.rev, copy.text.as_str(), copy.sha.as_str()],
        )?;
        self.record_mending(copy.kind, &copy.id, copy.rev, "journal", from)?;
        Ok(Mended::Healed)
    }

    /// Puts a value back whose event is lost. Its author and time are lost with it; the next event still names the seal
    /// of the lost one, so the new one says in whose place it stands. Nothing stored can tell whether it is the right
    /// one: the caller that offers it must know.
    pub fn bring_back(&mut self, copy: &StoredEvent, from: &str) -> Result<Mended, StoreError> {
        if sha256_hex(&copy.text) != copy.sha || self.in_journal(copy.rev)?.is_some() {
            return Ok(Mended::Refused);
        }
        let (project, rev) = (self.project.id.clone(), copy.rev);
        let Ok(keys) = keys_of(copy.kind, &copy.text) else {
            return Ok(Mended::Refused);
        };
        let next = self.driver.query(NEXT, params![project.as_str(), rev])?;
        let (kind, step, at, lost) = match next.first() {
            Some(next) => (
                EventType::from_word(&next.text(0)?),
                next.unsigned(1)?,
                next.int(2)?,
                next.text(3)?,
            ),
            None => {
                let (now, lost) = (self.now.as_millis(), self.project.seal.clone());
                (None, rev, now, lost)
            }
        };
        let before = self.driver.query(BEFORE, params![project.as_str(), rev])?;
        let before = before
            .first()
            .map_or(Ok(String::new()), |row| row.text(0))?;
        // Below a restore there is no loss but another history, whose values do not belong here.
        let left_out = |branch: &Branch| branch.left_out(rev);
        if rev == 0
            || rev > self.project.rev
            || kind == Some(EventType::StoreRestored)
            || (kind == Some(EventType::HistoryBegun) && self.branches()?.iter().any(left_out))
        {
            return Ok(Mended::Refused);
        }
        if let Some(cache) = &mut self.cache {
            cache.forget_events();
        }
        event::insert(
            self.driver,
            &mut self.trace,
            &NewEvent {
                project: &project,
                rev,
                step: step.min(rev),
                at: Time::from_millis(at),
                kind: EventType::EventBroughtBack,
                mission: keys.mission.map(|id| id.to_string()),
                subject_kind: copy.kind,
                subject: &copy.id,
                actor: "flightline",
                epoch: None,
                data: &json!({ "from": from, IN_PLACE_OF: lost }),
                change: Change::Set,
                after: Some(&copy.text),
                base: None,
                sha: Some(&copy.sha),
                prev: &before,
            },
        )?;
        self.record_mending(copy.kind, &copy.id, rev, "journal", from)?;
        Ok(Mended::Healed)
    }

    /// Writes a subject's row anew from the journal.
    pub fn mend_row(&mut self, kind: Kind, id: &str) -> Result<Mended, StoreError> {
        let (project, changes) = (self.project.id.clone(), self.told(kind, id)?);
        let value = changes.iter().rfind(|told| told.change == Change::Set);
        let (Some(value), Some(last)) = (value, changes.last()) else {
            return Ok(Mended::Refused);
        };
        let first = changes.iter().find(|told| told.change != Change::Gone);
        let first = first.map_or(value.rev, |told| told.rev);
        let Ok(keys) = keys_of(kind, &value.text) else {
            return Ok(Mended::Refused);
        };
        let lost = changes
            .iter()
            .any(|told| told.change == Change::Thinned && told.rev > value.rev);
        // The event of a newer value may be there and damaged: an older one must not take its place.
        let row = self
            .driver
            .query(ROW, params![project.as_str(), kind.as_str(), id])?;
        let row = row.first().cloned();
        let newer = row.as_ref().and_then(|row| row.unsigned(0).ok());
        let newer = match newer.filter(|rev| *rev > last.rev) {
            Some(rev) => self.in_journal(rev)?.is_some(),
            None => false,
        };
        if !value.is_sound() || lost || newer {
            return Ok(Mended::Refused);
        }
        // The event that made the subject must not be passed over because it is damaged.
        let born = row.and_then(|row| row.unsigned(1).ok());
        let born = match born.filter(|born| *born < first) {
            Some(born) if self.in_journal(born)?.is_some() => born,
            _ => first,
        };
        self.driver.execute(
            MEND_ROW,
            params![
                project.as_str(),
                kind.as_str(),
                id,
                keys.mission.map(|id| id.to_string()),
                keys.parent.as_deref(),
                keys.agent.map(|id| id.to_string()),
                keys.name.as_deref(),
                keys.status,
                keys.percent.map(u64::from),
                born,
                last.rev,
                last.at.as_millis(),
                value.sha.as_str(),
                (!kind.is_kept_once()).then_some(value.text.as_str()),
                (last.change == Change::Gone).then_some(last.rev),
                subject::sum(kind, id, &keys),
            ],
        )?;
        self.record_mending(kind, id, last.rev, "last value", "journal")?;
        Ok(Mended::Healed)
    }

    /// Computes the checksum of the columns by which a subject is found anew: from the journal's value, or, where that was
    /// thinned away, from the columns as they are.
    pub fn mend_sum(&mut self, kind: Kind, id: &str) -> Result<Mended, StoreError> {
        if self.mend_row(kind, id)? == Mended::Healed {
            return Ok(Mended::Healed);
        }
        let project = self.project.id.clone();
        let rows = self
            .driver
            .query(KEYS, params![project.as_str(), kind.as_str(), id])?;
        let Some(row) = rows.first() else {
            return Ok(Mended::Refused);
        };
        let sum = seal::sum(&row.0);
        self.driver
            .execute(RESUM, params![project.as_str(), kind.as_str(), id, sum])?;
        self.record_mending(kind, id, 0, "search columns", "themselves")?;
        Ok(Mended::Healed)
    }

    pub(crate) fn record_mending(
        &mut self,
        kind: Kind,
        id: &str,
        mended: u64,
        place: &str,
        from: &str,
    ) -> Result<(), StoreError> {
        if let Some(cache) = &mut self.cache {
            cache.forget(kind);
        }
        let data = json!({ "rev": mended, "place": place, "from": from });
        // A matter of the store, not of a mission's work: it must not make an old one current.
        self.record_care(EventType::ValueRepaired, (kind, id), None, &data, NO_VALUE)?;
        Ok(())
    }

    /// The text and hash of a subject's row, when it is the value of this revision and sound.
    pub(crate) fn last_value(
        &mut self,
        kind: Kind,
        id: &str,
        rev: u64,
    ) -> Result<Option<(String, String)>, StoreError> {
        sound_row(self.driver, &self.project.id, kind, id, rev)
    }

    fn in_journal(&mut self, rev: u64) -> Result<Option<InJournal>, StoreError> {
        let project = self.project.id.as_str();
        let rows = event::query_values(self.driver, IN_JOURNAL, params![project, rev], 3)?;
        rows.first().map(InJournal::read).transpose()
    }
}

/// The text and hash of a subject's row, when it is the value of this revision and sound.
pub(crate) fn sound_row(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
    rev: u64,
) -> Result<Option<(String, String)>, StoreError> {
    let rows = driver.query(LAST_VALUE, params![project, kind.as_str(), id])?;
    let Some(row) = rows.first().filter(|row| row.unsigned(0).ok() == Some(rev)) else {
        return Ok(None);
    };
    Ok(match row.opt_text(1)? {
        Some(text) if sha256_hex(&text) == row.text(2)? => Some((text, row.text(2)?)),
        _ => None,
    })
}

struct InJournal {
    kind: String,
    id: String,
    change: String,
    text: String,
    sha: String,
}

impl InJournal {
    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            kind: row.text(0)?,
            id: row.text(1)?,
            change: row.text(2)?,
            text: row.opt_text(3)?.unwrap_or_default(),
            sha: row.opt_text(4)?.unwrap_or_default(),
        })
    }

    fn is_value_of(&self, kind: Kind, id: &str) -> bool {
        self.kind == kind.as_str() && self.id == id && self.change == Change::Set.as_str()
    }

    fn is_sound(&self) -> bool {
        sha256_hex(&self.text) == self.sha
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalChange {
    pub rev: u64,
    pub at: Time,
    pub change: Change,
    pub text: String,
    pub sha: String,
}

impl JournalChange {
    /// Returns true when the change gave a value, and the text matches its hash.
    pub fn is_sound(&self) -> bool {
        self.change == Change::Set && sha256_hex(&self.text) == self.sha
    }

    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            rev: row.unsigned(seal::REV)?,
            at: Time::from_millis(row.int(seal::AT)?),
            change: event::change(&row.text(seal::CHANGE)?)?,
            text: row.opt_text(seal::AFTER)?.unwrap_or_default(),
            sha: row.opt_text(seal::SHA)?.unwrap_or_default(),
        })
    }
}
