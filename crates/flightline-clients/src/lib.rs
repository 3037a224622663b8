//! The contracts of real coding agents: what their hooks tell us, what they take as an answer, and where their settings are. Pure:
//! texts in, values and texts out. It knows no store and opens no file.

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
