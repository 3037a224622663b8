//! Operations on checkpoints.

pub mod backups;
pub mod clock;
pub mod daily;
pub mod destructive;
pub mod due;
pub mod export;
pub mod files;
pub mod import;
pub mod inspect;
pub mod leftovers;
pub mod mend;
pub(crate) mod milestone;
pub mod prune;
pub(crate) mod recovery_context;
pub mod serve;
mod surplus;
pub mod take;
pub mod thin;
pub mod tree;
pub mod trigger;
mod unreadable;

use crate::Schema;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use flightline_core::Subject;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::{
    Backup, Checkpoint, CheckpointStatus, Digest, DigestLine, LARGE, SectionDigest, VersionMatch,
    sections, size_warning, standing,
};
use flightline_core::context::AgentContext;
use flightline_core::file_system::FileSystem;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, DeliveryState, Message};
use flightline_core::mission::Mission;
use flightline_core::recovery::{Analysis, RecoveryContext};
use flightline_core::sortie::{Sortie, SortieFile, SortieStatus};
use flightline_core::text::{NoteText, read_stored};
use flightline_core::{
    AgentId, CheckpointId, Code, MessageId, MissionId, Name, Refusal, SortieId, Time,
};
use flightline_store::{Find, StoredEvent, SubjectRow, Tx};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::op_context::OpContext;
use crate::recovery::points::analysis;

/// A checkpoint with everything it names, in the form of seed A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct CheckpointDocument {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The mission whose state it is.
    pub mission_id: MissionId,
    /// The time at which the checkpoint was taken.
    pub timestamp: Time,
    /// The class of the reason: `progress`, `error`, `manual` or `compaction`.
    pub trigger: String,
    /// Further details of the reason.
    pub trigger_details: Option<String>,
    /// Progress of the mission at that moment, in percent.
    pub progress_percent: u8,
    /// The sorties of the mission at that moment.
    pub sorties: Vec<SortieSnapshot>,
    /// The locks that were held at that moment.
    pub active_locks: Vec<LockSnapshot>,
    /// The messages that were not acknowledged.
    pub pending_messages: Vec<MessageSnapshot>,
    /// The last action, the next steps and the blockers at that moment.
    pub recovery_context: RecoveryContext,
    /// The name of the agent or person that took the checkpoint.
    pub created_by: String,
    /// The version of this document.
    pub version: String,
    /// The exact reason for the checkpoint.
    pub reason: String,
    /// The revision that the checkpoint names.
    pub rev: u64,
    /// The current status of the checkpoint.
    pub status: CheckpointStatus,
    /// True when the checkpoint is pinned, and retention leaves it alone.
    pub pinned: bool,
    /// A note that a person or an agent added to the checkpoint.
    pub note: Option<NoteText>,
    /// The state of the checkpoint's copy in a file.
    pub backup: Backup,
    /// The agent's context for which the checkpoint was taken, with what was left of the agent's task and what had
    /// changed since the checkpoint before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_context: Option<AgentContext>,
    /// The time after which nothing was left to resume from the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_at: Option<Time>,
    /// The work tree as it was seen; none where there was no work tree, or no time to look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// Warnings about a sound checkpoint, such as that it is very large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The analysis of a resume from this checkpoint: whether work can go on, from where, and the blockers. Only in a
    /// checkpoint that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_analysis: Option<Analysis>,
    /// Every value that the checkpoint names, enough to build the store anew. Only in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<files::BackedUpState>,
    /// The SHA-256 of the file, computed with zeros in this place. Only in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_sha256: Option<String>,
}

/// A sortie in a checkpoint, in the form of seed A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct SortieSnapshot {
    /// The sortie's id.
    pub id: String,
    /// The id of the task in other tools, such as `T060`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Name>,
    /// The status of the sortie at that moment.
    pub status: SortieStatus,
    /// The name of the sortie's owner, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_to: Option<String>,
    /// Files that the sortie's work is about.
    pub files: Vec<String>,
    /// The time at which work on the sortie began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The last status update of the sortie's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_notes: Option<String>,
    /// The title of the sortie: the work to be done.
    pub title: String,
}

/// A lock in a checkpoint, in the form of seed A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct LockSnapshot {
    /// The lock's id.
    pub id: String,
    /// The locked file, folder or pattern.
    pub file: String,
    /// The name of the lock's holder.
    pub held_by: String,
    /// The time at which the lock was granted.
    pub acquired_at: Time,
    /// The holder's reason for the lock.
    pub purpose: String,
    /// Time after the holder's last sign of life at which the lock expires, in milliseconds.
    pub timeout_ms: u64,
}

/// A message in a checkpoint, in the form of seed A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct MessageSnapshot {
    /// The message's id.
    pub id: String,
    /// The name of the sender.
    pub from: String,
    /// The recipients that had not acknowledged the message.
    pub to: Vec<String>,
    /// The subject line of the message.
    pub subject: String,
    /// The time at which the message was sent.
    pub sent_at: Time,
    /// True when the message had reached a recipient.
    pub delivered: bool,
}

/// Seed A's view of the values that a cut names.
pub(crate) struct Views {
    pub(crate) sorties: Vec<SortieSnapshot>,
    pub(crate) active_locks: Vec<LockSnapshot>,
    pub(crate) pending_messages: Vec<MessageSnapshot>,
    pub(crate) agents: Rc<Vec<Arc<Agent>>>,
}

/// The values a cut names: read back and checked against its hashes, or remembered by the transaction in which it was made.
pub(crate) struct Contents {
    /// The values as they are stored; none when the values came from the transaction's cache.
    pub(crate) values: Vec<StoredEvent>,
    /// Length of all the texts in bytes, or an upper bound that is no more than [`LARGE`].
    bytes: u64,
    /// Values that were parsed already, by their type.
    read: RefCell<HashMap<TypeId, Box<dyn Any>>>,
}

impl Contents {
    pub(crate) fn new(values: Vec<StoredEvent>) -> Self {
        Self {
            bytes: values.iter().map(|value| value.text.len() as u64).sum(),
            values,
            read: RefCell::default(),
        }
    }

    /// The values that a cut made in this very transaction names, as far as its document shows them, shared with what the
    /// transaction remembers; none when it does not.
    pub(crate) fn remembered(tx: &mut Tx<'_>, mission: MissionId) -> Result<Option<Self>> {
        let Some(bytes) = tx.remembered_cut_bytes(mission, LARGE)? else {
            return Ok(None);
        };
        let contents = Self {
            bytes,
            ..Self::new(Vec::new())
        };
        let all = contents.recall::<Mission>(tx, mission)?
            && contents.recall::<Sortie>(tx, mission)?
            && contents.recall::<SortieFile>(tx, mission)?
            && contents.recall::<Lock>(tx, mission)?
            && contents.recall::<Message>(tx, mission)?
            && contents.recall::<Delivery>(tx, mission)?
            && contents.recall_agents(tx)?;
        Ok(all.then_some(contents))
    }

    /// Takes the agents that own or hold one of the others: a fleet may have a thousand that do not.
    fn recall_agents(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let (sorties, locks) = (self.shared::<Sortie>()?, self.shared::<Lock>()?);
        let deliveries = self.shared::<Delivery>()?;
        let owners = sorties.iter().filter_map(|sortie| sortie.assigned_to);
        let ids: BTreeSet<AgentId> = owners
            .chain(locks.iter().map(|lock| lock.held_by))
            .chain(deliveries.iter().map(|delivery| delivery.to))
            .collect();
        let mut agents = Vec::with_capacity(ids.len());
        for id in ids {
            agents.extend(tx.get_shared::<Agent>(id)?);
        }
        self.keep(agents);
        Ok(true)
    }

    fn recall<S: Subject>(&self, tx: &mut Tx<'_>, mission: MissionId) -> Result<bool> {
        let known = tx.remembered_in_cut::<S>(mission)?;
        let is_known = known.is_some();
        self.keep(known.unwrap_or_default());
        Ok(is_known)
    }

    fn keep<S: Subject>(&self, known: Vec<Arc<S>>) {
        let mut read = self.read.borrow_mut();
        read.insert(TypeId::of::<S>(), Box::new(Rc::new(known)));
    }

    /// The hashes of the values, by section.
    pub(crate) fn sections(&self, digest: Digest) -> BTreeMap<String, SectionDigest> {
        let lines = self.values.iter().map(|value| DigestLine {
            kind: value.kind,
            id: value.id.clone(),
            rev: value.rev,
            sha: value.sha.clone(),
        });
        sections(lines.collect(), digest)
    }

    pub(crate) fn of<S: Subject>(&self) -> Result<Vec<S>> {
        Ok(self
            .shared::<S>()?
            .iter()
            .map(|it| (**it).clone())
            .collect())
    }

    /// The values of one kind, to be looked at.
    pub(crate) fn shared<S: Subject>(&self) -> Result<Rc<Vec<Arc<S>>>> {
        let known = |read: &HashMap<TypeId, Box<dyn Any>>| {
            let known = read.get(&TypeId::of::<S>())?;
            known.downcast_ref::<Rc<Vec<Arc<S>>>>().cloned()
        };
        if let Some(known) = known(&self.read.borrow()) {
            return Ok(known);
        }
        let values = self.values.iter().filter(|value| value.kind == S::KIND);
        let read: Result<Vec<Arc<S>>> = values
            .map(|value| {
                read_stored(&value.text).map(Arc::new).map_err(|error| {
                    flightline_store::StoreError::Corrupt(format!(
                        "a {} in a checkpoint cannot be read: {error}",
                        S::KIND
                    ))
                    .into()
                })
            })
            .collect();
        self.keep(read?);
        Ok(known(&self.read.borrow()).unwrap_or_default())
    }

    /// Seed A's view of them, and the agents.
    pub(crate) fn views(&self) -> Result<Views> {
        let agents = self.shared::<Agent>()?;
        let named: HashMap<AgentId, &Agent> =
            agents.iter().map(|agent| (agent.id, &**agent)).collect();
        let name = |id: AgentId| {
            let agent = named.get(&id);
            agent.map_or_else(|| id.to_string(), |agent| agent.name.to_string())
        };
        let sorties = self.shared::<Sortie>()?;
        let mut sorties: Vec<&Sortie> = sorties.iter().map(AsRef::as_ref).collect();
        sorties.sort_by_key(|sortie| sortie.position);
        let files = self.shared::<SortieFile>()?;
        let mut files_of: HashMap<SortieId, Vec<String>> = HashMap::new();
        for file in files.iter() {
            let of = files_of.entry(file.sortie_id).or_default();
            of.push(file.path.to_string());
        }
        let deliveries = self.shared::<Delivery>()?;
        let mut open_of: HashMap<MessageId, Vec<&Delivery>> = HashMap::new();
        for delivery in deliveries.iter() {
            if !matches!(delivery.state, DeliveryState::Acknowledged { .. }) {
                open_of
                    .entry(delivery.message_id)
                    .or_default()
                    .push(delivery);
            }
        }
        let messages = self.shared::<Message>()?;
        let mut messages: Vec<&Message> = messages.iter().map(AsRef::as_ref).collect();
        messages.sort_by_key(|message| (message.sent_at, message.id));
        let locks = self.shared::<Lock>()?;
        let mut locks: Vec<&Lock> = locks.iter().map(AsRef::as_ref).collect();
        locks.sort_by_key(|lock| lock.fence);
        Ok(Views {
            sorties: sorties
                .iter()
                .map(|sortie| {
                    let mut touched: Vec<String> =
                        sortie.files.iter().map(ToString::to_string).collect();
                    touched.extend(files_of.remove(&sortie.id).into_iter().flatten());
                    touched.sort();
                    touched.dedup();
                    SortieSnapshot {
                        id: sortie.id.to_string(),
                        task_id: sortie.task_id.clone(),
                        status: sortie.status,
                        assigned_to: sortie.assigned_to.map(name),
                        files: touched,
                        started_at: sortie.started_at,
                        progress_notes: sortie.progress_notes.as_ref().map(ToString::to_string),
                        title: sortie.title.to_string(),
                    }
                })
                .collect(),
            active_locks: locks
                .iter()
                .map(|lock| LockSnapshot {
                    id: lock.id.to_string(),
                    file: lock.file.to_string(),
                    held_by: name(lock.held_by),
                    acquired_at: lock.acquired_at,
                    purpose: lock
                        .purpose
                        .as_ref()
                        .map_or_else(String::new, ToString::to_string),
                    timeout_ms: lock.timeout_ms,
                })
                .collect(),
            pending_messages: messages
                .iter()
                .filter_map(|message| {
                    let open = open_of.get(&message.id)?;
                    Some(MessageSnapshot {
                        id: message.id.to_string(),
                        from: message.from.clone(),
                        to: open.iter().map(|delivery| name(delivery.to)).collect(),
                        subject: message.subject.to_string(),
                        sent_at: message.sent_at,
                        delivered: open
                            .iter()
                            .any(|delivery| delivery.state != DeliveryState::Pending),
                    })
                })
                .collect(),
            agents: Rc::clone(&agents),
        })
    }
}

/// Reads the values that a checkpoint names, and checks every hash on the way.
pub(crate) fn load(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<Contents> {
    if checkpoint.imported.is_some() {
        return import::load(ctx, checkpoint);
    }
    let damaged = |what: &str| {
        crate::Error::from(
            Refusal::new(
                Code::Integrity,
                format!(
                    "{} is damaged: {what}",
                    crate::mission::short(checkpoint.id)
                ),
            )
            .hint(
                "use an earlier one: `fleet checkpoints list`, or look closer with `fleet doctor`",
            ),
        )
    };
    if standing(&checkpoint.cut.version) == VersionMatch::Foreign {
        return Err(damaged("it has a version that this `fleet` does not know"));
    }
    if checkpoint.cut.sha256() != checkpoint.sha256 {
        return Err(damaged("its header does not match its checksum"));
    }
    let values = match ctx
        .tx
        .values_at(checkpoint.cut.rev, checkpoint.cut.mission_id)
    {
        Err(flightline_store::StoreError::Corrupt(why)) => return Err(damaged(&why)),
        values => values?,
    };
    let contents = Contents::new(values);
    let found = contents.sections(checkpoint.cut.digest);
    for (name, section) in &checkpoint.cut.sections {
        if found.get(name) != Some(section) {
            return Err(damaged(&format!(
                "its section `{name}` does not match its checksum"
            )));
        }
    }
    Ok(contents)
}

pub(crate) fn document(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
) -> Result<CheckpointDocument> {
    let contents = load(ctx, checkpoint)?;
    let backup = ctx.tx.backup_of(checkpoint.id)?;
    document_in_full(ctx, checkpoint, &contents, backup)
}

/// The document of a checkpoint whose values were read already.
pub(crate) fn document_in_full(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    contents: &Contents,
    backup: Backup,
) -> Result<CheckpointDocument> {
    let analysis = analysis(ctx, checkpoint, contents)?;
    Ok(CheckpointDocument {
        recovery_analysis: analysis,
        ..document_of(ctx, checkpoint, contents, backup)?
    })
}

/// The document of a checkpoint as seed A writes it, from values that were read already.
pub(crate) fn document_of(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    contents: &Contents,
    backup: Backup,
) -> Result<CheckpointDocument> {
    let cut = &checkpoint.cut;
    let (file_system, damaged) = match tree::recorded(ctx, checkpoint.id)? {
        Ok(recorded) => (recorded.map(|recorded| recorded.file_system), None),
        Err(why) => (None, Some(why)),
    };
    let views = contents.views()?;
    Ok(CheckpointDocument {
        id: checkpoint.id,
        mission_id: cut.mission_id,
        timestamp: cut.timestamp,
        trigger: cut.trigger.as_str().to_owned(),
        trigger_details: cut.trigger_details.clone(),
        progress_percent: cut.progress_percent,
        sorties: views.sorties,
        active_locks: views.active_locks,
        pending_messages: views.pending_messages,
        recovery_context: cut.recovery_context.clone(),
        created_by: cut.created_by.clone(),
        version: cut.version.clone(),
        reason: cut.reason.as_str().to_owned(),
        rev: cut.rev,
        status: checkpoint.shown_status(&backup),
        pinned: checkpoint.pinned_at.is_some(),
        note: checkpoint.note.clone(),
        warnings: size_warning(size_of(&backup, contents))
            .into_iter()
            .chain(damaged)
            .collect(),
        agent_context: cut.agent_context.clone(),
        consumed_at: checkpoint.consumed_at,
        backup,
        recovery_analysis: None,
        file_system,
        state: None,
        file_sha256: None,
    })
}

/// Returns the size of a checkpoint: of its file, or of the values it names while it has none.
fn size_of(backup: &Backup, contents: &Contents) -> u64 {
    match backup {
        Backup::Written { bytes, .. } => *bytes,
        Backup::Pending | Backup::Failed { .. } | Backup::Shared => contents.bytes,
    }
}

/// The checkpoint with this id or beginning; `@latest`, `@latest~2` count back from the newest of the
/// mission.
pub(crate) fn find(ctx: &mut OpContext<'_, '_>, reference: &str) -> Result<Checkpoint> {
    let Some(back) = reference.strip_prefix("@latest") else {
        return ctx.by_id::<Checkpoint>(reference, CheckpointId::PREFIX);
    };
    let back: usize = match back.strip_prefix('~') {
        None if back.is_empty() => 0,
        Some(number) => number
            .parse()
            .map_err(|_| Refusal::invalid(format!("`{reference}` names no checkpoint")))?,
        None => return Err(Refusal::invalid(format!("`{reference}` names no checkpoint")).into()),
    };
    let mission = ctx.mission(None)?;
    let all = newest_first(ctx, &mission)?;
    all.into_iter().nth(back).ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            format!(
                "{} has no checkpoint `{reference}`",
                crate::mission::short(mission.id)
            ),
        )
        .hint("list them with `fleet checkpoints list`")
        .into()
    })
}

/// Refuses to write over the record of a newer version: fields that we do not know would be dropped.
pub(crate) fn refuse_newer(checkpoint: &Checkpoint) -> Result<()> {
    match standing(&checkpoint.cut.version) {
        VersionMatch::Known => Ok(()),
        VersionMatch::Newer | VersionMatch::Foreign => Err(Refusal::new(
            Code::NewerStore,
            format!(
                "{} has version {}, which this `fleet` does not write",
                crate::mission::short(checkpoint.id),
                checkpoint.cut.version
            ),
        )
        .hint("upgrade `fleet` on this machine")
        .into()),
    }
}

/// The subjects that fit and can be read, oldest first, and the rows of those that cannot: one that is
/// damaged hides no other.
pub(crate) fn readable<S: Subject>(
    tx: &mut Tx<'_>,
    find: Find<'_>,
) -> Result<(Vec<S>, Vec<SubjectRow>)> {
    use flightline_store::StoreError::Corrupt;
    match tx.find::<S>(find) {
        Ok(all) => return Ok((all, Vec::new())),
        Err(Corrupt(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let (mut sound, mut damaged) = (Vec::new(), Vec::new());
    for row in tx.rows(S::KIND, find)? {
        match tx.get::<S>(&row.id) {
            Ok(found) => sound.extend(found),
            Err(Corrupt(_)) => damaged.push(row),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((sound, damaged))
}

/// The checkpoints of a mission that can be read and are neither archived nor quarantined, newest first.
pub(crate) fn newest_first(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<Vec<Checkpoint>> {
    let mut all = unarchived(ctx, mission)?;
    all.retain(|checkpoint| checkpoint.status != CheckpointStatus::Corrupted);
    Ok(all)
}

/// The checkpoints that are not archived, quarantined ones included.
pub(crate) fn unarchived(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<Vec<Checkpoint>> {
    let (mut all, _) = readable::<Checkpoint>(ctx.tx, Find::Mission(mission.id))?;
    all.retain(|checkpoint| checkpoint.status != CheckpointStatus::Archived);
    all.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.cut.rev));
    Ok(all)
}
