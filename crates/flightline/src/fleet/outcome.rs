//! Carries the outcome of a request, and how it came about.

use crate::event::Cursor;
use crate::remote::Deferred;
use flightline_core::{Code, Refusal};

/// The outcome of an operation, and how it came about.
#[derive(Clone, Debug)]
pub struct Done<T> {
    pub outcome: T,
    /// True when the outcome is that of an earlier request with the same key: nothing was done this time.
    pub replayed: bool,
    /// The position since which the request's target has not changed: the thing that the caller named, else
    /// everything. None when that was not looked at.
    pub since: Option<Cursor>,
}

impl<T> Done<T> {
    /// An outcome that says nothing of when, or whether it was given before.
    pub fn plain(outcome: T) -> Self {
        Self {
            outcome,
            replayed: false,
            since: None,
        }
    }

    /// Replaces the outcome by another, which came about in the same way.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Done<U> {
        Done {
            outcome: f(self.outcome),
            replayed: self.replayed,
            since: self.since,
        }
    }
}

/// The answer to a request that was not refused: an outcome, or, where the store is elsewhere and cannot be reached,
/// the request's deferral.
#[derive(Debug)]
pub enum Answered<T> {
    Now(Done<T>),
    /// The request was kept on this machine, or dropped because the next request of its kind replaces it. Nothing
    /// failed.
    Later(Deferred),
}

impl<T> Answered<T> {
    /// The outcome; refuses where there is none yet.
    pub fn now(self) -> std::result::Result<Done<T>, Refusal> {
        match self {
            Self::Now(done) => Ok(done),
            Self::Later(later) => Err(Refusal::new(Code::Unavailable, later.message)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    /// Now; or, where the operation may wait and the store cannot be reached, later.
    NowOrLater,
}

/// The record of an operation whose outcome is kept elsewhere.
pub(super) type Went = Done<()>;

impl Went {
    pub(super) fn since(since: Cursor) -> Self {
        Self {
            since: Some(since),
            ..Self::plain(())
        }
    }

    pub(super) fn with<T>(self, outcome: T) -> Done<T> {
        self.map(|()| outcome)
    }
}
