//! Presets: the numbers of each seed.

use super::{Mirrored, Policy, RecoveryMode, Triggers};
use crate::checkpoint::Reason;
use crate::dialect::Dialect;
use crate::dialect::compress::Compression;
use crate::dialect::orchestrator::{DESTRUCTIVE_OPERATIONS, RETRY_LIMIT};
use crate::retention::{Retention, Surplus};
use crate::text::Name;
use crate::time::Millis;

const MINUTE: Millis = 60_000;
const DAY: Millis = 24 * 60 * MINUTE;

words! {
    /// The settings and files for one way of working.
    #[derive(Default)]
    pub enum Preset {
        /// Missions and sorties: checkpoints at milestones, errors and compaction.
        #[default]
        Fleet = "fleet",
        /// Tasks with subtasks: a checkpoint with every step, files in `progress/`.
        Sitebuilder = "sitebuilder",
        /// Parallel agents: a checkpoint per phase and sync point, files in `agent_checkpoints/`.
        Epic = "epic",
        /// A workflow of agents: checkpoints at transitions, approvals and before what destroys.
        Orchestrator = "orchestrator",
        /// Contexts that fill up: checkpoints at 75 and 90 % and at the end of a session.
        Recovery = "recovery",
    }
}

const ERRORS: [Reason; 5] = [
    Reason::SortieFailed,
    Reason::ApiError,
    Reason::LockTimeout,
    Reason::DeliveryFailed,
    Reason::Blocker,
];
/// A context that is, or is about to be, lost.
const COMPACTION: [Reason; 4] = [
    Reason::PreCompact,
    Reason::TokenWarning,
    Reason::TokenCritical,
    Reason::SessionEnd,
];

impl Preset {
    pub fn policy(self) -> Policy {
        let fleet = Policy {
            preset: self,
            quiet_ms: 5 * MINUTE,
            warning_ms: 10 * MINUTE,
            stalled_ms: 30 * MINUTE,
            heartbeat_ms: 5 * MINUTE,
            lock_ttl_ms: 30 * MINUTE,
            downtime_ms: 10 * MINUTE,
            milestones: [25, 50, 75],
            triggers: self.triggers(),
            interval_ms: 5 * MINUTE,
            significant_lines: 50,
            every_error: false,
            // The coordinator of a fleet or a site hears of progress; the other seeds have ways of their
            // own.
            progress_mail: matches!(self, Self::Fleet | Self::Sitebuilder),
            lock_edits: true,
            find_tasks: false,
            token_warning: 75,
            token_critical: 90,
            valid_ms: DAY,
            destructive: DESTRUCTIVE_OPERATIONS
                .iter()
                .filter_map(|word| Name::parse("operation", word).ok())
                .collect(),
            retry_limit: RETRY_LIMIT,
            strict: false,
            auto_resume: false,
            recovery_enabled: true,
            recovery_mode: RecoveryMode::Minimal,
            stack_id: None,
            mirrors: Mirrored::of(self.mirror().as_slice()),
            mirror_compression: Compression::None,
            retention: Retention::default(),
        };
        match self {
            Self::Fleet => fleet,
            // Quiet for more than ten minutes: the session has timed out.
            Self::Sitebuilder => Policy {
                quiet_ms: 10 * MINUTE,
                every_error: true,
                find_tasks: true,
                ..fleet
            },
            Self::Epic => Policy {
                quiet_ms: 30 * MINUTE,
                warning_ms: 30 * MINUTE,
                stalled_ms: 60 * MINUTE,
                lock_ttl_ms: 60 * MINUTE,
                heartbeat_ms: 15 * MINUTE,
                retention: Retention {
                    keep: 10,
                    ..fleet.retention
                },
                ..fleet
            },
            Self::Orchestrator => Policy {
                strict: true,
                mirror_compression: Compression::Gzip,
                retention: Retention {
                    older_than_ms: 30 * DAY,
                    most: 50,
                    surplus: Surplus::Archive,
                    ..fleet.retention
                },
                ..fleet
            },
            Self::Recovery => Policy {
                auto_resume: true,
                // The latest and five more; nothing of more than a week, but the latest.
                retention: Retention {
                    keep: 1,
                    most: 6,
                    emergencies_apart: true,
                    ..fleet.retention
                },
                ..fleet
            },
        }
    }

    /// The dialect whose files it keeps up to date.
    pub const fn mirror(self) -> Option<Dialect> {
        match self {
            Self::Fleet => None,
            Self::Sitebuilder => Some(Dialect::Sitebuilder),
            Self::Epic => Some(Dialect::Epic),
            Self::Orchestrator => Some(Dialect::Orchestrator),
            Self::Recovery => Some(Dialect::Recovery),
        }
    }

    fn triggers(self) -> Triggers {
        let own: &[Reason] = match self {
            Self::Fleet => &[
                Reason::Milestone,
                Reason::BeforeDestructive,
                Reason::Shutdown,
            ],
            Self::Sitebuilder => &[
                Reason::FileCreated,
                Reason::FileModified,
                Reason::SubtaskDone,
                Reason::ReviewDone,
                Reason::TaskComplete,
                Reason::Heartbeat,
            ],
            Self::Epic => &[
                Reason::PhaseComplete,
                Reason::SyncPoint,
                Reason::Blocker,
                Reason::Heartbeat,
            ],
            Self::Orchestrator => &[
                Reason::StateTransition,
                Reason::AgentComplete,
                Reason::UserApproval,
                Reason::BeforeDestructive,
                Reason::Interval,
                Reason::Shutdown,
            ],
            Self::Recovery => &COMPACTION[1..],
        };
        let mut set = Triggers::of(own);
        if matches!(self, Self::Fleet | Self::Sitebuilder | Self::Orchestrator) {
            ERRORS.iter().for_each(|reason| set.switch(*reason, true));
        }
        if self == Self::Fleet {
            COMPACTION
                .iter()
                .for_each(|reason| set.switch(*reason, true));
        }
        set
    }
}
