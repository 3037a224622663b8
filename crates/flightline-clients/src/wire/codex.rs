//! Codex CLI: Claude's field names, with tools and results of its own.

use serde_json::Value;

use super::tools::{ToolKind, exit_reason, failure_in, failure_text};
use super::{CompactionSign, Dialect, Payload, as_named, claude};
use crate::json::first;

pub const DIALECT: Dialect = Dialect {
    events: claude::EVENTS,
    claude_names: false,
    event_keys: &["hook_event_name"],
    tools: &[
        ("apply_patch", ToolKind::Edit),
        ("Edit", ToolKind::Edit),
        ("Write", ToolKind::Edit),
        ("Bash", ToolKind::Shell),
        ("shell", ToolKind::Shell),
        ("local_shell", ToolKind::Shell),
        ("exec_command", ToolKind::Shell),
        ("update_plan", ToolKind::Tasks),
    ],
    context: &[
        "SessionStart",
        "SubagentStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
    ],
    compactions: CompactionSign::Start,
    refine: as_named,
    payload,
    render: claude::render,
};

fn payload<'a>(body: &'a Value, event: &str) -> Payload<'a> {
    let result = first(body, &["tool_response"]);
    Payload {
        failed: body
            .get("error")
            .and_then(failure_text)
            .or_else(|| failed(result?)),
        ..claude::payload(body, event)
    }
}

/// A result is an object, or the text that the model gets, at whose head Codex may say how the command ended.
fn failed(result: &Value) -> Option<String> {
    const HEAD: usize = 5;
    let Value::String(text) = result else {
        return failure_in(result);
    };
    if text.starts_with('{') {
        return failure_in(result);
    }
    let ended = text.lines().take(HEAD).enumerate().find_map(|(at, line)| {
        let code = line.strip_prefix("Process exited with code ");
        // The output of a command may say this too, but not before Codex does.
        let code = code.or_else(|| line.strip_prefix("Exit code: ").filter(|_| at == 0));
        code?.trim().parse().ok()
    });
    exit_reason(ended?, text)
}
