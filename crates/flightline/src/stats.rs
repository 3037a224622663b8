//! Counts the contents of a store, and the room that they take.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::mission::Mission;
use flightline_core::{CheckpointId, Kind, MissionId, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use crate::checkpoint::prune::{candidate_of, expired};
use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Number of the largest missions that are named.
const LARGEST: u64 = 5;

/// Shows the size of the store and what takes room in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowStats {}

/// Figures about the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Stats {
    /// The sizes of the parts of the store.
    pub storage: Storage,
}

/// The sizes of the parts of the store, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Storage {
    /// Figures about the database.
    pub database: DatabaseStats,
    /// Figures about the checkpoints in the store.
    pub checkpoints: CheckpointStats,
    /// The checkpoints' copies in files, as the store knows them.
    pub files: FileStats,
    /// Figures about the journal.
    pub journal: JournalStats,
    /// Figures for each kind of subject.
    pub kinds: Vec<KindStats>,
    /// The missions that take the most room, largest first.
    pub missions: Vec<MissionStats>,
    /// Number of requests that are remembered by their idempotency key.
    pub requests: u64,
}

/// Figures about the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct DatabaseStats {
    /// The database engine: `sqlite` or `postgres`.
    pub engine: String,
    /// Size of the database in bytes: of the file; on PostgreSQL of the tables and indexes, which all its projects
    /// share.
    pub bytes: u64,
    /// Size of the log beside the file, in bytes.
    pub log_bytes: u64,
    /// Size of free pages of the file, which are used again. None on a server, which does not tell.
    pub free_bytes: Option<u64>,
}

/// Figures about the checkpoints in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct CheckpointStats {
    /// Number of checkpoints in all.
    pub total: u64,
    /// Number of checkpoints per class of reason.
    pub by_trigger: BTreeMap<String, u64>,
    /// Number of checkpoints per status.
    pub by_status: BTreeMap<String, u64>,
    /// Number of pinned checkpoints.
    pub pinned: u64,
    /// Number of checkpoints whose record cannot be read.
    pub unreadable: u64,
    /// The oldest checkpoint.
    pub oldest: Option<Taken>,
    /// The newest checkpoint.
    pub newest: Option<Taken>,
}

/// A checkpoint and when it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Taken {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The time at which the checkpoint was taken.
    pub timestamp: Time,
}

/// Figures about checkpoints' copies in files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct FileStats {
    /// Number of files that were written.
    pub written: u64,
    /// Size of those files in bytes.
    pub bytes: u64,
    /// Number of copies that are yet to be written.
    pub pending: u64,
    /// Number of copies that could not be written, and will be tried again.
    pub failed: u64,
    /// Number of checkpoints that share the file of another.
    pub shared: u64,
}

/// Figures about the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct JournalStats {
    /// The number of events.
    pub events: u64,
    /// Number of events that carry a value.
    pub values: u64,
    /// Size of those values in bytes.
    pub value_bytes: u64,
    /// Number of values that were thinned away.
    pub thinned: u64,
}

/// Figures for one kind of subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct KindStats {
    /// The kind of subject.
    pub kind: Kind,
    /// Number of subjects of this kind now.
    pub count: u64,
    /// The part of the journal that is about this kind.
    pub journal: JournalStats,
    /// Size of all their texts in the store: in the journal and, as the last value, beside it.
    pub bytes: u64,
}

/// Figures for one mission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct MissionStats {
    /// The mission's id.
    pub mission_id: MissionId,
    /// The title of the mission.
    pub title: Option<String>,
    /// The number of the mission's events.
    pub events: u64,
    /// Size of the values of those events, in bytes.
    pub value_bytes: u64,
    /// The number of the mission's checkpoints.
    pub checkpoints: u64,
    /// Size of the checkpoints' files in bytes.
    pub file_bytes: u64,
}

impl Operation for ShowStats {
    const NAME: &'static str = "show_stats";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Stats;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Stats> {
        let space = ctx.tx.space()?;
        let (checkpoints, damaged) = readable::<Checkpoint>(ctx.tx, Find::All)?;
        let backups: BTreeMap<CheckpointId, Backup> = ctx.tx.backups()?.into_iter().collect();
        let (missions, _) = readable::<Mission>(ctx.tx, Find::All)?;
        let kinds: Vec<KindStats> = ctx
            .tx
            .kind_sizes()?
            .into_iter()
            .map(|size| KindStats {
                kind: size.kind,
                count: size.live,
                journal: JournalStats {
                    events: size.events,
                    values: size.values,
                    value_bytes: size.value_bytes,
                    thinned: size.thinned,
                },
                bytes: size.live_bytes + size.value_bytes,
            })
            .collect();
        let mut counted = count(ctx, &checkpoints, &backups, &missions)?;
        counted.unreadable = damaged.len() as u64;
        counted.total += counted.unreadable;
        Ok(Stats {
            storage: Storage {
                database: DatabaseStats {
                    engine: ctx.tx.engine().to_owned(),
                    bytes: space.database,
                    log_bytes: space.log,
                    free_bytes: space.free,
                },
                checkpoints: counted,
                files: files(backups.values()),
                journal: kinds.iter().fold(JournalStats::default(), add),
                kinds,
                missions: largest(ctx, &checkpoints, &backups, &missions)?,
                requests: ctx.tx.remembered_requests()?,
            },
        })
    }
}

fn count(
    ctx: &mut OpContext<'_, '_>,
    checkpoints: &[Checkpoint],
    backups: &BTreeMap<CheckpointId, Backup>,
    missions: &[Mission],
) -> Result<CheckpointStats> {
    let mut guarded = BTreeMap::new();
    for mission in missions {
        let candidates = checkpoints.iter().map(candidate_of);
        guarded.append(&mut expired(ctx, mission, (0, 0), candidates));
    }
    let (mut by_trigger, mut by_status) = (BTreeMap::new(), BTreeMap::new());
    for checkpoint in checkpoints {
        let backup = backups.get(&checkpoint.id).unwrap_or(&Backup::Pending);
        let status = match checkpoint.shown_status(backup) {
            CheckpointStatus::Valid if guarded.contains_key(&checkpoint.id) => {
                CheckpointStatus::Expired
            }
            status => status,
        };
        let trigger = checkpoint.cut.trigger.as_str().to_owned();
        *by_trigger.entry(trigger).or_default() += 1;
        *by_status.entry(status.as_str().to_owned()).or_default() += 1;
    }
    let taken = |checkpoint: &Checkpoint| Taken {
        id: checkpoint.id,
        timestamp: checkpoint.cut.timestamp,
    };
    let oldest = checkpoints.iter().min_by_key(|one| one.cut.rev).map(taken);
    let newest = checkpoints.iter().max_by_key(|one| one.cut.rev).map(taken);
    Ok(CheckpointStats {
        total: checkpoints.len() as u64,
        by_trigger,
        by_status,
        pinned: checkpoints
            .iter()
            .filter(|checkpoint| checkpoint.pinned_at.is_some())
            .count() as u64,
        unreadable: 0,
        oldest,
        newest,
    })
}

fn files<'a>(backups: impl Iterator<Item = &'a Backup>) -> FileStats {
    let mut files = FileStats::default();
    for backup in backups {
        match backup {
            Backup::Written { bytes, .. } => {
                files.written += 1;
                files.bytes += bytes;
            }
            Backup::Pending => files.pending += 1,
            Backup::Failed { .. } => files.failed += 1,
            Backup::Shared => files.shared += 1,
        }
    }
    files
}

fn add(sum: JournalStats, kind: &KindStats) -> JournalStats {
    JournalStats {
        events: sum.events + kind.journal.events,
        values: sum.values + kind.journal.values,
        value_bytes: sum.value_bytes + kind.journal.value_bytes,
        thinned: sum.thinned + kind.journal.thinned,
    }
}

fn largest(
    ctx: &mut OpContext<'_, '_>,
    checkpoints: &[Checkpoint],
    backups: &BTreeMap<CheckpointId, Backup>,
    missions: &[Mission],
) -> Result<Vec<MissionStats>> {
    let sizes = ctx.tx.largest_missions(LARGEST)?;
    Ok(sizes
        .into_iter()
        .map(|size| {
            let own = checkpoints
                .iter()
                .filter(|checkpoint| checkpoint.cut.mission_id == size.mission);
            let own: Vec<&Backup> = own
                .map(|checkpoint| backups.get(&checkpoint.id).unwrap_or(&Backup::Pending))
                .collect();
            MissionStats {
                mission_id: size.mission,
                title: missions
                    .iter()
                    .find(|mission| mission.id == size.mission)
                    .map(|mission| mission.title.to_string()),
                events: size.events,
                value_bytes: size.value_bytes,
                checkpoints: own.len() as u64,
                file_bytes: files(own.into_iter()).bytes,
            }
        })
        .collect())
}
