//! What happens, whether it leads to a checkpoint, and what the checkpoint then says.

use super::Trigger;
use crate::checkpoint::Reason;

/// Operations that get a checkpoint before they are done, unless configured otherwise.
pub const DESTRUCTIVE_OPERATIONS: [&str; 6] = [
    "git_push",
    "git_force_push",
    "file_delete",
    "database_migrate",
    "deploy",
    "publish",
];

/// Something that may lead to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening<'a> {
    /// The workflow moved.
    StateTransition {
        /// From this state.
        from: &'a str,
        /// To this one.
        to: &'a str,
        /// Because of this.
        trigger: &'a str,
    },
    /// An agent completed its work.
    AgentCompleted {
        /// The agent.
        agent: &'a str,
    },
    /// An agent failed.
    AgentFailed {
        /// The agent.
        agent: &'a str,
    },
    /// A person approved.
    Approved {
        /// What kind of thing.
        item_type: &'a str,
        /// Which.
        item_id: &'a str,
    },
    /// A person rejected.
    Rejected {
        /// What kind of thing.
        item_type: &'a str,
        /// Which.
        item_id: &'a str,
    },
    /// Something went wrong.
    Error {
        /// Where.
        context: &'a str,
        /// What.
        message: &'a str,
    },
    /// Something is about to be done that cannot be undone.
    Destructive {
        /// What.
        operation: &'a str,
        /// To what.
        target: &'a str,
    },
    /// Time passed.
    Interval,
    /// Somebody asked for it.
    Manual {
        /// Why.
        reason: &'a str,
    },
    /// The orchestrator is about to stop.
    Shutdown,
}

impl Happening<'_> {
    /// The trigger of its checkpoint.
    #[must_use]
    pub const fn trigger(&self) -> Trigger {
        match self {
            Self::StateTransition { .. } => Trigger::StateTransition,
            Self::AgentCompleted { .. } | Self::AgentFailed { .. } => Trigger::AgentComplete,
            Self::Approved { .. } | Self::Rejected { .. } => Trigger::UserApproval,
            Self::Error { .. } => Trigger::ErrorOccurred,
            Self::Destructive { .. } => Trigger::BeforeDestructive,
            Self::Interval => Trigger::TimeInterval,
            Self::Manual { .. } | Self::Shutdown => Trigger::Manual,
        }
    }

    /// The reason its checkpoint gives, to the letter.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::StateTransition { from, to, trigger } => {
                format!("State transition: {from} → {to} ({trigger})")
            }
            Self::AgentCompleted { agent } => format!("Agent {agent} completed"),
            Self::AgentFailed { agent } => format!("Agent {agent} failed"),
            Self::Approved { item_type, item_id } => {
                format!("User approved {item_type}: {item_id}")
            }
            Self::Rejected { item_type, item_id } => {
                format!("User rejected {item_type}: {item_id}")
            }
            Self::Error { context, message } => format!("Error in {context}: {message}"),
            Self::Destructive { operation, target } => format!("Before {operation}: {target}"),
            Self::Interval => "Periodic checkpoint".to_owned(),
            Self::Manual { reason } => (*reason).to_owned(),
            Self::Shutdown => "Shutdown checkpoint".to_owned(),
        }
    }
}

/// Which happenings lead to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triggers {
    /// Whether any does, but those somebody asks for.
    pub enabled: bool,
    /// The workflow moves.
    pub on_state_transition: bool,
    /// An agent finishes.
    pub on_agent_complete: bool,
    /// A person approves or rejects.
    pub on_user_approval: bool,
    /// Something goes wrong.
    pub on_error: bool,
    /// Something destructive is about to be done.
    pub before_destructive: bool,
    /// What is destructive.
    pub destructive_operations: Vec<String>,
}

impl Default for Triggers {
    fn default() -> Self {
        Self {
            enabled: true,
            on_state_transition: true,
            on_agent_complete: true,
            on_user_approval: true,
            on_error: true,
            before_destructive: true,
            destructive_operations: DESTRUCTIVE_OPERATIONS.map(str::to_owned).to_vec(),
        }
    }
}

impl Triggers {
    /// Whether this leads to a checkpoint.
    #[must_use]
    pub fn fires(&self, happening: &Happening<'_>) -> bool {
        match happening {
            Happening::StateTransition { .. } => self.enabled && self.on_state_transition,
            Happening::AgentCompleted { .. } | Happening::AgentFailed { .. } => {
                self.enabled && self.on_agent_complete
            }
            Happening::Approved { .. } | Happening::Rejected { .. } => {
                self.enabled && self.on_user_approval
            }
            Happening::Error { .. } => self.enabled && self.on_error,
            Happening::Destructive { operation, .. } => {
                let named = self.destructive_operations.iter().any(|it| it == operation);
                self.enabled && self.before_destructive && named
            }
            Happening::Interval | Happening::Manual { .. } | Happening::Shutdown => true,
        }
    }
}

impl Trigger {
    /// Flightline's reason for it.
    #[must_use]
    pub const fn to_reason(self) -> Reason {
        match self {
            Self::StateTransition => Reason::StateTransition,
            Self::AgentComplete => Reason::AgentComplete,
            Self::UserApproval => Reason::UserApproval,
            Self::ErrorOccurred => Reason::SortieFailed,
            Self::Manual => Reason::Manual,
            Self::TimeInterval => Reason::Interval,
            Self::BeforeDestructive => Reason::BeforeDestructive,
        }
    }

    /// The nearest trigger to one of Flightline's reasons; the reason itself can be given in words.
    #[must_use]
    pub const fn nearest(reason: Reason) -> Self {
        match reason {
            Reason::StateTransition | Reason::Milestone | Reason::PhaseComplete => {
                Self::StateTransition
            }
            Reason::AgentComplete | Reason::SubtaskDone | Reason::TaskComplete => {
                Self::AgentComplete
            }
            Reason::UserApproval | Reason::ReviewDone => Self::UserApproval,
            Reason::Interval
            | Reason::Heartbeat
            | Reason::SyncPoint
            | Reason::FileCreated
            | Reason::FileModified => Self::TimeInterval,
            Reason::SortieFailed
            | Reason::ApiError
            | Reason::LockTimeout
            | Reason::DeliveryFailed
            | Reason::Blocker => Self::ErrorOccurred,
            Reason::BeforeDestructive | Reason::BeforeRestore => Self::BeforeDestructive,
            Reason::Manual
            | Reason::Shutdown
            | Reason::PreCompact
            | Reason::TokenWarning
            | Reason::TokenCritical
            | Reason::SessionEnd => Self::Manual,
        }
    }
}
