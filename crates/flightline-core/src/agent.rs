//! Agents: the workers of a fleet. An agent keeps its name through any number of incarnations (epochs).

use serde::{Deserialize, Serialize};

use crate::context::ContextMode;
use crate::id::AgentId;
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText, Title};
use crate::time::Time;

/// A worker of the fleet, with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agent {
    /// The agent's id.
    pub id: AgentId,
    /// Its name, unique in the project.
    pub name: Name,
    /// Whether it coordinates or works.
    pub role: Role,
    /// What it is in its own system's words: `primary`, `secondary`, `claude`, `migration` …
    #[serde(rename = "type")]
    pub kind: Option<Name>,
    /// Its incarnation: one more each time a new session takes its name.
    pub epoch: u64,
    /// How often its context was compacted.
    pub context: u64,
    /// How much it is given to read, until it has completed its task.
    #[serde(default, skip_serializing_if = "ContextMode::is_normal")]
    pub mode: ContextMode,
    /// The client's id of its current session.
    pub session_id: Option<Title>,
    /// The process it runs in, when known.
    pub process: Option<Process>,
    /// What it says of itself.
    pub status: AgentStatus,
    /// The feature it owns.
    pub feature: Option<Title>,
    /// The stage it is in.
    pub stage: Option<Title>,
    /// The phase it is in.
    pub phase: Option<Title>,
    /// Whether its work can be resumed.
    pub can_resume: bool,
    /// What blocks it.
    pub blockers: Vec<Title>,
    /// Files it changed since its last commit.
    pub files_modified: Vec<RepoPath>,
    /// How to take its work up again.
    pub recovery_instructions: Option<NoteText>,
    /// What it is doing. Completed steps are subjects of their own.
    pub current_step: Option<Title>,
    /// What it will do next.
    pub next_steps: Vec<Title>,
    /// When it last coordinated with others.
    pub coordination: Coordination,
    /// When it last checkpointed by its own act.
    pub last_checkpoint: Option<Time>,
    /// When its next checkpoint is due.
    pub next_checkpoint_expected: Option<Time>,
    /// When it was first registered.
    pub created_at: Time,
    /// When its record last changed.
    pub updated_at: Time,
    /// When its current session began; none while it has only a mailbox.
    pub session_started_at: Option<Time>,
    /// When that session was ended over its head; none once a new one has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ended_at: Option<Time>,
    /// When it was retired.
    pub retired_at: Option<Time>,
}

/// What an agent does in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Coordinates missions and gets their reports.
    Dispatch,
    /// Works on sorties.
    Specialist,
}

impl Role {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Specialist => "specialist",
        }
    }
}

/// What an agent says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Nothing to do.
    Idle,
    /// At work on something.
    InProgress,
    /// Waiting for another agent or a person.
    Waiting,
    /// Stuck until a blocker goes.
    Blocked,
    /// Done with what it was given.
    Complete,
}

impl AgentStatus {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::InProgress => "in_progress",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
        }
    }
}

/// A process, named so that a reused pid or a restarted machine is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
    /// Which boot of the machine it belongs to.
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = 500), regex(pattern = r"^[!-~]+$"))
    )]
    pub boot_id: String,
    /// The machine on which it runs.
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = 500), regex(pattern = r"^[!-~]+$"))
    )]
    pub host: String,
}

/// When an agent last coordinated with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coordination {
    /// When it last looked into its inbox.
    pub last_inbox_check: Option<Time>,
    /// When it last updated the overview of the whole effort.
    pub last_epic_readme_update: Option<Time>,
    /// When it last updated its own status.
    pub last_status_update: Option<Time>,
}

/// A step an agent has completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The agent that completed the step.
    pub agent_id: AgentId,
    /// Which step of this agent: 1, 2, 3 …
    pub number: u64,
    /// The work that was done in this step.
    pub text: Title,
    /// When the step was completed.
    pub at: Time,
}

impl Subject for Agent {
    const KIND: Kind = Kind::Agent;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        let status = if self.retired_at.is_some() {
            "retired"
        } else {
            self.status.as_str()
        };
        Keys {
            agent: Some(self.id),
            name: Some(self.name.to_string()),
            status,
            ..Keys::default()
        }
    }
}

impl Subject for Step {
    const KIND: Kind = Kind::Step;

    fn key(&self) -> String {
        format!("{}/{}", self.agent_id, self.number)
    }

    fn keys(&self) -> Keys {
        Keys {
            parent: Some(self.agent_id.to_string()),
            agent: Some(self.agent_id),
            name: Some(self.text.to_string()),
            status: "complete",
            ..Keys::default()
        }
    }
}
