//! Effects: actions of agents on the world outside, so that nothing is done twice.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EffectId, MissionId, SortieId};
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText};
use crate::time::Time;

/// An action on an external system that must not happen twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Effect {
    /// The effect's id.
    pub id: EffectId,
    /// The author's name for the effect; one effect per mission and key.
    pub key: Name,
    /// The mission that the effect is done for.
    pub mission_id: MissionId,
    /// The sortie that the effect is done for.
    pub sortie_id: Option<SortieId>,
    /// The effect's action on the world.
    pub what: Option<NoteText>,
    /// The actor that performs it.
    pub by: String,
    /// The agent that performs it, if it is an agent.
    pub agent_id: Option<AgentId>,
    /// The incarnation of that agent.
    pub epoch: Option<u64>,
    /// The knowledge of whether the effect happened.
    pub state: EffectState,
    /// The number of times that the effect was begun.
    pub attempts: u32,
}

/// The knowledge of whether an effect happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum EffectState {
    /// An agent set out to do the effect. Until it is done, it is in doubt.
    Intent {
        /// Time at which the effect was begun.
        at: Time,
    },
    /// The effect happened, and was reported.
    Done {
        /// Time at which the effect was reported.
        at: Time,
        /// The result of the effect.
        result: Option<NoteText>,
    },
}

impl EffectState {
    /// The word for an effect that is known to have happened.
    pub const DONE: &'static str = "done";

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Intent { .. } => "intent",
            Self::Done { .. } => Self::DONE,
        }
    }
}

impl Effect {
    /// Returns true when the effect is known to have happened.
    pub const fn is_done(&self) -> bool {
        matches!(self.state, EffectState::Done { .. })
    }
}

impl Subject for Effect {
    const KIND: Kind = Kind::Effect;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.mission_id),
            parent: self.sortie_id.map(|id| id.to_string()),
            agent: self.agent_id,
            name: Some(self.key.to_string()),
            status: self.state.as_str(),
            ..Keys::default()
        }
    }
}
