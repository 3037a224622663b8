//! Events: changes in order, each with the new value of the one thing that changed.

mod kind;

use crate::Schema;
pub use kind::EventType;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::count::{self, Work};
use crate::id::MissionId;
use crate::subject::Kind;
use crate::time::Time;

/// The field of an event's data with the time at which the change happened, when that was before it was recorded.
pub const HAPPENED_AT: &str = "happened_at";

/// An event, as it is shown: with everything but the new value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Event {
    /// The event's place in the project's one order, without gaps.
    pub rev: u64,
    /// The first revision of the request that the event belongs to: a request is seen whole or not at all.
    pub step: u64,
    /// The kind of event, such as `sortie_completed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the event, by the store's clock.
    pub timestamp: Time,
    /// The mission that the event concerns.
    pub mission_id: Option<MissionId>,
    /// The kind of thing that changed.
    pub subject_kind: Kind,
    /// The id of the thing that changed.
    pub subject: String,
    /// The author of the event: an agent's name, `user:NAME`, or `flightline`.
    pub actor: String,
    /// The incarnation of that agent.
    pub epoch: Option<u64>,
    /// The change that the event made to its subject.
    pub change: Change,
    /// Further details of the event.
    pub data: Value,
}

impl Event {
    /// The type of the event; none where another version of the program wrote a type that this one does not know.
    pub fn event_type(&self) -> Option<EventType> {
        EventType::from_word(&self.kind)
    }

    pub fn is(&self, kind: EventType) -> bool {
        self.kind == kind.as_str()
    }

    /// Returns the time at which the change happened: the time that a document said, else that of the event itself.
    pub fn happened_at(&self) -> Time {
        let said = self.data.get(HAPPENED_AT).and_then(Value::as_str);
        let said = said.and_then(|said| said.parse::<Time>().ok());
        said.map_or(self.timestamp, |said| said.min(self.timestamp))
    }

    /// Returns true when Flightline only wrote something down for itself, or told a mailbox of another event: no part
    /// of the story.
    pub fn is_bookkeeping(&self) -> bool {
        self.data.get("tells_of").is_some()
            || (matches!(self.subject_kind, Kind::Setting | Kind::FileSystem)
                && self.actor == "flightline"
                && !self.is(EventType::HistoryBegun))
    }

    /// Returns true when an agent or a person did this as part of the work, and not Flightline by itself or for itself.
    /// The store has a partial index of these events, which states the same rule in SQL.
    pub fn is_work(&self) -> bool {
        self.actor != "flightline"
            && !matches!(
                self.subject_kind,
                Kind::Briefing | Kind::Checkpoint | Kind::Milestone | Kind::Recovery
            )
    }
}

impl Event {
    /// Returns true when the event only says in detail what another event of the same request tells, or keeps count:
    /// the journal has it, a story does without.
    pub fn is_detail(&self) -> bool {
        self.is_bookkeeping()
            || matches!(
                self.event_type(),
                Some(
                    EventType::BriefingExpired
                        | EventType::CheckpointBackedUp
                        | EventType::CheckpointCreated
                        | EventType::DocumentImported
                        | EventType::InboxOpened
                        | EventType::MessageQueued
                        | EventType::MessageSettled
                        | EventType::MessageSuperseded
                        | EventType::MilestoneKept
                        | EventType::MilestoneReached
                        | EventType::MilestoneSettled
                        | EventType::MissionKept
                        | EventType::SortieKept
                )
            )
    }
}

words! {
    /// The change that an event made to its subject.
    pub enum Change {
        /// The subject has a new value.
        Set = "set",
        /// The subject is gone.
        Gone = "gone",
        /// The subject stayed as it was.
        None = "none",
        /// The subject had a new value, which retention has removed since.
        Thinned = "thinned",
    }
}

/// The SHA-256 of a document's exact text, in hexadecimal.
pub fn sha256_hex(text: &str) -> String {
    let mut hasher = Hasher::default();
    hasher.update(text.as_bytes());
    hasher.hex()
}

/// A SHA-256 in the making.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn hex(self) -> String {
        self.beginning(32)
    }

    /// The first bytes of the hash, in hexadecimal.
    pub fn beginning(self, bytes: usize) -> String {
        count::add(Work::Hash);
        let hash = self.0.finalize();
        let mut text = String::with_capacity(2 * bytes);
        text.extend(hex_digits(&hash).take(2 * bytes));
        text
    }

    /// Returns true when the hash begins with these bytes, in hexadecimal.
    pub fn begins(self, bytes: usize, text: &str) -> bool {
        count::add(Work::Hash);
        hex_digits(&self.0.finalize())
            .take(2 * bytes)
            .eq(text.chars())
    }
}

fn hex_digits(bytes: &[u8]) -> impl Iterator<Item = char> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.map(|half| char::from(DIGITS[usize::from(half)]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_is_sha256() {
        assert_eq!(
            super::sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
