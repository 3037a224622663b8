//! Who wrote, told from node to node: NOTIFY and LISTEN. Only a word of which project; what is new is read
//! from the journal. A word that is lost costs time, never an event.

use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;

use super::{classify, connect};
use crate::error::Error;

const LISTEN: &str = "LISTEN flightline";
// Nobody waits for a disk for this.
const QUICKLY: &str = "SET synchronous_commit = off";
const RING: &str = "SELECT pg_notify('flightline', $1)";

/// Hears which projects were written to.
pub(crate) struct Ear(Client);

impl Ear {
    pub(crate) fn open(url: &str, patience: Duration) -> Result<Self, Error> {
        let mut client = connect::connect(url, patience)?;
        client
            .batch_execute(LISTEN)
            .map_err(|error| classify("cannot listen to the store", &error))?;
        Ok(Self(client))
    }

    /// The projects that were written to since the last time; waits `patience` for one.
    pub(crate) fn hear(&mut self, patience: Duration) -> Result<Vec<String>, Error> {
        let said = |error: postgres::Error| classify("cannot listen to the store", &error);
        let mut told = Vec::new();
        let mut notifications = self.0.notifications();
        if let Some(first) = notifications.timeout_iter(patience).next().map_err(said)? {
            told.push(first.payload().to_owned());
        }
        let mut rest = notifications.iter();
        while let Some(next) = rest.next().map_err(said)? {
            told.push(next.payload().to_owned());
        }
        drop(rest);
        drop(notifications);
        if told.is_empty() && self.0.is_closed() {
            return Err(Error::Unreachable("the connection was closed".to_owned()));
        }
        Ok(told)
    }
}

/// Tells others which project was written to.
pub(crate) struct Bell(Client);

impl Bell {
    pub(crate) fn open(url: &str, patience: Duration) -> Result<Self, Error> {
        let mut client = connect::connect(url, patience)?;
        client
            .batch_execute(QUICKLY)
            .map_err(|error| classify("cannot reach the store", &error))?;
        Ok(Self(client))
    }

    pub(crate) fn ring(&mut self, project: &str) -> Result<(), Error> {
        self.0
            .execute(RING, &[&project])
            .map(drop)
            .map_err(|error| classify("cannot reach the store", &error))
    }
}
