//! The end of a session, and the way back to normal after a context was full.

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::{Checkpoint, Reason};
use flightline_core::context::{AgentContext, ContextMode, ContextUsage, remaining_steps};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::sortie::{Sortie, SortieStatus, Subtask};
use flightline_core::{AgentId, CheckpointId, Code, MissionId, Name, Refusal, Subject, Time};
use flightline_store::{Find, Pulse, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::named_or_acting;
use crate::checkpoint::readable;
use crate::checkpoint::take::{NewCheckpoint, Same, take_for};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::op_context::{OpContext, retired};
use crate::recovery::compaction::missions_of;

/// Ends an agent's session. The agent keeps its work; work in progress is saved in a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct EndSession {
    /// The agent by name or id; the acting agent when none is named.
    pub agent: Option<String>,
}

/// The outcome of ending a session.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct SessionEnded {
    /// The agent whose session ended.
    pub agent: Name,
    /// The epoch of the session.
    pub epoch: u64,
    /// The time at which the session ended.
    pub at: Time,
    /// True when work was in progress.
    pub in_progress: bool,
    /// The checkpoint of the agent's mission; none when nothing was in progress, or it is switched off.
    pub checkpoint_id: Option<CheckpointId>,
    /// The checkpoints that were taken: one for each mission in which the agent had work.
    pub checkpoints: Vec<CheckpointId>,
    /// The next steps of the agent.
    pub next_steps: Vec<String>,
    /// The reason why a checkpoint could not be taken.
    pub problem: Option<String>,
}

/// Confirms that an agent is fully in sync: its mode is normal again after its context was full, and nothing resumes
/// from its checkpoints any more. Completing its task does the same.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct FullSync {
    /// The agent by name or id; the acting agent when none is named.
    pub agent: Option<String>,
}

/// The outcome of a full sync.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ContextSynced {
    /// The agent that is in sync again.
    pub agent: Name,
    /// The agent's mode before the sync.
    pub from: ContextMode,
    /// The checkpoints from which nothing resumes any more.
    pub consumed: Vec<CheckpointId>,
}

impl Operation for EndSession {
    const NAME: &'static str = "end_session";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::named(op.agent.as_deref());
    type Outcome = SessionEnded;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SessionEnded> {
        let mut agent = own_or_in_charge(ctx, self.agent.as_deref(), "end the session of")?;
        let missions = missions_to_save(ctx, &agent, false)?;
        let mut saved = Saved::default();
        if ctx.policy.saves_context_for(Reason::SessionEnd) {
            let tokens = last_figures(ctx, &agent)?;
            saved = save(
                ctx,
                &Save {
                    agent: &agent,
                    missions: &missions,
                    reason: Reason::SessionEnd,
                    tokens,
                    tell_failure: true,
                },
            )?;
        }
        if agent.session_ended_at.is_none() {
            agent.session_ended_at = Some(ctx.now());
            agent.session_id = None;
            // The end of the process is no crash then: the agent's work waits for it.
            agent.process = None;
            agent.updated_at = ctx.now();
            let data = json!({ "reason": "it said so", "epoch": agent.epoch });
            ctx.tx.set(EventType::AgentSessionEnded, &agent, &data)?;
        }
        Ok(SessionEnded {
            agent: agent.name,
            epoch: agent.epoch,
            at: agent.session_ended_at.unwrap_or(ctx.now()),
            in_progress: !missions.is_empty(),
            checkpoint_id: saved.checkpoints.first().copied(),
            checkpoints: saved.checkpoints,
            next_steps: saved.next_steps,
            problem: saved.problem,
        })
    }
}

impl Operation for FullSync {
    const NAME: &'static str = "full_sync";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::named(op.agent.as_deref());
    type Outcome = ContextSynced;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ContextSynced> {
        let mut agent = own_or_in_charge(ctx, self.agent.as_deref(), "sync")?;
        let from = agent.mode;
        set_mode(ctx, &mut agent, ContextMode::Normal, "full_sync")?;
        let (all, _) = readable::<Checkpoint>(ctx.tx, Find::All)?;
        Ok(ContextSynced {
            agent: agent.name.clone(),
            from,
            consumed: consume(ctx, &agent, all)?,
        })
    }
}

fn own_or_in_charge(
    ctx: &mut OpContext<'_, '_>,
    reference: Option<&str>,
    verb: &str,
) -> Result<Agent> {
    let agent = named_or_acting(ctx, reference)?;
    if ctx.agent_id() != Some(agent.id) && !ctx.is_in_charge() {
        return Err(Refusal::new(
            Code::NotYours,
            format!("only {} or dispatch may {verb} {}", agent.name, agent.name),
        )
        .into());
    }
    match agent.retired_at {
        Some(_) => Err(retired(&agent)),
        None => Ok(agent),
    }
}

/// Records that an agent completed a task. For an agent that reads less because its context was full, that is the
/// full sync: its mode is normal again. No session resumes any more from a checkpoint that was taken for its context
/// and this work.
pub(crate) fn synced_by(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<()> {
    let Some(owner) = sortie.assigned_to else {
        return Ok(());
    };
    let Some(mut agent) = ctx.tx.get::<Agent>(owner)? else {
        return Ok(());
    };
    let checkpoints = if agent.mode.is_normal() {
        // Only a checkpoint that a session would resume from matters, and only when it was for this task.
        let mut newest = ctx.tx.newest::<Checkpoint>(sortie.mission_id, None, 1)?;
        newest.retain(|checkpoint| match &checkpoint.cut.agent_context {
            Some(of) => of.sortie_id == Some(sortie.id),
            None => checkpoint.resumed_by == Some(owner),
        });
        newest
    } else {
        set_mode(ctx, &mut agent, ContextMode::Normal, "full_sync")?;
        readable::<Checkpoint>(ctx.tx, Find::Mission(sortie.mission_id))?.0
    };
    let given = |it: &Checkpoint| it.resumed_by == Some(owner) && it.is_resumable_context();
    if checkpoints.iter().any(given) && !agent.next_steps.is_empty() {
        // The steps were those of the task that is complete now.
        agent.next_steps.clear();
        agent.updated_at = ctx.now();
        ctx.tx
            .set(EventType::AgentUpdated, &agent, &json!({ "next_steps": 0 }))?;
        if let Some(me) = ctx.agent.as_mut().filter(|me| me.id == owner) {
            me.clone_from(&agent);
        }
    }
    consume(ctx, &agent, checkpoints).map(drop)
}

/// Marks those of these checkpoints that were taken for an agent's context: nothing resumes from them any
/// more.
fn consume(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    checkpoints: Vec<Checkpoint>,
) -> Result<Vec<CheckpointId>> {
    let mut consumed = Vec::new();
    for mut checkpoint in checkpoints {
        if !checkpoint.is_resumable_context()
            || !checkpoint.is_of(agent.id)
            || crate::checkpoint::refuse_newer(&checkpoint).is_err()
        {
            continue;
        }
        checkpoint.consumed_at = Some(ctx.now());
        let data = json!({ "checkpoint_id": checkpoint.id, "agent": agent.name });
        ctx.tx
            .set(EventType::CheckpointConsumed, &checkpoint, &data)?;
        consumed.push(checkpoint.id);
    }
    Ok(consumed)
}

/// Gives an agent another mode, if it is another.
pub(crate) fn set_mode(
    ctx: &mut OpContext<'_, '_>,
    agent: &mut Agent,
    mode: ContextMode,
    reason: &str,
) -> Result<()> {
    if agent.mode == mode {
        return Ok(());
    }
    let from = std::mem::replace(&mut agent.mode, mode);
    agent.updated_at = ctx.now();
    let data = json!({ "from": from, "to": mode, "reason": reason });
    ctx.tx.set(EventType::AgentModeChanged, agent, &data)?;
    if let Some(me) = ctx.agent.as_mut().filter(|me| me.id == agent.id) {
        me.clone_from(agent);
    }
    Ok(())
}

/// The sortie an agent is at: of those it holds, in one mission or in any, the one it last reported on.
pub(crate) fn current_sortie(
    ctx: &mut OpContext<'_, '_>,
    agent: AgentId,
    mission: Option<MissionId>,
) -> Result<Option<Sortie>> {
    let (mut held, _) = readable::<Sortie>(ctx.tx, Find::Agent(agent))?;
    held.retain(|it| it.status.is_held() && mission.is_none_or(|mission| it.mission_id == mission));
    // A sortie that was only assigned to the agent counts less than one that the agent has begun.
    Ok(held.into_iter().max_by_key(|sortie| {
        let begun = sortie.status != SortieStatus::Assigned;
        (begun, sortie.updated_at, std::cmp::Reverse(sortie.position))
    }))
}

/// The missions in which an agent has work, the one of its current sortie first. `or_current`: the current
/// one, when there is none.
pub(super) fn missions_to_save(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    or_current: bool,
) -> Result<Vec<Mission>> {
    let first = current_sortie(ctx, agent.id, None)?.map(|sortie| sortie.mission_id);
    let mut missions = Vec::new();
    for id in missions_of(ctx, agent)? {
        match ctx.tx.get::<Mission>(&id) {
            Ok(found) => missions.extend(found.filter(|mission| mission.status.is_open())),
            // One mission's damage keeps no other from being saved.
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    missions.sort_by_key(|mission: &Mission| Some(mission.id) != first);
    if missions.is_empty() && or_current {
        let current = match ctx.caller.mission.is_some() {
            true => Some(ctx.mission(None)?),
            false => ctx.current_mission()?,
        };
        missions.extend(current.filter(|mission| mission.status.is_open()));
    }
    Ok(missions)
}

/// The request to save an agent's context in checkpoints of its missions.
pub(super) struct Save<'a> {
    pub(super) agent: &'a Agent,
    pub(super) missions: &'a [Mission],
    pub(super) reason: Reason,
    pub(super) tokens: Option<ContextUsage>,
    /// True when a checkpoint that cannot be taken is noted.
    pub(super) tell_failure: bool,
}

#[derive(Default)]
pub(super) struct Saved {
    pub(super) checkpoints: Vec<CheckpointId>,
    /// The next steps in the first of the missions.
    pub(super) next_steps: Vec<String>,
    pub(super) problem: Option<String>,
}

/// Takes a checkpoint of each mission for an agent's context. One that fails is undone alone.
pub(super) fn save(ctx: &mut OpContext<'_, '_>, save: &Save<'_>) -> Result<Saved> {
    let mut saved = Saved::default();
    for mission in save.missions {
        let taken = ctx.attempt(|ctx| {
            let of = agent_context(ctx, save.agent, mission, save.tokens)?;
            let taking = NewCheckpoint {
                mission,
                reason: save.reason,
                details: Some(details(save)),
                note: None,
                blockers: Vec::new(),
            };
            take_for(ctx, &taking, Some(of), Same::State)
        })?;
        match taken {
            Ok(checkpoint) => {
                if saved.checkpoints.is_empty() {
                    saved.next_steps = checkpoint.cut.recovery_context.next_steps;
                }
                saved.checkpoints.push(checkpoint.id);
            }
            Err(error) => {
                let problem = error.to_string();
                if save.tell_failure {
                    let data = json!({ "reason": save.reason, "error": problem });
                    ctx.tx.note(EventType::CheckpointFailed, mission, &data)?;
                }
                saved.problem = Some(problem);
            }
        }
    }
    Ok(saved)
}

fn details(save: &Save<'_>) -> String {
    let name = &save.agent.name;
    match (save.reason, save.tokens) {
        (Reason::SessionEnd, _) | (_, None) => format!("The session of {name} ended"),
        (_, Some(figures)) => format!("The context of {name} is {} % full", figures.percent),
    }
}

/// The stack that a mission is built on: its own, else the project's.
pub(crate) fn stack_of(ctx: &OpContext<'_, '_>, mission: &Mission) -> Option<Name> {
    let stack = mission.stack_id.as_ref();
    stack.or(ctx.policy.stack_id.as_ref()).cloned()
}

pub(crate) fn agent_context(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    mission: &Mission,
    tokens: Option<ContextUsage>,
) -> Result<AgentContext> {
    let sortie = current_sortie(ctx, agent.id, Some(mission.id))?;
    let remaining = match &sortie {
        Some(sortie) => {
            let subtasks = ctx.tx.find::<Subtask>(Find::Parent(&sortie.key()))?;
            remaining_steps(sortie, &subtasks, Some(agent))
        }
        None => Vec::new(),
    };
    Ok(AgentContext {
        agent_id: agent.id,
        agent: agent.name.clone(),
        epoch: agent.epoch,
        context: agent.context,
        tokens,
        mode: agent.mode,
        stack_id: stack_of(ctx, mission),
        sortie_id: sortie.map(|sortie| sortie.id),
        remaining,
        delta_changes: Vec::new(),
    })
}

/// Returns an agent's last report on itself; the usage of its context only while it has the same one.
pub(super) fn said(agent: &Agent, pulse: &Pulse) -> Value {
    let mut said = pulse.data.clone();
    if said["context"].as_u64().unwrap_or(0) != agent.context
        && let Some(fields) = said.as_object_mut()
    {
        for of_the_context in ["context", "context_percent", "tokens"] {
            fields.remove(of_the_context);
        }
    }
    said
}

/// Returns the usage of an agent's context as it last reported it, in its present session.
pub(crate) fn last_figures(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
) -> Result<Option<ContextUsage>> {
    let pulse = ctx.tx.pulse(agent.id)?;
    let Some(pulse) = pulse.filter(|pulse| pulse.epoch == agent.epoch) else {
        return Ok(None);
    };
    let said = said(agent, &pulse);
    let percent = said["context_percent"].as_u64();
    let tokens = &said["tokens"];
    let tokens = tokens["used"].as_u64().zip(tokens["total"].as_u64());
    let percent = percent.and_then(|percent| u8::try_from(percent).ok());
    // Stored figures were valid once; figures that no longer are say nothing.
    Ok(ContextUsage::read(percent, tokens).ok().flatten())
}
