//! Refusals: a code, a sentence and a way out, for requests that Flightline will not carry out.

use crate::Schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of a failure, in one word that programs can match on. Every surface has the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is malformed: a flag, a field, a value.
    InvalidInput,
    /// A text is longer than its field allows.
    TooLong,
    /// A confirmation is needed and there is no terminal to ask on.
    ConfirmationNeeded,
    /// There is no such thing.
    NotFound,
    /// An id prefix fits several things.
    AmbiguousId,
    /// There is no `.flightline/` here or above.
    NoProject,
    /// The thing is in a state from which this cannot be done.
    IllegalTransition,
    /// Another agent or person owns the thing.
    NotYours,
    /// Another caller was faster.
    AlreadyTaken,
    /// No sortie is ready to be claimed.
    NothingReady,
    /// No sortie is left to be claimed: everything is done.
    NothingLeft,
    /// The name or key exists already.
    AlreadyExists,
    /// The path, or one that overlaps it, is locked.
    LockHeld,
    /// An old session, epoch or fence tried to write.
    Fenced,
    /// The effect has been done already.
    EffectDone,
    /// The effect was begun, and it is not known whether it happened.
    EffectInDoubt,
    /// An idempotency key came with another request than the first.
    KeyReused,
    /// Unfinished work forbids the request.
    Unfinished,
    /// The thing has changed since the caller last looked.
    Changed,
    /// The cursor belongs to another history, or lies in the future.
    HistoryChanged,
    /// The value at that revision has been thinned away.
    HistoryThinned,
    /// A person should look at something; nothing failed.
    Attention,
    /// Stored data fails its checks.
    Integrity,
    /// The store was written by a newer version.
    NewerStore,
    /// The file or database is not ours.
    NotOurStore,
    /// The fleet came from elsewhere, and this user did not trust it on this machine.
    Untrusted,
    /// The store is busy, unreachable or out of space: try again.
    Unavailable,
    /// The outcome of a commit is unknown: the write may have been made or not.
    CommitUnknown,
    /// The request has no token, or one that opens nothing.
    Unauthenticated,
    /// The scope of the token does not reach so far.
    Forbidden,
    /// Here and at the server are versions that do not understand one another.
    OtherVersion,
    /// The failure has no other code: a file cannot be read, a pipe is broken.
    Failed,
}

impl Code {
    /// The process exit code for this failure (SPEC: 0 done · 1 failed · 2 usage · 3 not found ·
    /// 4 conflict · 5 attention · 6 integrity · 7 unavailable).
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::InvalidInput | Self::TooLong | Self::ConfirmationNeeded => 2,
            Self::NotFound | Self::AmbiguousId | Self::NoProject | Self::NothingLeft => 3,
            Self::IllegalTransition
            | Self::NotYours
            | Self::AlreadyTaken
            | Self::NothingReady
            | Self::AlreadyExists
            | Self::LockHeld
            | Self::Fenced
            | Self::EffectDone
            | Self::EffectInDoubt
            | Self::KeyReused
            | Self::Unfinished
            | Self::Changed
            | Self::HistoryChanged
            | Self::HistoryThinned => 4,
            Self::Attention => 5,
            Self::Integrity
            | Self::NewerStore
            | Self::NotOurStore
            | Self::Untrusted
            | Self::OtherVersion => 6,
            Self::Unavailable | Self::CommitUnknown => 7,
            Self::Unauthenticated | Self::Forbidden | Self::Failed => 1,
        }
    }

    /// Returns true when the same request may succeed later without a change.
    pub const fn retryable(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::CommitUnknown | Self::LockHeld | Self::NothingReady
        )
    }
}

/// A refusal: what happened, to which thing, and what to do about it.
///
/// The message is a lower-case fragment without a full stop; the hint holds commands to paste.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error, Schema)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of the failure, for programs.
    pub code: Code,
    /// A description of the failure, for people.
    pub message: String,
    /// The next thing to do, with the exact command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The things that are involved, as data.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// True when trying again can help.
    pub retryable: bool,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            details: Value::Null,
            retryable: code.retryable(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message)
    }

    /// Returns this refusal with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the refusal with this hint instead of one that says that nothing was written: a step that fails knows
    /// nothing of the steps before it. To run all of it again is no longer safe.
    #[must_use]
    pub fn after_a_write(self, hint: &str) -> Self {
        match &self.hint {
            Some(said) if said.starts_with("nothing was written") => Self {
                retryable: false,
                ..self.hint(hint)
            },
            _ => self,
        }
    }

    /// Returns this refusal with the things involved, as JSON.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}
