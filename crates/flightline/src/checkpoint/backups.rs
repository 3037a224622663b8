//! Plans and records checkpoints' copies in files. A command writes a few at a time, and records them together:
//! however fast checkpoints are taken, their files are never in the way of the work.

use crate::Schema;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use flightline_core::checkpoint::{Backup, Checkpoint, size_warning};
use flightline_core::event::EventType;
use flightline_core::{CheckpointId, MissionId, Time};
use flightline_store::{WaitingBackup, WrittenBackup};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::CheckpointDocument;
use super::files::{is_newest, node_of, whole, write};
use super::leftovers::clear_when_many;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::op_context::OpContext;

/// Time that a command waits for a file.
const BUDGET: Duration = Duration::from_secs(2);
/// Largest distance in time between checkpoints of one mission that share a file.
const SHARED_WITHIN_MS: u64 = 10_000;
/// A checkpoint whose wait began less than this after it was taken has waited since then, and was not brought back.
const FRESH_MS: u64 = 1_000;
/// Number of new checkpoints of one mission that may wait at once; when more wait, they share a file.
const MANY: usize = 8;
/// Maximum number of files that one command writes.
const AT_ONCE: usize = 20;
/// Maximum number of bytes of values in the files that one command writes; it writes one file in any case.
const BYTES_AT_ONCE: usize = 1024 * 1024;
/// Maximum number of waiting checkpoints that one command looks at.
const LOOKED_AT: u64 = 500;
/// Maximum number of copies recorded in one transaction, for which other writers wait.
const RECORDED: usize = 50;
/// Number of a mission's newest checkpoints whose files are considered.
const NEWEST: u64 = 100;

/// Lists the checkpoints that get their copy in a file now.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct UnsettledBackups {}

/// The checkpoints that get their copy in a file now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct DueBackups {
    /// The files to write.
    pub files: Vec<DueBackup>,
    /// Checkpoints that are covered by the file of another.
    pub shared: Vec<CheckpointId>,
}

/// A checkpoint's file to write.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct DueBackup {
    /// The content of the file.
    pub document: CheckpointDocument,
    /// The revision of the checkpoint's record.
    pub born: u64,
    /// The revision of the newest checkpoint of the mission that has a file, if it is newer than this one.
    pub after: Option<u64>,
    /// Other checkpoints that this file covers too.
    pub also_for: Vec<CheckpointId>,
}

impl Operation for UnsettledBackups {
    const NAME: &'static str = "unsettled_backups";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = DueBackups;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<DueBackups> {
        let waiting = ctx.tx.waiting_backups(LOOKED_AT)?;
        let mut plan = BackupPlan::default();
        let mut many: BTreeMap<MissionId, Vec<&WaitingBackup>> = BTreeMap::new();
        for one in waiting.iter().filter(|one| one.is_new) {
            many.entry(one.mission).or_default().push(one);
        }
        many.retain(|_, ones| ones.len() > MANY);
        for one in &waiting {
            if plan.is_enough() {
                break;
            }
            if !one.is_new || !many.contains_key(&one.mission) {
                plan.add(ctx, one)?;
            } else if let Some(ones) = many.get_mut(&one.mission) {
                plan.add_many(ctx, std::mem::take(ones))?;
            }
        }
        Ok(plan.due)
    }
}

#[derive(Default)]
struct BackupPlan {
    due: DueBackups,
    /// The files that missions have, as far as they were looked at.
    written: BTreeMap<MissionId, Vec<WrittenBackup>>,
    /// Number of bytes of the values that the files will hold.
    bytes: usize,
}

impl BackupPlan {
    /// Returns true when the command that writes these files has enough to do.
    fn is_enough(&self) -> bool {
        self.due.files.len() >= AT_ONCE || self.bytes >= BYTES_AT_ONCE
    }

    fn add(&mut self, ctx: &mut OpContext<'_, '_>, one: &WaitingBackup) -> Result<()> {
        let Some(checkpoint) = sound(ctx, one.checkpoint) else {
            return Ok(());
        };
        if !checkpoint.cut.reason.is_frequent() {
            return self.write(ctx, &checkpoint, one.born).map(drop);
        }
        // Frequent checkpoints of one mission share one file per ten seconds. One of long ago, such as a rebuild writes
        // anew, is of no other's seconds.
        let (cut, now) = (&checkpoint.cut, ctx.now());
        let planned =
            self.due.files.iter_mut().find(|file| {
                file.document.mission_id == cut.mission_id && near(cut.timestamp, now)
            });
        if let Some(planned) = planned {
            planned.also_for.push(checkpoint.id);
        } else if self.has_near(ctx, &checkpoint)? {
            self.due.shared.push(checkpoint.id);
        } else {
            self.write(ctx, &checkpoint, one.born)?;
        }
        Ok(())
    }

    /// Plans one file for many checkpoints that wait at once: the newest has it, for all that were taken shortly
    /// before it.
    fn add_many(
        &mut self,
        ctx: &mut OpContext<'_, '_>,
        mut ones: Vec<&WaitingBackup>,
    ) -> Result<()> {
        ones.sort_by_key(|one| std::cmp::Reverse(one.born));
        let mut groups: Vec<Vec<(Checkpoint, u64)>> = Vec::new();
        for one in ones {
            let Some(checkpoint) = sound(ctx, one.checkpoint) else {
                continue;
            };
            let taken_at = checkpoint.cut.timestamp;
            // A checkpoint that a rebuild brought back is older than the time it has waited, and gets a file of its
            // own.
            let is_fresh = one.since.since(taken_at) < FRESH_MS;
            match groups.last_mut() {
                Some(group) if is_fresh && near(group[0].0.cut.timestamp, taken_at) => {
                    group.push((checkpoint, one.born));
                }
                _ => groups.push(vec![(checkpoint, one.born)]),
            }
        }
        for group in groups.into_iter().rev() {
            if self.is_enough() {
                break;
            }
            // A damaged checkpoint stands for no other: the next newest does.
            let mut rest = group.into_iter();
            for (checkpoint, born) in rest.by_ref() {
                if let Some(file) = self.write(ctx, &checkpoint, born)? {
                    file.also_for
                        .extend(rest.map(|(checkpoint, _)| checkpoint.id));
                    break;
                }
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        ctx: &mut OpContext<'_, '_>,
        checkpoint: &Checkpoint,
        born: u64,
    ) -> Result<Option<&mut DueBackup>> {
        // One mission's damage never stops another's backup.
        let Ok(document) = whole(ctx, checkpoint) else {
            return Ok(None);
        };
        // The record of a checkpoint comes right after the revision it names.
        let after = ctx
            .tx
            .backup_written_after(document.mission_id, document.rev + 1)?;
        let values = document.state.iter().flat_map(|state| &state.values);
        self.bytes += values.map(|value| value.text.len()).sum::<usize>();
        self.due.files.push(DueBackup {
            document,
            born,
            after,
            also_for: Vec::new(),
        });
        Ok(self.due.files.last_mut())
    }

    fn has_near(&mut self, ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<bool> {
        let mission = checkpoint.cut.mission_id;
        let written = match self.written.entry(mission) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(ctx.tx.written_backups(mission, NEWEST)?),
        };
        Ok(written.iter().any(|other| {
            other.checkpoint != checkpoint.id && near(checkpoint.cut.timestamp, other.at)
        }))
    }
}

fn near(a: Time, b: Time) -> bool {
    a.since(b).max(b.since(a)) < SHARED_WITHIN_MS
}

fn sound(ctx: &mut OpContext<'_, '_>, id: CheckpointId) -> Option<Checkpoint> {
    ctx.tx.get::<Checkpoint>(id).ok().flatten()
}

/// Records the outcome of writing checkpoints' copies to files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct RecordBackups {
    /// The outcome for each checkpoint.
    pub backups: Vec<SettledBackup>,
}

/// The outcome of writing a checkpoint's copy to a file.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct SettledBackup {
    /// The id of the checkpoint.
    pub checkpoint: CheckpointId,
    /// The new state of the copy.
    pub backup: Backup,
}

impl RecordBackups {
    pub fn of(checkpoint: CheckpointId, backup: Backup) -> Self {
        let mut one = Self::default();
        one.add(checkpoint, backup);
        one
    }

    fn add(&mut self, checkpoint: CheckpointId, backup: Backup) {
        self.backups.push(SettledBackup { checkpoint, backup });
    }
}

impl Operation for RecordBackups {
    const NAME: &'static str = "record_backups";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = ();

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<()> {
        // All are looked at before the first is written: an engine may send writes together, but not past a question.
        let mut looked_at = Vec::new();
        for settled in &self.backups {
            let id = settled.checkpoint.to_string();
            if let Some(checkpoint) = ctx.tx.get::<Checkpoint>(&id)? {
                let before = ctx.tx.backup_of(checkpoint.id)?;
                looked_at.push((checkpoint, before, settled));
            }
        }
        for (checkpoint, before, settled) in looked_at {
            record(ctx, &checkpoint, &before, settled)?;
        }
        Ok(())
    }
}

fn record(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    before: &Backup,
    settled: &SettledBackup,
) -> Result<()> {
    // Another process was faster, and wrote its file.
    let is_done = match (before, &settled.backup) {
        (Backup::Written { .. }, Backup::Shared) => true,
        // Another node has its own: the first one counts.
        (Backup::Written { node: first, .. }, Backup::Written { node, .. }) => first != node,
        _ => false,
    };
    if is_done {
        return Ok(());
    }
    let same_failure = match (before, &settled.backup) {
        (Backup::Failed { why: before, .. }, Backup::Failed { why, .. }) => before == why,
        (before, backup) => before == backup,
    };
    if same_failure {
        // A repeated failure is no news; but the next attempt begins with other checkpoints.
        ctx.tx.set_backup(checkpoint.id, &settled.backup)?;
        return Ok(());
    }
    let failed = matches!(settled.backup, Backup::Failed { .. });
    ctx.tx.set_backup(checkpoint.id, &settled.backup)?;
    // The first attempt tells that there is a checkpoint and where it really is.
    let event = match (before, failed) {
        (Backup::Pending, _) => EventType::CheckpointCreated,
        (_, true) => EventType::CheckpointBackupFailed,
        (_, false) => EventType::CheckpointBackedUp,
    };
    let mut locations = vec![ctx.tx.engine()];
    if matches!(settled.backup, Backup::Written { .. }) {
        locations.push("file");
    }
    let mut data = json!({
        "checkpoint_id": checkpoint.id,
        "mission_id": checkpoint.cut.mission_id,
        "trigger": checkpoint.cut.trigger,
        "storage_locations": locations,
    });
    match &settled.backup {
        Backup::Failed { why, .. } => data["backup_error"] = json!(why),
        Backup::Written { bytes, .. } => {
            if let Some(warning) = size_warning(*bytes) {
                data["warning"] = json!(warning);
            }
        }
        Backup::Pending | Backup::Shared => {}
    }
    ctx.tx.note(event, checkpoint, &data)?;
    Ok(())
}

/// The copies of checkpoints that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBackups {
    pub count: u64,
    /// The reason of one of them.
    pub why: String,
}

/// The copies that failed and were not written since; none when there are none.
pub fn failed_backups(fleet: &mut Fleet) -> Result<Option<FailedBackups>> {
    fleet.store()?.read(|tx| {
        let count = tx.backups_in("failed")?;
        if count == 0 {
            return Ok(None);
        }
        let why = tx.backups()?.into_iter().find_map(|(_, it)| match it {
            Backup::Failed { why, .. } => Some(why),
            _ => None,
        });
        Ok(why.map(|why| FailedBackups { count, why }))
    })
}

/// Returns true when a copy waits that was never tried.
pub fn has_untried_backups(fleet: &mut Fleet) -> Result<bool> {
    let untried = fleet.store()?.read(|tx| tx.backups_in("pending"))?;
    Ok(untried > 0)
}

/// Writes the backups that are due, and records what became of them. A failed backup fails nothing: it is recorded, and
/// tried again by the next command.
pub fn settle(fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<()> {
    settle_and_tell(fleet, folder, caller).map(drop)
}

/// Settles backups, and returns sentences about the new checkpoints.
pub fn settle_and_tell(
    fleet: &mut Fleet,
    folder: &Path,
    caller: &Caller,
) -> Result<Vec<(CheckpointId, String)>> {
    let caller = Caller {
        idempotency_key: None,
        ..caller.clone()
    };
    let mut due = fleet.run(&UnsettledBackups {}, &caller)?;
    if due.files.is_empty() && due.shared.is_empty() {
        return Ok(Vec::new());
    }
    let documents = due.files.iter_mut().map(|file| &mut file.document);
    super::tree::record(fleet, &caller, documents)?;
    let (mut told, mut done) = (Vec::new(), RecordBackups::default());
    let mut newest: BTreeMap<MissionId, u64> = BTreeMap::new();
    let (now, node) = (fleet.now()?, node_of(fleet, folder)?);
    for id in due.shared {
        done.add(id, Backup::Shared);
    }
    for file in due.files {
        let (id, is_new) = (file.document.id, file.document.backup == Backup::Pending);
        let (mission, born) = (file.document.mission_id, file.born);
        let mut warning = file.document.warnings.first().cloned();
        let others = file.after.max(newest.get(&mission).copied());
        let is_newest = is_newest(&file.document, others);
        let wrote = write_within_budget(fleet, folder, file.document, is_newest);
        let Some(wrote) = wrote else {
            // The next command tries the others: a file system that hangs costs each command no more than this.
            let why = "the file system did not answer in time".to_owned();
            told.extend(is_new.then(|| (id, not_written(&why))));
            done.add(id, Backup::Failed { at: now, why });
            break;
        };
        let backup = match wrote {
            Ok((bytes, sha256)) => Backup::Written {
                at: now,
                bytes,
                sha256,
                node: node.clone(),
            },
            Err(error) => Backup::Failed {
                at: now,
                why: error.to_string(),
            },
        };
        if let Backup::Written { bytes, .. } = &backup {
            warning = size_warning(*bytes);
            newest.insert(mission, born.max(others.unwrap_or(0)));
            for other in file.also_for {
                done.add(other, Backup::Shared);
            }
        }
        if let Backup::Failed { why, .. } = &backup {
            warning = Some(not_written(why));
        }
        told.extend(warning.filter(|_| is_new).map(|warning| (id, warning)));
        done.add(id, backup);
    }
    for some in done.backups.chunks(RECORDED) {
        let backups = some.to_vec();
        fleet.run(&RecordBackups { backups }, &caller)?;
    }
    clear_when_many(fleet, folder, newest.into_keys())?;
    Ok(told)
}

fn not_written(why: &str) -> String {
    format!(
        "its copy in a file could not be written: {why}; it is safe in the store, and every command tries again"
    )
}

fn write_within_budget(
    fleet: &Fleet,
    folder: &Path,
    document: CheckpointDocument,
    newest: bool,
) -> Option<io::Result<(u64, String)>> {
    let (send, receive) = mpsc::channel();
    let (folder, steps) = (folder.to_path_buf(), fleet.steps());
    // A file system that hangs must not hang the command: another thread waits for it.
    std::thread::spawn(move || {
        let _ = send.send(write(&folder, &document, newest, &steps));
    });
    receive.recv_timeout(BUDGET).ok()
}
