//! The work tree of a checkpoint.
//!
//! A checkpoint is decided in a transaction that touches nothing, often in the middle of other work. So its work tree
//! is looked at right afterwards, by the upkeep that writes its file: a command that takes no checkpoint pays nothing.
//! The result is a subject of its own, recorded before the file is written.

use crate::Schema;
use std::collections::{BTreeMap, BTreeSet};

use flightline_core::checkpoint::{Backup, Checkpoint};
use flightline_core::event::{EventType, sha256_hex};
use flightline_core::file_system::{FileSystem, RecordedFiles};
use flightline_core::text::read_stored;
use flightline_core::{CheckpointId, Kind, MissionId, RepoPath, Subject, Time};
use flightline_store::{Actor, Find, Mended, StoreError, StoredEvent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::CheckpointDocument;
use super::files::StateValue;
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// A look later than this says nothing about the checkpoint any more.
const LATE_MS: u64 = 60_000;

/// Records the state of the work tree at a checkpoint. Only the first record counts.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RecordFiles {
    /// The checkpoint that the record belongs to.
    pub checkpoint: CheckpointId,
    /// The work tree as it was seen.
    pub file_system: FileSystem,
}

impl Operation for RecordFiles {
    const NAME: &'static str = "record_files";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    /// The recorded section; none when there is no such checkpoint, or it is too late to look.
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Option<StateValue>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<StateValue>> {
        let Some(checkpoint) = ctx.tx.get::<Checkpoint>(self.checkpoint)? else {
            return Ok(None);
        };
        if recorded(ctx, checkpoint.id)? == Ok(None) {
            if checkpoint.imported.is_some() || is_late(ctx.now(), checkpoint.cut.timestamp) {
                return Ok(None);
            }
            let seen_at = Some(ctx.now());
            let record = RecordedFiles {
                checkpoint_id: checkpoint.id,
                file_system: FileSystem {
                    seen_at,
                    ..self.file_system.clone()
                },
            };
            set(ctx, EventType::FileSystemRecorded, &record)?;
        }
        value(ctx, checkpoint.id)
    }
}

fn is_late(now: Time, taken: Time) -> bool {
    now.since(taken) > LATE_MS
}

/// Flightline records it for itself: it is no work on the mission.
fn set(ctx: &mut OpContext<'_, '_>, event: EventType, record: &RecordedFiles) -> Result<()> {
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    let seen = &record.file_system;
    let data = json!({
        "checkpoint_id": record.checkpoint_id,
        "head": seen.head(),
        "modified": seen.modified_files.len(),
        "created": seen.created_files.len(),
        "deleted": seen.deleted_files.len(),
        "truncated": seen.truncated,
    });
    let done = ctx.tx.set(event, record, &data);
    ctx.tx.act_as(who);
    done?;
    Ok(())
}

/// Looks at the work trees of checkpoints that are new, and puts the records into their documents.
/// A work tree that cannot be recorded is no reason to write no file.
pub(super) fn record<'a>(
    fleet: &mut Fleet,
    caller: &Caller,
    documents: impl Iterator<Item = &'a mut CheckpointDocument>,
) -> Result<()> {
    let Some(tree) = fleet.work_tree().cloned() else {
        return Ok(());
    };
    let now = fleet.now()?;
    let mut looks: BTreeMap<MissionId, FileSystem> = BTreeMap::new();
    for document in documents {
        let known = document.file_system.is_some() || document.backup != Backup::Pending;
        if known || is_late(now, document.timestamp) {
            continue;
        }
        let seen = looks
            .entry(document.mission_id)
            .or_insert_with(|| tree.look(&named(document)));
        // A folder without git in which no report names a file.
        if seen.is_empty() {
            continue;
        }
        let request = RecordFiles {
            checkpoint: document.id,
            file_system: seen.clone(),
        };
        let value = match fleet.run(&request, caller) {
            Ok(value) => value,
            Err(Error::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        let record = value.as_ref().and_then(|value| read(value).ok());
        document.file_system = record.map(|record| record.file_system);
        if let Some(state) = &mut document.state {
            state.file_system = value;
        }
    }
    Ok(())
}

/// The files that a checkpoint names: worked on, locked, or said to be changed.
fn named(document: &CheckpointDocument) -> Vec<RepoPath> {
    let sorties = document.sorties.iter().flat_map(|sortie| &sortie.files);
    let locks = document.active_locks.iter().map(|lock| &lock.file);
    let changed = &document.recovery_context.files_modified;
    let all: BTreeSet<&String> = sorties.chain(locks).chain(changed).collect();
    all.into_iter()
        .filter_map(|path| RepoPath::parse(path).ok())
        .collect()
}

/// The recorded section of a checkpoint's work tree, or the trouble with it. The checkpoint itself is as sound as it was.
pub(crate) fn recorded(
    ctx: &mut OpContext<'_, '_>,
    id: CheckpointId,
) -> Result<std::result::Result<Option<RecordedFiles>, String>> {
    match ctx.tx.get::<RecordedFiles>(&id.to_string()) {
        Ok(found) => Ok(Ok(found)),
        Err(StoreError::Corrupt(_)) => Ok(Err(format!(
            "{}: its section `file_system` does not match its checksum",
            short(id)
        ))),
        Err(error) => Err(error.into()),
    }
}

/// The section as its exact text, with its hash, for a file; none when there is nothing sound.
pub(super) fn value(ctx: &mut OpContext<'_, '_>, id: CheckpointId) -> Result<Option<StateValue>> {
    let Ok(Some(record)) = recorded(ctx, id)? else {
        return Ok(None);
    };
    let key = id.to_string();
    let rows = ctx.tx.rows(Kind::FileSystem, Find::Parent(&key))?;
    let text = crate::fleet::to_json(&record)?;
    let row = rows.into_iter().find(|row| row.sha == sha256_hex(&text));
    Ok(row.map(|row| StateValue {
        kind: Kind::FileSystem,
        id: key,
        rev: row.rev,
        sha: row.sha,
        text,
    }))
}

fn read(value: &StateValue) -> std::result::Result<RecordedFiles, String> {
    if value.kind != Kind::FileSystem || sha256_hex(&value.text) != value.sha {
        return Err("its section `file_system` does not match its checksum".to_owned());
    }
    read_stored(&value.text)
        .map_err(|error| format!("its section `file_system` cannot be read: {error}"))
}

pub(super) fn check(document: &CheckpointDocument) -> std::result::Result<(), String> {
    let value = document.state.as_ref().map(|state| &state.file_system);
    let record = value.and_then(Option::as_ref).map(read).transpose()?;
    if let Some(record) = &record
        && record.checkpoint_id != document.id
    {
        return Err("its section `file_system` is another's".to_owned());
    }
    match record.map(|record| record.file_system) == document.file_system {
        true => Ok(()),
        false => Err("its section `file_system` does not match its checksum".to_owned()),
    }
}

/// Records the work tree that the file of an imported checkpoint has, unless one is recorded.
pub(super) fn bring_in(ctx: &mut OpContext<'_, '_>, value: Option<&StateValue>) -> Result<()> {
    let Some(record) = value.and_then(|value| read(value).ok()) else {
        return Ok(());
    };
    if recorded(ctx, record.checkpoint_id)? == Ok(None) {
        set(ctx, EventType::FileSystemRecorded, &record)?;
    }
    Ok(())
}

/// Mends the record from the one in a file. Returns true when it did.
pub(super) fn mend(ctx: &mut OpContext<'_, '_>, value: &StateValue) -> Result<bool> {
    let copy = StoredEvent::from(value);
    if value.kind != Kind::FileSystem || ctx.tx.mend_value(&copy, "file")? != Mended::Healed {
        return Ok(false);
    }
    // Both copies in the store were damaged.
    ctx.tx.mend_row(value.kind, &value.id)?;
    Ok(true)
}

/// Removes the record of a checkpoint that is gone, whether or not it can still be read.
pub(super) fn forget(ctx: &mut OpContext<'_, '_>, id: CheckpointId) -> Result<()> {
    let record = RecordedFiles {
        checkpoint_id: id,
        file_system: FileSystem::default(),
    };
    let rows = ctx.tx.rows(Kind::FileSystem, Find::Parent(&record.key()))?;
    if !rows.is_empty() {
        let data = json!({ "checkpoint_id": id });
        ctx.tx
            .remove(EventType::FileSystemRemoved, &record, &data)?;
    }
    Ok(())
}
