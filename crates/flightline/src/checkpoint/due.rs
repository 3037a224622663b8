//! Checkpoints that time makes due. There is no daemon: whichever command notices takes them.

use crate::Schema;
use flightline_core::checkpoint::{Checkpoint, Reason};
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::time::human_span;
use flightline_core::{CheckpointId, Kind, MissionId};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use super::readable;
use super::take::{TakeCheckpoint, last_change};
use crate::agent::held_sorties;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::op_context::OpContext;

/// Lists the missions that are due for a checkpoint. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct DueCheckpoints {
    /// True for a check on a heartbeat of the acting agent; else the check is about the time that has passed.
    pub heartbeat: bool,
}

impl Operation for DueCheckpoints {
    const NAME: &'static str = "due_checkpoints";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Vec<MissionId>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MissionId>> {
        let (reason, every) = if self.heartbeat {
            (Reason::Heartbeat, ctx.policy.heartbeat_ms)
        } else {
            (Reason::Interval, ctx.policy.interval_ms)
        };
        if !ctx.policy.triggers.has(reason) {
            return Ok(Vec::new());
        }
        let worked_on = match ctx.agent_id().filter(|_| self.heartbeat) {
            Some(agent) => Some(missions_of(ctx, agent)?),
            None => None,
        };
        let (missions, _) = readable::<Mission>(ctx.tx, Find::All)?;
        let mut due = Vec::new();
        for mission in missions {
            let looked_at = mission.status == MissionStatus::InProgress
                && worked_on
                    .as_ref()
                    .is_none_or(|ours| ours.contains(&mission.id));
            if looked_at && is_due(ctx, &mission, every)? {
                due.push(mission.id);
            }
        }
        Ok(due)
    }
}

fn missions_of(
    ctx: &mut OpContext<'_, '_>,
    agent: flightline_core::AgentId,
) -> Result<Vec<MissionId>> {
    let mut missions = Vec::new();
    for sortie in held_sorties(ctx, agent)? {
        missions.push(ctx.sortie(&sortie)?.mission_id);
    }
    Ok(missions)
}

/// Returns true when a mission has changed since its last checkpoint, and that one is old enough. An idle fleet makes
/// no checkpoints.
fn is_due(ctx: &mut OpContext<'_, '_>, mission: &Mission, every: u64) -> Result<bool> {
    let Some(changed) = last_change(ctx, mission)? else {
        return Ok(false);
    };
    let rows = ctx.tx.rows(Kind::Checkpoint, Find::Mission(mission.id))?;
    if rows.last().is_some_and(|row| row.born > changed) {
        return Ok(false);
    }
    let newest = ctx.tx.newest::<Checkpoint>(mission.id, None, 1)?;
    let since = newest.first().map_or_else(
        || mission.started_at.unwrap_or(mission.created_at),
        |checkpoint| checkpoint.cut.timestamp,
    );
    Ok(ctx.now().since(since) >= every)
}

/// Takes the checkpoints that are due. Costs one look where that trigger is on, and nothing elsewhere.
pub fn take_due(fleet: &mut Fleet, caller: &Caller, heartbeat: bool) -> Result<Vec<CheckpointId>> {
    let policy = fleet.policy();
    let (reason, every) = if heartbeat {
        (Reason::Heartbeat, policy.heartbeat_ms)
    } else {
        (Reason::Interval, policy.interval_ms)
    };
    if !policy.triggers.has(reason) {
        return Ok(Vec::new());
    }
    let caller = Caller {
        idempotency_key: None,
        mission: None,
        ..caller.clone()
    };
    let mut taken = Vec::new();
    for mission in fleet.run(&DueCheckpoints { heartbeat }, &caller)? {
        let details = format!("{} since the last one", human_span(every));
        let take = TakeCheckpoint {
            mission: Some(mission.to_string()),
            reason: Some(reason),
            details: Some(flightline_core::text::NoteText::parse("details", &details)?),
            note: None,
        };
        taken.push(fleet.run(&take, &caller)?.id);
    }
    Ok(taken)
}
