//! Imports a checkpoint from a file: one that retention took, or one of another journal.
//!
//! A checkpoint's values belong to the journal it was taken in. Where this journal still has exactly those values, only
//! its record comes back. Else they are kept beside the journal, and the checkpoint says so (`imported`).

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::{Agent, Step};
use flightline_core::checkpoint::{
    Backup, Checkpoint, CheckpointStatus, Cut, DigestLine, Imported, ImportedValue, ImportedValues,
    sections,
};
use flightline_core::effect::Effect;
use flightline_core::event::{EventType, sha256_hex};
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::Mission;
use flightline_core::note::Note as MissionNote;
use flightline_core::redact::contains_secret;
use flightline_core::sortie::{Review, Sortie, SortieError, SortieFile, Subtask};
use flightline_core::{AgentId, Code, Kind, MissionId, Name, Refusal, Subject};
use flightline_store::{Find, StoreError, StoredEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::{StateValue, check, refuse_newer};
use super::inspect::{CheckpointSummary, summary};
use super::{CheckpointDocument, Contents};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::{OpContext, check_new_name};

/// Imports a checkpoint, with every value it names.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ImportCheckpoint {
    /// The whole document, as a file holds it.
    pub document: CheckpointDocument,
}

/// The outcome of an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ImportedCheckpoint {
    /// The checkpoint as it is stored here now.
    pub checkpoint: CheckpointSummary,
    /// The way in which the checkpoint was imported.
    pub arrival: ImportArrival,
    /// Number of values that the checkpoint names.
    pub values: u64,
    /// Agents that own work in the checkpoint and were not known here: they were added, retired.
    pub agents: Vec<String>,
}

/// The way in which a checkpoint was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum ImportArrival {
    /// The checkpoint was here already, and is sound: nothing was changed.
    There,
    /// The journal still has the values: the checkpoint's record is back, pinned.
    Returned,
    /// The checkpoint was taken in this journal, which has thinned its values: they are kept beside it. It is pinned.
    Copied,
    /// The checkpoint was taken in another journal: its values are kept beside this one. It is archived, because its
    /// place among the checkpoints of this journal cannot be told.
    Foreign,
}

impl Operation for ImportCheckpoint {
    const NAME: &'static str = "import_checkpoint";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = ImportedCheckpoint;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ImportedCheckpoint> {
        let arriving = Arriving::new(&self.document)?;
        let id = arriving.original.id;
        let mission = arriving.original.cut.mission_id;
        if ctx.tx.get::<Mission>(mission)?.is_none() {
            return Err(Refusal::new(
                Code::NotFound,
                format!("{} belongs to {}, which this store does not know", short(id), short(mission)),
            )
            .hint(
                "put the file into `.flightline/checkpoints/` below its mission's folder and build a store from all files there: `fleet doctor --rebuild`",
            )
            .into());
        }
        let before = match ctx.tx.get::<Checkpoint>(id) {
            Ok(found) => found,
            // A record that cannot be read is replaced.
            Err(StoreError::Corrupt(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(there) = &before {
            if there.origin() != arriving.original.origin() {
                return Err(Refusal::new(
                    Code::AlreadyExists,
                    format!("another checkpoint with the id {} is here", short(id)),
                )
                .hint(format!(
                    "look at it with `fleet checkpoints show {}`",
                    short(id)
                ))
                .into());
            }
            if super::load(ctx, there).is_ok() {
                return arriving.report(ctx, there.clone(), ImportArrival::There, Vec::new());
            }
        }
        arriving.bring_in(ctx, before)
    }
}

/// A checkpoint that is to come in, checked as far as it can be by itself.
struct Arriving<'a> {
    /// The checkpoint as it was in the journal in which it was taken.
    original: Checkpoint,
    history: String,
    values: &'a [StateValue],
    file_system: Option<&'a StateValue>,
}

impl<'a> Arriving<'a> {
    fn new(document: &'a CheckpointDocument) -> Result<Self> {
        refuse_newer(&document.version)?;
        let unsound = |why: String| {
            Refusal::new(
                Code::Integrity,
                format!("the file is not a sound checkpoint: {why}"),
            )
            .hint("export it again: `fleet checkpoints export ID FILE`")
        };
        check(document).map_err(unsound)?;
        let state = document
            .state
            .as_ref()
            .ok_or_else(|| unsound("it holds no state".to_owned()))?;
        refuse_newer(&state.checkpoint.cut.version)?;
        let record = &state.checkpoint;
        for value in &state.values {
            check_value(value, record.cut.mission_id).map_err(unsound)?;
        }
        // All texts are checked: the file was read as it is, because its hashes are over its exact texts.
        check_texts(&json!(record)).map_err(unsound)?;
        check_texts(&json!(document.file_system)).map_err(unsound)?;
        let (rev, sha256) = record.origin();
        let original = Checkpoint {
            cut: Cut {
                rev,
                ..record.cut.clone()
            },
            sha256: sha256.to_owned(),
            imported: None,
            ..record.clone()
        };
        if original.cut.sha256() != original.sha256 {
            return Err(unsound(
                "its contents are not those of the checkpoint that it names as its origin"
                    .to_owned(),
            )
            .into());
        }
        Ok(Self {
            original,
            history: match &record.imported {
                Some(imported) => imported.history.clone(),
                None => state.history.clone(),
            },
            values: &state.values,
            file_system: state.file_system.as_ref(),
        })
    }

    fn bring_in(
        &self,
        ctx: &mut OpContext<'_, '_>,
        before: Option<Checkpoint>,
    ) -> Result<ImportedCheckpoint> {
        let (rev, now) = (ctx.tx.rev(), ctx.now());
        let pinned_at = before.as_ref().and_then(|before| before.pinned_at);
        let mut checkpoint = Checkpoint {
            status: CheckpointStatus::Valid,
            pinned_at: pinned_at.or(self.original.pinned_at).or(Some(now)),
            note: before
                .and_then(|before| before.note)
                .or_else(|| self.original.note.clone()),
            ..self.original.clone()
        };
        let native = self.original.cut.rev <= rev && super::load(ctx, &checkpoint).is_ok();
        let ours = self.history == ctx.tx.history()
            || ctx.tx.has_place(&self.history, self.original.cut.rev)?;
        let arrival = match (native, ours) {
            (true, _) => ImportArrival::Returned,
            (false, true) => ImportArrival::Copied,
            (false, false) => ImportArrival::Foreign,
        };
        let agents = self.bring_agents(ctx)?;
        if arrival != ImportArrival::Returned {
            checkpoint.imported = Some(Imported {
                history: self.history.clone(),
                rev: self.original.cut.rev,
                sha256: self.original.sha256.clone(),
                at: now,
            });
            let values = ImportedValues {
                checkpoint_id: checkpoint.id,
                values: self.values.iter().map(kept).collect(),
            };
            let data = json!({ "checkpoint_id": checkpoint.id, "values": values.values.len() });
            ctx.tx
                .set(EventType::CheckpointValuesImported, &values, &data)?;
        }
        if arrival == ImportArrival::Foreign {
            // Everything here is ordered by the revisions of this journal.
            checkpoint.cut.rev = rev;
            checkpoint.sha256 = checkpoint.cut.sha256();
            checkpoint.status = CheckpointStatus::Archived;
            checkpoint.pinned_at = None;
        }
        let data = json!({
            "checkpoint_id": checkpoint.id,
            "mission_id": checkpoint.cut.mission_id,
            "arrival": arrival,
            "history": self.history,
            "rev": self.original.cut.rev,
        });
        ctx.tx
            .set(EventType::CheckpointImported, &checkpoint, &data)?;
        let backup = match arrival {
            // A store that is built from files takes the newest of each mission, and must not take this one.
            ImportArrival::Foreign => Backup::Shared,
            ImportArrival::There | ImportArrival::Returned | ImportArrival::Copied => {
                Backup::Pending
            }
        };
        ctx.tx.set_backup(checkpoint.id, &backup)?;
        super::tree::bring_in(ctx, self.file_system)?;
        super::load(ctx, &checkpoint)?;
        self.report(ctx, checkpoint, arrival, agents)
    }

    /// Work must have an owner that exists. Owners that were never here come along, retired: their work is free again
    /// when a rewind goes back to this checkpoint.
    fn bring_agents(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<String>> {
        let of = |kind: Kind| self.values.iter().filter(move |value| value.kind == kind);
        let agents: BTreeMap<AgentId, Agent> = of(Kind::Agent)
            .filter_map(|value| serde_json::from_str::<Agent>(&value.text).ok())
            .map(|agent| (agent.id, agent))
            .collect();
        let mut brought = Vec::new();
        for value in of(Kind::Sortie) {
            let sortie: Sortie = read(value).map_err(Refusal::invalid)?;
            let Some(owner) = sortie.assigned_to else {
                continue;
            };
            if ctx.tx.get::<Agent>(owner)?.is_some() {
                continue;
            }
            let agent = agents.get(&owner).ok_or_else(|| {
                Refusal::new(
                    Code::Integrity,
                    format!(
                        "{} belongs to an agent that the checkpoint does not hold",
                        sortie.id
                    ),
                )
            })?;
            let agent = Agent {
                name: free_name(ctx, agent)?,
                epoch: agent.epoch + 1,
                session_id: None,
                process: None,
                updated_at: ctx.now(),
                retired_at: Some(ctx.now()),
                ..agent.clone()
            };
            let data = json!({ "checkpoint_id": self.original.id });
            ctx.tx.set(EventType::AgentImported, &agent, &data)?;
            brought.push(agent.name.to_string());
        }
        Ok(brought)
    }

    fn report(
        &self,
        ctx: &mut OpContext<'_, '_>,
        checkpoint: Checkpoint,
        arrival: ImportArrival,
        agents: Vec<String>,
    ) -> Result<ImportedCheckpoint> {
        let backup = ctx.tx.backup_of(checkpoint.id)?;
        Ok(ImportedCheckpoint {
            checkpoint: summary(checkpoint, &backup),
            arrival,
            values: self.values.len() as u64,
            agents,
        })
    }
}

/// The agent's name, or one like it where another has it, or where no new agent may have it.
fn free_name(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Name> {
    let end: String = agent.id.to_string().chars().rev().take(6).collect();
    let beginning: String = agent.name.as_str().chars().take(90).collect();
    let like_it = Name::parse("agent name", &format!("{beginning}-{end}"))?;
    for name in [&agent.name, &like_it] {
        let taken = !ctx
            .tx
            .find::<Agent>(Find::AgentName(name.as_str()))?
            .is_empty();
        if !taken && check_new_name(ctx.tx, name).is_ok() {
            return Ok(name.clone());
        }
    }
    Ok(Name::parse("agent name", &format!("agent-{end}"))?)
}

fn kept(value: &StateValue) -> ImportedValue {
    ImportedValue {
        kind: value.kind,
        id: value.id.clone(),
        rev: value.rev,
        sha: value.sha.clone(),
        text: value.text.clone(),
    }
}

fn read<S: Subject>(value: &StateValue) -> std::result::Result<S, String> {
    let read = serde_json::from_str::<S>(&value.text);
    let subject =
        read.map_err(|error| format!("{} {} cannot be read: {error}", value.kind, value.id))?;
    match subject.key() == value.id {
        true => Ok(subject),
        false => Err(format!("{} {} says it is another", value.kind, value.id)),
    }
}

/// Checks a value: it is of its kind and id, of this mission or of the whole project, and holds nothing that any
/// other operation would refuse.
fn check_value(value: &StateValue, mission: MissionId) -> std::result::Result<(), String> {
    fn of<S: Subject>(value: &StateValue) -> std::result::Result<Option<MissionId>, String> {
        read::<S>(value).map(|subject| subject.keys().mission)
    }
    let found = match value.kind {
        Kind::Mission => of::<Mission>(value).map(|_| value.id.parse().ok()),
        Kind::Sortie => of::<Sortie>(value),
        Kind::Subtask => of::<Subtask>(value),
        Kind::File => of::<SortieFile>(value),
        Kind::Error => of::<SortieError>(value),
        Kind::Review => of::<Review>(value),
        Kind::Agent => of::<Agent>(value),
        Kind::Step => of::<Step>(value),
        Kind::Lock => of::<Lock>(value),
        Kind::Message => of::<Message>(value),
        Kind::Delivery => of::<Delivery>(value),
        Kind::Note => of::<MissionNote>(value),
        Kind::Effect => of::<Effect>(value),
        Kind::Setting
        | Kind::Checkpoint
        | Kind::Milestone
        | Kind::Recovery
        | Kind::Briefing
        | Kind::Import
        | Kind::Original
        | Kind::FileSystem
        | Kind::Token => Err(format!("a {} is in no checkpoint", value.kind)),
    }?;
    let projects = matches!(value.kind, Kind::Agent | Kind::Step | Kind::Lock);
    if found != Some(mission) && !(projects && found.is_none()) {
        return Err(format!(
            "{} {} belongs to another mission",
            value.kind, value.id
        ));
    }
    let text: Value = serde_json::from_str(&value.text).unwrap_or_default();
    check_texts(&text).map_err(|why| format!("{} {} {why}", value.kind, value.id))
}

/// Checks that every text in a document would be let in as it is.
fn check_texts(value: &Value) -> std::result::Result<(), String> {
    match value {
        Value::String(text) => {
            let controls = |c: char| c.is_control() && c != '\n' && c != '\t';
            if contains_secret(text) || text.contains(controls) {
                return Err(
                    "holds a text that would not be let in: a secret, or control characters"
                        .to_owned(),
                );
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(check_texts),
        Value::Object(fields) => fields.values().try_for_each(check_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Reads the values that an imported checkpoint names, and checks every hash on the way.
pub(crate) fn load(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<Contents> {
    let damaged = |what: &str| {
        crate::Error::from(
            Refusal::new(
                Code::Integrity,
                format!("{} is damaged: {what}", short(checkpoint.id)),
            )
            .hint("import it again: `fleet checkpoints import FILE`"),
        )
    };
    refuse_newer(&checkpoint.cut.version)?;
    let (rev, sha256) = checkpoint.origin();
    let original = Cut {
        rev,
        ..checkpoint.cut.clone()
    };
    if checkpoint.cut.sha256() != checkpoint.sha256 || original.sha256() != sha256 {
        return Err(damaged("its header does not match its checksum"));
    }
    let kept = match ctx.tx.get::<ImportedValues>(&checkpoint.id.to_string()) {
        Ok(Some(kept)) => kept,
        Ok(None) => return Err(damaged("its values are missing")),
        Err(StoreError::Corrupt(why)) => return Err(damaged(&why)),
        Err(error) => return Err(error.into()),
    };
    let lines = kept.values.iter().map(|value| DigestLine {
        kind: value.kind,
        id: value.id.clone(),
        rev: value.rev,
        sha: value.sha.clone(),
    });
    if sections(lines.collect(), checkpoint.cut.digest) != checkpoint.cut.sections
        || kept
            .values
            .iter()
            .any(|value| sha256_hex(&value.text) != value.sha)
    {
        return Err(damaged("its values do not match its checksum"));
    }
    let values = kept.values.into_iter().map(|value| StoredEvent {
        kind: value.kind,
        id: value.id,
        rev: value.rev,
        text: value.text,
        sha: value.sha,
    });
    Ok(Contents::new(values.collect()))
}

/// Removes the document kept for a checkpoint that is gone.
pub(crate) fn forget(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<()> {
    crate::dialect::orchestrator::files::forget(ctx, checkpoint)?;
    if checkpoint.imported.is_some() {
        // The values are removed whether or not they can still be read.
        let kept = ImportedValues {
            checkpoint_id: checkpoint.id,
            values: Vec::new(),
        };
        let data = json!({ "checkpoint_id": checkpoint.id });
        ctx.tx
            .remove(EventType::CheckpointValuesRemoved, &kept, &data)?;
    }
    Ok(())
}
