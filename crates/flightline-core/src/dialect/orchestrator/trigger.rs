//! Names the causes of checkpoints, and the words that the checkpoint has for each.

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

/// The cause of a checkpoint, for which the seed has words of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerCause<'a> {
    StateTransition {
        from: &'a str,
        to: &'a str,
        trigger: &'a str,
    },
    AgentCompleted {
        agent: &'a str,
    },
    AgentFailed {
        agent: &'a str,
    },
    Error {
        context: &'a str,
        message: &'a str,
    },
    /// A step that cannot be undone is about to be taken.
    Destructive {
        operation: &'a str,
        target: &'a str,
    },
    /// Time has passed since the last checkpoint.
    Interval,
    Shutdown,
}

impl TriggerCause<'_> {
    /// The reason its checkpoint gives, to the letter.
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

/// The seed's words for why a checkpoint was taken.
pub(super) const TRIGGERS: &[&str] = &[
    "state_transition",
    "agent_complete",
    "user_approval",
    "error_occurred",
    "manual",
    "time_interval",
    "before_destructive",
];

pub fn reason_of(trigger: &str) -> Reason {
    match trigger {
        "state_transition" => Reason::StateTransition,
        "agent_complete" => Reason::AgentComplete,
        "user_approval" => Reason::UserApproval,
        "error_occurred" => Reason::SortieFailed,
        "time_interval" => Reason::Interval,
        "before_destructive" => Reason::BeforeDestructive,
        _ => Reason::Manual,
    }
}

/// The nearest trigger to one of Flightline's reasons; the reason itself can be given in words.
pub const fn trigger_of(reason: Reason) -> &'static str {
    match reason {
        Reason::StateTransition
        | Reason::Milestone
        | Reason::PhaseComplete
        | Reason::MissionEnded => "state_transition",
        Reason::AgentComplete | Reason::SubtaskDone | Reason::TaskComplete => "agent_complete",
        Reason::UserApproval | Reason::ReviewDone => "user_approval",
        Reason::Interval
        | Reason::Heartbeat
        | Reason::SyncPoint
        | Reason::FileCreated
        | Reason::FileModified => "time_interval",
        Reason::SortieFailed
        | Reason::ApiError
        | Reason::LockTimeout
        | Reason::DeliveryFailed
        | Reason::Blocker => "error_occurred",
        Reason::BeforeDestructive | Reason::BeforeRestore => "before_destructive",
        Reason::Manual
        | Reason::AfterRestore
        | Reason::Shutdown
        | Reason::PreCompact
        | Reason::TokenWarning
        | Reason::TokenCritical
        | Reason::SessionEnd => "manual",
    }
}
