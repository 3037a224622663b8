//! What happens, and what the checkpoint that it leads to says.

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

/// Something that leads to a checkpoint, for which the seed has words of its own.
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
        /// The agent that completed its work.
        agent: &'a str,
    },
    /// An agent failed.
    AgentFailed {
        /// The agent that failed.
        agent: &'a str,
    },
    /// Something went wrong.
    Error {
        /// Where the error happened.
        context: &'a str,
        /// The text of the error.
        message: &'a str,
    },
    /// Something is about to be done that cannot be undone.
    Destructive {
        /// The operation that is about to run.
        operation: &'a str,
        /// What the operation is applied to.
        target: &'a str,
    },
    /// Time has passed since the last checkpoint.
    Interval,
    /// The orchestrator is about to stop.
    Shutdown,
}

impl Happening<'_> {
    /// The reason its checkpoint gives, to the letter.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::StateTransition { from, to, trigger } => {
                format!("State transition: {from} → {to} ({trigger})")
            }
            Self::AgentCompleted { agent } => format!("Agent {agent} completed"),
            Self::AgentFailed { agent } => format!("Agent {agent} failed"),
            Self::Error { context, message } => format!("Error in {context}: {message}"),
            Self::Destructive { operation, target } => format!("Before {operation}: {target}"),
            Self::Interval => "Periodic checkpoint".to_owned(),
            Self::Shutdown => "Shutdown checkpoint".to_owned(),
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
            Reason::StateTransition
            | Reason::Milestone
            | Reason::PhaseComplete
            | Reason::MissionEnded => Self::StateTransition,
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
            | Reason::AfterRestore
            | Reason::Shutdown
            | Reason::PreCompact
            | Reason::TokenWarning
            | Reason::TokenCritical
            | Reason::SessionEnd => Self::Manual,
        }
    }
}
