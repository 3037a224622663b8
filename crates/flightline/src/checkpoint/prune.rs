//! Retention: policy → plan → apply.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::retention::{Candidate, MissionState, Retention, plan};
use flightline_core::setting::LastPrune;
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, MissionId, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{load, readable};
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, Caller, Fleet, Operation};

/// Plans which checkpoints go. Changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlanPrune {
    /// Of this mission only.
    pub mission: Option<String>,
    /// Older ones go; the policy's when none is given.
    pub older_than_ms: Option<Millis>,
    /// So many of the newest stay; the policy's when none is given.
    pub keep: Option<u64>,
}

/// Deletes the checkpoints that a plan names, if they may still go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApplyPrune {
    /// The same policy as the plan's.
    pub plan: PlanPrune,
    /// What the plan named.
    pub delete: Vec<CheckpointId>,
}

/// A plan, or what was done.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pruned {
    /// How many go.
    pub deleted: u64,
    /// How many bytes their files have.
    pub freed_bytes: u64,
    /// Which.
    pub details: Vec<PrunedCheckpoint>,
    /// The policy it was decided by.
    pub policy: Retention,
}

/// A checkpoint that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PrunedCheckpoint {
    /// Its id.
    pub id: CheckpointId,
    /// Its mission.
    pub mission_id: MissionId,
    /// When it was taken.
    pub timestamp: Time,
    /// Why it was taken.
    pub trigger: String,
}

impl Operation for PlanPrune {
    const NAME: &'static str = "plan_prune";
    const ACCESS: Access = Access::Read;
    type Outcome = Pruned;

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Pruned> {
        let (policy, delete) = self.candidates(desk)?;
        Ok(report(policy, &delete))
    }
}

impl Operation for ApplyPrune {
    const NAME: &'static str = "apply_prune";
    const ACCESS: Access = Access::Write;
    type Outcome = Pruned;

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Pruned> {
        // Planned again here: what was pinned or became the last one meanwhile stays.
        let (policy, mut delete) = self.plan.candidates(desk)?;
        delete.retain(|candidate| self.delete.contains(&candidate.id));
        for candidate in &delete {
            if let Some(checkpoint) = desk.tx.get::<Checkpoint>(&candidate.id.to_string())? {
                desk.tx.remove(
                    "checkpoint_pruned",
                    &checkpoint,
                    &json!({ "checkpoint_id": checkpoint.id }),
                )?;
                desk.tx.forget_backup(checkpoint.id)?;
            }
        }
        let applied = LastPrune { at: desk.now() };
        desk.tx.set(
            "retention_applied",
            &applied,
            &json!({ "deleted": delete.len() }),
        )?;
        Ok(report(policy, &delete))
    }
}

impl PlanPrune {
    fn candidates(&self, desk: &mut Desk<'_, '_>) -> Result<(Retention, Vec<Candidate>)> {
        let mut policy = desk.policy.retention;
        policy.older_than_ms = self.older_than_ms.unwrap_or(policy.older_than_ms);
        policy.keep = self.keep.unwrap_or(policy.keep);
        let only = match &self.mission {
            Some(reference) => Some(desk.mission(Some(reference))?.id),
            None => None,
        };
        let (missions, _) = readable::<Mission>(desk.tx, Find::All)?;
        let missions: BTreeMap<MissionId, MissionState> = missions
            .into_iter()
            .map(|mission| {
                let ended = matches!(mission.status, MissionStatus::Completed);
                (
                    mission.id,
                    MissionState {
                        completed_at: mission.completed_at.filter(|_| ended),
                    },
                )
            })
            .collect();
        let (mut checkpoints, _) = readable::<Checkpoint>(desk.tx, Find::All)?;
        checkpoints.retain(|checkpoint| {
            checkpoint.status != CheckpointStatus::Archived
                && only.is_none_or(|only| checkpoint.cut.mission_id == only)
        });
        let damaged = damaged(desk, &checkpoints, policy.keep.max(1));
        let backups: BTreeMap<CheckpointId, Backup> = desk.tx.backups()?.into_iter().collect();
        let candidates: Vec<Candidate> = checkpoints
            .into_iter()
            .map(|checkpoint| Candidate {
                id: checkpoint.id,
                mission: checkpoint.cut.mission_id,
                rev: checkpoint.cut.rev,
                at: checkpoint.cut.timestamp,
                trigger: checkpoint.cut.trigger,
                pinned: checkpoint.pinned_at.is_some(),
                verified: checkpoint.status != CheckpointStatus::Corrupted
                    && !damaged.contains(&checkpoint.id),
                bytes: match backups.get(&checkpoint.id) {
                    Some(Backup::Written { bytes, .. }) => *bytes,
                    _ => 0,
                },
            })
            .collect();
        Ok((
            policy,
            plan(&candidates, &missions, &policy, desk.now()).delete,
        ))
    }
}

/// Those that fail their checks, as far as it matters: of each mission the newest are looked at until
/// `enough` are found sound.
fn damaged(
    desk: &mut Desk<'_, '_>,
    checkpoints: &[Checkpoint],
    enough: u64,
) -> BTreeSet<CheckpointId> {
    let mut newest: Vec<&Checkpoint> = checkpoints.iter().collect();
    newest.sort_by_key(|checkpoint| Reverse(checkpoint.cut.rev));
    let mut sound: BTreeMap<MissionId, u64> = BTreeMap::new();
    let mut damaged = BTreeSet::new();
    for checkpoint in newest {
        let found = sound.entry(checkpoint.cut.mission_id).or_default();
        if *found >= enough {
            continue;
        }
        if load(desk, checkpoint).is_ok() {
            *found += 1;
        } else {
            damaged.insert(checkpoint.id);
        }
    }
    damaged
}

fn report(policy: Retention, delete: &[Candidate]) -> Pruned {
    Pruned {
        deleted: delete.len() as u64,
        freed_bytes: delete.iter().map(|candidate| candidate.bytes).sum(),
        details: delete
            .iter()
            .map(|candidate| PrunedCheckpoint {
                id: candidate.id,
                mission_id: candidate.mission,
                timestamp: candidate.at,
                trigger: candidate.trigger.as_str().to_owned(),
            })
            .collect(),
        policy,
    }
}

/// A day.
const DAILY: Millis = 86_400_000;

/// Applies retention when it was not applied for a day, and says what went: the caller removes their
/// files. Does nothing, and costs one look, on every other day.
///
/// # Errors
/// When the store fails.
pub fn daily(fleet: &mut Fleet, caller: &Caller) -> Result<Vec<PrunedCheckpoint>> {
    let now = fleet.now()?;
    let last = fleet.store().read(|tx| {
        let last = tx.get::<LastPrune>(LastPrune::KEY)?;
        Ok::<_, crate::Error>(last.map_or_else(|| tx.project_created_at(), |last| last.at))
    })?;
    if now.since(last) < DAILY {
        return Ok(Vec::new());
    }
    let caller = Caller {
        idempotency_key: None,
        agent: None,
        ..caller.clone()
    };
    let plan = fleet.run(&PlanPrune::default(), &caller)?;
    let delete = plan
        .details
        .iter()
        .map(|checkpoint| checkpoint.id)
        .collect();
    let done = fleet.run(
        &ApplyPrune {
            plan: PlanPrune::default(),
            delete,
        },
        &caller,
    )?;
    Ok(done.details)
}
