//! Recovery: can it resume, from where, what is in the way, and what a recovery does.

use super::{Agent, AgentStatus, Checkpoint, Id, RETRY_LIMIT, Recovery, Trigger, Workflow};
use crate::dialect::field::{Extra, Stamp};
use crate::dialect::json::Number;
use crate::recovery::analysis::{COMPLETE, Unit, UnitStanding, in_the_way};

/// Whether work can go on from these snapshots, and what is in the way.
#[must_use]
pub fn analyze(workflow: &Workflow, agents: &[Agent]) -> Recovery {
    let units = agents.iter().map(|agent| Unit {
        name: &agent.agent_id,
        standing: match agent.status {
            AgentStatus::Running => UnitStanding::Running,
            AgentStatus::Failed => UnitStanding::Failed,
            AgentStatus::Pending | AgentStatus::Completed | AgentStatus::Skipped => {
                UnitStanding::Settled
            }
        },
        attempts: agent.attempts,
    });
    let found = in_the_way(Some(&workflow.current_state), units, RETRY_LIMIT);
    let mut blockers = Vec::new();
    if let Some(agent) = found.running {
        blockers.push(format!("Agent {agent} was in progress"));
    }
    if !found.exhausted.is_empty() {
        let count = found.exhausted.len();
        blockers.push(format!("{count} agent(s) exceeded retry limit"));
    }
    if let Some(state) = found.dead_end {
        blockers.push(format!("Workflow in {state} state"));
    }
    Recovery {
        can_resume: found.can_resume(),
        resume_from_agent: found.running.map(str::to_owned),
        resume_from_state: Some(workflow.current_state.clone()),
        blockers,
        extra: Extra::default(),
    }
}

/// What to do about what is in the way.
#[must_use]
pub fn suggestions(recovery: &Recovery) -> Vec<&'static str> {
    let says = |words: &str| recovery.blockers.iter().any(|it| it.contains(words));
    let mut suggestions = Vec::new();
    if !recovery.can_resume {
        if says("exceeded retry limit") {
            suggestions.push("Use skipFailedAgent: true to skip failed agents");
        }
        if says("ERROR state") {
            suggestions.push("Use resetToState to rollback to a previous state");
        }
    }
    suggestions
}

/// Whether a checkpoint can be recovered from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// Whether it can.
    pub can_recover: bool,
    /// What is in the way.
    pub blockers: Vec<String>,
    /// What to do about it.
    pub suggestions: Vec<&'static str>,
}

/// Whether this checkpoint can be recovered from; `None` is one that was not found.
#[must_use]
pub fn recovery_status(checkpoint: Option<&Checkpoint>) -> RecoveryStatus {
    let Some(checkpoint) = checkpoint else {
        return RecoveryStatus {
            can_recover: false,
            blockers: vec!["Checkpoint not found".to_owned()],
            suggestions: Vec::new(),
        };
    };
    RecoveryStatus {
        can_recover: checkpoint.recovery.can_resume,
        blockers: checkpoint.recovery.blockers.clone(),
        suggestions: suggestions(&checkpoint.recovery),
    }
}

/// How to recover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave out agents that failed.
    pub skip_failed_agent: bool,
    /// Go to this state instead of the checkpoint's.
    pub reset_to_state: Option<String>,
    /// Step through afterwards.
    pub replay_mode: bool,
    /// Change nothing.
    pub dry_run: bool,
}

/// What a recovery does, or why it does nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether it can be done.
    pub success: bool,
    /// The state the workflow goes to; empty when it goes nowhere.
    pub restored_state: String,
    /// Agents that come back, with what they had.
    pub agents: Vec<RestoredAgent>,
    /// Agents that are left out because they failed.
    pub skipped_agents: Vec<String>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
    /// Why it cannot be done.
    pub errors: Vec<String>,
}

/// An agent that comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredAgent {
    /// The agent.
    pub agent_id: String,
    /// Where it stands now: one that was running is pending.
    pub status: AgentStatus,
    /// How often it was tried.
    pub attempts: u64,
}

/// What a recovery from this checkpoint does. A dry run says the same as the real one, and that it is
/// one.
#[must_use]
pub fn recover(
    checkpoint: &Checkpoint,
    options: &Options,
    is_registered: impl Fn(&str) -> bool,
) -> Outcome {
    let refused = |error: String| Outcome {
        success: false,
        restored_state: String::new(),
        agents: Vec::new(),
        skipped_agents: Vec::new(),
        warnings: Vec::new(),
        errors: vec![error],
    };
    if !checkpoint.verify().is_empty() {
        return refused("Checkpoint integrity validation failed".to_owned());
    }
    let forced = options.skip_failed_agent || options.reset_to_state.is_some();
    if !checkpoint.recovery.can_resume && !forced {
        let blockers = checkpoint.recovery.blockers.join(", ");
        return refused(format!("Recovery not possible: {blockers}"));
    }
    let (mut agents, mut skipped_agents, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for agent in &checkpoint.agents {
        let id = &agent.agent_id;
        if !is_registered(id) {
            warnings.push(format!("Agent {id} not found in registry"));
        } else if options.skip_failed_agent && agent.status == AgentStatus::Failed {
            warnings.push(format!("Skipping failed agent: {id}"));
            skipped_agents.push(id.clone());
        } else {
            agents.push(RestoredAgent {
                agent_id: id.clone(),
                status: restored(agent.status),
                attempts: agent.attempts,
            });
        }
    }
    if options.replay_mode {
        warnings.push("Replay mode enabled - step through with next()".to_owned());
    }
    if options.dry_run {
        warnings.push("Dry run - no changes made".to_owned());
    }
    let state = options.reset_to_state.as_ref();
    let state = state.unwrap_or(&checkpoint.workflow.current_state);
    Outcome {
        success: true,
        restored_state: state.clone(),
        agents,
        skipped_agents,
        warnings,
        errors: Vec::new(),
    }
}

const fn restored(status: AgentStatus) -> AgentStatus {
    match status {
        AgentStatus::Running => AgentStatus::Pending,
        AgentStatus::Pending
        | AgentStatus::Completed
        | AgentStatus::Failed
        | AgentStatus::Skipped => status,
    }
}

/// A checkpoint to go back to.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveryPoint {
    /// Its id.
    pub id: Id,
    /// When it was taken.
    pub created_at: Stamp,
    /// Why.
    pub trigger: Trigger,
    /// The state the workflow was in.
    pub state: String,
    /// Whether work can go on from it.
    pub can_resume: bool,
}

impl From<&Checkpoint> for RecoveryPoint {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            id: checkpoint.id.clone(),
            created_at: checkpoint.created_at.clone(),
            trigger: checkpoint.trigger,
            state: checkpoint.workflow.current_state.clone(),
            can_resume: checkpoint.recovery.can_resume,
        }
    }
}

/// The newest of them.
#[must_use]
pub fn latest<'a>(checkpoints: impl IntoIterator<Item = &'a Checkpoint>) -> Option<&'a Checkpoint> {
    checkpoints
        .into_iter()
        .max_by_key(|checkpoint| (checkpoint.created_at.time(), &checkpoint.id))
}

/// Whether a crash after this checkpoint left something to recover.
#[must_use]
pub fn needs_recovery(latest: &Checkpoint) -> bool {
    latest.workflow.current_state != COMPLETE
}

impl super::TokenUsage {
    /// Tokens in and out.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input: Number::from(input),
            output: Number::from(output),
            extra: Extra::default(),
        }
    }
}
