//! Judges a document that arrives by the time at which it was written: one rule for all dialects.
//!
//! A change that a document tells of happened at the time that the document says, never later than now. A document
//! takes nothing back that is newer than itself: the copy that a stale agent or `git checkout` puts into its place is
//! an older one, and is refused.

use super::document::{Dialect, DialectDocument};
use super::json::Json;
use super::sitebuilder;
use crate::time::{Millis, Time};

/// Files tell whole seconds: what lies less than one apart may be of the same moment.
const SECOND: Millis = 1_000;

/// The relation of a document that arrives to the stored state of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentArrival {
    /// Nothing newer is known: the document has the last word.
    Newest,
    /// The store has newer changes, but the writer had the file as it was last seen: its edits are taken, except
    /// where the store has a newer change of the same.
    Alongside,
    /// The document was written before the file was as it was last seen, or before the last stored change.
    Older,
}

impl DocumentArrival {
    /// Judges a document that was `written` then. `shown` is the time in the file as it was last seen, `known` the
    /// time of the last stored change. One that tells no time is of the moment it arrives.
    pub fn of(written: Option<Time>, shown: Option<Time>, known: Option<Time>) -> Self {
        let Some(written) = written else {
            return Self::Newest;
        };
        let is_before = |other: Option<Time>| other.map(|other| other.since(written) >= SECOND);
        match (is_before(known), is_before(shown)) {
            (None | Some(false), _) => Self::Newest,
            (Some(true), Some(false)) => Self::Alongside,
            (Some(true), None | Some(true)) => Self::Older,
        }
    }
}

impl DialectDocument {
    pub fn written(&self) -> Option<Time> {
        match self.dialect() {
            Dialect::Sitebuilder => sitebuilder::written(self),
            Dialect::Epic => self.time("last_checkpoint"),
            Dialect::Orchestrator => self.time("createdAt"),
            Dialect::Recovery => self.time("timestamp"),
        }
    }

    /// Limits the times in the document to `now`: else a clock that is ahead would make an agent look alive for as
    /// long, and every later document look old. A document of seed D stays as it is, because it is sealed.
    pub fn not_after(&mut self, now: Time) {
        match self.dialect() {
            Dialect::Sitebuilder => {
                for key in ["started_at", "updated_at", "completed_at"] {
                    limit(self, key, now);
                }
                if self.given("errors").is_some() {
                    let errors = self["errors"].list_mut().iter_mut();
                    errors.for_each(|error| limit(error, "timestamp", now));
                }
                if self.given("heartbeat").is_some() {
                    limit(&mut self["heartbeat"], "last_beat", now);
                }
            }
            Dialect::Epic => limit(self, "last_checkpoint", now),
            Dialect::Orchestrator => {}
            Dialect::Recovery => limit(self, "timestamp", now),
        }
    }

    /// Says of a document that is taken in though it is older that it holds at `time`.
    pub fn not_before(&mut self, time: Time) {
        if self.written().is_none_or(|written| written >= time) {
            return;
        }
        match self.dialect() {
            Dialect::Sitebuilder => self.set("updated_at", time.to_seconds()),
            Dialect::Epic => self.set("last_checkpoint", time.to_seconds()),
            Dialect::Orchestrator => {}
            Dialect::Recovery => self.set("timestamp", time.to_shortest()),
        }
    }
}

fn limit(json: &mut Json, key: &str, now: Time) {
    if json.time(key).is_some_and(|time| time > now) {
        json[key] = now.to_seconds().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Time> {
        Some(Time::from_millis(second * 1_000))
    }

    #[test]
    fn the_newer_one_has_the_last_word() {
        assert_eq!(
            DocumentArrival::of(at(10), at(5), at(5)),
            DocumentArrival::Newest
        );
        assert_eq!(
            DocumentArrival::of(at(10), None, None),
            DocumentArrival::Newest
        );
        assert_eq!(
            DocumentArrival::of(None, at(20), at(20)),
            DocumentArrival::Newest
        );
    }

    #[test]
    fn a_copy_of_before_the_file_was_seen_is_older() {
        assert_eq!(
            DocumentArrival::of(at(10), at(20), at(20)),
            DocumentArrival::Older
        );
        assert_eq!(
            DocumentArrival::of(at(10), None, at(20)),
            DocumentArrival::Older
        );
        assert_eq!(
            DocumentArrival::of(at(10), at(15), at(20)),
            DocumentArrival::Older
        );
    }

    #[test]
    fn an_edit_of_the_file_as_it_was_seen_is_news() {
        assert_eq!(
            DocumentArrival::of(at(15), at(15), at(20)),
            DocumentArrival::Alongside
        );
        assert_eq!(
            DocumentArrival::of(at(16), at(15), at(20)),
            DocumentArrival::Alongside
        );
        assert_eq!(
            DocumentArrival::of(at(15), at(15), at(15)),
            DocumentArrival::Newest
        );
    }

    #[test]
    fn files_tell_whole_seconds() {
        let known = Some(Time::from_millis(10_999));
        assert_eq!(
            DocumentArrival::of(at(10), None, known),
            DocumentArrival::Newest
        );
        let known = Some(Time::from_millis(11_000));
        assert_eq!(
            DocumentArrival::of(at(10), None, known),
            DocumentArrival::Older
        );
    }
}
