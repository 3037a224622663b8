//! Cursor. It calls hooks of its own by camelCase names, and hooks from Claude's settings as well.

use serde_json::{Map, Value, json};

use super::tools::{ToolKind, failure_in, failure_text};
use super::{CompactionSign, Dialect, FittedReply, Kind, Payload, as_named};
use crate::ContextFill;
use crate::json::{first, number, text};

pub const DIALECT: Dialect = Dialect {
    events: &[
        ("sessionStart", Kind::Start),
        ("beforeSubmitPrompt", Kind::Prompt),
        ("preToolUse", Kind::BeforeTool),
        ("beforeShellExecution", Kind::BeforeTool),
        ("beforeMCPExecution", Kind::BeforeTool),
        ("postToolUse", Kind::AfterTool),
        ("afterShellExecution", Kind::AfterTool),
        ("afterMCPExecution", Kind::AfterTool),
        ("afterFileEdit", Kind::AfterTool),
        ("postToolUseFailure", Kind::ToolFailed),
        ("preCompact", Kind::BeforeCompaction),
        ("stop", Kind::Stop),
        ("subagentStart", Kind::SubagentStart),
        ("subagentStop", Kind::SubagentStop),
        ("sessionEnd", Kind::End),
    ],
    claude_names: true,
    event_keys: &["hook_event_name"],
    tools: &[
        ("Write", ToolKind::Edit),
        ("Edit", ToolKind::Edit),
        ("MultiEdit", ToolKind::Edit),
        ("StrReplace", ToolKind::Edit),
        ("EditNotebook", ToolKind::Edit),
        ("ApplyPatch", ToolKind::Edit),
        ("Delete", ToolKind::Edit),
        ("Shell", ToolKind::Shell),
        ("Bash", ToolKind::Shell),
        ("TodoWrite", ToolKind::Tasks),
    ],
    context: &["sessionStart", "postToolUse"],
    compactions: CompactionSign::Announcement,
    refine: as_named,
    payload,
    render,
};

fn payload<'a>(body: &'a Value, event: &str) -> Payload<'a> {
    // These events name no tool: the event itself is one, and its fields are at the top.
    let implied = match event {
        "beforeShellExecution" | "afterShellExecution" => Some("Shell"),
        "afterFileEdit" => Some("Write"),
        _ => None,
    };
    let root = body.pointer("/workspace_roots/0").and_then(Value::as_str);
    let error = first(body, &["error_message", "error"]).and_then(failure_text);
    Payload {
        session: text(
            body,
            &["parent_conversation_id", "conversation_id", "session_id"],
        ),
        cwd: root.or_else(|| text(body, &["cwd"])),
        transcript: text(body, &["transcript_path"]),
        agent: text(body, &["subagent_id"]),
        agent_kind: text(body, &["subagent_type"]),
        source: text(body, &["source"]),
        prompt: text(body, &["prompt"]),
        said: text(body, &["summary", "last_assistant_message"]),
        reason: text(body, &["reason"]),
        tool: implied.or_else(|| text(body, &["tool_name"])),
        tool_id: text(body, &["tool_use_id"]),
        input: implied.map_or_else(|| first(body, &["tool_input"]), |_| Some(body)),
        failed: error.or_else(|| failure_in(first(body, &["tool_output"])?)),
        gauge: gauge(body),
    }
}

fn gauge(body: &Value) -> Option<ContextFill> {
    let used = number(body, &["context_tokens"])?;
    let total = number(body, &["context_window_size"]).filter(|it| *it > 0)?;
    Some(ContextFill { used, total })
}

/// Cursor wants an object in any case. It has a place for a line to the person only where it compacts.
fn render(event: &str, answer: FittedReply) -> String {
    let mut fields = Map::new();
    if let Some(reason) = answer.deny {
        fields.insert("permission".to_owned(), json!("deny"));
        fields.insert("user_message".to_owned(), json!(reason));
        fields.insert("agent_message".to_owned(), json!(reason));
    }
    if let Some(context) = answer.context {
        fields.insert("additional_context".to_owned(), json!(context));
    }
    if let Some(notice) = answer.notice
        && event == "preCompact"
    {
        fields.insert("user_message".to_owned(), json!(notice));
    }
    Value::Object(fields).to_string()
}
