//! Several operations in one transaction and one commit: all of them are done, or none.

use flightline_core::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;
use crate::registry;

const MOST: usize = 64;

/// Runs several operations in one transaction: all of them are done, or none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunBatch {
    /// The operations, in the order in which they are run: 1 to 64.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub operations: Vec<BatchPart>,
}

/// An operation in a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BatchPart {
    /// The name of the operation, such as `update_sortie`.
    pub operation: String,
    /// The request of the operation, as it would be sent alone.
    #[serde(default)]
    pub request: Map<String, Value>,
}

/// The outcomes of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchOutcome {
    /// The outcome of each operation, in order.
    pub outcomes: Vec<Value>,
}

impl Operation for RunBatch {
    const NAME: &'static str = "run_batch";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    // Each operation is held to the token by itself.
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = BatchOutcome;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<BatchOutcome> {
        if !(1..=MOST).contains(&self.operations.len()) {
            let count = self.operations.len();
            return Err(Refusal::invalid(format!(
                "a batch has 1 to {MOST} operations, and this one has {count}"
            ))
            .into());
        }
        let mut outcomes = Vec::with_capacity(self.operations.len());
        for (place, part) in self.operations.iter().enumerate() {
            let request = Value::Object(part.request.clone()).to_string();
            let outcome = registry::decide_part(&part.operation, &request, ctx);
            outcomes.push(outcome.map_err(|error| at(place, part, error))?);
        }
        Ok(BatchOutcome { outcomes })
    }
}

/// A refusal of one operation says which it was, and that none was done.
fn at(place: usize, part: &BatchPart, error: Error) -> Error {
    match error {
        Error::Refused(mut refusal) => {
            let name = flightline_core::redact::shown(&part.operation);
            refusal.message = format!(
                "nothing of the batch was done: operation {} (`{name}`): {}",
                place + 1,
                refusal.message
            );
            Error::Refused(refusal)
        }
        error @ Error::Store(_) => error,
    }
}
