//! An agent as seed C's checkpoint tells it. The one place that does: the document that is monitored, printed, handed
//! over and mirrored says the same.

use flightline_core::agent::{Agent, AgentStatus, Role, Step};
use flightline_core::dialect::epic::{PRIMARY, SECONDARY};
use flightline_core::dialect::{Dialect, DialectDocument};
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{AgentId, Subject, Time};
use flightline_store::Find;
use serde_json::json;

use super::{held_sorties, last_sign, unread};
use crate::error::Result;
use crate::op_context::OpContext;
use crate::sortie::subtask_progress;

/// Returns the time of an agent's last checkpoint: of its own last act, from a heartbeat to the completion of a
/// sortie. Acts of others for it and of Flightline by itself do not move this: they would mask its death. None when
/// the agent never acted, or began from scratch and has not acted since.
pub(crate) fn last_checkpoint(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Option<Time>> {
    if agent.session_started_at.is_none() && agent.last_checkpoint.is_none() {
        return Ok(None);
    }
    let pulse = ctx.tx.pulse(agent.id)?;
    let sign = last_sign(ctx, agent, pulse.as_ref());
    Ok(agent.last_checkpoint.max(sign))
}

/// The agent's checkpoint; none when it has never taken one.
pub(crate) fn checkpoint_of(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
) -> Result<Option<DialectDocument>> {
    let Some(last) = last_checkpoint(ctx, agent)? else {
        return Ok(None);
    };
    let held = !held_sorties(ctx, agent.id)?.is_empty();
    let steps = ctx.tx.find::<Step>(Find::Parent(&agent.key()))?;
    // The agent's plan from its last report holds as long as that was its last act.
    let expected = match agent.last_checkpoint == Some(last) {
        true => agent.next_checkpoint_expected,
        false => Some(last.plus(ctx.policy.heartbeat_ms)),
    };
    let status = match agent.status {
        AgentStatus::Idle if held => "IN_PROGRESS",
        AgentStatus::Idle | AgentStatus::Waiting => "WAITING",
        AgentStatus::InProgress => "IN_PROGRESS",
        AgentStatus::Blocked => "BLOCKED",
        AgentStatus::Complete => "COMPLETE",
    };
    let session = agent.session_id.as_ref();
    let seconds = |time: Option<Time>| time.map(Time::to_seconds);
    let seen = &agent.coordination;
    let fields = json!({
        "agent_id": agent.name,
        "agent_type": agent_type(agent),
        "session_id": session.map_or_else(|| session_of(agent, agent.epoch), ToString::to_string),
        "feature": agent.feature,
        "stage": agent.stage,
        "phase": agent.phase,
        "last_checkpoint": last.to_seconds(),
        "next_checkpoint_expected": seconds(expected),
        "status": status,
        "can_resume": agent.can_resume,
        "blockers": agent.blockers,
        "files_modified": agent.files_modified,
        "recovery_instructions": agent.recovery_instructions,
        "current_step": agent.current_step,
        "completed_steps": steps.iter().map(|step| &step.text).collect::<Vec<_>>(),
        "next_steps": agent.next_steps,
        "coordination_state": {
            "last_inbox_check": seconds(seen.last_inbox_check),
            "unread_messages": unread(ctx, agent.id)?,
            "last_epic_readme_update": seconds(seen.last_epic_readme_update),
            "last_status_update": seconds(seen.last_status_update),
        },
    });
    Ok(Some(DialectDocument::new(Dialect::Epic, fields)))
}

/// Names a session to which the client gave no id: by its agent and incarnation.
fn session_of(agent: &Agent, epoch: u64) -> String {
    let id = agent.id.to_string();
    let id = id.trim_start_matches(AgentId::PREFIX);
    format!("{}-{epoch}", &id[..id.len().min(8)])
}

/// The incarnation of an agent whose session is called so, when that is a name of ours.
pub(crate) fn epoch_named(agent: &Agent, session: &str) -> Option<u64> {
    let (_, epoch) = session.rsplit_once('-')?;
    let epoch = epoch.parse().ok()?;
    (session_of(agent, epoch) == session).then_some(epoch)
}

/// The state of an agent's work, a line for each piece: `spec.md: 80% complete`.
pub(crate) fn current_state(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for id in held_sorties(ctx, agent.id)? {
        let Some(sortie) = ctx.tx.get::<Sortie>(&id)? else {
            continue;
        };
        let progress = subtask_progress(ctx, &sortie)?;
        let how = match (sortie.status, &sortie.blocked_reason) {
            (SortieStatus::Blocked, Some(reason)) => format!("Blocked: {reason}"),
            _ if progress.total > 0 => format!("{}% complete", progress.percent),
            (SortieStatus::Assigned, _) => "Not started".to_owned(),
            _ => match &sortie.progress_notes {
                Some(note) => note.to_string(),
                None => "Started".to_owned(),
            },
        };
        lines.push(format!("{}: {how}", sortie.title));
    }
    if !lines.is_empty() {
        lines.extend(agent.files_modified.iter().map(ToString::to_string));
    }
    Ok(lines)
}

/// Returns the agent's type in its own words, else in the seed's.
fn agent_type(agent: &Agent) -> &str {
    match (&agent.kind, agent.role) {
        (Some(kind), _) => kind.as_str(),
        (None, Role::Dispatch) => PRIMARY,
        (None, Role::Specialist) => SECONDARY,
    }
}
