//! An agent's own report of its status, its steps, its blockers and the files that it changed.

use crate::Schema;
use flightline_core::agent::{Agent, AgentStatus, Step};
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::text::NoteText;
use flightline_core::{Code, Kind, Refusal, RepoPath, Subject, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{AgentView, named_or_acting, view};
use crate::checkpoint::trigger::{error, first_of, mission_of};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;
use crate::remote::Offline;

/// Updates an agent's report on itself. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct UpdateAgent {
    /// The agent by name or id; the acting agent when none is named.
    pub agent: Option<String>,
    /// The new status of the agent.
    pub status: Option<AgentStatus>,
    /// The feature that the agent owns.
    pub feature: Option<Title>,
    /// The stage that the agent is in.
    pub stage: Option<Title>,
    /// The phase that the agent is in.
    pub phase: Option<Title>,
    /// The current step; the previous one becomes a completed step.
    pub step: Option<Title>,
    /// Further steps that the agent has completed.
    #[serde(default)]
    pub completed_steps: Vec<Title>,
    /// The agent's next steps; they replace the earlier list.
    #[serde(default)]
    pub next_steps: Vec<Title>,
    /// The agent's blockers; they replace the earlier list.
    #[serde(default)]
    pub blockers: Vec<Title>,
    /// Remove all blockers.
    #[serde(default)]
    pub clear_blockers: bool,
    /// Files that the agent changed; they are added to the list.
    #[serde(default)]
    pub files: Vec<RepoPath>,
    /// Empty the list of changed files, because the agent committed.
    #[serde(default)]
    pub clear_files: bool,
    /// Instructions for resuming the agent's work.
    pub recovery_instructions: Option<NoteText>,
    /// True when the agent's work can be resumed.
    pub can_resume: Option<bool>,
    /// Time until the agent's next planned report, in milliseconds.
    pub next_checkpoint_ms: Option<u64>,
    /// True when the agent updated the overview of the whole effort.
    #[serde(default)]
    pub updated_overview: bool,
    /// A point at which the agent waits for others, or continues after them.
    #[serde(default)]
    pub sync_point: Option<Title>,
}

impl Operation for UpdateAgent {
    const NAME: &'static str = "update_agent";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const OFFLINE: Offline = Offline::Kept;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::named(op.agent.as_deref());
    type Outcome = AgentView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<AgentView> {
        let mut agent = named_or_acting(ctx, self.agent.as_deref())?;
        let own = ctx.agent_id() == Some(agent.id);
        if !own && !ctx.is_in_charge() {
            return Err(Refusal::new(
                Code::NotYours,
                format!("only {} or dispatch may update {}", agent.name, agent.name),
            )
            .into());
        }
        let now = ctx.now();
        let before = agent.clone();
        let mut completed = self.completed_steps.clone();
        if let Some(step) = &self.step {
            completed.extend(
                agent
                    .current_step
                    .replace(step.clone())
                    .filter(|before| before != step),
            );
        }
        agent.status = self.status.unwrap_or(match agent.status {
            AgentStatus::Idle if self.step.is_some() => AgentStatus::InProgress,
            status => status,
        });
        agent.feature = self.feature.clone().or(agent.feature);
        agent.stage = self.stage.clone().or(agent.stage);
        agent.phase = self.phase.clone().or(agent.phase);
        if !self.next_steps.is_empty() {
            agent.next_steps.clone_from(&self.next_steps);
        }
        if !self.blockers.is_empty() || self.clear_blockers {
            agent.blockers.clone_from(&self.blockers);
        }
        if self.clear_files {
            agent.files_modified.clear();
        }
        for file in &self.files {
            if !agent.files_modified.contains(file) {
                agent.files_modified.push(file.clone());
            }
        }
        agent.recovery_instructions = self
            .recovery_instructions
            .clone()
            .or(agent.recovery_instructions);
        agent.can_resume = self.can_resume.unwrap_or(agent.can_resume);
        if self.updated_overview {
            agent.coordination.last_epic_readme_update = Some(now);
        }
        if own {
            // Only the agent's own act moves this: anything else would mask its death.
            agent.last_checkpoint = Some(now);
            agent.next_checkpoint_expected = self.next_checkpoint_ms.map(|span| now.plus(span));
            agent.coordination.last_status_update = Some(now);
        }
        agent.updated_at = now;
        let done = ctx.tx.rows(Kind::Step, Find::Parent(&agent.key()))?.len() as u64;
        for (number, text) in (done + 1..).zip(completed) {
            let step = Step {
                agent_id: agent.id,
                number,
                text,
                at: now,
            };
            ctx.tx.set(
                EventType::AgentStepCompleted,
                &step,
                &json!({ "step": step.text }),
            )?;
        }
        let mut data = json!({ "status": agent.status.as_str(), "step": agent.current_step });
        if self.tells_only_files() {
            data = json!({ "status": agent.status.as_str(), "files": self.files });
        }
        ctx.tx.set(EventType::AgentUpdated, &agent, &data)?;
        self.checkpoint(ctx, &before, &agent)?;
        let pulses = ctx.tx.pulses()?;
        view(ctx, agent, &pulses, &[])
    }
}

impl UpdateAgent {
    /// Returns true when the report names changed files, and nothing of the agent's progress.
    fn tells_only_files(&self) -> bool {
        !self.files.is_empty() && self.status.is_none() && self.step.is_none()
    }

    /// Takes the checkpoint that this may be worth, of the mission the agent works on.
    fn checkpoint(&self, ctx: &mut OpContext<'_, '_>, before: &Agent, agent: &Agent) -> Result<()> {
        let name = &agent.name;
        let mut reasons = Vec::new();
        if let Some(point) = &self.sync_point {
            reasons.push((Reason::SyncPoint, format!("{name} at {point}")));
        }
        if let Some(phase) = before
            .phase
            .as_ref()
            .filter(|_| before.phase != agent.phase)
        {
            reasons.push((Reason::PhaseComplete, format!("{name} completed {phase}")));
        }
        let blocker = agent
            .blockers
            .iter()
            .find(|it| !before.blockers.contains(it));
        if reasons.is_empty() && blocker.is_none() {
            return Ok(());
        }
        let mission = match mission_of(ctx, agent.id)? {
            Some(mission) => mission,
            None => match ctx.current_mission()? {
                Some(mission) => mission,
                None => return Ok(()),
            },
        };
        match blocker {
            Some(blocker) => error(ctx, &mission, Reason::Blocker, format!("{name}: {blocker}")),
            None => first_of(ctx, &mission, reasons).map(drop),
        }
    }
}
