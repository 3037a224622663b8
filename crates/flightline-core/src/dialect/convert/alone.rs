//! What a document says that no record holds: it is lost in every other dialect.

use super::Document;
use super::translate::{blocks, main_agent, standing_of_task};
use crate::dialect::field::{Keep, Maybe, Value};
use crate::dialect::json::Json;
use crate::dialect::{epic, sitebuilder};

/// What it says and no record holds, by the name of the field.
pub(super) fn alone(document: &Document) -> Vec<String> {
    match document {
        Document::Sitebuilder(document) => {
            let mut alone = unshared(&document.write(Keep::All), &SITEBUILDER);
            if standing_of_task(&document.status).is_none() {
                alone.push("status".to_owned());
            }
            alone.extend(alone_in_items(document));
            alone.extend(alone_in_errors(document));
            alone
        }
        Document::Epic(document) => {
            let mut alone = unshared(&document.write(Keep::All), &EPIC);
            if matches!(document.status, Maybe::Is(epic::AgentStatus::Other(_))) {
                alone.push("status".to_owned());
            }
            alone
        }
        Document::Orchestrator(document) => {
            let mut alone = unshared(&document.write(Keep::All), &ORCHESTRATOR);
            let others = document.agents.len() - usize::from(main_agent(document).is_some());
            if others > 0 {
                alone.push(format!("agents ({others} more)"));
            }
            for key in ["input", "output", "error", "attempts", "tokenUsage"] {
                let agents = document.agents.iter().map(|agent| agent.write(Keep::Known));
                if agents.into_iter().any(|agent| agent.get(key).is_some()) {
                    alone.push(format!("agents[].{key}"));
                }
            }
            if !document.file_system.modified_files.is_empty() {
                alone.push("fileSystem.modifiedFiles[].checksum".to_owned());
            }
            alone
        }
        Document::Recovery(document) => {
            let mut alone = unshared(&document.write(Keep::All), &RECOVERY);
            if document.in_progress().len() > 1 {
                let others = document.in_progress().len() - 1;
                alone.push(format!("state.inProgress ({others} more)"));
            }
            if let Maybe::Is(reason) = &document.reason
                && reason.to_reason().is_none()
            {
                alone.push("reason".to_owned());
            }
            alone
        }
    }
}

/// Fields whose content a record holds.
const SITEBUILDER: [&str; 13] = [
    "agent",
    "task_id",
    "task_title",
    "status",
    "started_at",
    "updated_at",
    "completed_at",
    "subtasks.items",
    "files_created",
    "files_modified",
    "errors",
    "resumable",
    "resume_instructions",
];
const EPIC: [&str; 13] = [
    "agent_id",
    "session_id",
    "feature",
    "stage",
    "last_checkpoint",
    "status",
    "can_resume",
    "blockers",
    "files_modified",
    "recovery_instructions",
    "current_step",
    "completed_steps",
    "next_steps",
];
const ORCHESTRATOR: [&str; 16] = [
    // About the document itself.
    "version",
    "metadata.orchestratorVersion",
    "metadata.checkpointSize",
    "metadata.compressionType",
    "metadata.checksums",
    "recovery.resumeFromAgent",
    "createdAt",
    "trigger",
    "workflow.currentState",
    "agents",
    "context.sessionId",
    "context.taskDescription",
    "fileSystem.modifiedFiles",
    "fileSystem.createdFiles",
    "recovery.canResume",
    "recovery.blockers",
];
const RECOVERY: [&str; 8] = [
    "version",
    "timestamp",
    "reason",
    "state.inProgress",
    "state.currentPhase",
    "context.activeObjective",
    "nextSteps",
    "resumeInstructions",
];

/// The fields that say something and are not in `shared`.
fn unshared(json: &Json, shared: &[&str]) -> Vec<String> {
    let Json::Object(fields) = json else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for (key, value) in fields {
        match value {
            Json::Object(inner) => names.extend(
                inner
                    .iter()
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(name, _)| format!("{key}.{name}")),
            ),
            value if value.is_empty() => {}
            _ => names.push(key.clone()),
        }
    }
    names.retain(|name| !shared.contains(&name.as_str()));
    names
}

fn alone_in_items(document: &sitebuilder::Checkpoint) -> Vec<String> {
    let items = document.subtasks.get().and_then(|it| it.items.get());
    let items: Vec<&sitebuilder::Item> = items.into_iter().flatten().collect();
    let mut alone = Vec::new();
    if items.iter().any(|item| item.output.get().is_some()) {
        alone.push("subtasks.items[].output".to_owned());
    }
    let plain = |item: &&sitebuilder::Item| {
        use sitebuilder::ItemStatus::{Complete, InProgress, Pending};
        matches!(item.status, Maybe::Is(Complete | InProgress | Pending))
    };
    let odd = items.iter().filter(|item| !plain(item)).count();
    if odd > 0 {
        alone.push(format!("subtasks.items ({odd} of another status)"));
    }
    if items.iter().any(|item| !item.extra.fields.is_empty()) {
        alone.push("subtasks.items[] (unknown fields)".to_owned());
    }
    alone
}

fn alone_in_errors(document: &sitebuilder::Checkpoint) -> Vec<String> {
    let errors: Vec<&sitebuilder::TaskError> =
        document.errors.get().into_iter().flatten().collect();
    let mut alone = Vec::new();
    if errors.iter().any(|error| error.kind.get().is_some()) {
        alone.push("errors[].type".to_owned());
    }
    if errors.iter().any(|error| error.timestamp.get().is_some()) {
        alone.push("errors[].timestamp".to_owned());
    }
    let harmless = errors.iter().filter(|error| !blocks(error)).count();
    if harmless > 0 {
        alone.push(format!("errors ({harmless} that do not block)"));
    }
    alone
}
