//! Recovery: can it resume, from where, and what is in the way.

use super::{Agent, AgentStatus, RETRY_LIMIT, Recovery, Workflow};
use crate::dialect::field::Extra;
use crate::dialect::json::Number;
use crate::recovery::analysis::{Unit, UnitStanding, in_the_way};

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
