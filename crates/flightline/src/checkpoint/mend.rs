//! Healing: one sound copy of a value is enough. A value that fails its hash in the store is replaced by
//! its other copy there, or by one from a file. A value without a sound copy stays damaged.

use crate::Schema;
use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus, DigestLine, sections};
use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::history::Branch;
use flightline_core::text::read_stored;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal, Time};
use flightline_store::{Actor, Find, JournalChange, Mended, StoredEvent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::files::StateValue;
use super::inspect::unreadable;
use super::{find, load, tree};
use crate::error::{Error, Result};
use crate::event::Cursor;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;
use crate::recovery::{before_last_rewind, newest_sound};

/// Mends the values of which this transaction found one copy damaged, and says so. To be called before
/// something new is written over the copy that serves.
pub(crate) fn heal(ctx: &mut OpContext<'_, '_>) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for damage in ctx.tx.take_noticed() {
        let mended = match ctx.tx.mend(&damage)? {
            Mended::Healed => "; repaired",
            // Written anew by this very transaction.
            Mended::Sound | Mended::Refused => "",
        };
        said.push(format!("{damage}{mended}"));
    }
    Ok(said)
}

/// The checkpoints that an operation is going to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointsToRead {
    /// The newest sound checkpoint of a mission; the current mission when none is named.
    Newest {
        /// The mission; the current one when none is named.
        mission: Option<String>,
    },
    /// Every checkpoint of the current mission.
    All,
    /// The named checkpoints.
    Named {
        /// The checkpoints by id, beginning of an id, or place such as `@latest`.
        checkpoints: Vec<String>,
    },
    /// The checkpoint to which an undo goes back.
    BeforeRewind {
        /// The mission; the current one when none is named.
        mission: Option<String>,
    },
}

/// Examines the checkpoints that an operation is going to read, and reports their state in the store.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ExamineCheckpoints {
    /// The checkpoints to examine.
    pub wanted: CheckpointsToRead,
}

/// The state of checkpoints in the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct ExaminedCheckpoints {
    /// The checkpoints that were examined.
    pub checkpoints: Vec<ExaminedCheckpoint>,
    /// The mission of which all checkpoints matter.
    pub mission_id: Option<MissionId>,
    /// Every checkpoint of that mission that the store knows, deleted ones too.
    pub known: Vec<CheckpointId>,
    /// The named checkpoints that the store does not know.
    pub unknown: Vec<String>,
    /// The unbroken journal the store holds.
    pub history: String,
    /// Journals that this one continues, each up to the revision at which it was left.
    #[serde(default)]
    pub before: Vec<Cursor>,
}

/// The state of a checkpoint in the store.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ExaminedCheckpoint {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The mission whose state it is.
    pub mission_id: MissionId,
    /// The problem found in the checkpoint; none when it is sound.
    pub problem: Option<String>,
    /// Revisions of the values that the checkpoint lacks; when none is named, all of them may be lacking.
    pub lacks: Vec<u64>,
    /// True when the store can mend some of the damage by itself.
    pub mendable: bool,
    /// True when the checkpoint was quarantined before.
    pub quarantined: bool,
    /// The state of the checkpoint's copy in a file.
    pub backup: Backup,
}

impl Operation for ExamineCheckpoints {
    const NAME: &'static str = "examine_checkpoints";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = ExaminedCheckpoints;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ExaminedCheckpoints> {
        let mut examined = ExaminedCheckpoints {
            history: ctx.tx.history().to_owned(),
            before: ctx.tx.branches()?.into_iter().map(left).collect(),
            ..ExaminedCheckpoints::default()
        };
        let ids = match &self.wanted {
            CheckpointsToRead::Newest { mission } => {
                let mission = ctx.mission(mission.as_deref())?;
                examined.mission_id = Some(mission.id);
                let (sound, passed) = newest_sound(ctx, &mission)?;
                let passed = passed.into_iter().map(|passed| passed.id);
                passed.chain(sound.map(|sound| sound.id)).collect()
            }
            CheckpointsToRead::All => {
                let mission = ctx.mission(None)?;
                examined.mission_id = Some(mission.id);
                let rows = ctx.tx.rows(Kind::Checkpoint, Find::Mission(mission.id))?;
                rows.iter()
                    .map(|row| Ok(row.typed_id()?))
                    .collect::<Result<Vec<CheckpointId>>>()?
            }
            CheckpointsToRead::Named { checkpoints } => {
                let mut ids = Vec::new();
                for reference in checkpoints {
                    match resolve(ctx, reference)? {
                        Some(id) => ids.push(id),
                        None => examined.unknown.push(reference.clone()),
                    }
                }
                ids
            }
            CheckpointsToRead::BeforeRewind { mission } => {
                let mission = ctx.mission(mission.as_deref())?;
                let before = before_last_rewind(ctx, &mission)?;
                let id = before.map(|(_, before)| before);
                match id {
                    Some(id) if ctx.tx.told(Kind::Checkpoint, &id.to_string())?.is_empty() => {
                        examined.unknown.push(id.to_string());
                        Vec::new()
                    }
                    id => id.into_iter().collect(),
                }
            }
        };
        if let Some(mission) = examined.mission_id {
            let known = ctx.tx.known(Kind::Checkpoint, mission)?;
            // A damaged id is no file's name either.
            examined.known = known.iter().filter_map(|id| id.parse().ok()).collect();
        }
        for id in ids {
            examined.checkpoints.extend(examine(ctx, id)?);
        }
        Ok(examined)
    }
}

fn left(branch: Branch) -> Cursor {
    Cursor {
        history: branch.before,
        rev: branch.left_at,
    }
}

/// The checkpoint that is meant, whether or not it can be read; none when nothing fits.
fn resolve(ctx: &mut OpContext<'_, '_>, reference: &str) -> Result<Option<CheckpointId>> {
    if reference.starts_with('@') {
        return Ok(Some(find(ctx, reference)?.id));
    }
    let typed = flightline_core::id::Typed::parse(reference, CheckpointId::PREFIX)?;
    let found = ctx
        .tx
        .ids_between(Kind::Checkpoint, &typed.beginning, &typed.end())?;
    match found.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some(id.parse()?)),
        // Says which ones could be meant.
        _ => find(ctx, reference).map(|found| Some(found.id)),
    }
}

/// Returns the state of a checkpoint in the store; none when it is gone.
pub(crate) fn examine(
    ctx: &mut OpContext<'_, '_>,
    id: CheckpointId,
) -> Result<Option<ExaminedCheckpoint>> {
    let key = id.to_string();
    // Damage noticed here is reported by the operation that mends it, or that reads it next.
    ctx.tx.take_noticed();
    let mut examined = match ctx.tx.get::<Checkpoint>(&key).map_err(Error::from) {
        Ok(None) => return Ok(None),
        Ok(Some(checkpoint)) => {
            let mut examined = ExaminedCheckpoint {
                id,
                mission_id: checkpoint.cut.mission_id,
                problem: None,
                lacks: Vec::new(),
                mendable: checkpoint.status == CheckpointStatus::Corrupted,
                quarantined: checkpoint.status == CheckpointStatus::Corrupted,
                backup: ctx.tx.backup_of(id)?,
            };
            match load(ctx, &checkpoint) {
                Ok(_) => examined.problem = tree::recorded(ctx, id)?.err(),
                Err(error) if error.is_damage() => {
                    examined.problem = Some(error.into_refusal().message);
                    let (rev, mission) = (checkpoint.cut.rev, checkpoint.cut.mission_id);
                    // A thinned value is lacking too, and no file brings it back into the journal.
                    examined.lacks = ctx.tx.damaged_at(rev, mission).unwrap_or_default();
                    examined.mendable = false;
                }
                Err(error) => return Err(error),
            }
            examined
        }
        Err(error) if error.is_damage() => {
            let rows = ctx.tx.rows(Kind::Checkpoint, Find::All)?;
            let Some(row) = rows.into_iter().find(|row| row.id == key) else {
                return Ok(None);
            };
            ExaminedCheckpoint {
                id,
                mission_id: row
                    .mission
                    .unwrap_or_default()
                    .parse()
                    .map_err(|_| flightline_store::StoreError::Corrupt(unreadable(&key)))?,
                problem: Some(unreadable(&key)),
                lacks: Vec::new(),
                mendable: false,
                quarantined: false,
                backup: ctx.tx.backup_of(id)?,
            }
        }
        Err(error) => return Err(error),
    };
    let noticed = !ctx.tx.take_noticed().is_empty();
    examined.mendable |= examined.problem.is_none() && noticed;
    Ok(Some(examined))
}

/// Mends a checkpoint in the store, as far as what is offered fits the hashes that are stored.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MendCheckpoint {
    /// The checkpoint to mend.
    pub checkpoint: CheckpointId,
    /// The checkpoint's record, as its file has it.
    pub record: Option<Checkpoint>,
    /// Values, as files have them.
    pub values: Vec<StateValue>,
    /// The work tree as it was seen, from the checkpoint's file.
    #[serde(default)]
    pub file_system: Option<StateValue>,
    /// The size and the SHA-256 of the checkpoint's file, if known.
    pub file: Option<(u64, String)>,
    /// Quarantine the checkpoint if it cannot be repaired: it is kept, but neither offered nor counted.
    #[serde(default)]
    pub quarantine: bool,
}

/// The outcome of mending a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MendedCheckpoint {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// True when the checkpoint is sound now.
    pub sound: bool,
    /// Sentences about the damage that was mended, and the damage that could not be.
    pub said: Vec<String>,
}

impl Operation for MendCheckpoint {
    const NAME: &'static str = "mend_checkpoint";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = MendedCheckpoint;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MendedCheckpoint> {
        // A record that the store lost is believed as it is offered: not every caller may offer one.
        if !ctx.is_in_charge() {
            return Err(Refusal::new(
                Code::NotYours,
                format!(
                    "only a person or dispatch can mend {}",
                    short(self.checkpoint)
                ),
            )
            .hint("ask for it with `fleet doctor --fix`")
            .into());
        }
        self.apply(ctx)
    }
}

impl MendCheckpoint {
    pub(crate) fn apply(&self, ctx: &mut OpContext<'_, '_>) -> Result<MendedCheckpoint> {
        // Housekeeping, no activity of an agent.
        let who = ctx.tx.actor().clone();
        ctx.tx.act_as(Actor::flightline());
        let done = self.mend(ctx);
        ctx.tx.act_as(who);
        done
    }

    fn mend(&self, ctx: &mut OpContext<'_, '_>) -> Result<MendedCheckpoint> {
        let id = short(self.checkpoint);
        let told = ctx
            .tx
            .told(Kind::Checkpoint, &self.checkpoint.to_string())?;
        let mut said = Vec::new();
        let record = match told.last() {
            // Deleted on purpose: no copy brings it back.
            Some(last) if last.change == Change::Gone => None,
            Some(_) => self.record_in_store(ctx, &told, &mut said)?,
            None => self.record_from_file(ctx, &mut said)?,
        };
        let Some(mut record) = record else {
            return Ok(self.outcome(false, said));
        };
        let sound = self.values_in_store(ctx, &record, &mut said)?;
        if let Some(seen) = &self.file_system
            && tree::recorded(ctx, record.id)?.is_err()
            && tree::mend(ctx, seen)?
        {
            said.push(format!(
                "the section `file_system` of {id} was damaged in the store; repaired from its file"
            ));
        }
        if sound && told.is_empty() {
            let data = json!({ "checkpoint_id": record.id, "from": "file" });
            ctx.tx.set(EventType::CheckpointRecovered, &record, &data)?;
            let backup = match self.file.clone() {
                Some((bytes, sha256)) => Backup::Written {
                    at: ctx.now(),
                    bytes,
                    sha256,
                    node: None,
                },
                None => Backup::Pending,
            };
            ctx.tx.set_backup(record.id, &backup)?;
            tree::bring_in(ctx, self.file_system.as_ref())?;
            said.push(format!(
                "{id} was missing in the store; brought back from its file"
            ));
        } else if told.is_empty() {
            said.push(format!(
                "{id} is only in its file: the store does not hold what it names; \
                 `fleet doctor --rebuild` builds a store from the files"
            ));
        } else if sound && record.status == CheckpointStatus::Corrupted {
            record.status = CheckpointStatus::Valid;
            let data = json!({ "checkpoint_id": record.id });
            ctx.tx.set(EventType::CheckpointRecovered, &record, &data)?;
        } else if !sound && self.quarantine && record.status != CheckpointStatus::Corrupted {
            let why = problem(ctx, &record)?.unwrap_or_default();
            record.status = CheckpointStatus::Corrupted;
            let data = json!({ "checkpoint_id": record.id, "problem": why });
            ctx.tx.set(EventType::CheckpointCorrupted, &record, &data)?;
            said.push(format!("{why}; no copy can mend it: quarantined"));
        }
        Ok(self.outcome(sound, said))
    }

    fn outcome(&self, sound: bool, said: Vec<String>) -> MendedCheckpoint {
        MendedCheckpoint {
            id: self.checkpoint,
            sound,
            said,
        }
    }

    /// The record of a checkpoint that the journal knows; mended if need be.
    fn record_in_store(
        &self,
        ctx: &mut OpContext<'_, '_>,
        told: &[JournalChange],
        said: &mut Vec<String>,
    ) -> Result<Option<Checkpoint>> {
        let (key, id) = (self.checkpoint.to_string(), short(self.checkpoint));
        match ctx.tx.get::<Checkpoint>(&key).map_err(Error::from) {
            Ok(Some(record)) => return Ok(Some(record)),
            // The row is lost, and the journal has the whole record.
            Ok(None) => {}
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
        let Some(last) = told.last() else {
            return Ok(None);
        };
        let bases = self.bases(told);
        let exact = last.is_sound().then(|| last.text.clone()).or_else(|| {
            let texts = bases.iter().flat_map(|base| as_marked(base, told));
            texts.into_iter().find(|text| sha256_hex(text) == last.sha)
        });
        if let Some(text) = exact {
            let copy = StoredEvent {
                kind: Kind::Checkpoint,
                id: key.clone(),
                rev: last.rev,
                sha: last.sha.clone(),
                text,
            };
            ctx.tx.mend_value(&copy, "file")?;
            if ctx.tx.get::<Checkpoint>(&key).ok().flatten().is_none() {
                ctx.tx.mend_row(Kind::Checkpoint, &key)?;
            }
            said.push(format!(
                "the record of {id} was damaged in the store; repaired"
            ));
            return Ok(ctx.tx.get::<Checkpoint>(&key)?);
        }
        // The cut never changes, and has a hash of its own: only marks are lost.
        let Some(base) = bases.into_iter().next() else {
            return Ok(None);
        };
        let record = Checkpoint {
            pinned_at: pinned_at(ctx, &key)?,
            status: CheckpointStatus::Valid,
            ..base
        };
        if !self.values_in_store(ctx, &record, said)? {
            return Ok(None);
        }
        let data = json!({ "checkpoint_id": record.id, "lost_at": last.rev });
        ctx.tx.set(EventType::CheckpointRecovered, &record, &data)?;
        said.push(format!(
            "the record of {id} was damaged in the store; its content is repaired, but a note on it may be lost"
        ));
        Ok(Some(record))
    }

    /// Records of this checkpoint whose cut matches its hash: from its file, then from the journal's
    /// earlier ones.
    fn bases(&self, told: &[JournalChange]) -> Vec<Checkpoint> {
        let earlier = told.iter().rev().filter(|told| told.is_sound());
        let earlier = earlier.filter_map(|told| read_stored(&told.text).ok());
        let offered = self.record.clone().into_iter();
        let all = offered.chain(earlier);
        all.filter(|base: &Checkpoint| {
            base.id == self.checkpoint && base.cut.sha256() == base.sha256
        })
        .collect()
    }

    /// The record of a checkpoint that the store does not know at all.
    fn record_from_file(
        &self,
        ctx: &mut OpContext<'_, '_>,
        said: &mut Vec<String>,
    ) -> Result<Option<Checkpoint>> {
        let Some(record) = self.bases(&[]).into_iter().next() else {
            return Ok(None);
        };
        let mission = record.cut.mission_id.to_string();
        if ctx.tx.told(Kind::Mission, &mission)?.is_empty() {
            said.push(format!(
                "{} is only in its file, and so is its mission; `fleet doctor --rebuild` builds a store from the files",
                short(self.checkpoint)
            ));
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Mends the values that a checkpoint names. Returns true when all of them are sound.
    fn values_in_store(
        &self,
        ctx: &mut OpContext<'_, '_>,
        record: &Checkpoint,
        said: &mut Vec<String>,
    ) -> Result<bool> {
        if is_sound(ctx, record)? {
            said.extend(heal(ctx)?);
            return Ok(true);
        }
        // Values can stand for lost events only when they make up exactly the cut of the checkpoint.
        let lines = self.values.iter().map(|value| DigestLine {
            kind: value.kind,
            id: value.id.clone(),
            rev: value.rev,
            sha: value.sha.clone(),
        });
        let complete = sections(lines.collect(), record.cut.digest) == record.cut.sections;
        let mut healed = 0;
        for value in &self.values {
            let copy = StoredEvent::from(value);
            let mended = ctx.tx.mend_value(&copy, "file")? == Mended::Healed
                || (complete && ctx.tx.bring_back(&copy, "file")? == Mended::Healed);
            healed += u64::from(mended);
        }
        let mut sound = is_sound(ctx, record)?;
        if !sound {
            for value in &self.values {
                if !ctx.tx.has_row(value.kind, &value.id)?
                    && ctx.tx.mend_row(value.kind, &value.id)? == Mended::Healed
                {
                    healed += 1;
                }
            }
            sound = is_sound(ctx, record)?;
        }
        if healed > 0 {
            let noun = if healed == 1 { "value" } else { "values" };
            said.push(format!(
                "{} was damaged in the store; repaired {healed} {noun} from its file",
                short(record.id)
            ));
        }
        said.extend(heal(ctx)?);
        Ok(sound)
    }
}

fn is_sound(ctx: &mut OpContext<'_, '_>, record: &Checkpoint) -> Result<bool> {
    Ok(problem(ctx, record)?.is_none())
}

/// The problem with the values that a checkpoint names.
fn problem(ctx: &mut OpContext<'_, '_>, record: &Checkpoint) -> Result<Option<String>> {
    match load(ctx, record) {
        Ok(_) => Ok(None),
        Err(error) if error.is_damage() => Ok(Some(error.into_refusal().message)),
        Err(error) => Err(error),
    }
}

/// The texts that a record can have had after it was marked: the hash says which it was.
fn as_marked(base: &Checkpoint, told: &[JournalChange]) -> Vec<String> {
    let mut texts = Vec::new();
    let pins: Vec<Option<Time>> = [None, base.pinned_at]
        .into_iter()
        .chain(told.iter().map(|told| Some(told.at)))
        .collect();
    for status in [
        base.status,
        CheckpointStatus::Creating,
        CheckpointStatus::Valid,
        CheckpointStatus::Corrupted,
        CheckpointStatus::Expired,
        CheckpointStatus::Archived,
    ] {
        for pinned_at in &pins {
            for note in [&base.note, &None] {
                let marked = Checkpoint {
                    status,
                    pinned_at: *pinned_at,
                    note: note.clone(),
                    ..base.clone()
                };
                texts.extend(serde_json::to_string(&marked).ok());
            }
        }
    }
    texts
}

/// Returns the time at which a checkpoint was pinned, as its events tell.
fn pinned_at(ctx: &mut OpContext<'_, '_>, key: &str) -> Result<Option<Time>> {
    let events = ctx.tx.events_of(Kind::Checkpoint, key, 1_000)?;
    let mark = events.into_iter().find(|event| {
        matches!(
            event.event_type(),
            Some(EventType::CheckpointPinned | EventType::CheckpointUnpinned)
        )
    });
    Ok(mark
        .filter(|event| event.is(EventType::CheckpointPinned))
        .map(|event| event.timestamp))
}
