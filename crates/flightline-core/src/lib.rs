//! Flightline's words and rules.
//!
//! Everything in this crate is a value or a function of values: it reads no file, no clock and no
//! environment, draws no random number and knows no SQL. It can fail only because of its arguments,
//! so all of it is tested without a temporary folder.

#[macro_use]
mod words;

pub mod agent;
pub mod briefing;
pub mod checkpoint;
pub mod context;
pub mod count;
pub mod dialect;
pub mod effect;
pub mod error;
pub mod event;
pub mod file_system;
pub mod history;
pub mod id;
pub mod liveness;
pub mod lock;
pub mod message;
pub mod mission;
pub mod narrate;
pub mod note;
pub mod path;
pub mod policy;
pub mod recovery;
pub mod redact;
pub mod retention;
pub mod setting;
pub mod shell;
pub mod sortie;
pub mod stand_in;
pub mod subject;
pub mod text;
pub mod time;
pub mod token;

pub use error::{Code, Refusal};
pub use id::{
    AgentId, CheckpointId, EffectId, LockId, MessageId, MissionId, NoteId, RecoveryId, SortieId,
    TokenId,
};
pub use path::RepoPath;
pub use subject::{Keys, Kind, Subject, SubjectKey};
pub use text::{Body, JsonData, Name, Text, Title};
pub use time::{Millis, Time};

#[cfg(not(feature = "schema"))]
use flightline_schema::Schema;
#[cfg(feature = "schema")]
use schemars::JsonSchema as Schema;
