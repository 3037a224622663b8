//! A fleet whose store is elsewhere: its operations are sent to a server. The front end brings the transport; this
//! module has the terms that both ends must agree on.

use crate::Schema;
use flightline_core::{Refusal, Time};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, Caller};

/// The version of the interface that both ends speak. It grows when an operation's request or outcome changes in a
/// way that the other end would misread.
pub const API: u32 = 1;
pub const OLDEST_API: u32 = 1;
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The headers of requests and answers that both ends know.
pub mod header {
    pub const AGENT: &str = "fleet-agent";
    /// The incarnation it believes it is.
    pub const EPOCH: &str = "fleet-epoch";
    pub const SESSION: &str = "fleet-session";
    pub const MISSION: &str = "fleet-mission";
    /// The token that it was said with, when that is over and another brings it.
    pub const INSTEAD_OF: &str = "fleet-instead-of";
    /// Makes a write happen once, however often it is asked for.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
    /// The outcome is that of an earlier request with the same key.
    pub const REPLAYED: &str = "idempotent-replayed";
    /// The header of a rehearsal: the server shows the effect of a write, and drops it.
    pub const REHEARSE: &str = "fleet-rehearse";
    pub const API: &str = "fleet-api";
    pub const VERSION: &str = "fleet-version";
    /// In tests: the time of the request.
    pub const TEST_NOW: &str = "fleet-test-now";
    pub const TEST_IDS: &str = "fleet-test-ids";
}

/// The kind of answer that carries warnings: `{"outcome", "warnings", "noticed"}`.
pub const ANSWER_TYPE: &str = "application/vnd.flightline.answer+json";

/// The behaviour of a request when the store cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// The request is refused: its answer depends on acts of others.
    Refused,
    /// The request is dropped: the next one says the same.
    Dropped,
    /// The request is kept, and delivered later, in order.
    Kept,
}

pub struct RemoteCall<'a> {
    pub operation: &'a str,
    pub access: Access,
    pub rehearse: bool,
    /// The behaviour when the store cannot be reached.
    pub offline: Offline,
    pub request: String,
    /// The request as it is queued until the store can be reached, asked for at that time.
    pub later: &'a dyn Fn(Time) -> Result<String>,
    pub caller: &'a Caller,
}

#[derive(Debug)]
pub struct ServerAnswer {
    /// The outcome as JSON, or what becomes of the request.
    pub reply: std::result::Result<ServerReply, Refusal>,
    /// True when the outcome is that of an earlier request with the same key.
    pub replayed: bool,
    /// Warnings, whether or not it succeeded.
    pub warnings: Vec<String>,
    /// Damage that another copy made good.
    pub noticed: Vec<String>,
}

/// The reply to a request that was not refused.
#[derive(Clone, Debug)]
pub enum ServerReply {
    Outcome(String),
    /// The store cannot be reached now.
    Later(Deferred),
}

/// The deferral of a request that a store elsewhere has not got yet. Nothing failed: the request is kept on this
/// machine and delivered later, or dropped because the next request of its kind replaces it.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// The sentence that tells whether the request was kept or dropped.
    pub message: String,
    pub details: serde_json::Value,
}

impl From<Deferred> for ServerAnswer {
    fn from(later: Deferred) -> Self {
        Self {
            reply: Ok(ServerReply::Later(later)),
            replayed: false,
            warnings: Vec::new(),
            noticed: Vec::new(),
        }
    }
}

impl From<Refusal> for ServerAnswer {
    fn from(refusal: Refusal) -> Self {
        Self {
            reply: Err(refusal),
            replayed: false,
            warnings: Vec::new(),
            noticed: Vec::new(),
        }
    }
}

/// A way to a store that is elsewhere.
pub trait Remote: Send {
    fn call(&mut self, call: &RemoteCall<'_>) -> ServerAnswer;

    fn address(&self) -> &str;
}

/// The queue for a server on this machine, and the outcome of the last delivery.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct SyncReport {
    /// The address of the server.
    pub server: String,
    /// Requests queued on this machine.
    pub waiting: Vec<Waiting>,
    /// The outcome of the last delivery of queued requests.
    pub last_delivery: Option<QueueDelivery>,
    /// Files with queued requests that cannot be delivered.
    pub damaged: Vec<String>,
}

/// The number of queued requests of one agent or person, and the time of the oldest.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Waiting {
    /// The agent or person that made the requests.
    pub agent: Option<String>,
    /// The server for which the requests are queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The file that holds the requests.
    #[serde(default)]
    pub file: String,
    /// Number of requests that wait.
    pub count: usize,
    /// The time of the oldest request, by this machine's clock.
    pub since: Time,
    /// Number of these requests that only another token can deliver.
    #[serde(default)]
    pub for_other_token: usize,
    /// The id of the token they were queued with, if it is not the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
}

/// The outcome of a delivery of queued requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct QueueDelivery {
    /// The time of the delivery.
    pub at: Option<Time>,
    /// Number of requests that were carried out.
    pub delivered: usize,
    /// Requests that came too late: each becomes a note, and mail to the coordinating agent.
    pub late: Vec<Late>,
}

/// A queued request that came too late.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Late {
    /// The agent that made the request.
    pub agent: Option<String>,
    /// The operation that was requested.
    pub operation: String,
    /// The time of the request, by this machine's clock.
    pub asked_at: Time,
    /// The reason for the refusal.
    pub why: String,
}
