//! What a hook tells, in one vocabulary for all clients, and what can be answered.

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
    /// How full the context is, where the payload says so.
    pub gauge: Option<ContextFill>,
    pub happening: Happening,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    pub id: String,
    /// What kind of agent it is; empty where the client does not say.
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
pub enum Happening {
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
        /// Why, in the client's word.
        reason: String,
    },
    /// A shell command of the agent is about to start, and its environment can be added to.
    ShellEnv,
    /// Nothing happened: the doctor tries whether the hook works.
    Probe,
    /// Nothing that we act on.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Startup,
    /// It goes on where it was left.
    Resume,
    Clear,
    Compact,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Its name, in the client's word.
    pub name: String,
    /// The client's id of this use; empty where there is none.
    pub id: String,
    /// What it does, as far as it matters here.
    pub act: ToolUse,
}

/// What a tool does, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolUse {
    Edit {
        /// Their paths, as the client gave them.
        paths: Vec<String>,
    },
    Shell {
        command: String,
    },
    /// It replaces the client's own task list.
    Tasks(Vec<ClientTask>),
    /// It adds one entry to the client's own task list, or moves it.
    OneTask {
        /// The client's id of the entry.
        id: String,
        /// The work to be done, where the tool says it.
        title: Option<String>,
        /// How far it is, where the tool says it.
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
    /// Why the tool may not be used now: the model sees it.
    pub deny: Option<String>,
    /// A line for the person, where the client shows one.
    pub notice: Option<String>,
    /// Variables for the environment of a shell command.
    pub env: Vec<(String, String)>,
}
