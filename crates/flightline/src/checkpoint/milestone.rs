//! Checkpoints at a quarter, half and three quarters of the way: once each per timeline. One that could not
//! be taken is owed, and taken with the mission's next change.

use flightline_core::checkpoint::{Milestone, Reason};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::{CheckpointId, Kind, MissionId, Subject};
use flightline_store::Find;
use serde_json::json;

use super::take::{NewCheckpoint, take};
use super::trigger::trigger;
use crate::error::Result;
use crate::op_context::OpContext;

/// Takes a checkpoint when progress has first reached 25, 50 or 75 % on this timeline; one, when it
/// crossed several at once.
pub(crate) fn milestones(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<Option<CheckpointId>> {
    if !ctx.policy.triggers.has(Reason::Milestone) {
        return Ok(None);
    }
    let progress = ctx.progress(mission.id)?;
    let mut crossed = Vec::new();
    for percent in ctx.policy.milestones {
        let reached = Milestone {
            mission_id: mission.id,
            timeline: mission.timeline,
            percent,
            at: ctx.now(),
            owed: false,
        };
        let known = ctx.tx.get::<Milestone>(&reached.key())?;
        if progress.reached(u64::from(percent)) && known.is_none() {
            let data = json!({ "percent": percent });
            ctx.tx.set(EventType::MilestoneReached, &reached, &data)?;
            crossed.push(reached);
        }
    }
    if crossed.is_empty() {
        return Ok(None);
    }
    let mut named = owed(ctx, mission)?;
    named.extend(crossed.iter().cloned());
    let taken = trigger(ctx, mission, Reason::Milestone, details(&named), Vec::new())?;
    let (changed, is_owed) = match taken {
        Some(_) => (named, false),
        None => (crossed, true),
    };
    for milestone in changed.into_iter().filter(|it| it.owed != is_owed) {
        mark(ctx, milestone, is_owed)?;
    }
    Ok(taken)
}

/// Takes the checkpoint of milestones whose own could not be taken. Costs one look when none is owed; a repeated
/// failure is no news.
pub(crate) fn catch_up(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<()> {
    let parent = mission.to_string();
    let counts = ctx.tx.counts(Kind::Milestone, Find::Parent(&parent))?;
    if !counts.iter().any(|(status, _)| status == Milestone::OWED) {
        return Ok(());
    }
    let mission = ctx.mission(Some(&parent))?;
    let owed = owed(ctx, &mission)?;
    if owed.is_empty() {
        return Ok(());
    }
    let taking = NewCheckpoint {
        mission: &mission,
        reason: Reason::Milestone,
        details: Some(details(&owed)),
        note: None,
        blockers: Vec::new(),
    };
    if ctx.attempt(|ctx| take(ctx, &taking))?.is_ok() {
        for milestone in owed {
            mark(ctx, milestone, false)?;
        }
    }
    Ok(())
}

/// Returns the milestones of the mission's timeline whose checkpoint could not be taken yet.
fn owed(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<Milestone>> {
    let mut found = ctx.tx.find::<Milestone>(Find::Parent(&mission.key()))?;
    found.retain(|it| it.owed && it.timeline == mission.timeline);
    found.sort_by_key(|it| it.percent);
    Ok(found)
}

fn mark(ctx: &mut OpContext<'_, '_>, milestone: Milestone, owed: bool) -> Result<()> {
    let milestone = Milestone { owed, ..milestone };
    let data = json!({ "percent": milestone.percent });
    let event = if owed {
        EventType::MilestoneOwed
    } else {
        EventType::MilestoneSettled
    };
    ctx.tx.set(event, &milestone, &data)?;
    Ok(())
}

fn details(milestones: &[Milestone]) -> String {
    let percents: Vec<String> = milestones
        .iter()
        .map(|it| format!("{}%", it.percent))
        .collect();
    let noun = if percents.len() == 1 {
        "milestone"
    } else {
        "milestones"
    };
    format!("Reached {} {noun}", percents.join(", "))
}
