//! An operation without its type: what the engine needs of it, so that the engine is compiled once and not once per
//! operation.

use flightline_core::text::read_stored;
use flightline_core::token::Scope;
use flightline_core::{Code, Refusal, Time};

use super::authority::ActsFor;
use super::{Access, Operation, WhenFull, to_json};
use crate::desk::Desk;
use crate::error::Result;
use crate::remote::Offline;

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
pub(super) trait Act {
    fn spec(&self) -> Spec;
    fn acts_for(&self) -> ActsFor<'_>;
    /// The request as JSON.
    fn request(&self) -> Result<String>;
    fn asked(&self) -> Result<String>;
    fn for_later(&self, asked_at: Time) -> Result<String>;
    fn decide(&mut self, desk: &mut Desk<'_, '_>) -> Result<()>;
    /// Whether noting it was enough.
    fn note(&mut self, desk: &mut Desk<'_, '_>) -> Result<bool>;
    /// The outcome as JSON.
    fn outcome(&self) -> Result<String>;
    /// Takes an outcome that the store remembers.
    fn recall(&mut self, outcome: &str) -> serde_json::Result<()>;
    /// Takes an outcome that came from elsewhere.
    fn receive(&mut self, outcome: &str) -> serde_json::Result<()>;
}

/// An operation and, once it ran, its outcome.
pub(super) struct Acting<'a, O: Operation> {
    operation: &'a O,
    outcome: Option<O::Outcome>,
}

impl<'a, O: Operation> Acting<'a, O> {
    pub(super) fn new(operation: &'a O) -> Self {
        Self {
            operation,
            outcome: None,
        }
    }

    /// The outcome, after it ran.
    pub(super) fn done(self) -> Result<O::Outcome> {
        self.outcome.ok_or_else(|| without_outcome(O::NAME).into())
    }
}

fn without_outcome(name: &str) -> Refusal {
    Refusal::new(Code::Failed, format!("`{name}` has no outcome"))
}

impl<O: Operation> Act for Acting<'_, O> {
    fn spec(&self) -> Spec {
        Spec::of::<O>()
    }

    fn acts_for(&self) -> ActsFor<'_> {
        self.operation.acts_for()
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

    fn decide(&mut self, desk: &mut Desk<'_, '_>) -> Result<()> {
        self.outcome = Some(self.operation.decide(desk)?);
        Ok(())
    }

    fn note(&mut self, desk: &mut Desk<'_, '_>) -> Result<bool> {
        self.outcome = self.operation.note(desk)?;
        Ok(self.outcome.is_some())
    }

    fn outcome(&self) -> Result<String> {
        match &self.outcome {
            Some(outcome) => to_json(outcome),
            None => Err(without_outcome(O::NAME).into()),
        }
    }

    fn recall(&mut self, outcome: &str) -> serde_json::Result<()> {
        self.outcome = Some(read_stored(outcome)?);
        Ok(())
    }

    fn receive(&mut self, outcome: &str) -> serde_json::Result<()> {
        self.outcome = Some(serde_json::from_str(outcome)?);
        Ok(())
    }
}
