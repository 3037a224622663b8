//! When a document was written, and what that means for what is known: one rule for all dialects.
//!
//! What a document says happened when it says, never later than now. It takes nothing back that is newer than
//! itself: the copy that a stale agent or `git checkout` puts into its place is an older one, and is refused.

use super::document::Document;
use super::field::{Maybe, Stamp};
use super::recovery::Timestamp;
use super::sitebuilder::{self, Update};
use crate::time::{Millis, Time};

/// Files tell whole seconds: what lies less than one apart may be of the same moment.
const SECOND: Millis = 1_000;

/// How a document that arrives stands to what is known of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing newer is known: it has the last word.
    Newest,
    /// Something newer is known, but its writer had the file as it was last seen: what it changed there is news,
    /// where nothing newer is known of the same.
    Alongside,
    /// It was written before the file was as it was last seen, or before what is known.
    Older,
}

impl Arrival {
    /// Judges a document that was `written` then. `shown` is the time in the file as it was last seen, `known` the
    /// time of what is known. One that tells no time is of the moment it arrives.
    #[must_use]
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

impl Document {
    /// When it says that it was written; none when it does not say.
    #[must_use]
    pub fn written(&self) -> Option<Time> {
        match self {
            Self::Sitebuilder(document) => document.written(),
            Self::Epic(document) => Some(document.last_checkpoint.time()),
            Self::Orchestrator(document) => Some(document.created_at.time()),
            Self::Recovery(document) => match &document.timestamp {
                Timestamp::At(stamp) => Some(stamp.time()),
                Timestamp::Empty | Timestamp::Null => None,
            },
        }
    }

    /// Nothing that it tells of happened later than `now`: else a clock that is ahead would make an agent look alive
    /// for as long, and every later document look old. One of seed D stays as it is, because it is sealed.
    pub fn not_after(&mut self, now: Time) {
        match self {
            Self::Sitebuilder(document) => document.not_after(now),
            Self::Epic(document) => limit(&mut document.last_checkpoint, now),
            Self::Orchestrator(_) => {}
            Self::Recovery(document) => {
                if let Timestamp::At(stamp) = &mut document.timestamp {
                    limit(stamp, now);
                }
            }
        }
    }
}

impl Document {
    /// Says of a document that is taken in though it is older that it holds at `time`.
    pub fn not_before(&mut self, time: Time) {
        if self.written().is_none_or(|written| written >= time) {
            return;
        }
        match self {
            Self::Sitebuilder(document) => document.updated_at = Maybe::Is(Stamp::seconds(time)),
            Self::Epic(document) => document.last_checkpoint = Stamp::seconds(time),
            Self::Orchestrator(_) => {}
            Self::Recovery(document) => document.timestamp = Timestamp::At(Stamp::exact(time)),
        }
    }
}

impl sitebuilder::Checkpoint {
    /// When it was written: its last update, or its completion when that came after.
    #[must_use]
    pub fn written(&self) -> Option<Time> {
        let completed = self.completed_at.get().map(Stamp::time);
        self.last_update().max(completed)
    }

    fn not_after(&mut self, now: Time) {
        let own = [
            &mut self.started_at,
            &mut self.updated_at,
            &mut self.completed_at,
        ];
        for stamp in own {
            limit_field(stamp, now);
        }
        if let Maybe::Is(errors) = &mut self.errors {
            for error in errors {
                limit_field(&mut error.timestamp, now);
            }
        }
        if let Maybe::Is(beat) = &mut self.heartbeat {
            limit(&mut beat.last_beat, now);
        }
    }
}

impl Update {
    /// When this part of a document was written; none when it does not say.
    #[must_use]
    pub fn written(&self) -> Option<Time> {
        let own = [&self.updated_at, &self.completed_at];
        let own = own.into_iter().filter_map(Maybe::get).map(Stamp::time);
        let errors = self.errors.get().into_iter().flatten();
        let errors = errors
            .filter_map(|error| error.timestamp.get())
            .map(Stamp::time);
        let started = || self.started_at.get().map(Stamp::time);
        own.max().or_else(|| errors.max()).or_else(started)
    }
}

fn limit_field(field: &mut Maybe<Stamp>, now: Time) {
    if let Maybe::Is(stamp) = field {
        limit(stamp, now);
    }
}

fn limit(stamp: &mut Stamp, now: Time) {
    if stamp.time() > now {
        *stamp = Stamp::seconds(now);
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
        assert_eq!(Arrival::of(at(10), at(5), at(5)), Arrival::Newest);
        assert_eq!(Arrival::of(at(10), None, None), Arrival::Newest);
        assert_eq!(Arrival::of(None, at(20), at(20)), Arrival::Newest);
    }

    #[test]
    fn a_copy_of_before_the_file_was_seen_is_older() {
        assert_eq!(Arrival::of(at(10), at(20), at(20)), Arrival::Older);
        assert_eq!(Arrival::of(at(10), None, at(20)), Arrival::Older);
        assert_eq!(Arrival::of(at(10), at(15), at(20)), Arrival::Older);
    }

    #[test]
    fn an_edit_of_the_file_as_it_was_seen_is_news() {
        assert_eq!(Arrival::of(at(15), at(15), at(20)), Arrival::Alongside);
        assert_eq!(Arrival::of(at(16), at(15), at(20)), Arrival::Alongside);
        assert_eq!(Arrival::of(at(15), at(15), at(15)), Arrival::Newest);
    }

    #[test]
    fn files_tell_whole_seconds() {
        let known = Some(Time::from_millis(10_999));
        assert_eq!(Arrival::of(at(10), None, known), Arrival::Newest);
        let known = Some(Time::from_millis(11_000));
        assert_eq!(Arrival::of(at(10), None, known), Arrival::Older);
    }
}
