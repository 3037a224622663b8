//! A document of any of the other systems.

use std::ops::{Deref, DerefMut};

use super::json::Json;
use super::shape::FieldForm;
use super::unreadable::{Path, Unreadable, check_version};
use super::{epic, orchestrator, recovery, sitebuilder};

words! {
    /// The system whose files these are.
    pub enum Dialect {
        /// The format of seed B.
        Sitebuilder = "sitebuilder",
        /// The format of seed C.
        Epic = "epic",
        /// The format of seed D.
        Orchestrator = "orchestrator",
        /// The format of seed E.
        Recovery = "recovery",
    }
}

impl Dialect {
    const fn shape(self) -> &'static FieldForm {
        match self {
            Self::Sitebuilder => &sitebuilder::CHECKPOINT,
            Self::Epic => &epic::CHECKPOINT,
            Self::Orchestrator => &orchestrator::CHECKPOINT,
            Self::Recovery => &recovery::CHECKPOINT,
        }
    }
}

/// A document: JSON that has the shape of its dialect, exactly as it was read.
///
/// Fields are read and set as those of the document's [`Json`]. Two documents are equal when they hold the same fields:
/// the order of keys is kept, and does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct DialectDocument {
    dialect: Dialect,
    json: Json,
}

impl DialectDocument {
    /// Reads a document. Whether the checksums of one of seed D are right is for [`orchestrator::verify`] to say.
    pub fn read(dialect: Dialect, text: &str) -> Result<Self, Unreadable> {
        let json = Json::parse(text)?;
        if matches!(dialect, Dialect::Orchestrator | Dialect::Recovery) {
            check_version(&json, "1")?;
        }
        dialect.shape().check(&json, &Path::ROOT)?;
        Ok(Self { dialect, json })
    }

    /// A document that we make: the known fields, in the seed's order.
    pub fn new(dialect: Dialect, fields: serde_json::Value) -> Self {
        let json = dialect.shape().arranged(&fields.into());
        Self { dialect, json }
    }

    /// Writes the document as the seed does.
    pub fn write(&self) -> String {
        match self.dialect {
            Dialect::Sitebuilder => self.pretty(&["items"]) + "\n",
            Dialect::Epic => self.pretty(&[]) + "\n",
            // As `JSON.stringify(checkpoint, null, 2)` does.
            Dialect::Orchestrator => self.pretty(&[]),
            Dialect::Recovery => self.pretty(recovery::ONE_LINE) + "\n",
        }
    }

    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Sets a field. One that is new goes behind the field that it follows in the seed.
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        *self.dialect.shape().slot(&mut self.json, key) = value.into();
    }

    /// Returns the name of the document's subject, for people.
    pub fn name(&self) -> String {
        match self.dialect {
            Dialect::Sitebuilder => {
                let agent = self.text("agent_name").unwrap_or(self.word("agent"));
                format!("{} of {agent}", self.word("task_id"))
            }
            Dialect::Epic => self.word("agent_id").to_owned(),
            Dialect::Orchestrator => self.word("id").to_owned(),
            Dialect::Recovery => "a checkpoint".to_owned(),
        }
    }
}

impl Deref for DialectDocument {
    type Target = Json;

    fn deref(&self) -> &Json {
        &self.json
    }
}

impl DerefMut for DialectDocument {
    fn deref_mut(&mut self) -> &mut Json {
        &mut self.json
    }
}
