//! Notifies the nodes of one store of writes. On PostgreSQL only: writes of other processes to a SQLite store are found by
//! looking.

use std::time::Duration;

use crate::engine::postgres::{PgListener as Listening, PgNotifier as Ringing};
use crate::error::StoreError;
use crate::location::Location;

/// Receives the ids of projects that were written to, on a connection of its own.
pub struct NotifyListener(Listening);

impl NotifyListener {
    /// Begins to listen; `None` where there are no notifications.
    pub fn open(location: &Location, patience: Duration) -> Result<Option<Self>, StoreError> {
        match location {
            Location::Folder(_) => Ok(None),
            Location::Postgres(url) => Ok(Some(Self(Listening::open(url, patience)?))),
        }
    }

    /// Returns the projects that were written to since the last time; waits `patience` for one. It misses notifications
    /// from before it began to listen, or while its connection was lost: look into the journal then.
    pub fn hear(&mut self, patience: Duration) -> Result<Vec<String>, StoreError> {
        self.0.hear(patience)
    }
}

/// Notifies other nodes of the project that was written to, on a connection of its own.
///
/// A notification is sent after the commit and not with it: PostgreSQL lets only one transaction of a whole cluster that
/// notifies commit at a time, so that all projects would wait for each other's disk.
pub struct NotifySender(Ringing);

impl NotifySender {
    /// Connects to the store; `None` where there are no other nodes.
    pub fn open(location: &Location, patience: Duration) -> Result<Option<Self>, StoreError> {
        match location {
            Location::Folder(_) => Ok(None),
            Location::Postgres(url) => Ok(Some(Self(Ringing::open(url, patience)?))),
        }
    }

    /// Notifies the listening nodes that this project was written to.
    pub fn ring(&mut self, project: &str) -> Result<(), StoreError> {
        self.0.ring(project)
    }
}
