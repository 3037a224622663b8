//! Starts a session where there is a checkpoint of a full context or of an ended session: from it, in recovery mode,
//! when it fits; else normally, and the checkpoint is kept.

use crate::Schema;
use std::collections::BTreeSet;

use flightline_core::agent::{Agent, Role};
use flightline_core::checkpoint::Checkpoint;
use flightline_core::context::{ContextMode, recovery_document, task_label};
use flightline_core::dialect::DialectDocument;
use flightline_core::dialect::recovery::{
    CONTEXT_TOKENS, Expected, Start, in_progress, recovery_context, start,
};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::policy::RecoveryMode;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{CheckpointId, Name, Subject, Title};
use flightline_store::{Actor, Find};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::compaction::missions_of;
use super::newest_sound;
use crate::agent::context::{set_mode, stack_of};
use crate::checkpoint::{Contents, load, newest_first, readable};
use crate::context::nonce;
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;

/// The start of a session from a checkpoint of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct SessionStart {
    /// The checkpoint that was found.
    pub checkpoint_id: CheckpointId,
    /// The agent that continues; none when it is gone.
    pub agent: Option<Name>,
    /// The mode that the session starts in.
    pub mode: ContextMode,
    /// The reason why the session starts normally though there is a checkpoint, which is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The text that the agent needs to continue, in at most 2,000 tokens: the files to load now and later, and the
    /// content of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Number of tokens of that text, estimated on the safe side.
    pub tokens: usize,
}

impl SessionStart {
    /// Returns the warning to the person when the session starts normally.
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
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    (checkpoint, contents): (&Checkpoint, &Contents),
    agent: Option<Agent>,
) -> Result<Option<SessionStart>> {
    if !ctx.policy.recovery_enabled || !checkpoint.is_resumable_context() {
        return Ok(None);
    }
    let document = told_by(ctx, mission, checkpoint, contents)?;
    let (now, _) = readable::<Sortie>(ctx.tx, Find::Mission(mission.id))?;
    let known: BTreeSet<String> = now.iter().map(task_label).collect();
    let stack_id = stack_of(ctx, mission);
    let started = start(
        &document,
        &Expected {
            stack_id: stack_id.as_ref().map(Name::as_str),
            task_exists: &|task| known.contains(task),
            max_age: ctx.policy.valid_ms,
            now: ctx.now(),
        },
    );
    // The following is housekeeping, no activity of an agent.
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    let mode = match (&started, ctx.policy.recovery_mode) {
        (Start::Resume, RecoveryMode::Minimal) => ContextMode::Recovery,
        _ => ContextMode::Normal,
    };
    let mut agent = agent;
    if let Some(agent) = &mut agent {
        let why = match started {
            Start::Resume => "resumed",
            Start::Normal | Start::Fallback { .. } => "normal_start",
        };
        set_mode(ctx, agent, mode, why)?;
    }
    if let (Start::Resume, Some(agent)) = (&started, &mut agent) {
        go_on(ctx, agent, checkpoint, &document, &now)?;
    }
    let problem = started.log();
    if let Some(problem) = &problem {
        let data = json!({
            "checkpoint_id": checkpoint.id,
            "mission_id": mission.id,
            "problem": problem,
        });
        ctx.tx.note(EventType::ResumeFellBack, mission, &data)?;
    }
    ctx.tx.act_as(who);
    let text = match started {
        Start::Resume => {
            let at = checkpoint
                .cut
                .agent_context
                .as_ref()
                .and_then(|of| of.sortie_id);
            let named = in_progress(&document);
            let fits = |sortie: &&Sortie| match at {
                Some(at) => sortie.id == at,
                None => named.contains(&task_label(sortie).as_str()),
            };
            let task = now.iter().find(fits).map(told);
            let nonce = nonce(ctx, &format!("{}/start", checkpoint.id))?;
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

/// A new session of an agent finds the checkpoint of its last one by itself, where the policy says so; and a
/// specialist's session the one of an unknown session, when its task waits.
pub(crate) fn start_by_itself(
    ctx: &mut OpContext<'_, '_>,
    agent: &mut Agent,
) -> Result<Option<SessionStart>> {
    if !ctx.policy.auto_resume {
        return Ok(None);
    }
    let mut missions: Vec<String> = missions_of(ctx, agent)?.into_iter().collect();
    if agent.role == Role::Specialist {
        let at_hand = ctx.current_mission()?.map(|mission| mission.id.to_string());
        missions.extend(at_hand.filter(|id| !missions.contains(id)));
    }
    for id in missions {
        // One mission's damage stops no agent from coming back.
        let found = ctx.attempt(|ctx| {
            let mission = ctx.mission(Some(&id))?;
            let (newest, _) = newest_sound(ctx, &mission)?;
            let of = |it: &Checkpoint| it.cut.agent_context.as_ref().map(|of| of.agent_id);
            let own = newest.filter(|it| of(it) == Some(agent.id));
            let found = match own {
                Some(own) => Some((load(ctx, &own)?, own)),
                None => waiting(ctx, &mission, agent)?,
            };
            let Some((contents, checkpoint)) = found else {
                return Ok(None);
            };
            let agent = Some(agent.clone());
            start_from(ctx, &mission, (&checkpoint, &contents), agent)
        })?;
        if let Ok(Some(start)) = found {
            if let Some(now) = ctx.tx.get::<Agent>(&agent.key())? {
                *agent = now;
            }
            return Ok(Some(start));
        }
    }
    Ok(None)
}

/// An agent that takes up the task of an unknown session goes on from that session's checkpoint.
pub(crate) fn start_with(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    sortie: &Sortie,
) -> Result<Option<SessionStart>> {
    if !ctx.policy.auto_resume {
        return Ok(None);
    }
    let mission = ctx.mission_of(sortie.mission_id)?;
    let Some((contents, checkpoint)) = waiting(ctx, &mission, agent)? else {
        return Ok(None);
    };
    let document = told_by(ctx, &mission, &checkpoint, &contents)?;
    if !in_progress(&document).contains(&task_label(sortie).as_str()) {
        return Ok(None);
    }
    let agent = Some(agent.clone());
    start_from(ctx, &mission, (&checkpoint, &contents), agent)
}

/// The newest checkpoint of a context that is no agent's, when its task is free or this agent's.
fn waiting(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    agent: &Agent,
) -> Result<Option<(Contents, Checkpoint)>> {
    if !ctx.policy.recovery_enabled {
        return Ok(None);
    }
    let all = newest_first(ctx, mission)?;
    let newest = all.into_iter().find(|it| it.cut.reason.ends_context());
    let Some(checkpoint) = newest.filter(|it| {
        it.is_resumable_context()
            && it.cut.agent_context.is_none()
            && it.resumed_by.is_none_or(|by| by == agent.id)
    }) else {
        return Ok(None);
    };
    let contents = load(ctx, &checkpoint)?;
    let document = told_by(ctx, mission, &checkpoint, &contents)?;
    let (now, _) = readable::<Sortie>(ctx.tx, Find::Mission(mission.id))?;
    let task = task_at(agent, &document, &now);
    Ok(task.map(|_| (contents, checkpoint)))
}

/// Returns a checkpoint in seed E's words: as it was written, when it came in as a file.
fn told_by(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    checkpoint: &Checkpoint,
    contents: &Contents,
) -> Result<DialectDocument> {
    if let Some(written) = crate::dialect::as_written(ctx, checkpoint)? {
        return Ok(written);
    }
    let (then, tasks): (Vec<Mission>, Vec<Sortie>) = (contents.of()?, contents.of()?);
    let then = then.first().unwrap_or(mission);
    Ok(recovery_document(checkpoint, then, &tasks))
}

/// The task that a checkpoint was at, when it is free or this agent's.
fn task_at<'a>(
    agent: &Agent,
    document: &DialectDocument,
    sorties: &'a [Sortie],
) -> Option<&'a Sortie> {
    let mut named = in_progress(document).into_iter();
    named.find_map(|task| {
        sorties.iter().find(|sortie| {
            let own = sortie.assigned_to == Some(agent.id) && sortie.status.is_held();
            task_label(sortie) == task && (own || sortie.is_interrupted())
        })
    })
}

/// An agent goes on from a checkpoint of no agent's context: with its task, and with the steps that it names.
fn go_on(
    ctx: &mut OpContext<'_, '_>,
    agent: &mut Agent,
    checkpoint: &Checkpoint,
    document: &DialectDocument,
    sorties: &[Sortie],
) -> Result<()> {
    if checkpoint.cut.agent_context.is_some() {
        return Ok(());
    }
    let Some(sortie) = task_at(agent, document, sorties) else {
        return Ok(());
    };
    let now = ctx.now();
    if sortie.is_interrupted() {
        let mut sortie = sortie.clone();
        sortie.status = SortieStatus::InProgress;
        sortie.assigned_to = Some(agent.id);
        sortie.assigned_epoch = Some(agent.epoch);
        sortie.assigned_at = Some(now);
        sortie.started_at.get_or_insert(now);
        sortie.attempts += 1;
        sortie.updated_at = now;
        let data = json!({
            "from": "pending", "attempt": sortie.attempts, "checkpoint_id": checkpoint.id,
        });
        ctx.tx.set(EventType::SortieClaimed, &sortie, &data)?;
    }
    let steps = document.texts("nextSteps").into_iter();
    let steps = steps.filter_map(|step| Title::parse("nextSteps", step).ok());
    agent.next_steps = steps.collect();
    agent.updated_at = now;
    let data = json!({ "checkpoint_id": checkpoint.id, "next_steps": agent.next_steps.len() });
    ctx.tx.set(EventType::AgentUpdated, agent, &data)?;
    if let Some(me) = ctx.agent.as_mut().filter(|me| me.id == agent.id) {
        me.clone_from(agent);
    }
    if checkpoint.resumed_by != Some(agent.id) {
        let checkpoint = Checkpoint {
            resumed_by: Some(agent.id),
            ..checkpoint.clone()
        };
        let data = json!({ "checkpoint_id": checkpoint.id, "agent": agent.name });
        ctx.tx
            .set(EventType::CheckpointResumed, &checkpoint, &data)?;
    }
    Ok(())
}
