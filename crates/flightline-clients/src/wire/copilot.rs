//! Copilot CLI. It has two spellings: camelCase for hooks of its own, and Claude's for hooks with Claude's event names.

use serde_json::{Map, Value, json};

use super::tools::{ToolKind, exit_reason, failure_text, reason};
use super::{CompactionSign, Dialect, FittedReply, Kind, Payload, as_named};
use crate::json::{first, text};

pub const DIALECT: Dialect = Dialect {
    events: &[
        ("sessionStart", Kind::Start),
        ("userPromptSubmitted", Kind::Prompt),
        ("preToolUse", Kind::BeforeTool),
        ("postToolUse", Kind::AfterTool),
        ("postToolUseFailure", Kind::ToolFailed),
        ("preCompact", Kind::BeforeCompaction),
        ("agentStop", Kind::Stop),
        ("subagentStart", Kind::SubagentStart),
        ("subagentStop", Kind::SubagentStop),
        ("sessionEnd", Kind::End),
    ],
    claude_names: true,
    event_keys: &["hook_event_name"],
    tools: &[
        ("create", ToolKind::Edit),
        ("Write", ToolKind::Edit),
        ("edit", ToolKind::Edit),
        ("Edit", ToolKind::Edit),
        ("str_replace", ToolKind::Edit),
        ("str_replace_editor", ToolKind::Edit),
        ("insert", ToolKind::Edit),
        ("apply_patch", ToolKind::Edit),
        ("bash", ToolKind::Shell),
        ("powershell", ToolKind::Shell),
        ("Bash", ToolKind::Shell),
        ("update_todo", ToolKind::Tasks),
        ("TodoWrite", ToolKind::Tasks),
    ],
    context: &[
        "sessionStart",
        "userPromptSubmitted",
        "preToolUse",
        "postToolUse",
        "postToolUseFailure",
        "subagentStart",
    ],
    compactions: CompactionSign::Record,
    refine: as_named,
    payload,
    render,
};

fn payload<'a>(body: &'a Value, _event: &str) -> Payload<'a> {
    let result = first(body, &["toolResult", "tool_result", "tool_response"]);
    Payload {
        session: text(body, &["sessionId", "session_id"]),
        cwd: text(body, &["cwd"]),
        transcript: text(body, &["transcriptPath", "transcript_path"]),
        agent: text(body, &["agentId", "agent_id", "agentName", "agent_name"]),
        agent_kind: text(
            body,
            &["agentType", "agent_type", "agentName", "agent_name"],
        ),
        source: text(body, &["source"]),
        prompt: text(body, &["prompt", "initialPrompt", "initial_prompt"]),
        said: text(body, &["response", "last_assistant_message"]),
        reason: text(body, &["reason"]),
        tool: text(body, &["toolName", "tool_name"]),
        tool_id: text(body, &["toolCallId", "tool_use_id"]),
        input: first(body, &["toolArgs", "tool_input"]),
        failed: body
            .get("error")
            .and_then(failure_text)
            .or_else(|| failed(result?)),
        gauge: None,
    }
}

/// A command that ends badly is a success of the tool; its text ends with the exit code.
fn failed(result: &Value) -> Option<String> {
    let said = text(result, &["textResultForLlm", "text_result_for_llm"]).unwrap_or_default();
    match text(result, &["resultType", "result_type"]) {
        Some("success") | None => {
            let (output, ending) = said.rsplit_once("completed with exit code ")?;
            let code = ending.trim().strip_suffix('>')?.parse().ok()?;
            let output = output.rsplit_once('<').map_or(output, |(before, _)| before);
            exit_reason(code, output)
        }
        Some(_) => Some(reason(said)),
    }
}

/// Copilot reads only the top level: it ignores a `hookSpecificOutput`, and text that is not JSON.
fn render(_event: &str, answer: FittedReply) -> String {
    let mut fields = Map::new();
    if let Some(reason) = answer.deny {
        fields.insert("permissionDecision".to_owned(), json!("deny"));
        fields.insert("permissionDecisionReason".to_owned(), json!(reason));
    }
    if let Some(context) = answer.context {
        fields.insert("additionalContext".to_owned(), json!(context));
    }
    if fields.is_empty() {
        return String::new();
    }
    Value::Object(fields).to_string()
}
