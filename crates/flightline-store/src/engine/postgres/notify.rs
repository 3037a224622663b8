//! Notifications from node to node: NOTIFY and LISTEN. A notification names only the project; the news is read from the
//! journal. A lost notification costs time, never an event.

use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;

use super::wire::Wire;
use super::{classify, connect};
use crate::error::StoreError;

const LISTEN: &str = "LISTEN flightline";
// A notification need not be durable.
const QUICKLY: &str = "SET synchronous_commit = off";
const RING: &str = "SELECT pg_notify('flightline', $1)";

/// Receives the ids of projects that were written to.
pub(crate) struct PgListener(Wire);

impl PgListener {
    pub(crate) fn open(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let mut wire = connect::connect(url, patience)?;
        wire.ask(|client| client.batch_execute(LISTEN))
            .map_err(|fault| classify("cannot listen to the store", &fault))?;
        Ok(Self(wire))
    }

    /// Returns the projects that were written to since the last time; waits `patience` for one.
    pub(crate) fn hear(&mut self, patience: Duration) -> Result<Vec<String>, StoreError> {
        let heard = self.0.ask(move |client| {
            let mut told = Vec::new();
            let mut notifications = client.notifications();
            if let Some(first) = notifications.timeout_iter(patience).next()? {
                told.push(first.payload().to_owned());
            }
            let mut rest = notifications.iter();
            while let Some(next) = rest.next()? {
                told.push(next.payload().to_owned());
            }
            Ok(told)
        });
        let told = heard.map_err(|fault| classify("cannot listen to the store", &fault))?;
        if told.is_empty() && self.0.is_closed() {
            return Err(StoreError::Unreachable(
                "the connection was closed".to_owned(),
            ));
        }
        Ok(told)
    }
}

/// Sends the ids of projects that were written to.
pub(crate) struct PgNotifier(Wire);

impl PgNotifier {
    pub(crate) fn open(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let mut wire = connect::connect(url, patience)?;
        wire.ask(|client| client.batch_execute(QUICKLY))
            .map_err(|fault| classify("cannot reach the store", &fault))?;
        Ok(Self(wire))
    }

    pub(crate) fn ring(&mut self, project: &str) -> Result<(), StoreError> {
        let project = project.to_owned();
        self.0
            .ask(move |client| client.execute(RING, &[&project]))
            .map(drop)
            .map_err(|fault| classify("cannot reach the store", &fault))
    }
}
