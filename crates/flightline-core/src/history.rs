//! Histories. Each is one unbroken journal, and a place in it is a history and a revision. When a replica takes the
//! place of the database, it is not known what the replica lacked; so a new history continues from its last revision,
//! far enough above every number that was handed out in the lost part.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::stand_in::FORGOTTEN_EPOCHS;
use crate::subject::{Keys, Kind, Subject};
use crate::time::Time;

/// Number of revisions that are left out where one history goes on from another: more than a replica can be behind,
/// weeks of the fastest writing; and there is room for some ninety thousand of them in what JavaScript counts exactly.
pub const LEFT_OUT: u64 = 100_000_000_000;

/// A history that goes on from another one, because a replica took the place of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Branch {
    /// The history that began.
    pub history: String,
    /// The history that it goes on from.
    pub before: String,
    /// The last revision of that history which is part of this one, too.
    pub left_at: u64,
    /// The highest epoch that is not given out in this history: others may have begun in the part that is lost.
    pub epochs_above: u64,
    /// Time at which the history began.
    pub at: Time,
}

impl Branch {
    pub fn key_of(history: &str) -> String {
        format!("history/{history}")
    }

    /// The history that continues `before` at `left_at`; `highest` is the highest epoch of any agent until then.
    pub fn new(history: String, before: String, left_at: u64, highest: u64, at: Time) -> Self {
        Self {
            history,
            before,
            left_at,
            epochs_above: highest.saturating_add(FORGOTTEN_EPOCHS),
            at,
        }
    }

    /// Returns true when this revision is one of those that were left out: it may have been handed out in the part that
    /// is lost.
    pub fn left_out(&self, rev: u64) -> bool {
        rev > self.left_at && rev <= self.left_at.saturating_add(LEFT_OUT)
    }
}

/// A part of an earlier history that a later one goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct FollowedHistory {
    /// The earlier history.
    pub history: String,
    /// The last revision of it that is part of the later one, too.
    pub up_to: u64,
}

impl Subject for Branch {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::key_of(&self.history)
    }

    fn keys(&self) -> Keys {
        Keys::of_setting()
    }
}
