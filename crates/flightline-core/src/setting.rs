//! Settings: choices the store remembers for somebody, such as the mission they work on.

use serde::{Deserialize, Serialize};

use crate::id::MissionId;
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
