//! What documents of different dialects have in common, and what is lost between them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Reason;
use crate::time::Time;

/// The system whose files these are.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Seed B.
    Sitebuilder,
    /// Seed C.
    Epic,
    /// Seed D.
    Orchestrator,
    /// Seed E.
    Recovery,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Sitebuilder,
        Self::Epic,
        Self::Orchestrator,
        Self::Recovery,
    ];

    /// The word for it: the preset's.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sitebuilder => "sitebuilder",
            Self::Epic => "epic",
            Self::Orchestrator => "orchestrator",
            Self::Recovery => "recovery",
        }
    }

    /// The dialect this word means.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }

    /// Whether it has a place for a fact.
    #[must_use]
    pub const fn says(self, fact: Fact) -> bool {
        use Dialect::{Epic, Orchestrator, Recovery, Sitebuilder};
        match fact {
            Fact::At => true,
            Fact::Task | Fact::Instructions | Fact::Next => {
                matches!(self, Sitebuilder | Epic | Recovery)
            }
            Fact::Objective => matches!(self, Sitebuilder | Orchestrator | Recovery),
            Fact::Agent | Fact::Standing | Fact::Blockers | Fact::Resumable => {
                matches!(self, Sitebuilder | Epic | Orchestrator)
            }
            Fact::Session => matches!(self, Epic | Orchestrator),
            Fact::Stage => matches!(self, Epic | Orchestrator | Recovery),
            Fact::StartedAt | Fact::CompletedAt | Fact::FilesCreated => {
                matches!(self, Sitebuilder | Orchestrator)
            }
            // Seed D wants a checksum and a size with each, which nobody else has.
            Fact::FilesModified => matches!(self, Sitebuilder | Epic),
            Fact::Done | Fact::Current => matches!(self, Sitebuilder | Epic),
            Fact::Reason => matches!(self, Orchestrator | Recovery),
        }
    }

    /// Facts without which it has no document.
    #[must_use]
    pub const fn needs(self) -> &'static [Fact] {
        match self {
            Self::Sitebuilder => &[Fact::Agent, Fact::Task, Fact::Standing, Fact::At],
            Self::Epic => &[Fact::Agent, Fact::At],
            Self::Orchestrator => &[
                Fact::Objective,
                Fact::Session,
                Fact::Stage,
                Fact::At,
                Fact::Resumable,
                Fact::Reason,
            ],
            Self::Recovery => &[Fact::At],
        }
    }
}

/// Where a task or an agent stands, in the words of all dialects together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Waiting for others.
    Waiting,
    /// Something is in the way.
    Blocked,
    /// Done.
    Complete,
    /// Not done, given up.
    Failed,
    /// Left out.
    Skipped,
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// The nearest that a dialect has a word for. Nothing unfinished becomes complete.
    #[must_use]
    pub const fn nearest(self, dialect: Dialect) -> Self {
        match (dialect, self) {
            (Dialect::Sitebuilder, Self::Pending | Self::Waiting) => Self::InProgress,
            (Dialect::Sitebuilder | Dialect::Epic, Self::Failed | Self::Skipped) => Self::Blocked,
            (Dialect::Epic, Self::Pending) => Self::Waiting,
            (Dialect::Orchestrator, Self::Waiting | Self::Blocked) => Self::Pending,
            (
                Dialect::Sitebuilder | Dialect::Epic | Dialect::Orchestrator | Dialect::Recovery,
                standing,
            ) => standing,
        }
    }
}

/// Something a [`Record`] can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// Which task or feature.
    Task,
    /// What it is about.
    Objective,
    /// Whose.
    Agent,
    /// In which session.
    Session,
    /// In which stage, state or phase.
    Stage,
    /// Where it stands.
    Standing,
    /// When this was written.
    At,
    /// When work began.
    StartedAt,
    /// When it was completed.
    CompletedAt,
    /// Files that are new.
    FilesCreated,
    /// Files that were changed.
    FilesModified,
    /// What is in the way.
    Blockers,
    /// Whether it can be resumed.
    Resumable,
    /// How to take it up again.
    Instructions,
    /// Steps that are done.
    Done,
    /// The step that is being worked on.
    Current,
    /// Steps that come next.
    Next,
    /// Why it was written.
    Reason,
}

impl Fact {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Task,
        Self::Objective,
        Self::Agent,
        Self::Session,
        Self::Stage,
        Self::Standing,
        Self::At,
        Self::StartedAt,
        Self::CompletedAt,
        Self::FilesCreated,
        Self::FilesModified,
        Self::Blockers,
        Self::Resumable,
        Self::Instructions,
        Self::Done,
        Self::Current,
        Self::Next,
        Self::Reason,
    ];

    /// What it is called.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "the task",
            Self::Objective => "the objective",
            Self::Agent => "the agent",
            Self::Session => "the session",
            Self::Stage => "the stage",
            Self::Standing => "the status",
            Self::At => "the time it was written",
            Self::StartedAt => "the time work began",
            Self::CompletedAt => "the time it was completed",
            Self::FilesCreated => "files created",
            Self::FilesModified => "files modified",
            Self::Blockers => "blockers",
            Self::Resumable => "whether it can be resumed",
            Self::Instructions => "the resume instructions",
            Self::Done => "completed steps",
            Self::Current => "the current step",
            Self::Next => "next steps",
            Self::Reason => "the reason it was taken",
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a document says that at least one other dialect can say too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Which task or feature.
    pub task: Option<String>,
    /// What it is about.
    pub objective: Option<String>,
    /// Whose.
    pub agent: Option<String>,
    /// In which session.
    pub session: Option<String>,
    /// In which stage, state or phase.
    pub stage: Option<String>,
    /// Where it stands.
    pub standing: Option<Standing>,
    /// When this was written.
    pub at: Option<Time>,
    /// When work began.
    pub started_at: Option<Time>,
    /// When it was completed.
    pub completed_at: Option<Time>,
    /// Files that are new.
    pub files_created: Vec<String>,
    /// Files that were changed.
    pub files_modified: Vec<String>,
    /// What is in the way.
    pub blockers: Vec<String>,
    /// Whether it can be resumed.
    pub resumable: Option<bool>,
    /// How to take it up again.
    pub instructions: Option<String>,
    /// Steps that are done.
    pub done: Vec<String>,
    /// The step that is being worked on.
    pub current: Option<String>,
    /// Steps that come next.
    pub next: Vec<String>,
    /// Why it was written.
    pub reason: Option<Reason>,
}

impl Record {
    /// Whether it says something of this.
    #[must_use]
    pub const fn says(&self, fact: Fact) -> bool {
        match fact {
            Fact::Task => self.task.is_some(),
            Fact::Objective => self.objective.is_some(),
            Fact::Agent => self.agent.is_some(),
            Fact::Session => self.session.is_some(),
            Fact::Stage => self.stage.is_some(),
            Fact::Standing => self.standing.is_some(),
            Fact::At => self.at.is_some(),
            Fact::StartedAt => self.started_at.is_some(),
            Fact::CompletedAt => self.completed_at.is_some(),
            Fact::FilesCreated => !self.files_created.is_empty(),
            Fact::FilesModified => !self.files_modified.is_empty(),
            Fact::Blockers => !self.blockers.is_empty(),
            Fact::Resumable => self.resumable.is_some(),
            Fact::Instructions => self.instructions.is_some(),
            Fact::Done => !self.done.is_empty(),
            Fact::Current => self.current.is_some(),
            Fact::Next => !self.next.is_empty(),
            Fact::Reason => self.reason.is_some(),
        }
    }

    fn forget(&mut self, fact: Fact) {
        match fact {
            Fact::Task => self.task = None,
            Fact::Objective => self.objective = None,
            Fact::Agent => self.agent = None,
            Fact::Session => self.session = None,
            Fact::Stage => self.stage = None,
            Fact::Standing => self.standing = None,
            Fact::At => self.at = None,
            Fact::StartedAt => self.started_at = None,
            Fact::CompletedAt => self.completed_at = None,
            Fact::FilesCreated => self.files_created.clear(),
            Fact::FilesModified => self.files_modified.clear(),
            Fact::Blockers => self.blockers.clear(),
            Fact::Resumable => self.resumable = None,
            Fact::Instructions => self.instructions = None,
            Fact::Done => self.done.clear(),
            Fact::Current => self.current = None,
            Fact::Next => self.next.clear(),
            Fact::Reason => self.reason = None,
        }
    }

    /// What is left of it in a dialect, and what is lost.
    #[must_use]
    pub fn within(&self, dialect: Dialect) -> (Self, Vec<String>) {
        let (mut left, mut lost) = (self.clone(), Vec::new());
        for fact in Fact::ALL {
            // Of an agent that is not named, seed D can say nothing.
            let homeless = matches!(fact, Fact::Standing | Fact::StartedAt | Fact::CompletedAt)
                && dialect == Dialect::Orchestrator
                && self.agent.is_none();
            if self.says(fact) && (homeless || !dialect.says(fact)) {
                left.forget(fact);
                lost.push(fact.to_string());
            }
        }
        if let Some(standing) = left.standing {
            let nearest = standing.nearest(dialect);
            if nearest != standing {
                lost.push(instead(Fact::Standing, standing.as_str(), nearest.as_str()));
                left.standing = Some(nearest);
            }
        }
        if let (Dialect::Orchestrator, Some(reason)) = (dialect, left.reason) {
            let nearest = super::orchestrator::Trigger::nearest(reason).to_reason();
            if nearest != reason {
                lost.push(instead(Fact::Reason, reason.as_str(), nearest.as_str()));
                left.reason = Some(nearest);
            }
        }
        (left, lost)
    }

    /// What a dialect needs and this does not say.
    #[must_use]
    pub fn missing_for(&self, dialect: Dialect) -> Vec<Fact> {
        let mut missing = dialect.needs().to_vec();
        if dialect == Dialect::Orchestrator && self.agent.is_some() {
            missing.push(Fact::Standing);
        }
        missing.retain(|fact| !self.says(*fact));
        missing
    }
}

fn instead(fact: Fact, said: &str, written: &str) -> String {
    format!("{fact} `{said}`, for which `{written}` is written")
}
