//! Events of hooks in one vocabulary for all clients, and the replies to them.

use std::path::PathBuf;

use crate::Client;

#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The client that called: not always the one its hook was installed for.
    pub client: Client,
    /// The client's id of the session. Of a subagent's event it is that of the session which started it.
    pub session: String,
    pub cwd: Option<PathBuf>,
    /// The client's own record of the session.
    pub transcript: Option<PathBuf>,
    pub subagent: Option<Subagent>,
    /// The fill level of the context, where the payload says so.
    pub gauge: Option<ContextFill>,
    pub happening: HookEventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    pub id: String,
    /// The kind of the subagent; empty where the client does not say.
    pub kind: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextFill {
    pub used: u64,
    /// The tokens that there is room for.
    pub total: u64,
}

/// The subject of a hook's event, in our words.
#[derive(Clone, Debug, PartialEq)]
pub enum HookEventKind {
    Start {
        source: Source,
        /// The first prompt, where the client tells it already.
        prompt: Option<String>,
    },
    Prompt {
        text: String,
    },
    /// A tool is about to be used: the client waits for the answer.
    BeforeTool(ToolCall),
    AfterTool {
        tool: ToolCall,
        failed: Option<String>,
    },
    /// The client may be about to compact the context.
    BeforeCompaction,
    AfterCompaction,
    Stop {
        said: Option<String>,
    },
    SubagentStart,
    SubagentStop {
        said: Option<String>,
    },
    End {
        /// The reason for the end, in the client's word.
        reason: String,
    },
    /// A shell command of the agent is about to start, and its environment can be added to.
    ShellEnv,
    /// Nothing happened: the doctor tries whether the hook works.
    Probe,
    /// The event is one that we do not act on.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Startup,
    /// The session goes on where it was left.
    Resume,
    Clear,
    Compact,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name, in the client's word.
    pub name: String,
    /// The client's id of this use; empty where there is none.
    pub id: String,
    /// The tool's act, as far as it matters here.
    pub act: ToolUse,
}

/// The act of a tool, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolUse {
    Edit {
        /// The paths of the files, as the client gave them.
        paths: Vec<String>,
    },
    Shell {
        command: String,
    },
    /// The tool replaces the client's own task list.
    Tasks(Vec<ClientTask>),
    /// The tool adds one entry to the client's own task list, or moves it.
    OneTask {
        /// The client's id of the entry.
        id: String,
        /// The work to be done, where the tool says it.
        title: Option<String>,
        /// The status of the entry, where the tool says it.
        status: Option<ClientTaskStatus>,
    },
    Other,
}

/// An entry of a client's own task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTask {
    pub title: String,
    pub status: ClientTaskStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTaskStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    pub context: Option<String>,
    /// The reason why the tool may not be used now: the model sees it.
    pub deny: Option<String>,
    /// A line for the person, where the client shows one.
    pub notice: Option<String>,
    /// Variables for the environment of a shell command.
    pub env: Vec<(String, String)>,
}
