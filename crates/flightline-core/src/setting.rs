//! Settings: choices the store remembers for somebody, such as the mission they work on.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CheckpointId, MissionId, RecoveryId};
use crate::subject::{Keys, Kind, Subject};
use crate::time::Time;

/// The mission somebody chose with `fleet missions use`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CurrentMission {
    /// Whose choice it is: an agent's id, or `user`.
    pub of: String,
    /// The mission.
    pub mission_id: MissionId,
}

impl Subject for CurrentMission {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        format!("current-mission/{}", self.of)
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}

/// The last time the whole store was restored from a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Restoration {
    /// When.
    pub at: Time,
    /// The revision the backup held.
    pub rev: u64,
    /// How many events it held.
    pub events: u64,
}

impl Subject for Restoration {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        "restoration".to_owned()
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}

/// What is known of epochs that nobody remembers, after a store was lost or an agent's record in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EpochFloor {
    /// Agents that are new here begin above this: whoever had their name before was below it.
    pub epoch: u64,
}

impl EpochFloor {
    /// The id of the one there is.
    pub const KEY: &str = "epoch-floor";
}

impl Subject for EpochFloor {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::KEY.to_owned()
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}

/// A recovery that was done, so that it can be looked up and a rewind taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Recovery {
    /// Its id.
    pub id: RecoveryId,
    /// The mission.
    pub mission_id: MissionId,
    /// How it was done.
    pub kind: RecoveryKind,
    /// From which checkpoint.
    pub checkpoint_id: CheckpointId,
    /// The checkpoint of the state before, when it was a rewind.
    pub before: Option<CheckpointId>,
    /// Who did it.
    pub by: String,
    /// When.
    pub at: Time,
    /// When it was taken back.
    pub undone_at: Option<Time>,
}

/// How a mission was brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryKind {
    /// Everything acknowledged since the checkpoint stayed.
    RollForward,
    /// Exactly what the checkpoint names.
    Rewind,
}

/// A briefing that was offered to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Briefing {
    /// The agent.
    pub agent_id: AgentId,
    /// The mission.
    pub mission_id: MissionId,
    /// Which of the agent's contexts it is for.
    pub context: u64,
    /// The agent's incarnation.
    pub epoch: u64,
    /// The word that stands in it.
    pub nonce: String,
    /// Whether it arrived.
    pub receipt: Receipt,
}

/// Whether a briefing arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Receipt {
    /// Not offered yet.
    Pending,
    /// Given to the agent's client.
    Offered {
        /// When.
        at: Time,
    },
    /// The agent said so.
    Acknowledged {
        /// When.
        at: Time,
    },
    /// Replaced by a newer one.
    Expired {
        /// When.
        at: Time,
    },
}

impl Receipt {
    /// The word for it.
    #[must_use]
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

/// A secret of the store, so that nobody who writes into a briefing can guess its word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// The secret.
    pub value: String,
}

impl Secret {
    /// The id of the one there is.
    pub const KEY: &'static str = "secret";
}

impl Subject for Secret {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::KEY.to_owned()
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}

/// When retention was last applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPrune {
    /// When.
    pub at: Time,
}

impl LastPrune {
    /// The id of the one there is.
    pub const KEY: &'static str = "last-prune";
}

impl Subject for LastPrune {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::KEY.to_owned()
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}

/// When to look again for messages that were not acknowledged in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// No open deadline is earlier than this; none when nothing is waited for.
    pub next: Option<Time>,
}

impl Deadlines {
    /// The id of the one there is.
    pub const KEY: &'static str = "deadlines";
}

impl Subject for Deadlines {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::KEY.to_owned()
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}

/// How far the journal has been told to the mailboxes of those who coordinate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Events up to this revision.
    pub rev: u64,
}

impl Told {
    /// The id of the one there is.
    pub const KEY: &'static str = "told";
}

impl Subject for Told {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::KEY.to_owned()
    }

    fn keys(&self) -> Keys {
        Keys {
            status: "set",
            ..Keys::default()
        }
    }
}
