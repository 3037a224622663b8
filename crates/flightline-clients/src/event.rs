//! What a hook tells, in one vocabulary for all clients, and what can be answered.

use std::path::PathBuf;

use crate::Client;

/// What a client's hook told.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The client that called: not always the one its hook was installed for.
    pub client: Client,
    /// The client's id of the session. Of a subagent's event it is that of the session which started it.
    pub session: String,
    /// The folder that the session works in.
    pub cwd: Option<PathBuf>,
    /// The client's own record of the session.
    pub transcript: Option<PathBuf>,
    /// The subagent that it is about.
    pub subagent: Option<Subagent>,
    /// How full the context is, where the payload says so.
    pub gauge: Option<ContextFill>,
    /// The subject of the event.
    pub happening: Happening,
}

/// A subagent, as its client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    /// The subagent's id.
    pub id: String,
    /// What kind of agent it is; empty where the client does not say.
    pub kind: String,
}

/// How full a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextFill {
    /// The tokens that are used.
    pub used: u64,
    /// The tokens that there is room for.
    pub total: u64,
}

/// The subject of a hook's event, in our words.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A session begins, or goes on.
    Start {
        /// Why the session began.
        source: Source,
        /// The first prompt, where the client tells it already.
        prompt: Option<String>,
    },
    /// A person said something.
    Prompt {
        /// The text of the prompt.
        text: String,
    },
    /// A tool is about to be used: the client waits for the answer.
    BeforeTool(ToolCall),
    /// A tool was used.
    AfterTool {
        /// The tool that is used.
        tool: ToolCall,
        /// Why it failed, when it failed.
        failed: Option<String>,
    },
    /// The client may be about to compact the context.
    BeforeCompaction,
    /// The client says that the context was compacted.
    AfterCompaction,
    /// The agent ended its turn.
    Stop {
        /// What it said last.
        said: Option<String>,
    },
    /// A subagent begins.
    SubagentStart,
    /// A subagent is done.
    SubagentStop {
        /// What it said last.
        said: Option<String>,
    },
    /// The session ends.
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

/// Why a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is new.
    Startup,
    /// It goes on where it was left.
    Resume,
    /// The person cleared it.
    Clear,
    /// Its context was compacted.
    Compact,
}

/// A tool that an agent uses.
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
    /// It changes files.
    Edit {
        /// Their paths, as the client gave them.
        paths: Vec<String>,
    },
    /// It runs a shell command.
    Shell {
        /// The command line.
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
    /// A use of any other tool.
    Other,
}

/// An entry of a client's own task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTask {
    /// The work to be done.
    pub title: String,
    /// How far it is.
    pub status: ClientTaskStatus,
}

/// How far a task of a client's own list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTaskStatus {
    /// The task has not begun.
    Pending,
    /// The task is under way.
    InProgress,
    /// The task is done.
    Completed,
    /// The task was given up.
    Cancelled,
}

/// The answer to a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// A text for the model's context.
    pub context: Option<String>,
    /// Why the tool may not be used now: the model sees it.
    pub deny: Option<String>,
    /// A line for the person, where the client shows one.
    pub notice: Option<String>,
    /// Variables for the environment of a shell command.
    pub env: Vec<(String, String)>,
}
