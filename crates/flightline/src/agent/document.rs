//! An agent as seed C's checkpoint tells it. The one place that does: what is monitored, printed, handed
//! over and mirrored says the same.

use flightline_core::agent::{Agent, AgentStatus, Role, Step};
use flightline_core::dialect::epic;
use flightline_core::dialect::field::{Maybe, Stamp};
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{AgentId, Subject, Time};
use flightline_store::Find;

use super::{held_sorties, last_sign, unread};
use crate::desk::Desk;
use crate::error::Result;
use crate::sortie::subtask_progress;

/// When an agent last checkpointed: with whatever it did itself, from a heartbeat to the completion of a
/// sortie. Nothing that others do for it or Flightline by itself moves this: it would mask its death.
/// None when it never did, or began from scratch and has not yet.
pub(crate) fn last_checkpoint(desk: &mut Desk<'_, '_>, agent: &Agent) -> Result<Option<Time>> {
    if agent.session_started_at.is_none() && agent.last_checkpoint.is_none() {
        return Ok(None);
    }
    let pulse = desk.tx.pulse(agent.id)?;
    let sign = last_sign(desk, agent, pulse.as_ref());
    Ok(agent.last_checkpoint.max(sign))
}

/// The agent's checkpoint; none when it has never taken one.
pub(crate) fn checkpoint_of(
    desk: &mut Desk<'_, '_>,
    agent: &Agent,
) -> Result<Option<epic::Checkpoint>> {
    let Some(last) = last_checkpoint(desk, agent)? else {
        return Ok(None);
    };
    let held = !held_sorties(desk, agent.id)?.is_empty();
    let steps = desk.tx.find::<Step>(Find::Parent(&agent.key()))?;
    // What it meant to do after its last report holds as long as that was its last act.
    let expected = match agent.last_checkpoint == Some(last) {
        true => agent.next_checkpoint_expected,
        false => Some(last.plus(desk.policy.heartbeat_ms)),
    };
    let coordination = epic::Coordination {
        last_inbox_check: stamp(agent.coordination.last_inbox_check),
        unread_messages: Maybe::Is(unread(desk, agent.id)?),
        last_epic_readme_update: stamp(agent.coordination.last_epic_readme_update),
        last_status_update: stamp(agent.coordination.last_status_update),
        ..epic::Coordination::default()
    };
    let status = match agent.status {
        AgentStatus::Idle if held => epic::AgentStatus::InProgress,
        AgentStatus::Idle | AgentStatus::Waiting => epic::AgentStatus::Waiting,
        AgentStatus::InProgress => epic::AgentStatus::InProgress,
        AgentStatus::Blocked => epic::AgentStatus::Blocked,
        AgentStatus::Complete => epic::AgentStatus::Complete,
    };
    Ok(Some(epic::Checkpoint {
        agent_type: Maybe::Is(agent_type(agent)),
        session_id: Maybe::Is(
            agent
                .session_id
                .as_ref()
                .map_or_else(|| session_of(agent, agent.epoch), ToString::to_string),
        ),
        feature: text(agent.feature.as_ref()),
        stage: text(agent.stage.as_ref()),
        phase: text(agent.phase.as_ref()),
        next_checkpoint_expected: stamp(expected),
        status: Maybe::Is(status),
        can_resume: Maybe::Is(agent.can_resume),
        blockers: texts(&agent.blockers),
        files_modified: texts(&agent.files_modified),
        recovery_instructions: text(agent.recovery_instructions.as_ref()),
        current_step: text(agent.current_step.as_ref()),
        completed_steps: Maybe::Is(steps.iter().map(|step| step.text.to_string()).collect()),
        next_steps: texts(&agent.next_steps),
        coordination_state: Maybe::Is(coordination),
        ..epic::Checkpoint::new(agent.name.to_string(), Stamp::seconds(last))
    }))
}

/// What a session is called whose client gave it no id: by its agent and incarnation.
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
pub(crate) fn current_state(desk: &mut Desk<'_, '_>, agent: &Agent) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for id in held_sorties(desk, agent.id)? {
        let Some(sortie) = desk.tx.get::<Sortie>(&id)? else {
            continue;
        };
        let progress = subtask_progress(desk, &sortie)?;
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

/// In its own words, else in the seed's.
fn agent_type(agent: &Agent) -> epic::AgentType {
    match (&agent.kind, agent.role) {
        (Some(kind), _) => epic::AgentType::from_word(kind.as_str()),
        (None, Role::Dispatch) => epic::AgentType::Primary,
        (None, Role::Specialist) => epic::AgentType::Secondary,
    }
}

fn stamp(time: Option<Time>) -> Maybe<Stamp> {
    Maybe::from(time.map(Stamp::seconds))
}

fn text<T: ToString>(text: Option<&T>) -> Maybe<String> {
    Maybe::from(text.map(ToString::to_string))
}

fn texts<T: ToString>(items: &[T]) -> Maybe<Vec<String>> {
    Maybe::Is(items.iter().map(ToString::to_string).collect())
}
