//! The contracts of real coding agents: the payloads of their hooks, the answers that they take, and the places of
//! their settings. Pure: texts in, values and texts out. It knows no store and opens no file.

mod client;
mod event;
mod json;
pub mod setup;
pub mod shell;
pub mod usage;
pub mod wire;

pub use client::Client;
pub use event::{
    ClientTask, ClientTaskStatus, ContextFill, HookEvent, HookEventKind, HookReply, Source,
    Subagent, ToolCall, ToolUse,
};
