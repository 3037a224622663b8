//! The file of another system as it last came in.

use serde::{Deserialize, Serialize};

use super::document::Dialect;
use crate::subject::{Keys, Kind, Subject};
use crate::time::Time;

/// A document as it last came in, so that what it says and we have no place for goes out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Original {
    /// Whose format it is.
    pub dialect: Dialect,
    /// What it is about: the id of an agent, a sortie or a checkpoint.
    pub of: String,
    /// The document's name for people.
    #[serde(default)]
    pub name: String,
    /// The file it came from.
    pub file: String,
    /// Its text, cleaned like every text from outside.
    pub text: String,
    /// What we would have written of the same, at the moment it came in. What has changed since then is
    /// what goes into the text.
    pub ours: String,
    /// When it came in.
    pub at: Time,
}

impl Original {
    /// The id of the one of this dialect about `of`.
    #[must_use]
    pub fn id(dialect: Dialect, of: &str) -> String {
        format!("{}/{of}", dialect.as_str())
    }
}

impl Subject for Original {
    const KIND: Kind = Kind::Original;

    fn key(&self) -> String {
        Self::id(self.dialect, &self.of)
    }

    fn keys(&self) -> Keys {
        Keys {
            parent: Some(self.of.clone()),
            name: Some(self.file.clone()),
            status: "kept",
            ..Keys::default()
        }
    }
}
