//! Figures: how much there is of everything, and how much room it takes.

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

/// So many of the largest missions are named.
const LARGEST: u64 = 5;

/// Counts what there is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowStats {}

/// What there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stats {
    /// What takes room.
    pub storage: Storage,
}

/// What takes room. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Storage {
    /// The figures about the database.
    pub database: DatabaseStats,
    /// The checkpoints in the store.
    pub checkpoints: CheckpointStats,
    /// Their copies in files, as the store knows them.
    pub files: FileStats,
    /// The figures about the journal.
    pub journal: JournalStats,
    /// The store by kind of thing.
    pub kinds: Vec<KindStats>,
    /// The missions that take the most room, largest first.
    pub missions: Vec<MissionStats>,
    /// Requests that are remembered by their idempotency key.
    pub requests: u64,
}

/// The figures about the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseStats {
    /// `sqlite` or `postgres`.
    pub engine: String,
    /// The file; on PostgreSQL the tables and indexes, which all its projects share.
    pub bytes: u64,
    /// The log beside the file.
    pub log_bytes: u64,
    /// Free pages of the file, to be used again. A server keeps that to itself.
    pub free_bytes: Option<u64>,
}

/// The checkpoints in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointStats {
    /// All of them.
    pub total: u64,
    /// By why they were taken.
    pub by_trigger: BTreeMap<String, u64>,
    /// By where they stand.
    pub by_status: BTreeMap<String, u64>,
    /// How many are pinned.
    pub pinned: u64,
    /// How many have a record that cannot be read.
    pub unreadable: u64,
    /// The oldest checkpoint.
    pub oldest: Option<Taken>,
    /// The newest checkpoint.
    pub newest: Option<Taken>,
}

/// A checkpoint and when it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taken {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// When the checkpoint was taken.
    pub timestamp: Time,
}

/// Copies of checkpoints in files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileStats {
    /// How many there are.
    pub written: u64,
    /// How large they are.
    pub bytes: u64,
    /// How many are yet to be written.
    pub pending: u64,
    /// How many could not be written, and will be tried again.
    pub failed: u64,
    /// How many checkpoints share the file of another.
    pub shared: u64,
}

/// The figures about the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JournalStats {
    /// The number of events.
    pub events: u64,
    /// How many of them carry a value.
    pub values: u64,
    /// How large those are.
    pub value_bytes: u64,
    /// How many values were thinned away.
    pub thinned: u64,
}

/// What the store holds of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindStats {
    /// The kind of subject.
    pub kind: Kind,
    /// How many there are now.
    pub count: u64,
    /// Its part of the journal.
    pub journal: JournalStats,
    /// All of its text in the store: in the journal and, as the last value, beside it.
    pub bytes: u64,
}

/// What the store holds of one mission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissionStats {
    /// The mission's id.
    pub mission_id: MissionId,
    /// What it is called.
    pub title: Option<String>,
    /// The number of the mission's events.
    pub events: u64,
    /// How large their values are.
    pub value_bytes: u64,
    /// The number of the mission's checkpoints.
    pub checkpoints: u64,
    /// How large their files are.
    pub file_bytes: u64,
}

impl Operation for ShowStats {
    const NAME: &'static str = "show_stats";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Stats;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

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
        guarded.append(&mut expired(ctx, mission, candidates));
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
