//! Describes a file of another system that cannot be read: the fault, and its place in the file.

use std::fmt;

use serde_json::json;

use super::json::Json;
use crate::error::{Code, Refusal};
use crate::redact::shown;

pub const MAX_BYTES: usize = 8 * 1024 * 1024;
/// The largest depth to which lists and objects may stand in each other.
pub const MAX_DEPTH: usize = 64;

/// A document that cannot be read: the fault and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}{place}")]
pub struct Unreadable {
    pub fault: DocumentFault,
    pub place: SourcePosition,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// The document is larger than [`MAX_BYTES`].
    #[error("it has {bytes} bytes, and at most {MAX_BYTES} are read")]
    TooLarge { bytes: usize },
    /// The document is nested deeper than [`MAX_DEPTH`].
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it is empty")]
    Empty,
    #[error("it ends too early")]
    CutShort,
    #[error("expected {expected}, found {found:?}")]
    Syntax { expected: &'static str, found: char },
    /// A key stands twice in one object: readers disagree on which one counts.
    #[error("the key `{}` stands twice", shown(.key))]
    DuplicateKey { key: String },
    /// Half of a character that takes two `\u` escapes.
    #[error("half a surrogate pair, which is no character")]
    LoneSurrogate,
    #[error("a number too large to hold")]
    NumberTooLarge,
    #[error("expected {expected}, found {found}")]
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    #[error("`{key}` is missing")]
    Missing { key: &'static str },
    /// A word that means nothing here.
    #[error("`{}` is none of {known}", shown(.word))]
    UnknownWord { word: String, known: String },
    /// A text that is not what this field holds.
    #[error("`{}` is not {expected}", shown(.text))]
    Malformed {
        text: String,
        expected: &'static str,
    },
    /// The document was written by a newer version of its system.
    #[error("its version is `{}`, and only {known} is understood", shown(.version))]
    Newer {
        version: String,
        known: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePosition {
    Whole,
    Line {
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
    },
    /// The position of a value, such as `$.subtasks.items[3].status`.
    Path(String),
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Line { line, column } => write!(f, " at line {line}, column {column}"),
            Self::Path(path) => write!(f, " at `{path}`"),
        }
    }
}

impl Unreadable {
    pub const fn whole(fault: DocumentFault) -> Self {
        Self {
            fault,
            place: SourcePosition::Whole,
        }
    }

    /// The refusal to read `file`.
    pub fn refusal(&self, file: &str) -> Refusal {
        let code = match &self.fault {
            DocumentFault::TooLarge { .. } => Code::TooLong,
            DocumentFault::Newer { .. } => Code::NewerStore,
            DocumentFault::TooDeep
            | DocumentFault::NotUtf8
            | DocumentFault::Empty
            | DocumentFault::CutShort
            | DocumentFault::Syntax { .. }
            | DocumentFault::DuplicateKey { .. }
            | DocumentFault::LoneSurrogate
            | DocumentFault::NumberTooLarge
            | DocumentFault::WrongType { .. }
            | DocumentFault::Missing { .. }
            | DocumentFault::UnknownWord { .. }
            | DocumentFault::Malformed { .. } => Code::InvalidInput,
        };
        let details = match &self.place {
            SourcePosition::Whole => json!({ "file": shown(file) }),
            SourcePosition::Line { line, column } => {
                json!({ "file": shown(file), "line": line, "column": column })
            }
            SourcePosition::Path(path) => json!({ "file": shown(file), "path": path }),
        };
        Refusal::new(code, format!("cannot read `{}`: {self}", shown(file))).details(details)
    }
}

/// The way from a document's root to a value.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    pub const fn key(&'a self, key: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    pub const fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    pub fn wrong(&self, fault: DocumentFault) -> Unreadable {
        Unreadable {
            fault,
            place: SourcePosition::Path(self.to_string()),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Root => f.write_str("$"),
            Step::Key(key) => write!(f, ".{}", shown(key)),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Refuses a document whose `version` begins with a larger number than `known`: it is not ours to judge,
/// and not to be written over.
pub(super) fn check_version(json: &Json, known: &'static str) -> Result<(), Unreadable> {
    let Some(Json::Text(version)) = json.get("version") else {
        return Ok(());
    };
    let major = |version: &str| {
        let digits = version.split('.').next().unwrap_or_default();
        digits.parse::<u64>().ok()
    };
    match (major(version), major(known)) {
        (Some(theirs), Some(ours)) if theirs > ours => {
            Err(Path::ROOT.key("version").wrong(DocumentFault::Newer {
                version: version.clone(),
                known,
            }))
        }
        _ => Ok(()),
    }
}
