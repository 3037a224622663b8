//! Seed C: one checkpoint per agent, in `agent_checkpoints/{agent}.json`.

mod files;
mod monitor;
mod texts;

use super::field::{Extra, Keep, Maybe, Stamp, Value, document, words};
use super::json::Json;
use super::unreadable::{Path, Unreadable};
use crate::time::Millis;

pub use self::files::{
    ARCHIVE_FOLDER, Ended, FOLDER, archive_name, backup_name, file_name, is_monitored,
    latest_backup, surplus_backups,
};
pub use self::monitor::{Standing, Thresholds, Verdict, age_minutes, judge};
pub use self::texts::{
    Escalation, escalation, handoff, resume_message, warning_message, warning_subject,
};

const MINUTE: Millis = 60_000;

document! {
    /// An agent's checkpoint.
    pub struct Checkpoint {
        /// The agent: `Agent-Primary`, `Secondary-A`.
        agent_id "agent_id": String,
        /// Whether it coordinates or works.
        agent_type "agent_type": Maybe<AgentType>,
        /// The session it works in.
        session_id "session_id": Maybe<String>,
        /// What it owns.
        feature "feature": Maybe<String>,
        /// How far along it is: `S2.P1`, `S2.P2`, `S2.P3`.
        stage "stage": Maybe<String>,
        /// The stage in words for people.
        phase "phase": Maybe<String>,
        /// When the agent last wrote this.
        last_checkpoint "last_checkpoint": Stamp,
        /// When it should write again.
        next_checkpoint_expected "next_checkpoint_expected": Maybe<Stamp>,
        /// Where it stands.
        status "status": Maybe<AgentStatus>,
        /// Whether its work can be taken up from here.
        can_resume "can_resume": Maybe<bool>,
        /// The blockers of the agent.
        blockers "blockers": Maybe<Vec<String>>,
        /// Files changed since the last commit.
        files_modified "files_modified": Maybe<Vec<String>>,
        /// How to take it up.
        recovery_instructions "recovery_instructions": Maybe<String>,
        /// What it is at right now.
        current_step "current_step": Maybe<String>,
        /// The steps that the agent has completed.
        completed_steps "completed_steps": Maybe<Vec<String>>,
        /// The next steps of the agent.
        next_steps "next_steps": Maybe<Vec<String>>,
        /// When it last looked at what it shares with others.
        coordination_state "coordination_state": Maybe<Coordination>,
    }

    /// When an agent last looked at what it shares with others.
    #[derive(Default)]
    pub struct Coordination {
        /// At its mail.
        last_inbox_check "last_inbox_check": Maybe<Stamp>,
        /// How much of it is unread.
        unread_messages "unread_messages": Maybe<u64>,
        /// At the epic's page.
        last_epic_readme_update "last_epic_readme_update": Maybe<Stamp>,
        /// At its status.
        last_status_update "last_status_update": Maybe<Stamp>,
    }
}

words! {
    /// Whether an agent coordinates or works.
    pub enum AgentType or Other {
        /// The agent coordinates the others.
        Primary "primary",
        /// The agent works on a feature.
        Secondary "secondary",
    }
}

words! {
    /// Where an agent stands.
    pub enum AgentStatus or Other {
        /// The agent is at work.
        InProgress "IN_PROGRESS",
        /// Waiting for others.
        Waiting "WAITING",
        /// Something is in the way.
        Blocked "BLOCKED",
        /// The agent's work is done.
        Complete "COMPLETE",
    }
}

/// Reads an agent's checkpoint.
///
/// # Errors
/// When the text is not one; the error says why and where.
pub fn read(text: &str) -> Result<Checkpoint, Unreadable> {
    Checkpoint::read(Json::parse(text)?, &Path::ROOT)
}

/// Writes an agent's checkpoint, as the seed shows it.
#[must_use]
pub fn write(checkpoint: &Checkpoint) -> String {
    checkpoint.write(Keep::All).pretty(&[]) + "\n"
}

impl Checkpoint {
    /// A checkpoint that says no more than it must.
    #[must_use]
    pub fn new(agent_id: String, last_checkpoint: Stamp) -> Self {
        Self {
            agent_id,
            agent_type: Maybe::Absent,
            session_id: Maybe::Absent,
            feature: Maybe::Absent,
            stage: Maybe::Absent,
            phase: Maybe::Absent,
            last_checkpoint,
            next_checkpoint_expected: Maybe::Absent,
            status: Maybe::Absent,
            can_resume: Maybe::Absent,
            blockers: Maybe::Absent,
            files_modified: Maybe::Absent,
            recovery_instructions: Maybe::Absent,
            current_step: Maybe::Absent,
            completed_steps: Maybe::Absent,
            next_steps: Maybe::Absent,
            coordination_state: Maybe::Absent,
            extra: Extra::default(),
        }
    }

    /// Whether the primary monitors this agent: every agent but itself, and every agent that the seed's script looks at.
    #[must_use]
    pub fn is_monitored(&self) -> bool {
        self.agent_type.get() != Some(&AgentType::Primary)
            || file_name(&self.agent_id).is_ok_and(|file| is_monitored(&file))
    }

    /// The phase without what the agent added to it: of `Specification - In Progress`, `Specification`.
    #[must_use]
    pub fn phase_name(&self) -> Option<&str> {
        let phase = self.phase.get()?;
        Some(
            phase
                .split_once(" - ")
                .map_or(phase.as_str(), |(name, _)| name),
        )
    }
}
