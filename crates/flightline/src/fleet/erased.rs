//! An operation without its type: what the engine needs of it, so that the engine is compiled once and not once per
//! operation.

use flightline_core::text::read_stored;
use flightline_core::token::Scope;
use flightline_core::{Code, Refusal, Time};
use flightline_store::StoreError;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::authority::ActsFor;
use super::{Access, Answered, Fleet, Operation, Went, When, WhenFull, to_json};
use crate::error::Result;
use crate::op_context::OpContext;
use crate::remote::{Deferred, Offline};

/// The constants of an operation. See [`Operation`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) access: Access,
    pub(super) scope: Scope,
    pub(super) fenced: bool,
    pub(super) is_act: bool,
    pub(super) briefs: bool,
    pub(super) offline: Offline,
    pub(super) when_full: WhenFull,
}

impl Spec {
    pub(super) const fn of<O: Operation>() -> Self {
        Self {
            name: O::NAME,
            access: O::ACCESS,
            scope: O::SCOPE,
            fenced: O::FENCED,
            is_act: O::IS_ACT,
            briefs: O::BRIEFS,
            offline: O::OFFLINE,
            when_full: O::WHEN_FULL,
        }
    }
}

/// An operation that is being run. It keeps its outcome.
pub(super) trait ErasedOperation {
    fn spec(&self) -> Spec;
    fn acts_for(&self) -> ActsFor<'_>;
    fn request(&self) -> Result<String>;
    fn asked(&self) -> Result<String>;
    fn for_later(&self, asked_at: Time) -> Result<String>;
    fn decide(&mut self, ctx: &mut OpContext<'_, '_>) -> Result<()>;
    /// Notes the operation, and returns true when that was enough.
    fn note(&mut self, ctx: &mut OpContext<'_, '_>) -> Result<bool>;
    /// Returns the outcome as JSON. It is written once.
    fn outcome(&mut self) -> Result<String>;
    /// Returns true when the operation may be kept until the store can be reached.
    fn may_wait(&self) -> bool;
    /// Takes the deferral of the operation while the store cannot be reached.
    fn wait(&mut self, later: Deferred);
    /// Takes the text of an outcome that was decided elsewhere or earlier, unread.
    fn take(&mut self, outcome: OutcomeText);
}

/// The outcome of an operation as JSON, by where it comes from.
pub(super) enum OutcomeText {
    /// The store remembers the outcome of an earlier request with the same key.
    Remembered(String),
    /// The outcome came from a store elsewhere.
    Received(String),
}

/// The outcome of an operation so far.
enum Held<T> {
    Nothing,
    Decided(T),
    /// Decided, and written as JSON.
    Written(T, String),
    Unread(OutcomeText),
    Later(Deferred),
}

/// An operation and, once it ran, its outcome.
pub(super) struct Acting<'a, O: Operation> {
    operation: &'a O,
    when: When,
    held: Held<O::Outcome>,
}

impl<'a, O: Operation> Acting<'a, O> {
    pub(super) fn new(operation: &'a O, when: When) -> Self {
        Self {
            operation,
            when,
            held: Held::Nothing,
        }
    }

    pub(super) fn done(self, fleet: &Fleet, went: Went) -> Result<Answered<O::Outcome>> {
        let outcome = match self.held {
            Held::Later(later) => return Ok(Answered::Later(later)),
            Held::Nothing => Err(without_outcome(O::NAME).into()),
            Held::Decided(outcome) | Held::Written(outcome, _) => Ok(outcome),
            Held::Unread(OutcomeText::Remembered(text)) => read_stored(&text).map_err(|error| {
                StoreError::Corrupt(format!("a remembered outcome: {error}")).into()
            }),
            Held::Unread(OutcomeText::Received(text)) => {
                serde_json::from_str(&text).map_err(|error| fleet.unreadable(O::NAME, &error))
            }
        };
        Ok(Answered::Now(went.with(outcome?)))
    }

    /// The outcome, after it ran, for a front end that needs only its text: an outcome that is text already is not parsed.
    pub(super) fn erased(self, went: Went) -> Result<Answered<Box<dyn ErasedOutcome>>> {
        let outcome: Box<dyn ErasedOutcome> = match self.held {
            Held::Later(later) => return Ok(Answered::Later(later)),
            Held::Nothing => return Err(without_outcome(O::NAME).into()),
            Held::Decided(outcome) => Box::new(outcome),
            Held::Written(_, text)
            | Held::Unread(OutcomeText::Remembered(text) | OutcomeText::Received(text)) => {
                Box::new(Ready(text))
            }
        };
        Ok(Answered::Now(went.with(outcome)))
    }
}

fn without_outcome(name: &str) -> Refusal {
    Refusal::new(Code::Failed, format!("`{name}` has no outcome"))
}

/// An outcome without its type. It is written as JSON where its reader is, and not on the thread that writes to the store.
pub trait ErasedOutcome: Send {
    fn text(&self) -> std::result::Result<Box<RawValue>, Refusal>;
}

impl<T: Serialize + Send> ErasedOutcome for T {
    fn text(&self) -> std::result::Result<Box<RawValue>, Refusal> {
        to_raw_value(self).map_err(|error| unwritable(&error))
    }
}

/// An outcome that is a text already.
struct Ready(String);

impl ErasedOutcome for Ready {
    fn text(&self) -> std::result::Result<Box<RawValue>, Refusal> {
        RawValue::from_string(self.0.clone()).map_err(|error| {
            Refusal::new(Code::Integrity, format!("a remembered outcome: {error}"))
        })
    }
}

fn unwritable(error: &serde_json::Error) -> Refusal {
    Refusal::new(Code::Failed, format!("cannot write JSON: {error}"))
}

impl<O: Operation> ErasedOperation for Acting<'_, O> {
    fn spec(&self) -> Spec {
        Spec::of::<O>()
    }

    fn acts_for(&self) -> ActsFor<'_> {
        (O::ACTS_FOR)(self.operation)
    }

    fn request(&self) -> Result<String> {
        to_json(self.operation)
    }

    fn asked(&self) -> Result<String> {
        self.operation.asked()
    }

    fn for_later(&self, asked_at: Time) -> Result<String> {
        self.operation.for_later(asked_at)
    }

    fn decide(&mut self, ctx: &mut OpContext<'_, '_>) -> Result<()> {
        self.held = Held::Decided(self.operation.decide(ctx)?);
        Ok(())
    }

    fn note(&mut self, ctx: &mut OpContext<'_, '_>) -> Result<bool> {
        let noted = self.operation.note(ctx)?;
        let enough = noted.is_some();
        self.held = noted.map_or(Held::Nothing, Held::Decided);
        Ok(enough)
    }

    fn outcome(&mut self) -> Result<String> {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Decided(outcome) => {
                let text = to_json(&outcome)?;
                self.held = Held::Written(outcome, text.clone());
                Ok(text)
            }
            held @ (Held::Nothing | Held::Written(..) | Held::Unread(_) | Held::Later(_)) => {
                self.held = held;
                Err(without_outcome(O::NAME).into())
            }
        }
    }

    fn may_wait(&self) -> bool {
        self.when == When::NowOrLater
    }

    fn wait(&mut self, later: Deferred) {
        self.held = Held::Later(later);
    }

    fn take(&mut self, outcome: OutcomeText) {
        self.held = Held::Unread(outcome);
    }
}
