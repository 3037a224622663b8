//! The registry of operations over HTTP ([`flightline::registry`]).
//!
//! [`serve`] puts HTTP in front of it. This is
//! the only async crate, and the async part only carries requests and answers: operations run on threads of
//! our own (`workers`), because a synchronous PostgreSQL client panics when it is used, or even dropped, on
//! a thread of the async runtime.

mod connection;
mod health;
mod metrics;
mod middleware;
mod notify;
#[cfg(feature = "schema")]
mod openapi;
mod problem;
mod projects;
mod published;
mod request_log;
mod route;
mod serve;
mod test_mode;
mod trace;
mod upkeep;
mod workers;

#[cfg(feature = "schema")]
pub use openapi::make_openapi;
pub use published::{openapi, schemas};
pub use serve::{
    AccessLogLine, DEFAULT_ADDRESS, Limits, MessageSink, Ready, ServerMessage, Setup, Stop, serve,
};
pub use test_mode::TestMode;
#[cfg(feature = "otel")]
pub use trace::Sampling;
pub use trace::Traces;

#[cfg(not(feature = "schema"))]
use flightline_schema::Schema;
#[cfg(feature = "schema")]
use schemars::JsonSchema as Schema;
