//! Retention: policy → plan → apply.

mod space;

use crate::Schema;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus, Reason};
use flightline_core::event::EventType;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::retention::{
    Guard, MissionCompletion, Retention, RetentionCandidate, RetentionPlan, RetentionRule, Surplus,
    guards, mind_the_order, plan,
};
use flightline_core::setting::LastPrune;
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, MissionId, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::clock::{ClockAhead, believed, least_time};
use super::thin::{PlanThinning, Thinned, plan_thinning, thin};
use super::{import, load, readable, refuse_newer, tree};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope, WhenFull};
use crate::op_context::OpContext;
use crate::store_job::GiveBack;

pub use self::space::FreedSpace;

/// Plans which checkpoints retention removes. Changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct PlanPrune {
    /// Prune only checkpoints of this mission.
    pub mission: Option<String>,
    /// Age in milliseconds above which checkpoints go; the policy's when none is given.
    pub older_than_ms: Option<Millis>,
    /// Number of the newest checkpoints that stay; the policy's when none is given.
    pub keep: Option<u64>,
    /// Believe the clock, even when it is far ahead of confirmed time.
    #[serde(default)]
    pub force: bool,
    /// Judge ages as of this time, in automatic retention: the clock may be wrong. Else as of now.
    #[serde(skip)]
    pub as_of: Option<Time>,
}

/// Deletes and archives the checkpoints that a plan names, as far as they may still go.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ApplyPrune {
    /// The request that made the plan.
    pub plan: PlanPrune,
    /// The checkpoints that the plan deletes.
    pub delete: Vec<CheckpointId>,
    /// The checkpoints that the plan archives.
    #[serde(default)]
    pub archive: Vec<CheckpointId>,
    /// True when more checkpoints are to go than are named here: then pruning is not done for today.
    #[serde(skip)]
    pub more: bool,
}

/// Plans and deletes checkpoints in one step, for callers that cannot look at the plan first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct PruneCheckpoints {
    /// The limits that decide which checkpoints go.
    pub plan: PlanPrune,
}

/// A plan of pruning, or its outcome.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Pruned {
    /// Number of checkpoints that are deleted.
    pub deleted: u64,
    /// Number of bytes that are freed: of files, and of the store, which gives them back or uses them again.
    pub freed_bytes: u64,
    /// Number of those bytes that are of files.
    #[serde(default)]
    pub file_bytes: u64,
    /// The checkpoints that are deleted, each with the reason.
    pub details: Vec<PrunedCheckpoint>,
    /// Checkpoints that are archived instead of deleted, because there are too many of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archived: Vec<PrunedCheckpoint>,
    /// Checkpoints that stay although their time is over, each with the reason.
    #[serde(default)]
    pub kept: Vec<KeptCheckpoint>,
    /// The old values that leave the journal, when thinning was requested.
    #[serde(default)]
    pub journal: Thinned,
    /// The state of the space that those values took in the store.
    #[serde(default)]
    pub space: FreedSpace,
    /// The retention policy by which this was decided.
    pub policy: Retention,
    /// The evidence that the clock is far ahead, where it decides what goes; then only `force` deletes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockAhead>,
}

impl Pruned {
    /// Adds the values that leave the journal.
    #[must_use]
    fn with(mut self, journal: Thinned) -> Self {
        self.freed_bytes += journal.bytes;
        self.journal = journal;
        self
    }

    /// Adds what went in a further transaction.
    fn and(mut self, next: Self) -> Self {
        self.deleted += next.deleted;
        self.freed_bytes += next.freed_bytes;
        self.file_bytes += next.file_bytes;
        self.details.extend(next.details);
        self.archived.extend(next.archived);
        self.kept = next.kept;
        self
    }

    /// Refuses a plan that rests on a clock which nothing confirms. Only a clock that is far ahead, and decides which
    /// checkpoints go, is refused.
    pub fn check_clock(&self) -> Result<()> {
        match &self.clock {
            Some(ahead) => Err(ahead.refusal()),
            None => Ok(()),
        }
    }

    /// Returns true when nothing goes at all.
    pub fn is_empty(&self) -> bool {
        self.deleted == 0 && self.archived.is_empty() && self.journal.values == 0
    }
}

/// A checkpoint that is deleted or archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct PrunedCheckpoint {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The mission whose state it is.
    pub mission_id: MissionId,
    /// The time at which the checkpoint was taken.
    pub timestamp: Time,
    /// The reason why it was taken: `progress`, `error`, `manual` or `compaction`.
    pub trigger: String,
    /// The rule by which the checkpoint goes.
    pub rule: RetentionRule,
}

/// A checkpoint that stays although its time is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct KeptCheckpoint {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The guard that forbids deleting the checkpoint.
    pub guard: Guard,
}

impl Operation for PlanPrune {
    const NAME: &'static str = "plan_prune";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Pruned;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Pruned> {
        let decided = self.candidates(ctx)?;
        Ok(decided.report())
    }
}

impl Operation for ApplyPrune {
    const NAME: &'static str = "apply_prune";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Pruned;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Pruned> {
        // Planned again here: a checkpoint that was pinned or became the last one meanwhile stays.
        let mut decided = self.plan.candidates(ctx)?;
        let plan = &mut decided.plan;
        plan.delete
            .retain(|candidate| self.delete.contains(&candidate.id));
        plan.archive
            .retain(|candidate| self.archive.contains(&candidate.id));
        decided.apply(ctx, &self.plan, self.more)?;
        Ok(decided.report())
    }
}

impl Operation for PruneCheckpoints {
    const NAME: &'static str = "prune_checkpoints";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Pruned;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Pruned> {
        let decided = self.plan.candidates(ctx)?;
        decided.apply(ctx, &self.plan, false)?;
        Ok(decided.report())
    }
}

/// The decision, its policy, and whether the clock can be believed so far.
struct Decided {
    policy: Retention,
    plan: RetentionPlan,
    clock: Option<ClockAhead>,
}

impl Decided {
    fn apply(&self, ctx: &mut OpContext<'_, '_>, request: &PlanPrune, more: bool) -> Result<()> {
        let plan = &self.plan;
        if let Some(ahead) = self.clock.as_ref().filter(|_| !request.force)
            && going(plan).any(|id| ahead.checkpoints.contains(&id))
        {
            return Err(ahead.refusal());
        }
        archive(ctx, &plan.archive)?;
        for candidate in &plan.delete {
            if let Some(checkpoint) = ctx.tx.get::<Checkpoint>(candidate.id)? {
                delete_checkpoint(ctx, &checkpoint)?;
            }
        }
        let sure = match request.force {
            true => ctx.now(),
            false => least_time(ctx.tx)?,
        };
        let last = ctx.tx.get::<LastPrune>(LastPrune::KEY)?;
        let last = last.unwrap_or_else(|| LastPrune::never(ctx.tx.project_created_at()));
        let applied = LastPrune {
            at: if more { last.at } else { ctx.now() },
            thinned_to: last.thinned_to,
            sure: Some(sure),
            uptime: ctx.tx.uptime(),
        };
        ctx.tx.set(
            EventType::RetentionApplied,
            &applied,
            &json!({ "deleted": plan.delete.len(), "archived": plan.archive.len() }),
        )?;
        Ok(())
    }

    fn report(self) -> Pruned {
        let (plan, policy) = (self.plan, self.policy);
        let delete = &plan.delete;
        let file_bytes = delete.iter().map(|candidate| candidate.bytes).sum();
        let details = delete.iter().map(|going| told(&plan, going)).collect();
        let archived = plan.archive.iter().map(|going| told(&plan, going));
        Pruned {
            deleted: delete.len() as u64,
            freed_bytes: file_bytes,
            file_bytes,
            details,
            archived: archived.collect(),
            kept: plan
                .guarded
                .into_iter()
                .map(|(id, guard)| KeptCheckpoint { id, guard })
                .collect(),
            journal: Thinned::default(),
            space: FreedSpace::default(),
            policy,
            clock: self.clock,
        }
    }
}

/// Deletes a checkpoint, with the records kept for it alone.
pub(super) fn delete_checkpoint(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
) -> Result<()> {
    ctx.tx.remove(
        EventType::CheckpointPruned,
        checkpoint,
        &json!({ "checkpoint_id": checkpoint.id }),
    )?;
    ctx.tx.forget_backup(checkpoint.id)?;
    import::forget(ctx, checkpoint)?;
    tree::forget(ctx, checkpoint.id)
}

impl PlanPrune {
    fn candidates(&self, ctx: &mut OpContext<'_, '_>) -> Result<Decided> {
        let mut policy = ctx.policy.retention;
        policy.older_than_ms = self.older_than_ms.unwrap_or(policy.older_than_ms);
        policy.keep = self.keep.unwrap_or(policy.keep);
        let only = match &self.mission {
            Some(reference) => Some(ctx.mission(Some(reference))?.id),
            None => None,
        };
        let (missions, _) = readable::<Mission>(ctx.tx, Find::All)?;
        let missions: BTreeMap<MissionId, MissionCompletion> = missions
            .iter()
            .map(|mission| (mission.id, state_of(mission)))
            .collect();
        let (mut checkpoints, _) = readable::<Checkpoint>(ctx.tx, Find::All)?;
        checkpoints.retain(|checkpoint| {
            (checkpoint.status != CheckpointStatus::Archived || ages(checkpoint, &policy))
                && only.is_none_or(|only| checkpoint.cut.mission_id == only)
        });
        // Damage keeps more of a mission's checkpoints, and never fewer: where nothing goes even if all are sound, they
        // need not be read.
        let by_status: Vec<RetentionCandidate> = checkpoints.iter().map(candidate_of).collect();
        let if_sound = plan(&by_status, &missions, &policy, ctx.now());
        let touched: BTreeSet<MissionId> = if_sound
            .delete
            .iter()
            .chain(&if_sound.archive)
            .map(|candidate| candidate.mission)
            .collect();
        let doubted: Vec<&Checkpoint> = checkpoints
            .iter()
            .filter(|checkpoint| touched.contains(&checkpoint.cut.mission_id))
            .collect();
        let damaged = damaged(ctx, doubted, policy.keep.max(1));
        let backups: BTreeMap<CheckpointId, Backup> = ctx.tx.backups()?.into_iter().collect();
        let mut candidates: Vec<RetentionCandidate> = checkpoints
            .iter()
            .map(|checkpoint| {
                let mut candidate = candidate_of(checkpoint);
                candidate.verified &= !damaged.contains(&checkpoint.id);
                if let Some(Backup::Written { bytes, .. }) = backups.get(&checkpoint.id) {
                    candidate.bytes = *bytes;
                }
                candidate
            })
            .collect();
        let as_of = self.as_of.map_or(ctx.now(), |as_of| as_of.min(ctx.now()));
        mind_the_order(&mut candidates, ctx.now());
        let as_of_sure = match self.as_of {
            Some(as_of) => as_of,
            None => believed(ctx.tx)?,
        };
        let doubted = (as_of_sure < as_of)
            .then(|| plan(&candidates, &missions, &policy, as_of_sure))
            .map(|sure| going(&sure).collect::<BTreeSet<_>>());
        let mut plan = plan(&candidates, &missions, &policy, as_of);
        let newer = |id: CheckpointId| {
            let known = checkpoints.iter().find(|checkpoint| checkpoint.id == id);
            known.is_some_and(|checkpoint| refuse_newer(checkpoint).is_err())
        };
        plan.archive.retain(|candidate| !newer(candidate.id));
        let held = doubted.map_or_else(Vec::new, |sure| {
            going(&plan).filter(|id| !sure.contains(id)).collect()
        });
        let clock = (!held.is_empty()).then(|| ClockAhead::of(as_of, as_of_sure, held));
        Ok(Decided {
            policy,
            plan,
            clock,
        })
    }
}

/// Returns the ids of the checkpoints that go, out of the store or only out of lists.
fn going(plan: &RetentionPlan) -> impl Iterator<Item = CheckpointId> {
    let going = plan.delete.iter().chain(&plan.archive);
    going.map(|candidate| candidate.id)
}

pub(super) fn state_of(mission: &Mission) -> MissionCompletion {
    let ended = matches!(mission.status, MissionStatus::Completed);
    MissionCompletion {
        completed_at: mission.completed_at.filter(|_| ended),
    }
}

/// Returns true when an archived checkpoint goes once its time is over: where archiving comes before deletion. An
/// imported one is no surplus.
fn ages(checkpoint: &Checkpoint, policy: &Retention) -> bool {
    policy.surplus == Surplus::Archive && checkpoint.imported.is_none()
}

/// Archives these checkpoints: out of lists, counts and limits, and still there.
pub(super) fn archive(
    ctx: &mut OpContext<'_, '_>,
    candidates: &[RetentionCandidate],
) -> Result<()> {
    for candidate in candidates {
        if let Some(mut checkpoint) = ctx.tx.get::<Checkpoint>(candidate.id)? {
            checkpoint.status = CheckpointStatus::Archived;
            let data = json!({ "checkpoint_id": checkpoint.id, "reason": "surplus" });
            ctx.tx
                .set(EventType::CheckpointArchived, &checkpoint, &data)?;
        }
    }
    Ok(())
}

/// A checkpoint as retention sees it, when no damage is known.
pub(crate) fn candidate_of(checkpoint: &Checkpoint) -> RetentionCandidate {
    RetentionCandidate {
        id: checkpoint.id,
        mission: checkpoint.cut.mission_id,
        rev: checkpoint.cut.rev,
        at: checkpoint.cut.timestamp,
        trigger: checkpoint.cut.trigger,
        pinned: checkpoint.pinned_at.is_some(),
        verified: checkpoint.status != CheckpointStatus::Corrupted,
        archived: checkpoint.status == CheckpointStatus::Archived,
        emergency: checkpoint.cut.reason == Reason::TokenCritical,
        bytes: 0,
    }
}

/// Returns the checkpoints that stay only because a guard forbids deleting them, each with its guard; `newer` are so many that
/// are not archived, and so many of those that are sound. Takes checkpoints without known damage for sound: a list does not
/// read every value of every checkpoint.
pub(crate) fn expired(
    ctx: &OpContext<'_, '_>,
    mission: &Mission,
    newer: (u64, u64),
    checkpoints: impl Iterator<Item = RetentionCandidate>,
) -> BTreeMap<CheckpointId, Guard> {
    let candidates: Vec<RetentionCandidate> = checkpoints
        .filter(|candidate| !candidate.archived && candidate.mission == mission.id)
        .collect();
    let (policy, now) = (&ctx.policy.retention, ctx.now());
    guards(&candidates, state_of(mission), policy, now, newer)
}

/// Returns the checkpoints that fail their checks, as far as it matters: of each mission the newest are checked until
/// `enough` are found sound.
fn damaged(
    ctx: &mut OpContext<'_, '_>,
    mut newest: Vec<&Checkpoint>,
    enough: u64,
) -> BTreeSet<CheckpointId> {
    newest.sort_by_key(|checkpoint| {
        let archived = checkpoint.status == CheckpointStatus::Archived;
        (archived, Reverse(checkpoint.cut.rev))
    });
    let mut sound: BTreeMap<MissionId, u64> = BTreeMap::new();
    let mut damaged = BTreeSet::new();
    for checkpoint in newest {
        let found = sound.entry(checkpoint.cut.mission_id).or_default();
        if *found >= enough {
            continue;
        }
        if load(ctx, checkpoint).is_ok() {
            *found += 1;
        } else {
            damaged.insert(checkpoint.id);
        }
    }
    damaged
}

fn told(plan: &RetentionPlan, candidate: &RetentionCandidate) -> PrunedCheckpoint {
    let rule = plan.rules.get(&candidate.id);
    PrunedCheckpoint {
        id: candidate.id,
        mission_id: candidate.mission,
        timestamp: candidate.at,
        trigger: candidate.trigger.as_str().to_owned(),
        rule: rule.copied().unwrap_or(RetentionRule::Old),
    }
}

/// Plans which checkpoints go, and which values leave the journal with them. Changes nothing.
pub fn plan_all(fleet: &mut Fleet, caller: &Caller, request: &PlanPrune) -> Result<Pruned> {
    let plan = fleet.run(request, caller)?;
    let thinning = PlanThinning {
        without: ids(&plan.details),
        ..request.thinning()
    };
    let journal = plan_thinning(fleet, caller, &thinning)?;
    Ok(plan.with(journal))
}

/// Deletes the checkpoints of a plan that may still go, thins the journal, and gives the space back when that is worth
/// it: the caller removes the files. When this fails, the checkpoints deleted until then are gone.
pub fn apply_all(
    fleet: &mut Fleet,
    caller: &Caller,
    request: &PlanPrune,
    plan: &Pruned,
) -> Result<Pruned> {
    // The caller's key would be used for several requests.
    let keyless = Caller {
        idempotency_key: None,
        ..caller.clone()
    };
    let mut done = None;
    for apply in in_parts(request, plan) {
        // A caller that died on the way and comes again finds the rest of it.
        done = Some(match done {
            None => fleet.run(&apply, caller)?,
            Some(done) => Pruned::and(done, fleet.run(&apply, &keyless)?),
        });
    }
    let done = done.unwrap_or_else(|| plan.clone());
    let caller = keyless;
    let journal = thin(fleet, &caller, &request.thinning())?;
    let mut done = done.with(journal);
    let give_back = GiveBack {
        loose: journal.bytes,
        most: REWRITTEN_AT_ONCE,
    };
    done.space = fleet.run_job(&give_back, Path::new(""), &caller)?;
    if let FreedSpace::Returned { bytes } = done.space {
        done.freed_bytes = done.file_bytes + bytes;
    }
    Ok(done)
}

/// Maximum number of checkpoints that go in one transaction, for which other writers wait.
pub(super) const AT_ONCE: usize = 100;

/// Divides a plan into requests for one transaction each.
fn in_parts(request: &PlanPrune, plan: &Pruned) -> Vec<ApplyPrune> {
    let most = plan.details.len().max(plan.archived.len());
    let page = |these: &[PrunedCheckpoint], number: usize| {
        these.chunks(AT_ONCE).nth(number).map_or_else(Vec::new, ids)
    };
    (0..most.div_ceil(AT_ONCE))
        .map(|number| ApplyPrune {
            plan: request.clone(),
            delete: page(&plan.details, number),
            archive: page(&plan.archived, number),
            more: false,
        })
        .collect()
}

/// Rewriting a store of this size keeps others waiting for about a second.
pub const REWRITTEN_AT_ONCE: u64 = 64 * 1024 * 1024;

impl PlanPrune {
    /// The values that leave the journal by the same policy.
    pub fn thinning(&self) -> PlanThinning {
        PlanThinning {
            mission: self.mission.clone(),
            older_than_ms: self.older_than_ms,
            force: self.force,
            ..PlanThinning::default()
        }
    }
}

pub(super) fn ids(checkpoints: &[PrunedCheckpoint]) -> Vec<CheckpointId> {
    checkpoints.iter().map(|checkpoint| checkpoint.id).collect()
}
