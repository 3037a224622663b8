//! The file of another system as it last came in.

use crate::Schema;
use serde::{Deserialize, Serialize};

use super::document::Dialect;
use crate::subject::{Keys, Kind, Subject};
use crate::time::Time;

/// A document as it last came in, so that the parts of it that we have no place for go out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Original {
    /// The system whose format it is.
    pub dialect: Dialect,
    /// The subject of the document: the id of an agent, a sortie or a checkpoint.
    pub of: String,
    /// The document's name for people.
    #[serde(default)]
    pub name: String,
    /// The file it came from.
    pub file: String,
    /// The text of the document, cleaned like every text from outside.
    pub text: String,
    /// The text that we would have written of the same, at the moment the document came in. Changes since then go into
    /// the document's text.
    pub ours: String,
    /// Time at which the document came in.
    pub at: Time,
}

impl Original {
    /// Returns the id of the document of this dialect about `of`.
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
