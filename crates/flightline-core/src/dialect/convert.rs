//! A document of any dialect, and its way into another: whatever the other can say comes over, and what
//! it cannot say is named.

mod alone;
mod translate;

use super::record::{Dialect, Record};
use super::unreadable::Unreadable;
use super::{epic, orchestrator, recovery, sitebuilder};
use crate::error::Refusal;

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

/// What a document of seed D has and no other: an id, and a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The id for the new document.
    pub id: orchestrator::Id,
    /// The project it belongs to.
    pub project: String,
}

/// A document in another dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The document.
    pub document: Document,
    /// What the other dialect cannot say.
    pub lost: Vec<String>,
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

    /// Writes it.
    #[must_use]
    pub fn write(&self) -> String {
        match self {
            Self::Sitebuilder(document) => sitebuilder::write(document),
            Self::Epic(document) => epic::write(document),
            Self::Orchestrator(document) => orchestrator::write(document),
            Self::Recovery(document) => recovery::write(document),
        }
    }

    /// Its dialect.
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

    /// What it says that others can say too.
    #[must_use]
    pub fn record(&self) -> Record {
        match self {
            Self::Sitebuilder(document) => translate::of_sitebuilder(document),
            Self::Epic(document) => translate::of_epic(document),
            Self::Orchestrator(document) => translate::of_orchestrator(document),
            Self::Recovery(document) => translate::of_recovery(document),
        }
    }

    /// What is lost when it is written in another dialect; nothing in its own.
    #[must_use]
    pub fn lost_in(&self, other: Dialect) -> Vec<String> {
        if other == self.dialect() {
            return Vec::new();
        }
        let (_, mut lost) = self.record().within(other);
        lost.extend(alone::alone(self));
        lost
    }

    /// The document in another dialect. `add` supplies what that dialect needs and this one does not say:
    /// it is given the record, and may change it.
    ///
    /// # Errors
    /// When something is still missing, or a name cannot be one there.
    pub fn convert(
        &self,
        other: Dialect,
        given: &Given,
        add: impl FnOnce(&mut Record),
    ) -> Result<Converted, Refusal> {
        let mut record = self.record();
        add(&mut record);
        let document = match other == self.dialect() {
            true => self.clone(),
            false => Self::from_record(other, &record, given)?,
        };
        Ok(Converted {
            document,
            lost: self.lost_in(other),
        })
    }

    /// The document that says of a record what the dialect can.
    ///
    /// # Errors
    /// When something is missing that the dialect needs, or a name cannot be one there.
    pub fn from_record(dialect: Dialect, record: &Record, given: &Given) -> Result<Self, Refusal> {
        let missing = record.missing_for(dialect);
        if !missing.is_empty() {
            let missing: Vec<&str> = missing.iter().map(|fact| fact.as_str()).collect();
            return Err(Refusal::invalid(format!(
                "it cannot be written as `{}`: it does not say {}",
                dialect.as_str(),
                missing.join(", ")
            )));
        }
        let (record, _) = record.within(dialect);
        Ok(match dialect {
            Dialect::Sitebuilder => Self::Sitebuilder(Box::new(translate::to_sitebuilder(record)?)),
            Dialect::Epic => Self::Epic(Box::new(translate::to_epic(record))),
            Dialect::Orchestrator => {
                Self::Orchestrator(Box::new(translate::to_orchestrator(record, given)))
            }
            Dialect::Recovery => Self::Recovery(Box::new(translate::to_recovery(record))),
        })
    }
}
