//! Mail: messages, and the way of each to each recipient.

use crate::Schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, EventType};
use crate::id::{AgentId, MessageId, MissionId, SortieId};
use crate::narrate::{Narrator, who};
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Body, Title};
use crate::time::Time;

/// A message. It never changes once sent, but for a message about events or a sortie's progress: that one is brought up
/// to date until it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Message {
    /// The message's id.
    pub id: MessageId,
    /// The first message of its thread: its own id when it is the first.
    pub thread_id: MessageId,
    /// The message that this one answers.
    pub in_reply_to: Option<MessageId>,
    /// The mission that the message is about.
    pub mission_id: Option<MissionId>,
    /// The author of the message: an agent's name, `user:NAME`, or `flightline`.
    pub from: String,
    /// The sender, when an agent sent it.
    pub from_id: Option<AgentId>,
    /// The agents that it is sent to.
    pub to: Vec<AgentId>,
    /// The subject of the message, in one line.
    pub subject: Title,
    /// The text of the message.
    pub body: Option<Body>,
    /// The kind of the message.
    pub kind: MessageKind,
    /// Time at which the message was sent.
    pub sent_at: Time,
    /// Time by which the message should be acknowledged.
    pub acknowledge_by: Option<Time>,
    /// The events that the message tells of, when it tells of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventDigest>,
}

/// Events of one type in one mission, as a mailbox holds them: the newest, and how many there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct EventDigest {
    /// The kind of the newest event.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the newest of the events.
    pub timestamp: Time,
    /// Further details of the newest of the events.
    pub data: Value,
    /// The number of the events.
    pub count: u64,
    /// Time of the first of the events.
    pub since: Time,
}

impl EventDigest {
    /// Returns the digest of one event, added to the unread ones before it.
    pub fn of(event: &Event, before: Option<&Self>) -> Self {
        Self {
            kind: event.kind.clone(),
            timestamp: event.timestamp,
            data: event.data.clone(),
            count: before.map_or(0, |before| before.count) + 1,
            since: before.map_or(event.timestamp, |before| before.since),
        }
    }

    /// Returns the digest in one line: the newest event, and the number of events.
    pub fn line(&self, newest: &Event, narrator: Narrator<'_>) -> String {
        let newest_of = match self.count {
            0 | 1 => String::new(),
            count => format!(" (the newest of {count})"),
        };
        format!("{} {}{newest_of}", who(newest), narrator.tell(newest))
    }
}

/// Returns true when the mailbox of the mission's dispatch is told of an event. A context that is found lost is told by
/// a message that wants to be acted on, not here.
pub fn reaches_dispatch(event: &Event) -> bool {
    match event.event_type() {
        Some(
            EventType::FleetCheckpointed
            | EventType::CheckpointCreated
            | EventType::FleetRecovered
            | EventType::CheckpointDeleted
            | EventType::CheckpointPruned
            | EventType::CheckpointArchived
            | EventType::CheckpointPinned
            | EventType::CheckpointUnpinned
            | EventType::CheckpointCorrupted,
        ) => true,
        // The caller that resumed is told at once; the coordinator learns why a session did not start where it ended.
        Some(EventType::ResumeFellBack) => true,
        Some(EventType::ContextCompacted) => event.data.get("agent").is_some(),
        _ => false,
    }
}

words! {
    /// The kind of a message.
    pub enum MessageKind {
        /// An agent or a person wrote the message.
        Note = "note",
        /// The message tells a sortie's progress, posted for its owner.
        Progress = "progress",
        /// The message is a notice of Flightline itself.
        Notice = "notice",
        /// The message is news of the mission's checkpoints. It needs no answer: reading it is enough.
        Event = "event",
    }
}

/// A message's way to one recipient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Delivery {
    /// The message that is delivered.
    pub message_id: MessageId,
    /// The agent that it is delivered to.
    pub to: AgentId,
    /// The mission of the message.
    pub mission_id: Option<MissionId>,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// Time by which the message should be acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledge_by: Option<Time>,
    /// Time at which the message was found not to be acknowledged in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue_at: Option<Time>,
    /// The key of the events that the message tells of, as [`Delivery::digest_key`] makes it, when it tells of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The sortie whose progress the message tells, when it tells that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_of: Option<SortieId>,
}

impl Delivery {
    /// The status by which open messages that tell of events are found.
    pub const OPEN_DIGEST: &'static str = "event";

    /// Returns the key by which events of a type in a mission are found.
    pub fn digest_key(kind: &str, mission: MissionId) -> String {
        format!("{kind}/{mission}")
    }

    /// Returns the deadline that the recipient still has to meet.
    pub fn due(&self) -> Option<Time> {
        let open =
            self.overdue_at.is_none() && !matches!(self.state, DeliveryState::Acknowledged { .. });
        self.acknowledge_by.filter(|_| open)
    }
}

/// The state of a message's delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum DeliveryState {
    /// The message is in the mailbox, and was not looked at.
    Pending,
    /// The message was read, or pushed into the recipient's context.
    Delivered {
        /// Time at which the message was delivered.
        at: Time,
    },
    /// The recipient acknowledged the message.
    Acknowledged {
        /// Time at which the message was acknowledged.
        at: Time,
    },
}

impl DeliveryState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered { .. } => "delivered",
            Self::Acknowledged { .. } => "acknowledged",
        }
    }
}

impl Subject for Message {
    const KIND: Kind = Kind::Message;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            // A message that tells of checkpoints is no part of what a checkpoint names.
            mission: self.mission_id.filter(|_| self.kind != MessageKind::Event),
            parent: Some(self.thread_id.to_string()),
            agent: self.from_id,
            name: Some(self.subject.to_string()),
            status: self.kind.as_str(),
            ..Keys::default()
        }
    }
}

impl Subject for Delivery {
    const KIND: Kind = Kind::Delivery;

    fn key(&self) -> String {
        format!("{}/{}", self.message_id, self.to)
    }

    fn keys(&self) -> Keys {
        let open = !matches!(self.state, DeliveryState::Acknowledged { .. });
        Keys {
            mission: self.mission_id,
            parent: Some(self.message_id.to_string()),
            agent: Some(self.to),
            // Deliveries with a deadline, or about one thing, are found without reading every one.
            name: self
                .digest
                .clone()
                .or_else(|| self.progress_of.map(|sortie| sortie.to_string()))
                .or_else(|| self.due().map(|by| by.to_string())),
            // Digests wait for no answer: they do not count as unread.
            status: match &self.digest {
                Some(_) if open => Self::OPEN_DIGEST,
                _ => self.state.as_str(),
            },
            ..Keys::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::event::Change;
    use crate::narrate::shortened;

    #[test]
    fn events_are_told_in_one_line() {
        let event = Event {
            rev: 9,
            step: 9,
            kind: "fleet_checkpointed".to_owned(),
            timestamp: Time::from_millis(0),
            mission_id: None,
            subject_kind: Kind::Checkpoint,
            subject: "chk-00000000-0000-4000-8000-000000000001".to_owned(),
            actor: "ada".to_owned(),
            epoch: None,
            change: Change::Set,
            data: json!({
                "checkpoint_id": "chk-00000000-0000-4000-8000-000000000001",
                "progress_percent": 50, "reason": "sortie_failed", "trigger": "error",
            }),
        };
        let names = BTreeMap::new();
        let narrator = Narrator {
            names: &names,
            short: &shortened,
        };
        let first = EventDigest::of(&event, None);
        let line = "flightline takes checkpoint chk-00000000 at 50 % (sortie failed)";
        assert_eq!(first.line(&event, narrator), line);
        let second = EventDigest::of(&event, Some(&first));
        assert_eq!(
            second.line(&event, narrator),
            format!("{line} (the newest of 2)")
        );
    }

    #[test]
    fn a_deadline_is_open_until_it_is_met_or_missed() {
        let at = Time::from_millis(1_000);
        let delivery = Delivery {
            message_id: "msg-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            to: "agt-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            mission_id: None,
            state: DeliveryState::Delivered { at },
            acknowledge_by: Some(at),
            overdue_at: None,
            digest: None,
            progress_of: None,
        };
        assert_eq!(delivery.due(), Some(at));
        let met = Delivery {
            state: DeliveryState::Acknowledged { at },
            ..delivery.clone()
        };
        let missed = Delivery {
            overdue_at: Some(at),
            ..delivery
        };
        assert_eq!((met.due(), missed.due()), (None, None));
    }
}
