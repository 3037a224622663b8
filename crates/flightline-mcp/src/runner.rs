//! The interface through which MCP has operations run.

use std::pin::Pin;

use flightline::Operation;
use flightline::registry::Called;
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Call {
    pub operation: &'static str,
    /// The request of the operation. Paths in it are as the client wrote them.
    pub request: Value,
    pub agent: Option<String>,
    pub rehearse: bool,
}

impl Call {
    pub(crate) fn of<O: Operation>(request: Value) -> Self {
        Self {
            operation: O::NAME,
            request,
            agent: None,
            rehearse: false,
        }
    }

    pub(crate) fn by(self, agent: Option<String>) -> Self {
        Self { agent, ..self }
    }
}

pub type Pending<'a> = Pin<Box<dyn Future<Output = Called> + Send + 'a>>;

/// Runs operations, with the caller, the trust and the token that belong to them.
pub trait OperationRunner: Send + Sync + 'static {
    fn call(&self, call: Call) -> Pending<'_>;
}
