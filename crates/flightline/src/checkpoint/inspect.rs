//! Lists, shows, verifies and marks checkpoints.

mod diff;

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus, Reason, Trigger};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::retention::{Guard, RetentionCandidate};
use flightline_core::text::NoteText;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal, Time};
use flightline_store::{Find, ListOrder, ListScope, RowList, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::prune::{candidate_of, expired};
use super::{CheckpointDocument, document, find, load, newest_first, readable};
use super::{import, tree, unreadable};
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, ListPart, Operation, Scope, Window, some_rows};
use crate::op_context::OpContext;

pub(crate) use self::diff::differences;
pub use self::diff::{DiffCheckpoints, Difference};

/// Lists checkpoints of a mission, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ListCheckpoints {
    /// The mission whose checkpoints are listed; the current one when none is named.
    pub mission: Option<String>,
    /// List archived checkpoints too.
    #[serde(default)]
    pub archived: bool,
    /// Maximum number of entries.
    pub limit: u64,
}

/// Checkpoints of a mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct CheckpointList {
    /// The mission whose checkpoints they are.
    pub mission_id: MissionId,
    /// The checkpoints, newest first.
    pub checkpoints: Vec<CheckpointSummary>,
    /// Number of checkpoints in all, beyond the limit too.
    pub total: u64,
}

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct CheckpointSummary {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The mission whose state it is.
    pub mission_id: MissionId,
    /// The time at which the checkpoint was taken.
    pub timestamp: Time,
    /// The class of the reason: `progress`, `error`, `manual` or `compaction`.
    pub trigger: Trigger,
    /// The exact reason for the checkpoint.
    pub reason: String,
    /// Further details of the reason.
    pub trigger_details: Option<String>,
    /// Progress of the mission at that moment, in percent.
    pub progress_percent: u8,
    /// Number of sorties that the mission had.
    pub sortie_count: u64,
    /// The current status of the checkpoint.
    pub status: CheckpointStatus,
    /// True when the checkpoint is pinned, and retention leaves it alone.
    pub pinned: bool,
    /// A note that a person or an agent added to the checkpoint.
    pub note: Option<NoteText>,
}

/// Shows a checkpoint in full.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ShowCheckpoint {
    /// The id of the checkpoint; `@latest` for the newest.
    pub checkpoint: String,
}

/// Checks a checkpoint against its hashes; all checkpoints of the current mission when none is named.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct VerifyCheckpoints {
    /// The checkpoint to verify; all checkpoints of the current mission when none is named.
    pub checkpoint: Option<String>,
}

/// Checks one checkpoint against its hashes.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct VerifyCheckpoint {
    /// The checkpoint to verify.
    pub checkpoint: CheckpointId,
}

impl Operation for VerifyCheckpoint {
    const NAME: &'static str = "verify_checkpoint";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Verification;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Verification> {
        let checkpoint = find(ctx, &self.checkpoint.to_string())?;
        Ok(verify(ctx, &checkpoint))
    }
}

/// The outcome of the check of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Verification {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The mission whose state it is.
    pub mission_id: MissionId,
    /// True when every hash matches.
    pub sound: bool,
    /// The first problem that the check found; none when every hash matches.
    pub problem: Option<String>,
    /// The SHA-256 that the checkpoint's file should have, when it has one.
    pub file_sha256: Option<String>,
    /// The node that wrote the file, where several share a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_node: Option<String>,
}

/// Pins, unpins, annotates, archives or deletes a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MarkCheckpoint {
    /// The checkpoint to mark.
    pub checkpoint: String,
    /// The mark to set or to take away.
    pub mark: CheckpointMark,
}

/// The mark to set on a checkpoint, or to take away.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointMark {
    /// Pin the checkpoint: retention leaves it alone.
    Pin,
    /// Unpin the checkpoint: retention may delete it.
    Unpin,
    /// Add a note to the checkpoint.
    Note {
        /// The text of the note.
        text: NoteText,
    },
    /// Archive the checkpoint: it leaves lists, counts and limits.
    Archive,
    /// Delete the checkpoint. Its values stay in the journal while others need them.
    Delete,
}

impl Operation for ListCheckpoints {
    const NAME: &'static str = "list_checkpoints";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = CheckpointList;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<CheckpointList> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let archived = CheckpointStatus::Archived.as_str();
        let without = (!self.archived).then_some(archived);
        let list = RowList::new(
            Kind::Checkpoint,
            ListScope::Mission(mission.id),
            without.as_slice(),
        );
        let rows = some_rows(ctx, list, ListOrder::NEWEST, self.limit)?;
        let before = rows.first().map_or(0, |newest| newest.born + 1);
        let of = (Kind::Checkpoint, mission.id);
        let read: Vec<ListedCheckpoint> = ctx.tx.documents_of(of, without, &rows)?;
        let limit = rows.len() as u64;
        let backups = (ctx.tx).backups_of_newest(mission.id, without, before, limit)?;
        let backups: BTreeMap<CheckpointId, Backup> = backups.into_iter().collect();
        let candidates = read.iter().map(ListedCheckpoint::candidate);
        let newer = newer(ctx, &mission, before)?;
        let expired = expired(ctx, &mission, newer, candidates);
        let mut read: BTreeMap<String, ListedCheckpoint> =
            (read.into_iter().map(|it| (it.id.to_string(), it))).collect();
        let mut checkpoints = Vec::with_capacity(rows.len());
        for row in &rows {
            // An unreadable checkpoint is listed all the same, so that it can be named.
            let Some(checkpoint) = read.remove(&row.id) else {
                checkpoints.push(unreadable::summary_of(ctx, row)?);
                continue;
            };
            let backup = backups.get(&checkpoint.id).unwrap_or(&Backup::Pending);
            let mut summary = summary(checkpoint, backup);
            expire(&mut summary.status, expired.get(&summary.id));
            checkpoints.push(summary);
        }
        let total = match ctx.caller.window.as_ref().and_then(Window::given) {
            Some(ListPart::Given { total, .. }) => total,
            Some(ListPart::Gone) | None => ctx.tx.count(list)?,
        };
        Ok(CheckpointList {
            mission_id: mission.id,
            checkpoints,
            total,
        })
    }
}

/// Counts the unarchived checkpoints of a mission that are newer than the caller's page, and the sound ones among them. That
/// stands for looking at each: when one of them is to go, so are the older ones. Emergencies that retention keeps apart are
/// counted, too: no column tells them.
fn newer(ctx: &mut OpContext<'_, '_>, mission: &Mission, from: u64) -> Result<(u64, u64)> {
    if ctx.caller.window.is_none() {
        return Ok((0, 0));
    }
    let counts = (ctx.tx).counts_from(Kind::Checkpoint, mission.id, from)?;
    let [archived, corrupted] =
        [CheckpointStatus::Archived, CheckpointStatus::Corrupted].map(CheckpointStatus::as_str);
    let listed = || counts.iter().filter(|(status, _)| status != archived);
    let sound = listed().filter(|(status, _)| status != corrupted);
    let sum = |(_, count): &(String, u64)| *count;
    Ok((listed().map(sum).sum(), sound.map(sum).sum()))
}

impl Operation for ShowCheckpoint {
    const NAME: &'static str = "show_checkpoint";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = CheckpointDocument;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<CheckpointDocument> {
        let checkpoint = find(ctx, &self.checkpoint)?;
        let mut document = document(ctx, &checkpoint)?;
        expire(&mut document.status, guard_of(ctx, &checkpoint)?.as_ref());
        Ok(document)
    }
}

impl Operation for VerifyCheckpoints {
    const NAME: &'static str = "verify_checkpoints";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<Verification>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<Verification>> {
        if let Some(reference) = &self.checkpoint {
            let checkpoint = find(ctx, reference)?;
            return Ok(vec![verify(ctx, &checkpoint)]);
        }
        let mission = ctx.mission(None)?;
        let (checkpoints, damaged) = readable::<Checkpoint>(ctx.tx, Find::Mission(mission.id))?;
        let mut verdicts: Vec<Verification> = checkpoints
            .iter()
            .map(|checkpoint| verify(ctx, checkpoint))
            .collect();
        for row in damaged {
            verdicts.push(Verification {
                id: row.typed_id()?,
                mission_id: mission.id,
                sound: false,
                problem: Some(unreadable(&row.id)),
                file_sha256: None,
                file_node: None,
            });
        }
        Ok(verdicts)
    }
}

impl Operation for MarkCheckpoint {
    const NAME: &'static str = "mark_checkpoint";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = CheckpointSummary;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<CheckpointSummary> {
        let mut checkpoint = match find(ctx, &self.checkpoint) {
            Err(Error::Store(StoreError::Corrupt(_))) => {
                return unreadable::mark(ctx, &self.checkpoint, &self.mark);
            }
            found => found?,
        };
        if !matches!(self.mark, CheckpointMark::Delete) {
            super::refuse_newer(&checkpoint)?;
        }
        let data = json!({ "checkpoint_id": checkpoint.id });
        match &self.mark {
            CheckpointMark::Pin => {
                let now = ctx.now();
                checkpoint.pinned_at.get_or_insert(now);
                ctx.tx
                    .set(EventType::CheckpointPinned, &checkpoint, &data)?;
            }
            CheckpointMark::Unpin => {
                checkpoint.pinned_at = None;
                ctx.tx
                    .set(EventType::CheckpointUnpinned, &checkpoint, &data)?;
            }
            CheckpointMark::Note { text } => {
                checkpoint.note = Some(text.clone());
                ctx.tx.set(EventType::CheckpointNoted, &checkpoint, &data)?;
            }
            CheckpointMark::Archive => {
                refuse_pinned(&checkpoint, "archive")?;
                checkpoint.status = CheckpointStatus::Archived;
                ctx.tx
                    .set(EventType::CheckpointArchived, &checkpoint, &data)?;
            }
            CheckpointMark::Delete => {
                refuse_pinned(&checkpoint, "delete")?;
                ctx.tx
                    .remove(EventType::CheckpointDeleted, &checkpoint, &data)?;
                ctx.tx.forget_backup(checkpoint.id)?;
                import::forget(ctx, &checkpoint)?;
                tree::forget(ctx, checkpoint.id)?;
            }
        }
        let backup = ctx.tx.backup_of(checkpoint.id)?;
        let guard = guard_of(ctx, &checkpoint)?;
        let mut summary = summary(checkpoint, &backup);
        expire(&mut summary.status, guard.as_ref());
        Ok(summary)
    }
}

/// Returns the guard that forbids deleting a checkpoint whose time is over.
fn guard_of(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<Option<Guard>> {
    match ctx.tx.get::<Mission>(checkpoint.cut.mission_id) {
        Ok(Some(mission)) => {
            let all = newest_first(ctx, &mission)?;
            let all = all.iter().map(candidate_of);
            Ok(expired(ctx, &mission, (0, 0), all).remove(&checkpoint.id))
        }
        Ok(None) | Err(flightline_store::StoreError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A sound checkpoint that stays only because something forbids deleting it is expired. That depends on
/// the time and on the other checkpoints, so it is said and not stored.
fn expire(status: &mut CheckpointStatus, guard: Option<&Guard>) {
    if guard.is_some() && *status == CheckpointStatus::Valid {
        *status = CheckpointStatus::Expired;
    }
}

/// A checkpoint as a list shows it. Most of a record is its recovery context and the hashes of its sections,
/// which a list need not read.
#[derive(Clone, Deserialize)]
pub(crate) struct ListedCheckpoint {
    id: CheckpointId,
    cut: ListedCut,
    status: CheckpointStatus,
    pinned_at: Option<Time>,
    note: Option<NoteText>,
}

#[derive(Clone, Deserialize)]
struct ListedCut {
    mission_id: MissionId,
    rev: u64,
    timestamp: Time,
    trigger: Trigger,
    reason: Reason,
    trigger_details: Option<String>,
    progress_percent: u8,
    sorties: BTreeMap<String, u64>,
}

impl From<Checkpoint> for ListedCheckpoint {
    fn from(checkpoint: Checkpoint) -> Self {
        let cut = checkpoint.cut;
        Self {
            id: checkpoint.id,
            cut: ListedCut {
                mission_id: cut.mission_id,
                rev: cut.rev,
                timestamp: cut.timestamp,
                trigger: cut.trigger,
                reason: cut.reason,
                trigger_details: cut.trigger_details,
                progress_percent: cut.progress_percent,
                sorties: cut.sorties,
            },
            status: checkpoint.status,
            pinned_at: checkpoint.pinned_at,
            note: checkpoint.note,
        }
    }
}

impl ListedCheckpoint {
    fn candidate(&self) -> RetentionCandidate {
        RetentionCandidate {
            id: self.id,
            mission: self.cut.mission_id,
            rev: self.cut.rev,
            at: self.cut.timestamp,
            trigger: self.cut.trigger,
            pinned: self.pinned_at.is_some(),
            verified: self.status != CheckpointStatus::Corrupted,
            archived: self.status == CheckpointStatus::Archived,
            emergency: self.cut.reason == Reason::TokenCritical,
            bytes: 0,
        }
    }
}

pub(crate) fn summary(
    checkpoint: impl Into<ListedCheckpoint>,
    backup: &Backup,
) -> CheckpointSummary {
    let checkpoint = checkpoint.into();
    CheckpointSummary {
        status: checkpoint.status.shown(backup),
        id: checkpoint.id,
        mission_id: checkpoint.cut.mission_id,
        timestamp: checkpoint.cut.timestamp,
        trigger: checkpoint.cut.trigger,
        reason: checkpoint.cut.reason.as_str().to_owned(),
        sortie_count: checkpoint.cut.sorties.values().sum(),
        trigger_details: checkpoint.cut.trigger_details,
        progress_percent: checkpoint.cut.progress_percent,
        pinned: checkpoint.pinned_at.is_some(),
        note: checkpoint.note,
    }
}

pub(crate) fn verify(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Verification {
    let section = |ctx: &mut OpContext<'_, '_>| match tree::recorded(ctx, checkpoint.id) {
        Ok(recorded) => recorded.err(),
        Err(error) => Some(error.into_refusal().message),
    };
    let problem = match load(ctx, checkpoint) {
        Ok(_) => section(ctx),
        Err(error) => Some(error.into_refusal().message),
    };
    let (file_sha256, file_node) = match ctx.tx.backup_of(checkpoint.id) {
        Ok(Backup::Written { sha256, node, .. }) => (Some(sha256), node),
        _ => (None, None),
    };
    Verification {
        id: checkpoint.id,
        mission_id: checkpoint.cut.mission_id,
        sound: problem.is_none(),
        problem,
        file_sha256,
        file_node,
    }
}

/// The sentence about a checkpoint whose own record fails its checks.
pub(crate) fn unreadable(id: &str) -> String {
    format!(
        "{} is damaged: its record does not match its checksum",
        crate::mission::short(id)
    )
}

fn refuse_pinned(checkpoint: &Checkpoint, verb: &str) -> Result<()> {
    match checkpoint.pinned_at {
        None => Ok(()),
        Some(_) => {
            let id = crate::mission::short(checkpoint.id);
            Err(Refusal::new(
                Code::Unfinished,
                format!("cannot {verb} {id}: it is pinned"),
            )
            .hint(format!(
                "unpin it first with `fleet checkpoints unpin {id}`"
            ))
            .into())
        }
    }
}
