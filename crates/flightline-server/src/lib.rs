//! The HTTP door to the registry of operations ([`flightline::registry`]).
//!
//! [`serve`] puts HTTP in front of it. This is
//! the only async crate, and the async part only carries requests and answers: operations run on threads of
//! our own (`crew`), because a synchronous PostgreSQL client panics when it is used, or even dropped, on
//! a thread of the async runtime.

mod connection;
mod crew;
mod door;
mod health;
mod metrics;
#[cfg(feature = "schema")]
mod openapi;
mod passage;
mod post;
mod pretend;
mod problem;
mod projects;
mod published;
mod route;
mod serve;
mod trace;
mod upkeep;

#[cfg(feature = "schema")]
pub use openapi::make_openapi;
pub use pretend::Pretend;
pub use published::{openapi, schemas};
pub use serve::{DEFAULT_ADDRESS, Limits, Line, Ready, Said, Say, Setup, Stop, serve};
#[cfg(feature = "otel")]
pub use trace::Sampling;
pub use trace::Traces;
