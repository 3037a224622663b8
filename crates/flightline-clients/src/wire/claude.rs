//! The wire format of Claude Code's hooks.

use serde_json::{Map, Value, json};

use super::tools::{ToolKind, failure_text};
use super::{CompactionSign, Dialect, FittedReply, Kind, Payload};
use crate::json::{first, text};
use crate::{ClientTaskStatus, ToolUse};

/// The events, by the names that other clients took over.
pub const EVENTS: &[(&str, Kind)] = &[
    ("SessionStart", Kind::Start),
    ("UserPromptSubmit", Kind::Prompt),
    ("PreToolUse", Kind::BeforeTool),
    ("PostToolUse", Kind::AfterTool),
    ("PostToolUseFailure", Kind::ToolFailed),
    ("PreCompact", Kind::BeforeCompaction),
    ("PostCompact", Kind::AfterCompaction),
    ("Stop", Kind::Stop),
    ("SubagentStart", Kind::SubagentStart),
    ("SubagentStop", Kind::SubagentStop),
    ("SessionEnd", Kind::End),
];

pub const DIALECT: Dialect = Dialect {
    events: EVENTS,
    claude_names: false,
    event_keys: &["hook_event_name"],
    tools: &[
        ("Edit", ToolKind::Edit),
        ("Write", ToolKind::Edit),
        ("MultiEdit", ToolKind::Edit),
        ("NotebookEdit", ToolKind::Edit),
        ("Bash", ToolKind::Shell),
        ("PowerShell", ToolKind::Shell),
        ("TodoWrite", ToolKind::Tasks),
    ],
    // Stop and SubagentStop take one as well, but it makes the agent go on.
    context: &[
        "SessionStart",
        "Setup",
        "SubagentStart",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
    ],
    compactions: CompactionSign::Start,
    refine,
    payload,
    render,
};

/// The summariser of a compaction ends like a subagent, only that it has no type.
fn refine(kind: Kind, body: &Value) -> Kind {
    let untyped = body.get("agent_type").and_then(Value::as_str) == Some("");
    match kind {
        Kind::SubagentStop if untyped => Kind::Other,
        kind => kind,
    }
}

/// The entry that a tool of the task list adds or moves. The id of a new one stands in the tool's result.
pub fn one_task(tool: &str, body: &Value) -> Option<ToolUse> {
    let (input, result) = (body.get("tool_input")?, body.get("tool_response"));
    match tool {
        "TaskCreate" => Some(ToolUse::OneTask {
            id: text(result?.get("task")?, &["id"])?.to_owned(),
            title: Some(text(input, &["subject"])?.to_owned()),
            status: None,
        }),
        "TaskUpdate" => Some(ToolUse::OneTask {
            id: text(input, &["taskId"])?.to_owned(),
            title: text(input, &["subject"]).map(str::to_owned),
            status: text(input, &["status"]).and_then(task_status),
        }),
        _ => None,
    }
}

fn task_status(word: &str) -> Option<ClientTaskStatus> {
    Some(match word {
        "pending" => ClientTaskStatus::Pending,
        "in_progress" => ClientTaskStatus::InProgress,
        "completed" => ClientTaskStatus::Completed,
        "deleted" => ClientTaskStatus::Cancelled,
        _ => return None,
    })
}

/// The payload of Claude Code, and of the clients that took its field names over.
pub fn payload<'a>(body: &'a Value, _event: &str) -> Payload<'a> {
    Payload {
        session: text(body, &["session_id"]),
        cwd: text(body, &["cwd"]),
        transcript: text(body, &["transcript_path"]),
        agent: text(body, &["agent_id"]),
        agent_kind: text(body, &["agent_type"]),
        source: text(body, &["source"]),
        prompt: text(body, &["prompt"]),
        said: text(body, &["last_assistant_message"]),
        reason: text(body, &["reason"]),
        tool: text(body, &["tool_name"]),
        tool_id: text(body, &["tool_use_id"]),
        input: first(body, &["tool_input"]),
        failed: body.get("error").and_then(failure_text),
        gauge: None,
    }
}

/// The answer of Claude Code, which Codex takes as well. Both refuse an answer with fields that the event does not have.
pub fn render(event: &str, answer: FittedReply) -> String {
    let mut specific = Map::new();
    if let Some(context) = answer.context {
        specific.insert("additionalContext".to_owned(), json!(context));
    }
    if let Some(reason) = answer.deny {
        specific.insert("permissionDecision".to_owned(), json!("deny"));
        specific.insert("permissionDecisionReason".to_owned(), json!(reason));
    }
    let mut fields = Map::new();
    if let Some(notice) = answer.notice {
        fields.insert("systemMessage".to_owned(), json!(notice));
    }
    if !specific.is_empty() {
        specific.insert("hookEventName".to_owned(), json!(event));
        fields.insert("hookSpecificOutput".to_owned(), Value::Object(specific));
    }
    if fields.is_empty() {
        return String::new();
    }
    Value::Object(fields).to_string()
}
