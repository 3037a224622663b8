//! Effects: what agents do to the world outside, so that nothing is done twice.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EffectId, MissionId, SortieId};
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText};
use crate::time::Time;

/// An action on an external system that must not happen twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The effect's id.
    pub id: EffectId,
    /// What its author calls it; one effect per mission and key.
    pub key: Name,
    /// The mission it was done for.
    pub mission_id: MissionId,
    /// The sortie it was done for.
    pub sortie_id: Option<SortieId>,
    /// What it does to the world.
    pub what: Option<NoteText>,
    /// The actor that performs it.
    pub by: String,
    /// The agent that performs it, if it is an agent.
    pub agent_id: Option<AgentId>,
    /// That agent's incarnation.
    pub epoch: Option<u64>,
    /// Whether it is known to have happened.
    pub state: EffectState,
    /// How often it was begun.
    pub attempts: u32,
}

/// Whether an effect is known to have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum EffectState {
    /// An agent set out to do it. Until it is done, it is in doubt.
    Intent {
        /// When it was begun.
        at: Time,
    },
    /// It happened, and was reported.
    Done {
        /// When it was reported.
        at: Time,
        /// The result of the effect.
        result: Option<NoteText>,
    },
}

impl EffectState {
    /// The word for an effect of which it is not known whether it was done.
    pub const INTENT: &'static str = "intent";

    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Intent { .. } => Self::INTENT,
            Self::Done { .. } => "done",
        }
    }
}

impl Effect {
    /// Whether it is known to have happened.
    #[must_use]
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
