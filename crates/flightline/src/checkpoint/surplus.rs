//! The most checkpoints that a mission keeps: held whenever one is taken, and not only by the next pruning.

use std::collections::BTreeMap;

use flightline_core::checkpoint::{Checkpoint, CheckpointStatus, Reason};
use flightline_core::mission::Mission;
use flightline_core::retention::{MissionCompletion, Retention, RetentionCandidate, Surplus, plan};
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, Kind};
use flightline_store::{Actor, Find, SubjectRow};

use super::prune::{archive, candidate_of, delete_checkpoint, state_of};
use super::{refuse_newer, unarchived};
use crate::error::Result;
use crate::op_context::OpContext;

/// Returns the checkpoints of a mission that go when one more is taken for `reason`, if that is known before it is
/// taken.
pub(super) fn surplus_of_next(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    reason: Reason,
) -> Result<Option<Vec<Checkpoint>>> {
    let policy = ctx.policy.retention;
    match (policy.surplus, reason) {
        // Planned as pruning plans it, with the new one.
        (Surplus::Archive, _) => return Ok(None),
        // The target of the rewind may be the oldest; the next checkpoint makes up for it.
        (Surplus::Delete, Reason::BeforeRestore) => return Ok(Some(Vec::new())),
        (Surplus::Delete, _) => {}
    }
    let counts = ctx.tx.counts(Kind::Checkpoint, Find::Mission(mission.id))?;
    let archived = CheckpointStatus::Archived.as_str();
    let mut listed = counts.iter().filter(|(status, _)| status != archived);
    let valid = CheckpointStatus::Valid.as_str();
    let count = match (listed.next(), listed.next()) {
        (None, _) => 0,
        (Some((status, count)), None) if status == valid => *count,
        // Damaged ones, which do not count among those that are kept.
        _ => return Ok(None),
    };
    let surplus = (count + 1).saturating_sub(most_of(&policy));
    if surplus == 0 {
        return Ok(Some(Vec::new()));
    }
    if policy.emergencies_apart {
        return Ok(None);
    }
    let oldest = ctx
        .tx
        .rows_of_status(Kind::Checkpoint, mission.id, valid, surplus)?;
    unpinned(ctx, &oldest).map(Some)
}

/// Archives or deletes the surplus checkpoints of a mission, after one more was taken: those that were known before, or those
/// that the guards of pruning leave. Pinned ones stay, and as many sound ones as the policy says.
pub(super) fn hold_maximum(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    known: Option<Vec<Checkpoint>>,
) -> Result<()> {
    let policy = ctx.policy.retention;
    match (known, policy.surplus) {
        (Some(going), _) => delete(ctx, going),
        (None, Surplus::Archive) => archive_surplus(ctx, mission),
        (None, Surplus::Delete) => delete_surplus(ctx, mission, &policy),
    }
}

fn most_of(policy: &Retention) -> u64 {
    policy.most.max(policy.keep).max(1)
}

/// Archives the surplus checkpoints of a mission, where the policy says so: the maximum then holds at any time, and not
/// only once a day.
fn archive_surplus(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<()> {
    let policy = ctx.policy.retention;
    if policy.surplus != Surplus::Archive {
        return Ok(());
    }
    let counts = ctx.tx.counts(Kind::Checkpoint, Find::Mission(mission.id))?;
    let archived = CheckpointStatus::Archived.as_str();
    let listed = counts.iter().filter(|(status, _)| status != archived);
    if listed.map(|(_, count)| count).sum::<u64>() <= policy.most {
        return Ok(());
    }
    let candidates: Vec<RetentionCandidate> = unarchived(ctx, mission)?
        .iter()
        .filter(|checkpoint| refuse_newer(checkpoint).is_ok())
        .map(candidate_of)
        .collect();
    let missions = BTreeMap::from([(mission.id, state_of(mission))]);
    let plan = plan(&candidates, &missions, &policy, ctx.now());
    // Housekeeping, no act of the caller that takes a checkpoint.
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    archive(ctx, &plan.archive)?;
    ctx.tx.act_as(who);
    Ok(())
}

/// Plans which of a mission's checkpoints are too many, though their time is not over.
fn surplus_plan(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<CheckpointId>> {
    let candidates: Vec<RetentionCandidate> =
        unarchived(ctx, mission)?.iter().map(candidate_of).collect();
    let missions = BTreeMap::from([(mission.id, MissionCompletion { completed_at: None })]);
    let only_surplus = Retention {
        older_than_ms: Millis::MAX,
        ..ctx.policy.retention
    };
    let plan = plan(&candidates, &missions, &only_surplus, ctx.now());
    Ok(plan.delete.iter().map(|candidate| candidate.id).collect())
}

fn delete_surplus(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    policy: &Retention,
) -> Result<()> {
    let archived = CheckpointStatus::Archived.as_str();
    let mut rows = ctx.tx.rows(Kind::Checkpoint, Find::Mission(mission.id))?;
    rows.retain(|row| row.status != archived);
    rows.sort_by_key(|row| std::cmp::Reverse(row.born));
    let kept = usize::try_from(most_of(policy)).unwrap_or(usize::MAX);
    let (newest, older) = rows.split_at(kept.min(rows.len()));
    let going = match is_simple(newest, policy) {
        true => unpinned(ctx, older)?,
        // More than the order decides what stays: planned as pruning plans it.
        false => {
            let mut going = Vec::new();
            for id in surplus_plan(ctx, mission)? {
                going.extend(ctx.tx.get::<Checkpoint>(id)?);
            }
            going
        }
    };
    delete(ctx, going)
}

fn delete(ctx: &mut OpContext<'_, '_>, going: Vec<Checkpoint>) -> Result<()> {
    // Housekeeping, no act of the caller that takes a checkpoint.
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    for checkpoint in going {
        delete_checkpoint(ctx, &checkpoint)?;
    }
    ctx.tx.act_as(who);
    Ok(())
}

/// Returns true when enough of the newest have no known damage, so that no older one is needed.
fn is_simple(newest: &[SubjectRow], policy: &Retention) -> bool {
    let corrupted = CheckpointStatus::Corrupted.as_str();
    let sound = newest.iter().filter(|row| row.status != corrupted).count();
    !policy.emergencies_apart && sound as u64 >= policy.keep.max(1)
}

fn unpinned(ctx: &mut OpContext<'_, '_>, rows: &[SubjectRow]) -> Result<Vec<Checkpoint>> {
    let mut going = Vec::new();
    for row in rows {
        // A checkpoint that cannot be read is left to the repair.
        let read = ctx.tx.get::<Checkpoint>(&row.id);
        if let Ok(Some(checkpoint)) = read
            && checkpoint.pinned_at.is_none()
            && checkpoint.imported.is_none()
        {
            going.push(checkpoint);
        }
    }
    Ok(going)
}
