//! OpenCode, through Flightline's own plugin. OpenCode runs plugins, not commands: the plugin calls `fleet hook opencode EVENT` with
//! an object on standard input.
//!
//! | field | meaning |
//! |---|---|
//! | `sessionID` | the session, in every event |
//! | `directory` | the folder that it works in |
//! | `parentID` | the session that started it, when it is a subagent's |
//! | `agent` | the kind of agent |
//! | `source` | of `session.start`: `startup` or `resume` |
//! | `prompt` | of `chat.message`, and of `session.start` where it is known: what the person said |
//! | `tool`, `args`, `callID` | of `tool.execute.before` and `tool.execute.after` |
//! | `error` | of `tool.execute.after`: why it failed |
//! | `todos` | of `todo.updated`: `[{content, status}]` |
//! | `said` | of `session.idle`: the agent's last words |
//! | `tokens` | `{used, total}`, in any event |
//!
//! The answer is `{"context": …, "deny": …, "notice": …, "env": {…}}` with what there is to say: `env` has the variables for a shell
//! command, and answers `shell.env`. The plugin throws `deny` out of
//! `tool.execute.before`. It appends `context` to the parts of `chat.message`, or to the output of `tool.execute.after`; that of
//! `session.start`, which it sends from within the first `chat.message`, goes there too; that of `session.compacted` it keeps, and
//! gives it to the model with the next `experimental.chat.messages.transform`.

use serde_json::{Map, Value, json};

use super::tools::{ToolKind, failure_text};
use super::{CompactionSign, Dialect, FittedReply, Kind, Payload};
use crate::ContextFill;
use crate::json::{first, number, text};

pub const DIALECT: Dialect = Dialect {
    events: &[
        ("session.start", Kind::Start),
        ("session.created", Kind::Start),
        ("chat.message", Kind::Prompt),
        ("tool.execute.before", Kind::BeforeTool),
        ("tool.execute.after", Kind::AfterTool),
        ("todo.updated", Kind::AfterTool),
        ("session.compacting", Kind::BeforeCompaction),
        ("experimental.session.compacting", Kind::BeforeCompaction),
        ("session.compacted", Kind::AfterCompaction),
        ("session.idle", Kind::Stop),
        ("session.deleted", Kind::End),
        ("shell.env", Kind::ShellEnv),
    ],
    claude_names: false,
    event_keys: &[],
    tools: &[
        ("edit", ToolKind::Edit),
        ("write", ToolKind::Edit),
        ("patch", ToolKind::Edit),
        ("apply_patch", ToolKind::Edit),
        ("multiedit", ToolKind::Edit),
        ("bash", ToolKind::Shell),
        ("todowrite", ToolKind::Tasks),
    ],
    context: &[
        "session.start",
        "chat.message",
        "tool.execute.after",
        "session.compacted",
    ],
    compactions: CompactionSign::Event,
    refine,
    payload,
    render,
};

/// A session with a parent is a subagent's: only its parent talks to it.
fn refine(kind: Kind, body: &Value) -> Kind {
    match kind {
        Kind::Start if parent(body).is_some() => Kind::SubagentStart,
        Kind::Stop | Kind::End if parent(body).is_some() => Kind::SubagentStop,
        Kind::Prompt if parent(body).is_some() => Kind::Other,
        kind => kind,
    }
}

fn parent(body: &Value) -> Option<&str> {
    anywhere(body).find_map(|it| text(it, &["parentID"]))
}

/// The objects that hold the fields: the payload itself, and the places where OpenCode's own events have them.
fn anywhere(body: &Value) -> impl Iterator<Item = &Value> {
    let inner = ["i", "input", "properties", "info"]
        .into_iter()
        .filter_map(|key| body.get(key));
    let info = body.pointer("/properties/info");
    std::iter::once(body).chain(inner).chain(info)
}

fn payload<'a>(body: &'a Value, event: &str) -> Payload<'a> {
    let word = |keys: &[&str]| anywhere(body).find_map(|it| text(it, keys));
    let thing = |keys: &[&str]| anywhere(body).find_map(|it| first(it, keys));
    let own = word(&["sessionID", "session_id"]).or_else(|| word(&["sid", "id"]));
    let list = anywhere(body).find(|it| it.get("todos").is_some());
    let (tool, input) = match event {
        "todo.updated" => (Some("todowrite"), list),
        _ => (word(&["tool"]), thing(&["args"])),
    };
    Payload {
        session: parent(body).or(own),
        cwd: word(&["directory", "cwd"]),
        transcript: None,
        agent: own.filter(|_| parent(body).is_some()),
        agent_kind: word(&["agent"]).filter(|_| parent(body).is_some()),
        source: word(&["source"]),
        prompt: word(&["prompt"]),
        said: word(&["said"]),
        reason: word(&["reason"]).or(Some("deleted")),
        tool,
        tool_id: word(&["callID"]),
        input,
        failed: thing(&["error"]).and_then(failure_text),
        gauge: thing(&["tokens"]).and_then(gauge),
    }
}

fn gauge(tokens: &Value) -> Option<ContextFill> {
    let used = number(tokens, &["used"])?;
    let total = number(tokens, &["total"]).filter(|it| *it > 0)?;
    Some(ContextFill { used, total })
}

fn render(_event: &str, answer: FittedReply) -> String {
    let mut fields = Map::new();
    let parts = [
        ("context", answer.context),
        ("deny", answer.deny),
        ("notice", answer.notice),
    ];
    for (name, part) in parts {
        if let Some(part) = part {
            fields.insert(name.to_owned(), json!(part));
        }
    }
    if !answer.env.is_empty() {
        let env: Map<String, Value> = answer
            .env
            .into_iter()
            .map(|(name, value)| (name, json!(value)))
            .collect();
        fields.insert("env".to_owned(), Value::Object(env));
    }
    Value::Object(fields).to_string()
}
