//! The registry of operations over MCP ([`flightline::registry`]).
//!
//! A tool (`tool`), a resource (`resource`) and a prompt (`prompt`) are rows of tables: each maps its arguments to one
//! operation, and tells its outcome in few tokens. None of them holds a rule. An [`OperationRunner`] runs the
//! operation: `fleet mcp` has one on standard input and output ([`serve_stdio`]), the server has one at `/mcp`
//! ([`http::answer`]).

pub mod http;
mod mirror;
mod next;
mod prompt;
mod resource;
mod room;
mod runner;
mod schema;
mod server;
mod stdio;
mod tool;

pub use runner::{Call, OperationRunner, Pending};
pub use stdio::serve_stdio;
pub use tool::{Loaded, calls};
