//! Mail: messages, and each one's way to each recipient.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, MessageId, MissionId};
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Body, Title};
use crate::time::Time;

/// A message. It never changes once sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The first message of its thread: its own id when it is the first.
    pub thread_id: MessageId,
    /// The message it answers.
    pub in_reply_to: Option<MessageId>,
    /// The mission it is about.
    pub mission_id: Option<MissionId>,
    /// Who sent it: an agent's name, `user:NAME`, or `flightline`.
    pub from: String,
    /// The sender, when an agent sent it.
    pub from_id: Option<AgentId>,
    /// The recipients.
    pub to: Vec<AgentId>,
    /// What it is about, in one line.
    pub subject: Title,
    /// The text.
    pub body: Option<Body>,
    /// What sort of message it is.
    pub kind: MessageKind,
    /// When it was sent.
    pub sent_at: Time,
    /// When it should be acknowledged.
    pub acknowledge_by: Option<Time>,
}

/// What sort of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Somebody wrote it.
    Note,
    /// A sortie's progress, posted for its owner.
    Progress,
    /// Flightline has something to say.
    Notice,
}

impl MessageKind {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Progress => "progress",
            Self::Notice => "notice",
        }
    }
}

/// A message's way to one recipient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Delivery {
    /// The message.
    pub message_id: MessageId,
    /// The recipient.
    pub to: AgentId,
    /// The mission of the message.
    pub mission_id: Option<MissionId>,
    /// How far it got.
    pub state: DeliveryState,
}

/// How far a message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum DeliveryState {
    /// In the mailbox, not looked at.
    Pending,
    /// Read, or pushed into the recipient's context.
    Delivered {
        /// When.
        at: Time,
    },
    /// The recipient said so.
    Acknowledged {
        /// When.
        at: Time,
    },
}

impl DeliveryState {
    /// The word for it.
    #[must_use]
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
            mission: self.mission_id,
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
        Keys {
            mission: self.mission_id,
            parent: Some(self.message_id.to_string()),
            agent: Some(self.to),
            status: self.state.as_str(),
            ..Keys::default()
        }
    }
}
