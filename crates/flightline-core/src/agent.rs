//! Agents: the workers of a fleet. An agent keeps its name through any number of incarnations (epochs).

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::context::ContextMode;
use crate::id::AgentId;
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText, Title};
use crate::time::Time;

/// A worker of the fleet, with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Agent {
    /// The agent's id.
    pub id: AgentId,
    /// The agent's name, unique in the project.
    pub name: Name,
    /// The agent's role: `dispatch` coordinates, a `specialist` works.
    pub role: Role,
    /// The type of agent, in its own system's words: `primary`, `secondary`, `claude`, `migration` …
    #[serde(rename = "type")]
    pub kind: Option<Name>,
    /// The agent's incarnation: one more each time a new session takes its name.
    pub epoch: u64,
    /// The number of compactions of the agent's context so far.
    pub context: u64,
    /// The mode that says how much the agent is given to read, until it has completed its task.
    #[serde(default, skip_serializing_if = "ContextMode::is_normal")]
    pub mode: ContextMode,
    /// The client's id of its current session.
    pub session_id: Option<Title>,
    /// The process it runs in, when known.
    pub process: Option<Process>,
    /// The status that the agent reports of itself.
    pub status: AgentStatus,
    /// The feature that the agent owns.
    pub feature: Option<Title>,
    /// The stage that the agent is in.
    pub stage: Option<Title>,
    /// The phase that the agent is in.
    pub phase: Option<Title>,
    /// True when the agent's work can be resumed.
    pub can_resume: bool,
    /// The blockers that the agent has reported.
    pub blockers: Vec<Title>,
    /// The files that the agent changed since its last commit.
    pub files_modified: Vec<RepoPath>,
    /// Instructions for taking the agent's work up again.
    pub recovery_instructions: Option<NoteText>,
    /// The step that the agent is at. Completed steps are subjects of their own.
    pub current_step: Option<Title>,
    /// The steps that the agent will do next.
    pub next_steps: Vec<Title>,
    /// The times at which the agent last coordinated with others.
    pub coordination: Coordination,
    /// Time of the last checkpoint that the agent took by its own act.
    pub last_checkpoint: Option<Time>,
    /// Time at which the agent's next checkpoint is due.
    pub next_checkpoint_expected: Option<Time>,
    /// Time of the agent's first registration.
    pub created_at: Time,
    /// Time of the last change of the agent's record.
    pub updated_at: Time,
    /// Time at which the agent's current session began; none while it has only a mailbox.
    pub session_started_at: Option<Time>,
    /// Time at which that session was ended; none once a new one has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ended_at: Option<Time>,
    /// Time at which the agent was retired.
    pub retired_at: Option<Time>,
}

words! {
    /// The part of an agent in the fleet.
    pub enum Role {
        /// Coordinates missions and gets their reports.
        Dispatch = "dispatch",
        /// Works on sorties.
        Specialist = "specialist",
    }
}

words! {
    /// The status that an agent reports of itself.
    pub enum AgentStatus {
        /// The agent has nothing to do.
        Idle = "idle",
        /// The agent is at work on something.
        InProgress = "in_progress",
        /// The agent waits for another agent or a person.
        Waiting = "waiting",
        /// The agent is stuck until a blocker goes.
        Blocked = "blocked",
        /// The agent is done with what it was given.
        Complete = "complete",
    }
}

/// A process, named so that a reused pid or a restarted machine is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// Time at which the process started, in clock ticks since boot.
    pub started: u64,
    /// The boot of the machine that the process belongs to.
    #[schemars(length(min = 1, max = 500), regex(pattern = r"^[!-~]+$"))]
    pub boot_id: String,
    /// The machine on which it runs.
    #[schemars(length(min = 1, max = 500), regex(pattern = r"^[!-~]+$"))]
    pub host: String,
}

/// The times at which an agent last coordinated with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct Coordination {
    /// Time at which the agent last looked into its inbox.
    pub last_inbox_check: Option<Time>,
    /// Time at which the agent last updated the overview of the whole effort.
    pub last_epic_readme_update: Option<Time>,
    /// Time at which the agent last updated its own status.
    pub last_status_update: Option<Time>,
}

/// A step an agent has completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Step {
    /// The agent that completed the step.
    pub agent_id: AgentId,
    /// The number of the step among those of this agent: 1, 2, 3 …
    pub number: u64,
    /// The work that was done in this step.
    pub text: Title,
    /// Time at which the step was completed.
    pub at: Time,
}

impl Agent {
    /// The record of an agent that has not begun a session yet.
    pub fn new(id: AgentId, name: Name, role: Role, now: Time) -> Self {
        Self {
            id,
            name,
            role,
            kind: None,
            epoch: 0,
            context: 0,
            mode: ContextMode::Normal,
            session_id: None,
            process: None,
            status: AgentStatus::Idle,
            feature: None,
            stage: None,
            phase: None,
            can_resume: true,
            blockers: Vec::new(),
            files_modified: Vec::new(),
            recovery_instructions: None,
            current_step: None,
            next_steps: Vec::new(),
            coordination: Coordination::default(),
            last_checkpoint: None,
            next_checkpoint_expected: None,
            created_at: now,
            updated_at: now,
            session_started_at: None,
            session_ended_at: None,
            retired_at: None,
        }
    }
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
