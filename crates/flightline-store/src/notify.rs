//! Who wrote, told among the nodes of one store. On PostgreSQL only: what other processes write to a SQLite
//! store is found by looking.

use std::time::Duration;

use crate::engine::postgres::{PgListener as Listening, PgNotifier as Ringing};
use crate::error::StoreError;
use crate::location::Location;

/// Hears which projects were written to, on a connection of its own.
pub struct NotifyListener(Listening);

impl NotifyListener {
    /// Begins to listen; `None` where there is nothing to hear.
    pub fn open(location: &Location, patience: Duration) -> Result<Option<Self>, StoreError> {
        match location {
            Location::Folder(_) => Ok(None),
            Location::Postgres(url) => Ok(Some(Self(Listening::open(url, patience)?))),
        }
    }

    /// The projects that were written to since the last time; waits `patience` for one. A notification from before
    /// it began to listen, or while its connection was lost, it does not hear: look into the journal then.
    pub fn hear(&mut self, patience: Duration) -> Result<Vec<String>, StoreError> {
        self.0.hear(patience)
    }
}

/// Tells others which project was written to, on a connection of its own.
///
/// It is rung after the commit and not with it: PostgreSQL lets only one transaction of a whole cluster that
/// says something commit at a time, so that all projects would wait for each other's disk.
pub struct NotifySender(Ringing);

impl NotifySender {
    /// Reaches the store; `None` where there are no other nodes.
    pub fn open(location: &Location, patience: Duration) -> Result<Option<Self>, StoreError> {
        match location {
            Location::Folder(_) => Ok(None),
            Location::Postgres(url) => Ok(Some(Self(Ringing::open(url, patience)?))),
        }
    }

    /// Tells those who listen that something was written to this project.
    pub fn ring(&mut self, project: &str) -> Result<(), StoreError> {
        self.0.ring(project)
    }
}
