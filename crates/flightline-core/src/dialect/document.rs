//! A document of any of the other systems.

use serde::{Deserialize, Serialize};

use super::unreadable::Unreadable;
use super::{epic, orchestrator, recovery, sitebuilder};

/// The system whose files these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
}

/// A document of any dialect.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// Seed B.
    Sitebuilder(Box<sitebuilder::Checkpoint>),
    /// Seed C.
    Epic(Box<epic::Checkpoint>),
    /// Seed D.
    Orchestrator(Box<orchestrator::Checkpoint>),
    /// Seed E.
    Recovery(Box<recovery::Checkpoint>),
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// When the text is not one of that dialect; the error says why and where.
    pub fn read(dialect: Dialect, text: &str) -> Result<Self, Unreadable> {
        Ok(match dialect {
            Dialect::Sitebuilder => Self::Sitebuilder(Box::new(sitebuilder::read(text)?)),
            Dialect::Epic => Self::Epic(Box::new(epic::read(text)?)),
            Dialect::Orchestrator => Self::Orchestrator(Box::new(orchestrator::read(text)?)),
            Dialect::Recovery => Self::Recovery(Box::new(recovery::read(text)?)),
        })
    }

    /// Writes the document as text.
    #[must_use]
    pub fn write(&self) -> String {
        match self {
            Self::Sitebuilder(document) => sitebuilder::write(document),
            Self::Epic(document) => epic::write(document),
            Self::Orchestrator(document) => orchestrator::write(document),
            Self::Recovery(document) => recovery::write(document),
        }
    }

    /// The dialect that the document is in.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match self {
            Self::Sitebuilder(_) => Dialect::Sitebuilder,
            Self::Epic(_) => Dialect::Epic,
            Self::Orchestrator(_) => Dialect::Orchestrator,
            Self::Recovery(_) => Dialect::Recovery,
        }
    }

    /// What it is about, for people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Sitebuilder(document) => {
                let agent = document.agent_name.get().unwrap_or(&document.agent);
                format!("{} of {agent}", document.task_id)
            }
            Self::Epic(document) => document.agent_id.clone(),
            Self::Orchestrator(document) => document.id.as_str().to_owned(),
            Self::Recovery(_) => "a checkpoint".to_owned(),
        }
    }
}
