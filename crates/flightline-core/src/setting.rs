//! Settings: choices that the store remembers, such as the current mission.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::history::FollowedHistory;
use crate::id::{AgentId, CheckpointId, MissionId, RecoveryId, SortieId};
use crate::subject::{Keys, Kind, Subject};
use crate::text::Name;
use crate::time::{Time, Uptime};

/// A setting of which there is one: found by its id.
macro_rules! only_one {
    ($type:ident, $key:literal) => {
        impl $type {
            /// The id of the one there is.
            pub const KEY: &'static str = $key;
        }

        impl Subject for $type {
            const KIND: Kind = Kind::Setting;

            fn key(&self) -> String {
                Self::KEY.to_owned()
            }

            fn keys(&self) -> Keys {
                Keys::of_setting()
            }
        }
    };
}

/// The mission that was chosen with `fleet missions use`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct CurrentMission {
    /// The actor that made the choice: an agent's id, or `user`.
    pub of: String,
    /// The mission that is the current one.
    pub mission_id: MissionId,
}

impl Subject for CurrentMission {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        format!("current-mission/{}", self.of)
    }

    fn keys(&self) -> Keys {
        Keys::of_setting()
    }
}

/// The last time the whole store was restored from a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Restoration {
    /// Time at which the store was restored.
    pub at: Time,
    /// The revision that the backup held.
    pub rev: u64,
    /// The number of events that the backup held.
    pub events: u64,
    /// The history that began with the restore; nothing where an older version did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
    /// The earlier histories that this history goes on from, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<FollowedHistory>,
}

only_one!(Restoration, "restoration");

/// The lower bound of epochs that were forgotten, after a store or an agent's record in it was lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct EpochFloor {
    /// The epoch above which new agents begin: earlier agents of their name were below it.
    pub epoch: u64,
}

only_one!(EpochFloor, "epoch-floor");

/// A recovery that was done, so that it can be looked up and a rewind taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Recovery {
    /// The recovery's id.
    pub id: RecoveryId,
    /// The mission that was recovered.
    pub mission_id: MissionId,
    /// The kind of the recovery.
    pub kind: RecoveryKind,
    /// The checkpoint that the mission was recovered from.
    pub checkpoint_id: CheckpointId,
    /// The revision that the checkpoint names.
    #[serde(default)]
    pub cut_rev: u64,
    /// The checkpoint of the state before, when the recovery was a rewind.
    pub before: Option<CheckpointId>,
    /// The author of the recovery.
    pub by: String,
    /// Time at which the mission was recovered.
    pub at: Time,
    /// Time at which the recovery was taken back.
    pub undone_at: Option<Time>,
    /// The sorties that had failed and were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SortieId>,
    /// The state the workflow was set back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_to: Option<Name>,
    /// The agents that were gone, and that the recovery dealt with: their silence is no news any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<AgentId>,
    /// The losses of a rewind, as far as they are remembered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

impl Recovery {
    /// The most losses that are remembered: a document has a size.
    pub const MOST_LOST: usize = 50;
}

/// The way in which a mission was brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryKind {
    /// Everything acknowledged since the checkpoint stayed.
    RollForward,
    /// The mission is exactly what the checkpoint names.
    Rewind,
}

/// A briefing that was offered to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Briefing {
    /// The agent that is briefed.
    pub agent_id: AgentId,
    /// The mission that the briefing is about.
    pub mission_id: MissionId,
    /// The agent's context that the briefing is for.
    pub context: u64,
    /// The agent's incarnation.
    pub epoch: u64,
    /// The word that fences quoted text in the briefing, and acknowledges it.
    pub nonce: String,
    /// The state of the briefing's delivery.
    pub receipt: Receipt,
    /// The number of times that the agent was given the briefing in full without asking for it.
    #[serde(default)]
    pub deliveries: u32,
}

/// The form of a briefing for an agent that did not ask for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The agent is given the whole briefing.
    Full,
    /// The agent is given one line, with the command that shows all of the briefing.
    Line,
}

impl Form {
    /// The number of times that a briefing is given in full per session and compaction.
    const IN_FULL: u32 = 2;

    /// Returns the next form, after `given` in the same session and since the same compaction: in full, once more in
    /// full while it is not acknowledged, then in one line.
    pub fn next(given: &[Briefing]) -> Self {
        let read = given
            .iter()
            .any(|briefing| matches!(briefing.receipt, Receipt::Acknowledged { .. }));
        let times: u32 = given.iter().map(|briefing| briefing.deliveries).sum();
        if read || times >= Self::IN_FULL {
            Self::Line
        } else {
            Self::Full
        }
    }
}

/// The state of a briefing's delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Receipt {
    /// The briefing was not offered yet.
    Pending,
    /// The briefing was given to the agent's client.
    Offered {
        /// Time of the last offer.
        at: Time,
    },
    /// The agent acknowledged the briefing.
    Acknowledged {
        /// Time at which the briefing was acknowledged.
        at: Time,
    },
    /// The briefing was replaced by a newer one.
    Expired {
        /// Time at which the briefing expired.
        at: Time,
    },
}

impl Receipt {
    pub const fn at(self) -> Option<Time> {
        match self {
            Self::Pending => None,
            Self::Offered { at } | Self::Acknowledged { at } | Self::Expired { at } => Some(at),
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Offered { .. } => "offered",
            Self::Acknowledged { .. } => "acknowledged",
            Self::Expired { .. } => "expired",
        }
    }
}

impl Subject for Recovery {
    const KIND: Kind = Kind::Recovery;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        let status = if self.undone_at.is_some() {
            "undone"
        } else {
            "done"
        };
        Keys {
            mission: Some(self.mission_id),
            status,
            ..Keys::default()
        }
    }
}

impl Subject for Briefing {
    const KIND: Kind = Kind::Briefing;

    fn key(&self) -> String {
        format!("{}/{}", self.agent_id, self.nonce)
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.mission_id),
            agent: Some(self.agent_id),
            status: self.receipt.as_str(),
            ..Keys::default()
        }
    }
}

/// A secret of the store, so that an author of quoted text cannot guess a briefing's nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NonceSecret {
    pub value: String,
}

only_one!(NonceSecret, "secret");

/// The last run of retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPrune {
    /// Time at which retention last ran.
    pub at: Time,
    /// The revision up to which old values were looked for; zero when all of the journal was looked at.
    #[serde(default)]
    pub thinned_to: u64,
    /// The time that it was at least, at that moment: see [`crate::retention::ClockEvidence`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sure: Option<Time>,
    /// The machine's running time at that moment, where that can be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<Uptime>,
}

only_one!(LastPrune, "last-prune");

impl LastPrune {
    /// The state before the first retention, in a project that was created at `created`.
    pub const fn never(created: Time) -> Self {
        Self {
            at: created,
            thinned_to: 0,
            sure: None,
            uptime: None,
        }
    }
}

/// The next look for messages that were not acknowledged in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Time before which no open deadline lies; none when nothing is waited for.
    pub next: Option<Time>,
}

only_one!(Deadlines, "deadlines");

/// The last warning about an agent's silence, so that the agent and the coordinator are told once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilenceWarning {
    /// The silent agent.
    pub agent_id: AgentId,
    /// Time of the agent's last checkpoint: once there is a later one, this silence is over.
    pub since: Time,
    /// Time at which the agent was warned.
    pub warned_at: Option<Time>,
    /// Time at which the coordinator was told.
    pub escalated_at: Option<Time>,
}

impl SilenceWarning {
    pub fn key_of(agent: AgentId) -> String {
        format!("silence/{agent}")
    }

    /// Returns a silence of which nothing was said yet.
    pub const fn new(agent_id: AgentId, since: Time) -> Self {
        Self {
            agent_id,
            since,
            warned_at: None,
            escalated_at: None,
        }
    }
}

impl Subject for SilenceWarning {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::key_of(self.agent_id)
    }

    fn keys(&self) -> Keys {
        Keys::of_setting()
    }
}

/// The revision up to which the mailboxes of the coordinators have been told of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifiedUpTo {
    pub rev: u64,
}

only_one!(NotifiedUpTo, "told");

#[cfg(test)]
mod tests {
    use super::*;

    fn given(deliveries: u32, receipt: Receipt) -> Briefing {
        Briefing {
            agent_id: "agt-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            mission_id: "msn-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            context: 0,
            epoch: 1,
            nonce: "k7q2x9fd".to_owned(),
            receipt,
            deliveries,
        }
    }

    #[test]
    fn a_briefing_is_given_in_full_twice_unless_it_was_read() {
        let at = Time::from_millis(0);
        let (offered, expired) = (Receipt::Offered { at }, Receipt::Expired { at });
        let read = Receipt::Acknowledged { at };
        for (before, next) in [
            (vec![], Form::Full),
            (vec![given(0, offered)], Form::Full),
            (vec![given(1, offered)], Form::Full),
            (vec![given(2, offered)], Form::Line),
            (vec![given(1, expired), given(1, offered)], Form::Line),
            (vec![given(1, read)], Form::Line),
            (vec![given(0, read), given(0, offered)], Form::Line),
        ] {
            assert_eq!(Form::next(&before), next, "{before:?}");
        }
    }
}
