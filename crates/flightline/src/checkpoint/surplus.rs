//! The most checkpoints that a mission keeps: held whenever one is taken, and not only by the next pruning.

use flightline_core::Kind;
use flightline_core::checkpoint::{Checkpoint, CheckpointStatus, Reason};
use flightline_core::mission::Mission;
use flightline_core::retention::{Retention, Surplus};
use flightline_store::{Actor, Find, SubjectRow};

use super::prune::{archive_surplus, delete_checkpoint, surplus_plan};
use crate::desk::Desk;
use crate::error::Result;

/// Archives or deletes the surplus checkpoints of a mission, after one more was taken for `reason`. The guards are those of
/// pruning: pinned ones stay, and as many sound ones as the policy says.
pub(super) fn hold_maximum(
    desk: &mut Desk<'_, '_>,
    mission: &Mission,
    reason: Reason,
) -> Result<()> {
    let policy = desk.policy.retention;
    match policy.surplus {
        Surplus::Archive => archive_surplus(desk, mission),
        // The target of the rewind may be the oldest; the next checkpoint makes up for it.
        Surplus::Delete if reason == Reason::BeforeRestore => Ok(()),
        Surplus::Delete => delete_surplus(desk, mission, &policy),
    }
}

fn delete_surplus(desk: &mut Desk<'_, '_>, mission: &Mission, policy: &Retention) -> Result<()> {
    let of_mission = Find::Mission(mission.id);
    let archived = CheckpointStatus::Archived.as_str();
    let counts = desk.tx.counts(Kind::Checkpoint, of_mission)?;
    let listed = counts.iter().filter(|(status, _)| status != archived);
    let kept = policy.most.max(policy.keep).max(1);
    if listed.map(|(_, count)| count).sum::<u64>() <= kept {
        return Ok(());
    }
    let mut rows = desk.tx.rows(Kind::Checkpoint, of_mission)?;
    rows.retain(|row| row.status != archived);
    rows.sort_by_key(|row| std::cmp::Reverse(row.born));
    let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(rows.len());
    let (newest, older) = rows.split_at(kept);
    let going = match is_simple(newest, policy) {
        true => unpinned(desk, older)?,
        // More than the order decides what stays: planned as pruning plans it.
        false => {
            let mut going = Vec::new();
            for id in surplus_plan(desk, mission)? {
                going.extend(desk.tx.get::<Checkpoint>(&id.to_string())?);
            }
            going
        }
    };
    // Housekeeping, no act of the caller that takes a checkpoint.
    let who = desk.tx.actor().clone();
    desk.tx.act_as(Actor::flightline());
    for checkpoint in going {
        delete_checkpoint(desk, &checkpoint)?;
    }
    desk.tx.act_as(who);
    Ok(())
}

/// Whether enough of the newest have no known damage, so that no older one is needed.
fn is_simple(newest: &[SubjectRow], policy: &Retention) -> bool {
    let corrupted = CheckpointStatus::Corrupted.as_str();
    let sound = newest.iter().filter(|row| row.status != corrupted).count();
    !policy.emergencies_apart && sound as u64 >= policy.keep.max(1)
}

fn unpinned(desk: &mut Desk<'_, '_>, rows: &[SubjectRow]) -> Result<Vec<Checkpoint>> {
    let mut going = Vec::new();
    for row in rows {
        // One that cannot be read is left to those who mend.
        let read = desk.tx.get::<Checkpoint>(&row.id);
        if let Ok(Some(checkpoint)) = read
            && checkpoint.pinned_at.is_none()
            && checkpoint.imported.is_none()
        {
            going.push(checkpoint);
        }
    }
    Ok(going)
}
