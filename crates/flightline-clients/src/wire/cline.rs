//! Cline. A payload nests its subject, and has the task's id beside the id of the session that it belongs to.

use serde_json::{Value, json};

use super::tools::{ToolKind, failure_in, failure_text};
use super::{CompactionSign, Dialect, FittedReply, Kind, Payload};
use crate::json::{first, text};

pub const DIALECT: Dialect = Dialect {
    // The names of the hook files, and the names in the payloads.
    events: &[
        ("TaskStart", Kind::Start),
        ("agent_start", Kind::Start),
        ("TaskResume", Kind::Resume),
        ("agent_resume", Kind::Resume),
        ("UserPromptSubmit", Kind::Prompt),
        ("prompt_submit", Kind::Prompt),
        ("PreToolUse", Kind::BeforeTool),
        ("tool_call", Kind::BeforeTool),
        ("PostToolUse", Kind::AfterTool),
        ("tool_result", Kind::AfterTool),
        ("PreCompact", Kind::BeforeCompaction),
        ("TaskComplete", Kind::Stop),
        ("agent_end", Kind::Stop),
        ("TaskCancel", Kind::Stop),
        ("agent_abort", Kind::Stop),
        ("TaskError", Kind::Stop),
        ("agent_error", Kind::Stop),
        ("SessionShutdown", Kind::End),
        ("session_shutdown", Kind::End),
    ],
    claude_names: false,
    event_keys: &["hookName"],
    tools: &[
        ("editor", ToolKind::Edit),
        ("write_to_file", ToolKind::Edit),
        ("replace_in_file", ToolKind::Edit),
        ("new_rule", ToolKind::Edit),
        ("delete_file", ToolKind::Edit),
        ("apply_patch", ToolKind::Edit),
        ("run_commands", ToolKind::Shell),
        ("execute_command", ToolKind::Shell),
        ("bash", ToolKind::Shell),
    ],
    // The other hooks run detached, and their output is not read.
    context: &["PreToolUse", "PostToolUse"],
    compactions: CompactionSign::None,
    refine,
    payload,
    render,
};

/// An agent with a parent is a subagent.
fn refine(kind: Kind, body: &Value) -> Kind {
    match kind {
        Kind::Start if parent(body) => Kind::SubagentStart,
        Kind::Stop if parent(body) => Kind::SubagentStop,
        Kind::Resume | Kind::Prompt if parent(body) => Kind::Other,
        kind => kind,
    }
}

fn parent(body: &Value) -> bool {
    text(body, &["parent_agent_id"]).is_some()
}

fn payload<'a>(body: &'a Value, _event: &str) -> Payload<'a> {
    let at = |keys: &[&str]| first(body, keys).unwrap_or(&Value::Null);
    let root = body.pointer("/workspaceRoots/0").and_then(Value::as_str);
    // The exact input is in the one, and a copy of it as texts in the other.
    let (exact, copy) = (
        at(&["tool_call", "tool_result"]),
        at(&["preToolUse", "postToolUse"]),
    );
    Payload {
        session: text(at(&["sessionContext"]), &["rootSessionId"])
            .or_else(|| text(body, &["taskId"])),
        cwd: root.or_else(|| text(at(&["workspaceInfo"]), &["rootPath"])),
        transcript: None,
        agent: text(body, &["agent_id"]).filter(|_| parent(body)),
        agent_kind: None,
        source: None,
        prompt: text(at(&["userPromptSubmit"]), &["prompt"]).or_else(|| text(body, &["prompt"])),
        said: text(at(&["turn"]), &["outputText"]),
        reason: text(body, &["reason"]).or_else(|| text(at(&["turn"]), &["status"])),
        tool: text(exact, &["name"]).or_else(|| text(copy, &["toolName", "tool"])),
        tool_id: text(exact, &["id"]),
        input: first(exact, &["input"]).or_else(|| first(copy, &["parameters"])),
        failed: failed(exact, copy),
        gauge: None,
    }
}

fn failed(exact: &Value, copy: &Value) -> Option<String> {
    let error = exact.get("error").and_then(failure_text);
    let of_a_command = || {
        let outcomes = exact.get("output")?.as_array()?;
        outcomes.iter().find_map(|outcome| {
            let bad = outcome.get("success").and_then(Value::as_bool) == Some(false);
            let why = text(outcome, &["error", "result"]).unwrap_or_default();
            bad.then(|| super::tools::reason(why))
        })
    };
    let in_the_copy = || {
        let bad = copy.get("success").and_then(Value::as_bool) == Some(false);
        let why = text(copy, &["result", "error"]).unwrap_or_default();
        bad.then(|| super::tools::reason(why))
    };
    error
        .or_else(of_a_command)
        .or_else(in_the_copy)
        .or_else(|| failure_in(exact.get("output")?))
}

/// Cline reads an answer as an order: `cancel` is always in it. It drops the context of a cancelled tool, but not its error.
fn render(_event: &str, answer: FittedReply) -> String {
    match (answer.deny, answer.context) {
        (Some(reason), Some(context)) => {
            json!({"cancel": true, "errorMessage": format!("{reason}\n\n{context}")})
        }
        (Some(reason), None) => json!({"cancel": true, "errorMessage": reason}),
        (None, Some(context)) => json!({"cancel": false, "context": context}),
        (None, None) => json!({"cancel": false}),
    }
    .to_string()
}
