//! How a session starts when a checkpoint of a full context or of an ended session is there: from it, in
//! recovery mode, when it fits; else normally, and the checkpoint is kept.

use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::Checkpoint;
use flightline_core::context::{ContextMode, recovery_document, task_label};
use flightline_core::dialect::recovery::{
    CONTEXT_TOKENS, Expected, Start, recovery_context, start,
};
use flightline_core::mission::Mission;
use flightline_core::policy::RecoveryMode;
use flightline_core::sortie::Sortie;
use flightline_core::{CheckpointId, Name};
use flightline_store::{Actor, Find};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::compaction::missions_of;
use super::newest_sound;
use crate::agent::context::{set_mode, stack_of};
use crate::checkpoint::{Contents, load, readable};
use crate::context::nonce;
use crate::desk::Desk;
use crate::error::Result;
use crate::mission::short;

/// How a session starts from a checkpoint of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionStart {
    /// The checkpoint.
    pub checkpoint_id: CheckpointId,
    /// The agent that goes on; none when it is gone.
    pub agent: Option<Name>,
    /// Its mode.
    pub mode: ContextMode,
    /// Why it starts normally though there is a checkpoint, which is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it needs to go on, in at most 2,000 tokens: what to load now and what later, and what the
    /// checkpoint says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How many tokens that takes, estimated on the safe side.
    pub tokens: usize,
}

impl SessionStart {
    /// What the person is told when it starts normally.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(format!(
            "{problem}. This session starts normally; {} is kept",
            short(self.checkpoint_id)
        ))
    }
}

/// Starts a session from a checkpoint, if it is of a context and nothing has consumed it. `agent` goes on,
/// unless it is gone.
pub(super) fn start_from(
    desk: &mut Desk<'_, '_>,
    mission: &Mission,
    (checkpoint, contents): (&Checkpoint, &Contents),
    agent: Option<Agent>,
) -> Result<Option<SessionStart>> {
    if !desk.policy.recovery_enabled || !checkpoint.is_resumable_context() {
        return Ok(None);
    }
    let (then, tasks): (Vec<Mission>, Vec<Sortie>) = (contents.of()?, contents.of()?);
    let then = then.first().unwrap_or(mission);
    let document = recovery_document(checkpoint, then, &tasks);
    let (now, _) = readable::<Sortie>(desk.tx, Find::Mission(mission.id))?;
    let known: BTreeSet<String> = now.iter().map(task_label).collect();
    let stack_id = stack_of(desk, mission);
    let started = start(
        &document,
        &Expected {
            stack_id: stack_id.as_ref().map(Name::as_str),
            task_exists: &|task| known.contains(task),
            max_age: desk.policy.valid_ms,
            now: desk.now(),
        },
    );
    // What follows is housekeeping, not somebody's activity.
    let who = desk.tx.actor().clone();
    desk.tx.act_as(Actor::flightline());
    let mode = match (&started, desk.policy.recovery_mode) {
        (Start::Resume, RecoveryMode::Minimal) => ContextMode::Recovery,
        _ => ContextMode::Normal,
    };
    let mut agent = agent;
    if let Some(agent) = &mut agent {
        let why = match started {
            Start::Resume => "resumed",
            Start::Normal | Start::Fallback { .. } => "normal_start",
        };
        set_mode(desk, agent, mode, why)?;
    }
    let problem = started.log();
    if let Some(problem) = &problem {
        let data = json!({
            "checkpoint_id": checkpoint.id,
            "mission_id": mission.id,
            "problem": problem,
        });
        desk.tx.note("resume_fell_back", mission, &data)?;
    }
    desk.tx.act_as(who);
    let text = match started {
        Start::Resume => {
            let at = checkpoint
                .cut
                .agent_context
                .as_ref()
                .and_then(|of| of.sortie_id);
            let task = now.iter().find(|sortie| Some(sortie.id) == at).map(told);
            let nonce = nonce(desk, &format!("{}/start", checkpoint.id))?;
            Some(recovery_context(
                &document,
                task.as_deref(),
                &nonce,
                CONTEXT_TOKENS,
            )?)
        }
        Start::Normal | Start::Fallback { .. } => None,
    };
    Ok(Some(SessionStart {
        checkpoint_id: checkpoint.id,
        agent: agent.map(|agent| agent.name),
        mode,
        problem,
        tokens: text.as_ref().map_or(0, |text| text.tokens),
        text: text.map(|text| text.text),
    }))
}

fn told(sortie: &Sortie) -> String {
    match &sortie.progress_notes {
        Some(note) => format!("{}: {note}", sortie.title),
        None => sortie.title.to_string(),
    }
}

/// A new session of an agent finds the checkpoint of its last one by itself, where the policy says so.
pub(crate) fn start_by_itself(
    desk: &mut Desk<'_, '_>,
    agent: &mut Agent,
) -> Result<Option<SessionStart>> {
    if !desk.policy.auto_resume {
        return Ok(None);
    }
    for id in missions_of(desk, agent)? {
        // One mission's damage keeps nobody from coming back.
        let found = desk.attempt(|desk| {
            let mission = desk.mission(Some(&id))?;
            let (checkpoint, _) = newest_sound(desk, &mission)?;
            let own = |it: &Checkpoint| {
                let of = it.cut.agent_context.as_ref();
                of.is_some_and(|of| of.agent_id == agent.id)
            };
            let Some(checkpoint) = checkpoint.filter(own) else {
                return Ok(None);
            };
            let contents = load(desk, &checkpoint)?;
            start_from(
                desk,
                &mission,
                (&checkpoint, &contents),
                Some(agent.clone()),
            )
        })?;
        if let Ok(Some(start)) = found {
            agent.mode = start.mode;
            return Ok(Some(start));
        }
    }
    Ok(None)
}
