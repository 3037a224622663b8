//! The payloads of hooks and the answers to them, in the words of each client.
//!
//! A client is a table: its names of events, its names of tools, the events whose answer reaches its model, and two small functions
//! that know how it spells a payload and an answer. Everything else is the same for all.

use serde_json::Value;

use crate::json::{self, text};
use crate::{
    Client, ContextFill, HookEvent, HookEventKind, HookReply, Source, Subagent, ToolCall, ToolUse,
};
use tools::ToolKind;

mod claude;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod opencode;
mod probe;
mod tools;

pub use probe::{Probe, context_in, probe};

/// Reads the payload of a hook. `named` is the client that the hook was installed for and `event` the event that the
/// command line names; where the payload says otherwise, the payload is right. There is no event without a session, and
/// none in a text that is not a JSON object; anything else that is missing or odd is left out.
pub fn read(named: Client, event: &str, stdin: &str) -> Option<HookEvent> {
    let body = json::object(stdin)?;
    let client = caller(named, &body);
    let dialect = dialect(client);
    let event = text(&body, dialect.event_keys).unwrap_or(event);
    let kind = (dialect.refine)(dialect.kind(event), &body);
    let payload = (dialect.payload)(&body, event);
    let tool = |payload: &Payload| dialect.tool(payload);
    let happening = match kind {
        Kind::Start => HookEventKind::Start {
            source: source(payload.source),
            prompt: owned(payload.prompt),
        },
        Kind::Resume => HookEventKind::Start {
            source: Source::Resume,
            prompt: owned(payload.prompt),
        },
        Kind::Prompt => HookEventKind::Prompt {
            text: payload.prompt.unwrap_or_default().to_owned(),
        },
        Kind::BeforeTool => HookEventKind::BeforeTool(tool(&payload)),
        Kind::AfterTool => {
            let mut used = tool(&payload);
            if client == Client::Claude
                && let Some(act) = claude::one_task(&used.name, &body)
            {
                used.act = act;
            }
            HookEventKind::AfterTool {
                tool: used,
                failed: payload.failed,
            }
        }
        Kind::ToolFailed => HookEventKind::AfterTool {
            tool: tool(&payload),
            failed: Some(payload.failed.unwrap_or_else(|| tools::reason(""))),
        },
        Kind::BeforeCompaction => HookEventKind::BeforeCompaction,
        Kind::AfterCompaction => HookEventKind::AfterCompaction,
        Kind::Stop => HookEventKind::Stop {
            said: owned(payload.said),
        },
        Kind::SubagentStart => HookEventKind::SubagentStart,
        Kind::SubagentStop => HookEventKind::SubagentStop {
            said: owned(payload.said),
        },
        Kind::End => HookEventKind::End {
            reason: payload.reason.unwrap_or_default().to_owned(),
        },
        Kind::ShellEnv => HookEventKind::ShellEnv,
        Kind::Other => HookEventKind::Other,
    };
    let session = payload.session?.to_owned();
    let happening = match probe::is_probe(&session) {
        true => HookEventKind::Probe,
        false => happening,
    };
    Some(HookEvent {
        client,
        session,
        cwd: payload.cwd.map(Into::into),
        transcript: payload.transcript.map(Into::into),
        subagent: subagent(payload.agent, payload.agent_kind),
        gauge: payload.gauge,
        happening,
    })
}

/// The text for the hook's standard output, for the client that called: the one that [`read`] found. It is empty where the client
/// takes silence for "nothing to say". A part of the reply that this event cannot carry is left out; ask [`accepts_context`] first
/// where that matters. The exit code is always 0.
pub fn render(client: Client, event: &str, reply: &HookReply) -> String {
    let dialect = dialect(client);
    let given = |text: &'_ Option<String>| text.clone().filter(|it| !it.is_empty());
    let answer = FittedReply {
        context: given(&reply.context).filter(|_| dialect.takes_context(event)),
        deny: given(&reply.deny).filter(|_| dialect.kind(event) == Kind::BeforeTool),
        notice: given(&reply.notice).filter(|_| dialect.kind(event) != Kind::End),
        env: match dialect.kind(event) {
            Kind::ShellEnv => reply.env.clone(),
            _ => Vec::new(),
        },
    };
    (dialect.render)(dialect.own_name(event), answer)
}

/// Returns true when a context that answers this event reaches the client's model. Of an event of a subagent it reaches
/// that subagent. Events whose context would make the agent go on after its turn do not count.
pub fn accepts_context(client: Client, event: &str) -> bool {
    dialect(client).takes_context(event)
}

/// Returns the number of characters of context that the client hands to its model whole. It replaces a longer one by a
/// preview, or cuts it. Codex counts 10,000 bytes, so that a text of wider characters has to be shorter there.
pub const fn context_limit(client: Client) -> usize {
    match client {
        // Copilot and Cursor were not measured: they get the strictest limit that is known.
        Client::Claude | Client::Codex | Client::Copilot | Client::Cursor => 9_000,
        Client::Gemini | Client::Opencode => 30_000,
        Client::Cline => 45_000,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start,
    Resume,
    Prompt,
    BeforeTool,
    AfterTool,
    ToolFailed,
    BeforeCompaction,
    AfterCompaction,
    Stop,
    SubagentStart,
    SubagentStop,
    End,
    ShellEnv,
    Other,
}

/// The sign by which a client shows that a context was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionSign {
    /// The sign is a session start whose source is the compaction. An event after the compaction, if there is one, says
    /// nothing more.
    Start,
    /// The sign is an event after the compaction.
    Event,
    /// The sign is the client's own record of the session, and nothing else.
    Record,
    /// The sign is the event before the compaction, and nothing follows it.
    Announcement,
    /// The client shows nothing.
    None,
}

/// Returns the sign by which a client shows that a context was compacted.
pub fn compaction_sign(client: Client) -> CompactionSign {
    dialect(client).compactions
}

/// Returns true when a client announces a compaction before every request to its model, so that an announcement means
/// little.
pub const fn announces_often(client: Client) -> bool {
    matches!(client, Client::Gemini)
}

struct Dialect {
    /// The client's events. One that is not here is of no interest. Of several of a kind, the first is the one that
    /// answers best.
    events: &'static [(&'static str, Kind)],
    /// True when the client also runs hooks from the settings of Claude Code, by the names that its events have there.
    claude_names: bool,
    /// The fields in which a payload names its event.
    event_keys: &'static [&'static str],
    /// The client's tools. One that is not here does nothing that matters.
    tools: &'static [(&'static str, ToolKind)],
    /// The events that take a context.
    context: &'static [&'static str],
    compactions: CompactionSign,
    /// The kind of the event, once the payload is known as well.
    refine: fn(Kind, &Value) -> Kind,
    /// The payload without the client's spelling.
    payload: for<'a> fn(&'a Value, &str) -> Payload<'a>,
    /// The answer in the client's spelling.
    render: fn(&str, FittedReply) -> String,
}

/// A payload without its client's spelling.
#[derive(Default)]
struct Payload<'a> {
    session: Option<&'a str>,
    cwd: Option<&'a str>,
    transcript: Option<&'a str>,
    agent: Option<&'a str>,
    agent_kind: Option<&'a str>,
    source: Option<&'a str>,
    prompt: Option<&'a str>,
    said: Option<&'a str>,
    reason: Option<&'a str>,
    tool: Option<&'a str>,
    tool_id: Option<&'a str>,
    input: Option<&'a Value>,
    failed: Option<String>,
    gauge: Option<ContextFill>,
}

/// A reply without the parts that the event cannot carry.
struct FittedReply {
    context: Option<String>,
    deny: Option<String>,
    notice: Option<String>,
    env: Vec<(String, String)>,
}

impl Dialect {
    fn kind(&self, event: &str) -> Kind {
        let event = self.own_name(event);
        let known = self.events.iter().find(|(name, _)| *name == event);
        known.map_or(Kind::Other, |(_, kind)| *kind)
    }

    /// The client's own name of an event that may have the name of Claude Code.
    fn own_name<'a>(&self, event: &'a str) -> &'a str {
        let is_own = self.events.iter().any(|(name, _)| *name == event);
        if is_own || !self.claude_names {
            return event;
        }
        let named = claude::EVENTS.iter().find(|(name, _)| *name == event);
        let own = named.and_then(|(_, kind)| self.events.iter().find(|(_, it)| it == kind));
        own.map_or(event, |(name, _)| name)
    }

    fn takes_context(&self, event: &str) -> bool {
        self.context.contains(&self.own_name(event))
    }

    fn tool(&self, payload: &Payload) -> ToolCall {
        let name = payload.tool.unwrap_or_default();
        let act = self.tools.iter().find(|(known, _)| *known == name);
        let act = match (act, payload.input) {
            (Some((_, act)), Some(input)) => tools::tool_use(*act, input),
            // A client that keeps its task list in a parameter of any tool.
            (None, Some(input)) if input.get("task_progress").is_some() => {
                tools::tool_use(ToolKind::Tasks, input)
            }
            _ => ToolUse::Other,
        };
        ToolCall {
            name: name.to_owned(),
            id: payload.tool_id.unwrap_or_default().to_owned(),
            act,
        }
    }
}

fn dialect(client: Client) -> &'static Dialect {
    match client {
        Client::Claude => &claude::DIALECT,
        Client::Codex => &codex::DIALECT,
        Client::Gemini => &gemini::DIALECT,
        Client::Opencode => &opencode::DIALECT,
        Client::Copilot => &copilot::DIALECT,
        Client::Cline => &cline::DIALECT,
        Client::Cursor => &cursor::DIALECT,
    }
}

/// The client that called. Copilot runs the hooks in a repository's Claude settings, Cursor loads them too, and plugins for Claude
/// also run elsewhere.
fn caller(named: Client, body: &Value) -> Client {
    match named {
        Client::Claude | Client::Codex => recognised(body).unwrap_or(named),
        // Their payloads, or the files that their hooks are in, belong to them alone.
        Client::Gemini | Client::Opencode | Client::Copilot | Client::Cline | Client::Cursor => {
            named
        }
    }
}

fn recognised(body: &Value) -> Option<Client> {
    let has = |key: &str| body.get(key).is_some_and(|it| !it.is_null());
    if has("cursor_version") || has("conversation_id") {
        return Some(Client::Cursor);
    }
    if has("sessionId") {
        return Some(Client::Copilot);
    }
    let Some(path) = text(body, &["transcript_path"]) else {
        return has("timestamp").then_some(Client::Copilot);
    };
    let mut parts = path.rsplit(['/', '\\']);
    let (file, folder) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    if file == "events.jsonl" {
        Some(Client::Copilot)
    } else if file.starts_with("rollout-") {
        Some(Client::Codex)
    } else if folder == "chats" && file.starts_with("session-") {
        Some(Client::Gemini)
    } else {
        None
    }
}

fn source(word: Option<&str>) -> Source {
    match word {
        Some("resume" | "fork") => Source::Resume,
        Some("clear") => Source::Clear,
        Some("compact" | "compress") => Source::Compact,
        _ => Source::Startup,
    }
}

/// Identifies a subagent. For clients that tell only its kind, that is all that tells it from others.
fn subagent(id: Option<&str>, kind: Option<&str>) -> Option<Subagent> {
    Some(Subagent {
        id: id.or(kind)?.to_owned(),
        kind: kind.unwrap_or_default().to_owned(),
    })
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

/// Returns the kind as the event's name says it, for clients whose event names say everything.
fn as_named(kind: Kind, _body: &Value) -> Kind {
    kind
}
