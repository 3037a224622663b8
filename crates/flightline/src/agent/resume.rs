//! Resumes an agent in a new session: seed C's first way to recover.

use crate::Schema;
use flightline_core::agent::{Agent, AgentStatus, Process};
use flightline_core::dialect::{Dialect, Json, epic};
use flightline_core::event::EventType;
use flightline_core::{Code, Refusal, SortieId, Title};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::{checkpoint_of, current_state};
use super::session::{begin_session, check_process};
use super::{unread, words};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::lock::{LockView, view as lock_view};
use crate::op_context::{OpContext, speak_for};
use crate::recovery::compaction::{CompactionEvidence, lose_context};
use crate::recovery::follow::follow;

/// Begins a new session of an agent, with its work, its locks and its mail.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ResumeAgent {
    /// The agent to resume, by name or id.
    pub agent: String,
    /// The client's id of the new session; one is made when none is given. The session that is there
    /// already begins nothing anew.
    pub session: Option<Title>,
    /// The process in which the agent runs.
    pub process: Option<Process>,
}

/// The outcome of resuming an agent.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ResumedAgent {
    /// The agent in its new session.
    pub agent: Agent,
    /// The sentence about the resume: in seed C's words under its preset, else in ours.
    pub message: String,
    /// The agent's last checkpoint, as the seed writes it.
    pub checkpoint: Value,
    /// The sorties with which the agent continues.
    pub sorties: Vec<SortieId>,
    /// The agent's locks, with their new fences.
    pub locks: Vec<LockView>,
    /// Blockers from locks that the agent lost meanwhile.
    pub blockers: Vec<String>,
    /// Number of messages that the agent has not acknowledged.
    pub unread: u64,
}

impl Operation for ResumeAgent {
    const NAME: &'static str = "resume_agent";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const FENCED: bool = false;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::Agent(&op.agent);
    type Outcome = ResumedAgent;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ResumedAgent> {
        check_process(self.process.as_ref())?;
        let before = ctx.find_agent(&self.agent)?;
        refuse_unresumable(&before)?;
        let Some(last) = checkpoint_of(ctx, &before)? else {
            return Err(nothing_to_resume(&before).into());
        };
        let message = match ctx.policy.speaks(Dialect::Epic) {
            true => {
                let state = current_state(ctx, &before)?;
                epic::resume_message(&last, &state, ctx.now())
            }
            false => words::gone_on(ctx, &before, &last)?,
        };
        let same = self.session.is_some() && before.session_id == self.session;
        let mut agent = before.clone();
        if !same {
            let made = || Title::parse("session", &ctx.tx.uuid().to_string());
            let session = self.session.clone().map_or_else(made, Ok)?;
            begin_session(ctx.tx, &mut agent, Some(session))?;
        }
        agent.process = self.process.clone().or(agent.process);
        agent.status = AgentStatus::InProgress;
        agent.last_checkpoint = Some(ctx.now());
        agent.next_checkpoint_expected = Some(ctx.now().plus(ctx.policy.heartbeat_ms));
        agent.updated_at = ctx.now();
        // The caller that brings an agent back speaks for it from here on.
        speak_for(ctx.tx, &agent);
        let data = json!({ "epoch": agent.epoch, "session": agent.session_id });
        let event = if same {
            EventType::AgentUpdated
        } else {
            EventType::AgentResumed
        };
        ctx.tx.set(event, &agent, &data)?;
        ctx.tx.beat(agent.id, agent.epoch, &json!({}))?;
        let mut resumed = ResumedAgent {
            message,
            checkpoint: json_of(&last),
            sorties: Vec::new(),
            locks: Vec::new(),
            blockers: Vec::new(),
            unread: unread(ctx, agent.id)?,
            agent,
        };
        if same {
            return resumed.with_what_it_held(ctx);
        }
        let since = last.time("last_checkpoint");
        let followed = follow(ctx, &before, &resumed.agent, since)?;
        lose_context(ctx, &resumed.agent, CompactionEvidence::NewEpoch)?;
        resumed.sorties = followed.sorties.iter().map(|sortie| sortie.id).collect();
        resumed.blockers = followed.blockers;
        for lock in followed.locks {
            resumed.locks.push(lock_view(ctx, lock)?);
        }
        Ok(resumed)
    }
}

impl ResumedAgent {
    /// Adds the sorties and locks that the agent holds, where no new session began.
    fn with_what_it_held(mut self, ctx: &mut OpContext<'_, '_>) -> Result<Self> {
        for id in super::held_sorties(ctx, self.agent.id)? {
            self.sorties.push(ctx.sortie(&id)?.id);
        }
        let held = flightline_store::Find::Agent(self.agent.id);
        for lock in ctx.tx.find(held)? {
            self.locks.push(lock_view(ctx, lock)?);
        }
        Ok(self)
    }
}

/// A checkpoint as JSON, to the letter of its file.
pub(super) fn json_of(checkpoint: &Json) -> Value {
    checkpoint.clone().into()
}

fn refuse_unresumable(agent: &Agent) -> Result<()> {
    let name = &agent.name;
    if agent.retired_at.is_some() {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!("{name} was retired, and has no work to resume"),
        )
        .hint(format!(
            "see its handoff with `fleet handoff {name}`; bring it back without its work with `fleet agents register {name}`"
        ))
        .into());
    }
    if !agent.can_resume {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!("{name} reported that its work cannot be resumed"),
        )
        .hint(format!(
            "start over with `fleet agents restart {name}`, or mark it as resumable: `fleet agents update {name} --can-resume true`"
        ))
        .into());
    }
    Ok(())
}

fn nothing_to_resume(agent: &Agent) -> Refusal {
    let name = &agent.name;
    Refusal::new(
        Code::NotFound,
        format!("there is no checkpoint of {name}: it has not begun"),
    )
    .hint(format!("begin with `fleet agents register {name}`"))
}
