//! The wire format of Gemini CLI's hooks.

use serde_json::{Map, Value, json};

use super::tools::{ToolKind, exit_reason, failure_in};
use super::{CompactionSign, Dialect, FittedReply, Kind, Payload, as_named, claude};
use crate::json::{first, text};

pub const DIALECT: Dialect = Dialect {
    events: &[
        ("SessionStart", Kind::Start),
        ("BeforeAgent", Kind::Prompt),
        ("BeforeTool", Kind::BeforeTool),
        ("AfterTool", Kind::AfterTool),
        // The event comes before every request to the model, whether or not a compression follows.
        ("PreCompress", Kind::BeforeCompaction),
        ("AfterAgent", Kind::Stop),
        ("SessionEnd", Kind::End),
    ],
    claude_names: false,
    event_keys: &["hook_event_name"],
    tools: &[
        ("write_file", ToolKind::Edit),
        ("replace", ToolKind::Edit),
        ("edit", ToolKind::Edit),
        ("run_shell_command", ToolKind::Shell),
        ("write_todos", ToolKind::Tasks),
    ],
    context: &["SessionStart", "BeforeAgent", "AfterTool"],
    compactions: CompactionSign::Record,
    refine: as_named,
    payload,
    render,
};

fn payload<'a>(body: &'a Value, event: &str) -> Payload<'a> {
    let plain = claude::payload(body, event);
    Payload {
        prompt: plain.prompt.map(without_injections),
        said: text(body, &["prompt_response"]),
        failed: first(body, &["tool_response"]).and_then(|it| failed(it, plain.tool)),
        ..plain
    }
}

/// The contexts of hooks stand before the person's words.
fn without_injections(mut prompt: &str) -> &str {
    while let Some(rest) = prompt.strip_prefix("<hook_context>") {
        let Some((_, after)) = rest.split_once("</hook_context>") else {
            break;
        };
        prompt = after.trim_start();
    }
    prompt
}

/// A shell command that ends badly is no error of the tool: the result has a line about it, after the output.
fn failed(result: &Value, tool: Option<&str>) -> Option<String> {
    let ended = || {
        let text = result.get("llmContent")?.as_str()?;
        let line = text
            .lines()
            .rev()
            .find_map(|it| it.trim().strip_prefix("Exit Code: "));
        let code = line?.trim().parse().ok()?;
        let shown = result.get("returnDisplay").and_then(Value::as_str);
        exit_reason(code, shown.unwrap_or_default())
    };
    let shell = tool == Some("run_shell_command");
    failure_in(result).or_else(|| shell.then(ended).flatten())
}

/// Anything on standard output that is not JSON is an error to Gemini.
fn render(event: &str, answer: FittedReply) -> String {
    let mut fields = Map::new();
    if let Some(notice) = answer.notice {
        fields.insert("systemMessage".to_owned(), json!(notice));
    }
    if let Some(reason) = answer.deny {
        fields.insert("decision".to_owned(), json!("deny"));
        fields.insert("reason".to_owned(), json!(reason));
    }
    if let Some(context) = answer.context {
        let specific = json!({"hookEventName": event, "additionalContext": context});
        fields.insert("hookSpecificOutput".to_owned(), specific);
    }
    Value::Object(fields).to_string()
}
