//! The hooks that each client gets.

use crate::Client;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The event, in the client's word.
    pub event: &'static str,
    /// The tools, or the sources, that it is for; all of them where there is none.
    pub matcher: Option<&'static str>,
    /// The time for which the client waits for the hook, in the client's unit: milliseconds for Gemini CLI, seconds for
    /// the others.
    pub timeout: u32,
}

const fn hook(event: &'static str, timeout: u32) -> Hook {
    Hook {
        event,
        matcher: None,
        timeout,
    }
}

const fn only(event: &'static str, matcher: &'static str, timeout: u32) -> Hook {
    Hook {
        event,
        matcher: Some(matcher),
        timeout,
    }
}

/// No hook runs in the background: after a compaction the answer of the next one brings the context back.
const CLAUDE: &[Hook] = &[
    only("SessionStart", "startup|resume|clear|compact|fork", 10),
    hook("UserPromptSubmit", 10),
    only(
        "PreToolUse",
        "Edit|Write|MultiEdit|NotebookEdit|Bash|TodoWrite",
        10,
    ),
    hook("PostToolUse", 10),
    hook("PostToolUseFailure", 10),
    only("PreCompact", "manual|auto", 20),
    hook("PostCompact", 10),
    hook("Stop", 10),
    hook("SubagentStart", 10),
    hook("SubagentStop", 10),
    hook("SessionEnd", 10),
];

/// Codex gives the end of a session three seconds at most.
const CODEX: &[Hook] = &[
    only("SessionStart", "startup|resume|clear|compact", 10),
    hook("UserPromptSubmit", 10),
    only("PreToolUse", "Bash|apply_patch", 10),
    hook("PostToolUse", 10),
    hook("PreCompact", 20),
    hook("PostCompact", 10),
    hook("Stop", 10),
    hook("SubagentStart", 10),
    hook("SubagentStop", 10),
    hook("SessionEnd", 3),
];

/// Gemini runs `PreCompress` before every request and waits for it, so that its limit is short.
const GEMINI: &[Hook] = &[
    only("SessionStart", "*", 10_000),
    only("BeforeAgent", "*", 10_000),
    only(
        "BeforeTool",
        "write_file|replace|run_shell_command|write_todos",
        10_000,
    ),
    only("AfterTool", "*", 10_000),
    only("PreCompress", "*", 5_000),
    only("AfterAgent", "*", 10_000),
    only("SessionEnd", "*", 5_000),
];

/// The plugin raises these.
const OPENCODE: &[Hook] = &[
    hook("session.start", 2),
    hook("chat.message", 2),
    hook("tool.execute.before", 2),
    hook("tool.execute.after", 2),
    hook("session.compacting", 2),
    hook("session.compacted", 2),
    hook("session.idle", 2),
    hook("session.deleted", 2),
    hook("todo.updated", 2),
    hook("shell.env", 2),
];

const COPILOT: &[Hook] = &[
    hook("sessionStart", 10),
    hook("userPromptSubmitted", 10),
    hook("preToolUse", 10),
    hook("postToolUse", 10),
    hook("postToolUseFailure", 10),
    only("preCompact", "manual|auto", 20),
    hook("agentStop", 10),
    hook("subagentStart", 10),
    hook("subagentStop", 10),
    hook("sessionEnd", 10),
];

/// Cline has a limit of its own. It accepts `PreCompact` and never calls it.
const CLINE: &[Hook] = &[
    hook("TaskStart", 120),
    hook("TaskResume", 120),
    hook("UserPromptSubmit", 120),
    hook("PreToolUse", 120),
    hook("PostToolUse", 120),
    hook("TaskComplete", 120),
    hook("TaskCancel", 120),
    hook("TaskError", 120),
    hook("SessionShutdown", 120),
];

const CURSOR: &[Hook] = &[
    hook("sessionStart", 10),
    hook("beforeSubmitPrompt", 10),
    only("preToolUse", "Shell|Write|Delete", 10),
    hook("postToolUse", 10),
    hook("postToolUseFailure", 10),
    hook("preCompact", 10),
    hook("stop", 10),
    hook("subagentStart", 10),
    hook("subagentStop", 10),
    hook("sessionEnd", 10),
];

/// The hooks that a client gets: the start, prompts, tools before and after, compactions, subagents and ends, as far as the client has
/// events for them.
pub const fn hooks(client: Client) -> &'static [Hook] {
    match client {
        Client::Claude => CLAUDE,
        Client::Codex => CODEX,
        Client::Gemini => GEMINI,
        Client::Opencode => OPENCODE,
        Client::Copilot => COPILOT,
        Client::Cline => CLINE,
        Client::Cursor => CURSOR,
    }
}
