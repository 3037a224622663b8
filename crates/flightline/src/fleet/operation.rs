//! Defines operations and store jobs: their names, rights and behaviour.

use super::authority::ActsFor;
use super::{Caller, Fleet, to_json};
use crate::error::Result;
use crate::op_context::OpContext;
use crate::remote::Offline;
use flightline_core::Time;
use flightline_core::token::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Notes a sign of life.
    Pulse,
}

/// The behaviour of a write when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    Refused,
    /// The write ends trouble, or takes little and means much: it may use the room that is kept for that.
    UsesReserve,
    /// The answer is given all the same; its record is not written, and a warning says so.
    Answered,
}

/// A type whose JSON schema is published. It is made by a test and written down; a build without the feature `schema` has nothing
/// of it.
#[cfg(feature = "schema")]
pub trait HasSchema: schemars::JsonSchema {}

/// A type whose JSON schema is published, where schemas are not made.
#[cfg(not(feature = "schema"))]
pub trait HasSchema {}

/// A request that Flightline decides in one transaction.
pub trait Operation: Serialize + DeserializeOwned + HasSchema + Send + 'static {
    /// The name of the operation: on the wire, in logs, and for callers that wait for it.
    const NAME: &'static str;
    const ACCESS: Access;
    /// The narrowest token that may ask for it.
    const SCOPE: Scope;
    /// The agent on whose behalf a request is made, beside the caller: a token that does not coordinate is held to it.
    const ACTS_FOR: fn(&Self) -> ActsFor<'_>;
    /// True when the caller must be its agent's current incarnation. Registering is how it becomes that.
    const FENCED: bool = true;
    /// True when a request is an act of the agent that makes it: an act registers the agent, and is a sign of its
    /// life. Looking is neither, even where the look is recorded.
    const IS_ACT: bool = true;
    /// True when the outcome tells an agent what to do: then the operation is refused in a fleet that is not trusted.
    const BRIEFS: bool = false;
    /// The behaviour when the store is elsewhere and cannot be reached.
    const OFFLINE: Offline = Offline::Refused;
    /// The behaviour when the disk is full.
    const WHEN_FULL: WhenFull = WhenFull::Refused;
    type Outcome: Serialize + DeserializeOwned + HasSchema + Send + 'static;

    /// Returns the request without observations of the caller's machine: a retry has other observations, and is the
    /// same request.
    fn asked(&self) -> Result<String> {
        to_json(self)
    }

    /// Returns the request as it is queued until the store can be reached.
    fn for_later(&self, _asked_at: Time) -> Result<String> {
        to_json(self)
    }

    /// Decides, in one transaction. Touches nothing but the context: it may run twice.
    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Self::Outcome>;

    /// Notes an operation that is usually a mere sign of life, without a revision and without waiting for the disk.
    /// None when it leads to more, and must be decided as a write.
    fn note(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<Self::Outcome>> {
        self.decide(ctx).map(Some)
    }
}

/// Work that runs where the store is, with the files beside it, in more than one transaction.
pub trait StoreJob: Serialize + DeserializeOwned + Send + 'static {
    const NAME: &'static str;
    const ACCESS: Access;
    /// The narrowest token that may ask for it.
    const SCOPE: Scope;
    type Outcome: Serialize + DeserializeOwned + Send + 'static;

    /// Runs the job, with the state folder beside the store.
    fn run(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<Self::Outcome>;
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> HasSchema for T {}

#[cfg(not(feature = "schema"))]
impl<T> HasSchema for T {}
