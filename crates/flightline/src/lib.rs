//! Implements Flightline's operations.
//!
//! An operation is a request, a decision and an outcome. Requests and outcomes are plain data, so
//! that the command line, HTTP and MCP all speak the same JSON; the decision runs in one transaction
//! of the store, with the store's clock and nothing else. Front ends call [`Fleet::run`] and hold no
//! rule of their own.

pub mod agent;
pub mod backup;
pub mod batch;
pub mod checkpoint;
pub mod clock;
pub mod context;
pub mod dialect;
pub mod doctor;
pub mod effect;
mod error;
pub mod event;
pub mod file;
mod fleet;
pub mod hook;
pub mod ids;
pub mod inventory;
pub mod lease;
pub mod lock;
pub mod mail;
pub mod maintenance;
pub mod metrics_snapshot;
pub mod mirror;
pub mod mission;
pub mod note;
mod op_context;
pub mod rebuild;
pub mod recovery;
pub mod registry;
pub mod rejected_delivery;
pub mod remote;
pub mod replay;
pub mod report;
pub mod sortie;
pub mod stats;
pub mod status;
pub mod store_job;
pub mod task;
pub mod token;

pub use error::{Error, Result};
pub use fleet::{
    Access, ActsFor, Answered, Caller, Done, ErasedOutcome, Fleet, HasSchema, IfUnchanged,
    ListPart, Operation, StoreJob, Target, When, WhenFull, Window, not_here,
};
pub use op_context::OpContext;

pub use flightline_core as core;
pub use flightline_store as store;
pub use flightline_workspace as workspace;

#[cfg(not(feature = "schema"))]
use flightline_schema::Schema;
#[cfg(feature = "schema")]
use schemars::JsonSchema as Schema;
