//! The coordinator of a mission after a recovery: it takes the place of one that is gone, and the others are told.

use flightline_core::AgentId;
use flightline_core::agent::{Agent, Role};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use serde_json::json;

use super::AgentVerdict;
use crate::error::Result;
use crate::mail::{hand_over, notice};
use crate::op_context::OpContext;

/// A dispatch that recovers a mission whose own is gone takes its place, and gets the mail that one never
/// acknowledged; those who live are told.
pub(super) fn take_dispatch(
    ctx: &mut OpContext<'_, '_>,
    mission: &mut Mission,
    verdicts: &[AgentVerdict],
) -> Result<Option<AgentId>> {
    let Some(me) = ctx
        .agent
        .clone()
        .filter(|agent| agent.role == Role::Dispatch)
    else {
        return Ok(None);
    };
    if mission.dispatch == Some(me.id) {
        return Ok(None);
    }
    let theirs = verdicts
        .iter()
        .find(|verdict| Some(verdict.agent.id) == mission.dispatch);
    if theirs.is_some_and(|verdict| !verdict.is_gone()) {
        return Ok(None);
    }
    let before = mission.dispatch.replace(me.id);
    mission.updated_at = ctx.now();
    ctx.tx.set(
        EventType::DispatchChanged,
        mission,
        &json!({ "to": me.name }),
    )?;
    if let Some(before) = before {
        hand_over(ctx, mission.id, before, &me)?;
    }
    let alive = verdicts.iter().filter(|verdict| !verdict.is_gone());
    announce_dispatch(ctx, mission, &me, alive.map(|verdict| &verdict.agent))?;
    Ok(theirs.and(before))
}

/// Tells agents who coordinates a mission from now on.
pub(crate) fn announce_dispatch<'a>(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    me: &Agent,
    others: impl Iterator<Item = &'a Agent>,
) -> Result<()> {
    for agent in others.filter(|agent| agent.id != me.id && agent.epoch > 0) {
        notice(
            ctx,
            agent.clone(),
            &format!(
                "dispatch_changed: {} now coordinates {}",
                me.name, mission.title
            ),
            "Report to it from now on.",
            Some(mission.id),
        )?;
    }
    Ok(())
}
