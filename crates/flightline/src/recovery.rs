//! Recovery: noticing that a context was lost, and bringing the work back.

pub mod aftermath;
pub mod claims;
pub mod compaction;
pub mod delta;
pub mod detect;
pub(crate) mod dispatch;
pub(crate) mod follow;
mod locks;
mod options;
pub mod past;
pub mod points;
mod requeue;
pub mod resume;
mod rewind;
pub mod start;
pub mod tasks;
pub mod undo;
pub(crate) mod undone;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::Checkpoint;
use flightline_core::event::{Change, EventType};
use flightline_core::liveness::{Life, Liveness, ProcessSight};
use flightline_core::mission::Mission;
use flightline_core::setting::Recovery;
use flightline_core::{CheckpointId, Kind, Time};
use flightline_store::{EventFilter, Find, Pulse};

use crate::agent::{Sighting, liveness, pulse_of, sight};
use crate::checkpoint::inspect::unreadable;
use crate::checkpoint::{load, readable, unarchived};
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;

pub(crate) struct AgentVerdict {
    pub(crate) agent: Agent,
    pub(crate) liveness: Liveness,
    /// True when the agent's process was seen running.
    pub(crate) running: bool,
    /// Time of the agent's last heartbeat, as the judgement knew it.
    pulse_at: Option<Time>,
}

impl AgentVerdict {
    /// Returns true when the agent's holdings may be taken from it. A quiet agent may be thinking, or be the very one
    /// that comes back without its context; it keeps its holdings.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.liveness.life, Life::Dead | Life::Stalled)
    }

    /// Returns true when the agent is there, and its work would be lost. An agent whose session has ended keeps its
    /// holdings for its next session, but is not at work.
    pub(crate) fn is_alive(&self) -> bool {
        let ended = self.agent.session_ended_at;
        let heard_since = |ended: &Time| self.pulse_at.is_some_and(|at| at > *ended);
        let is_over = ended.is_some_and(|ended| !heard_since(&ended));
        !self.is_gone() && !is_over
    }
}

/// Judges every agent; a retired one is dead.
pub(crate) fn verdicts(
    ctx: &mut OpContext<'_, '_>,
    sightings: &[Sighting],
) -> Result<Vec<AgentVerdict>> {
    let pulses = ctx.tx.pulses()?;
    let agents = ctx.tx.find::<Agent>(Find::All)?;
    Ok(verdicts_of(ctx, agents, &pulses, sightings))
}

/// Judges agents that were read already, with their signs of life.
pub(crate) fn verdicts_of(
    ctx: &OpContext<'_, '_>,
    agents: Vec<Agent>,
    pulses: &[Pulse],
    sightings: &[Sighting],
) -> Vec<AgentVerdict> {
    let judged = agents.into_iter().map(|agent| {
        let pulse = pulse_of(pulses, agent.id);
        verdict(ctx, agent, pulse, sightings)
    });
    judged.collect()
}

/// Judges an agent. The caller's own is alive: it is calling.
pub(crate) fn verdict(
    ctx: &OpContext<'_, '_>,
    agent: Agent,
    pulse: Option<&Pulse>,
    sightings: &[Sighting],
) -> AgentVerdict {
    let liveness = if ctx.agent_id() == Some(agent.id) {
        Liveness {
            life: Life::Active,
            evidence: "it is calling".to_owned(),
        }
    } else {
        liveness(ctx, &agent, pulse, sightings)
    };
    AgentVerdict {
        running: matches!(sight(ctx, &agent, sightings), ProcessSight::Alive { .. }),
        pulse_at: pulse.map(|pulse| pulse.at),
        agent,
        liveness,
    }
}

/// Like `verdicts`, but holds each dead agent's pulse row, so that a heartbeat that arrives now either waits or marks the agent
/// alive.
pub(crate) fn locked_verdicts(
    ctx: &mut OpContext<'_, '_>,
    sightings: &[Sighting],
) -> Result<Vec<AgentVerdict>> {
    let mut verdicts = verdicts(ctx, sightings)?;
    for verdict in &mut verdicts {
        settle(ctx, verdict)?;
    }
    Ok(verdicts)
}

/// Like `locked_verdicts`, for one agent.
pub(crate) fn locked_verdict(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    sightings: &[Sighting],
) -> Result<AgentVerdict> {
    let pulse = ctx.tx.pulse(agent.id)?;
    let mut verdict = verdict(ctx, agent.clone(), pulse.as_ref(), sightings);
    settle(ctx, &mut verdict)?;
    Ok(verdict)
}

fn settle(ctx: &mut OpContext<'_, '_>, verdict: &mut AgentVerdict) -> Result<()> {
    if let Some(at) = verdict.pulse_at.filter(|_| verdict.is_gone())
        && !ctx.tx.hold_pulse(verdict.agent.id, at)?
    {
        verdict.liveness = Liveness {
            life: Life::Active,
            evidence: "it gave a sign of life just now".to_owned(),
        };
    }
    Ok(())
}

/// The last rewind of a mission that was not taken back, and the checkpoint of the state before it.
pub(crate) fn before_last_rewind(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<Option<(Recovery, CheckpointId)>> {
    let mut recoveries = ctx.tx.find::<Recovery>(Find::Mission(mission.id))?;
    recoveries.retain(|recovery| recovery.undone_at.is_none() && recovery.before.is_some());
    let last = recoveries.pop();
    Ok(last.and_then(|last| last.before.map(|before| (last, before))))
}

/// A checkpoint that had to be passed over, and why. Its record may be what cannot be read.
pub(crate) struct PassedOver {
    pub(crate) id: CheckpointId,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) why: String,
}

/// Returns the newest sound checkpoint of a mission, and the checkpoints that were passed over on the way to it.
pub(crate) fn newest_sound(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<(Option<Checkpoint>, Vec<PassedOver>)> {
    let (_, unread) = readable::<Checkpoint>(ctx.tx, Find::Mission(mission.id))?;
    let unread_after = |rev: u64| {
        let newer = unread.iter().filter(move |row| row.born > rev);
        newer.rev().map(|row| {
            Ok::<_, crate::Error>(PassedOver {
                id: row.typed_id()?,
                checkpoint: None,
                why: unreadable(&row.id),
            })
        })
    };
    let mut passed: Vec<PassedOver> = lost(ctx, mission)?.into_iter().collect();
    for checkpoint in unarchived(ctx, mission)? {
        match load(ctx, &checkpoint) {
            Ok(_) => {
                for unread in unread_after(checkpoint.cut.rev) {
                    passed.push(unread?);
                }
                return Ok((Some(checkpoint), passed));
            }
            Err(error) if !error.is_damage() => return Err(error),
            Err(error) => passed.push(PassedOver {
                id: checkpoint.id,
                checkpoint: Some(checkpoint),
                why: error.into_refusal().message,
            }),
        }
    }
    for unread in unread_after(0) {
        passed.push(unread?);
    }
    Ok((None, passed))
}

/// The newest checkpoint that the journal knows of, when its record is not where it should be.
fn lost(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<PassedOver>> {
    let mut taken = ctx.tx.newest_events(&EventFilter {
        mission: Some(mission.id),
        kind: Some(EventType::FleetCheckpointed.to_string()),
        limit: 1,
        ..EventFilter::default()
    })?;
    let Some((taken, id)) = taken.pop().and_then(|taken| {
        let id = taken.subject.parse().ok()?;
        Some((taken, id))
    }) else {
        return Ok(None);
    };
    let known = ctx.tx.rows(Kind::Checkpoint, Find::Mission(mission.id))?;
    if known.iter().any(|row| row.id == taken.subject) {
        return Ok(None);
    }
    let last = ctx.tx.events_of(Kind::Checkpoint, &taken.subject, 1)?;
    let removed = last.iter().any(|event| event.change == Change::Gone);
    if removed {
        return Ok(None);
    }
    Ok(Some(PassedOver {
        id,
        checkpoint: None,
        why: format!(
            "{} is lost: it was taken, and its record is not there",
            short(&taken.subject)
        ),
    }))
}
