//! Several operations in one transaction and one commit: all of them are done, or none.

use crate::Schema;
use flightline_core::Refusal;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, ErasedOutcome, Operation, Scope, to_json};
use crate::op_context::OpContext;
use crate::registry::{self, ErasedPart};

const MOST: usize = 64;

/// Runs several operations in one transaction: all of them are done, or none.
#[derive(Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RunBatch {
    /// The operations, in the order in which they are run: 1 to 64.
    #[schemars(with = "Vec<PartText>", length(min = 1, max = 64))]
    pub operations: Vec<BatchPart>,
}

/// An operation in a batch.
#[derive(Serialize, Deserialize)]
#[serde(from = "PartText")]
pub struct BatchPart {
    operation: String,
    request: Box<RawValue>,
    /// The request, read together with the batch; a refusal of it refuses the batch when that is run.
    #[serde(skip)]
    read: std::result::Result<Box<dyn ErasedPart>, Refusal>,
}

/// An operation in a batch.
#[derive(Deserialize, Schema)]
#[schemars(rename = "BatchPart")]
#[serde(deny_unknown_fields)]
struct PartText {
    /// The name of the operation, such as `update_sortie`.
    operation: String,
    /// The request of the operation, as it would be sent alone.
    #[serde(default = "nothing")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    request: Box<RawValue>,
}

fn nothing() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

impl From<PartText> for BatchPart {
    fn from(text: PartText) -> Self {
        Self {
            read: registry::read_part(&text.operation, text.request.get()),
            operation: text.operation,
            request: text.request,
        }
    }
}

/// The outcomes of a batch.
#[derive(Serialize, Deserialize, Schema)]
pub struct BatchOutcome {
    /// The outcome of each operation, in order.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub outcomes: Vec<PartOutcome>,
}

/// The outcome of an operation in a batch. It is written as JSON together with the batch's.
pub struct PartOutcome(Box<dyn ErasedOutcome>);

impl Serialize for PartOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let text = self.0.text().map_err(serde::ser::Error::custom)?;
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PartOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Box::new(text)))
    }
}

impl Operation for RunBatch {
    const NAME: &'static str = "run_batch";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    // Each operation is held to the token by itself.
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = BatchOutcome;

    fn asked(&self) -> Result<String> {
        let asked = self.operations.iter().map(|part| match &part.read {
            Ok(read) => Ok((&part.operation, read.asked()?)),
            Err(_) => Ok((&part.operation, part.request.to_string())),
        });
        to_json(&asked.collect::<Result<Vec<_>>>()?)
    }

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
            let outcome = match &part.read {
                Ok(read) => read.decide(ctx),
                Err(refusal) => Err(refusal.clone().into()),
            };
            outcomes.push(PartOutcome(
                outcome.map_err(|error| at(place, part, error))?,
            ));
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
