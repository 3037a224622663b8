//! Recovery: can it resume, from where, and which obstacles there are.

use serde_json::json;

use super::{Json, RECOVERY, RETRY_LIMIT};
use crate::recovery::analysis::{Unit, UnitStanding, in_the_way};

/// Returns the section `recovery` of a checkpoint: whether work can go on from it, and the obstacles.
pub fn analyze(checkpoint: &Json) -> Json {
    let units = checkpoint.items("agents").iter().map(|agent| Unit {
        name: agent.word("agentId"),
        standing: match agent.word("status") {
            "running" => UnitStanding::Running,
            "failed" => UnitStanding::Failed,
            _ => UnitStanding::Settled,
        },
        attempts: agent.whole("attempts").unwrap_or_default(),
    });
    let state = checkpoint["workflow"].word("currentState");
    let found = in_the_way(Some(state), units, RETRY_LIMIT);
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
    let recovery = json!({
        "canResume": found.can_resume(),
        "resumeFromAgent": found.running,
        "resumeFromState": state,
        "blockers": blockers,
    });
    RECOVERY.arranged(&recovery.into())
}
