//! What came of a request, and how.

use crate::event::Cursor;
use crate::remote::Deferred;
use flightline_core::{Code, Refusal};

/// The outcome of an operation, and how it came about.
#[derive(Clone, Debug)]
pub struct Done<T> {
    pub outcome: T,
    /// Whether it is that of an earlier request with the same key: nothing was done this time.
    pub replayed: bool,
    /// Since when the thing that it is about stands as it does: the thing that the caller named, else all there is. Nothing when
    /// that was not looked at.
    pub since: Option<Cursor>,
}

impl<T> Done<T> {
    /// An outcome that says nothing of when, or whether it was given before.
    #[must_use]
    pub fn plain(outcome: T) -> Self {
        Self {
            outcome,
            replayed: false,
            since: None,
        }
    }

    /// Another outcome, that came about in the same way.
    #[must_use]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Done<U> {
        Done {
            outcome: f(self.outcome),
            replayed: self.replayed,
            since: self.since,
        }
    }
}

/// What came of a request that was not refused: an outcome, or, where the store is elsewhere and cannot be reached, what becomes of
/// the request.
#[derive(Debug)]
pub enum Answered<T> {
    Now(Done<T>),
    /// It was kept on this machine, or dropped because the next one says what it says. Nothing failed.
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

/// How an operation went whose outcome is kept elsewhere.
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
