//! Reads from a client's own record of a session how full the context is, and whether it was compacted.
//!
//! A record is a file of lines, and grows: the caller reads its end, whose first line may be cut. A line that is not
//! whole, or that is nothing known, is passed over.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::json::{self, number, text};
use crate::{Client, ContextFill};

const CLAUDE_WINDOW: u64 = 200_000;
/// The larger window of some models of Claude. A record does not say which window a session has.
const CLAUDE_LARGE_WINDOW: u64 = 1_000_000;
const GEMINI_WINDOW: u64 = 1_048_576;

/// The place of a client's record of a session, for a client whose payloads do not always name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// The variable of the environment that names the client's folder.
    pub variable: &'static str,
    /// The client's folder below the home folder, where the variable is not set.
    pub folder: &'static str,
    /// The path of the record below the client's folder.
    pub path: String,
}

/// Returns the place of a client's record of a session; none where that is not known, or the payloads say it.
pub fn record_place(client: Client, session: &str) -> Option<RecordPlace> {
    // The id of the session is part of a path.
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    if session.is_empty() || !session.chars().all(is_plain) {
        return None;
    }
    match client {
        Client::Copilot => Some(RecordPlace {
            variable: "COPILOT_HOME",
            folder: ".copilot",
            path: format!("session-state/{session}/events.jsonl"),
        }),
        Client::Claude
        | Client::Codex
        | Client::Gemini
        | Client::Opencode
        | Client::Cline
        | Client::Cursor => None,
    }
}

/// Returns the fill level of the context at the last request to the model. Nothing is known right after a compaction,
/// until the model was asked again. `model_limit` is the size of the window, where the caller knows it; Codex says it
/// itself.
pub fn gauge(client: Client, tail: &str, model_limit: Option<u64>) -> Option<ContextFill> {
    let gauge = match client {
        Client::Claude => claude(tail, model_limit),
        Client::Codex => codex(tail, model_limit),
        Client::Gemini => gemini(tail, model_limit),
        Client::Copilot => copilot(tail, model_limit),
        // These clients keep no record with such numbers in lines.
        Client::Opencode | Client::Cline | Client::Cursor => None,
    };
    gauge.filter(|it| it.total > 0)
}

/// Counts the compactions in the end of a record that really took place.
pub fn compactions(client: Client, tail: &str) -> usize {
    let count = |mark: &str, real: fn(&Value) -> bool| lines(tail, mark).filter(real).count();
    match client {
        Client::Claude => count("compact_boundary", is_claude_boundary),
        Client::Codex => count("compacted", is_codex_compaction),
        Client::Copilot => count("compaction_complete", is_copilot_compaction),
        Client::Gemini => {
            let snapshots = lines(tail, SNAPSHOT).flat_map(|line| snapshots(&line));
            // A resumed session writes its whole history once more.
            snapshots.collect::<BTreeSet<String>>().len()
        }
        Client::Opencode | Client::Cline | Client::Cursor => 0,
    }
}

/// The session and its gauge, from the object that Claude Code gives to its status line. Before the first request and right after a
/// compaction there is no gauge.
pub fn statusline_gauge(stdin: &str) -> Option<(String, ContextFill)> {
    let body = json::object(stdin)?;
    let window = body.get("context_window")?;
    let total = number(window, &["context_window_size"]).filter(|it| *it > 0)?;
    let exact = || claude_tokens(window.get("current_usage")?);
    let rounded = || Some(total.saturating_mul(number(window, &["used_percentage"])?) / 100);
    let used = exact().or_else(rounded)?;
    let session = text(&body, &["session_id"])?.to_owned();
    Some((session, ContextFill { used, total }))
}

fn claude(tail: &str, limit: Option<u64>) -> Option<ContextFill> {
    for line in lines(tail, "").rev() {
        if is_claude_boundary(&line) {
            let after = number(line.get("compactMetadata")?, &["postTokens"])?;
            return Some(claude_gauge(after, limit));
        }
        let own = text(&line, &["type"]) == Some("assistant")
            && line.get("isSidechain") != Some(&Value::Bool(true));
        let message = line.get("message").filter(|_| own);
        // The client itself writes these, about errors.
        let message = message.filter(|it| text(it, &["model"]) != Some("<synthetic>"));
        if let Some(used) = message.and_then(|it| claude_tokens(it.get("usage")?)) {
            return Some(claude_gauge(used, limit));
        }
    }
    None
}

fn claude_gauge(used: u64, limit: Option<u64>) -> ContextFill {
    let guess = if used > CLAUDE_WINDOW {
        CLAUDE_LARGE_WINDOW
    } else {
        CLAUDE_WINDOW
    };
    ContextFill {
        used,
        total: limit.unwrap_or(guess),
    }
}

/// The tokens of a request: those that were sent, whether or not a cache had them.
fn claude_tokens(usage: &Value) -> Option<u64> {
    let sent = number(usage, &["input_tokens"])?;
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached = cached.iter().filter_map(|key| number(usage, &[key]));
    Some(cached.fold(sent, u64::saturating_add))
}

fn is_claude_boundary(line: &Value) -> bool {
    text(line, &["type"]) == Some("system") && text(line, &["subtype"]) == Some("compact_boundary")
}

fn codex(tail: &str, limit: Option<u64>) -> Option<ContextFill> {
    for line in lines(tail, "").rev() {
        if is_codex_compaction(&line) {
            return None;
        }
        let payload = line.get("payload").unwrap_or(&Value::Null);
        if text(payload, &["type"]) != Some("token_count") {
            continue;
        }
        let info = payload.get("info").unwrap_or(&Value::Null);
        let last = info.get("last_token_usage").unwrap_or(&Value::Null);
        if let Some(used) = number(last, &["total_tokens"]) {
            let total = number(info, &["model_context_window"]).or(limit)?;
            return Some(ContextFill { used, total });
        }
    }
    None
}

fn is_codex_compaction(line: &Value) -> bool {
    text(line, &["type"]) == Some("compacted")
}

const SNAPSHOT: &str = "<state_snapshot>";

fn gemini(tail: &str, limit: Option<u64>) -> Option<ContextFill> {
    let total = limit.unwrap_or(GEMINI_WINDOW);
    let tokens = |message: &Value| {
        let own = text(message, &["type"]) == Some("gemini");
        message
            .get("tokens")
            .filter(|_| own)
            .and_then(|it| number(it, &["input"]))
    };
    for line in lines(tail, "").rev() {
        // A history that was written anew. After a compression its counts are those from before.
        if let Some(history) = rewritten(&line) {
            let compressed = !snapshots(&line).is_empty();
            let used = history
                .iter()
                .rev()
                .find_map(tokens)
                .filter(|_| !compressed)?;
            return Some(ContextFill { used, total });
        }
        if let Some(used) = tokens(&line) {
            return Some(ContextFill { used, total });
        }
    }
    None
}

fn rewritten(line: &Value) -> Option<&[Value]> {
    line.pointer("/$set/messages")?
        .as_array()
        .map(Vec::as_slice)
}

/// The beginnings of the summaries in a line: a person's message that a compression put in the place of the history.
fn snapshots(line: &Value) -> Vec<String> {
    const ENOUGH: usize = 200;
    let messages = rewritten(line).unwrap_or(std::slice::from_ref(line));
    let summary = |message: &Value| {
        if text(message, &["type", "role"]) != Some("user") {
            return None;
        }
        let written = message.to_string();
        let (_, summary) = written.split_once(SNAPSHOT)?;
        Some(summary.chars().take(ENOUGH).collect())
    };
    messages.iter().filter_map(summary).collect()
}

fn copilot(tail: &str, limit: Option<u64>) -> Option<ContextFill> {
    let mut used = None;
    for line in lines(tail, "").rev() {
        if used.is_none() && is_copilot_compaction(&line) {
            return None;
        }
        let data = line.get("data").unwrap_or(&Value::Null);
        let exact = number(data, &["currentTokens"]).zip(number(data, &["tokenLimit"]));
        if let Some((tokens, total)) = exact {
            let used = used.unwrap_or(tokens);
            return Some(ContextFill { used, total });
        }
        let record = text(&line, &["type"]) == Some("session.usage_record");
        let usage = data.get("usage").filter(|_| record);
        // Newest first; the lines before it may still tell the limit.
        used = used.or_else(|| number(usage?, &["inputTokens"]));
        if let (Some(used), Some(total)) = (used, limit) {
            return Some(ContextFill { used, total });
        }
    }
    None
}

fn is_copilot_compaction(line: &Value) -> bool {
    let data = line.get("data").unwrap_or(&Value::Null);
    text(line, &["type"]) == Some("session.compaction_complete")
        && data.get("success") == Some(&Value::Bool(true))
        && text(data, &["outcome"]).is_none_or(|it| it == "applied")
}

/// The lines that are objects, of those that have the mark in them.
fn lines<'a>(tail: &'a str, mark: &'a str) -> impl DoubleEndedIterator<Item = Value> + 'a {
    let marked = tail.lines().filter(move |it| it.contains(mark));
    marked.filter_map(json::object)
}
