//! Who runs operations for MCP.

use std::pin::Pin;

use flightline::Operation;
use flightline::registry::Called;
use serde_json::Value;

/// An operation to be run.
#[derive(Clone, Debug)]
pub struct Call {
    /// The operation's name in the registry.
    pub operation: &'static str,
    /// Its request. Paths in it are as the client wrote them.
    pub request: Value,
    /// The agent that the client says it is, where it says so.
    pub agent: Option<String>,
    /// Whether it is only to be shown what it would do.
    pub rehearse: bool,
}

impl Call {
    /// Asks for an operation with this request.
    pub(crate) fn of<O: Operation>(request: Value) -> Self {
        Self {
            operation: O::NAME,
            request,
            agent: None,
            rehearse: false,
        }
    }

    /// As this agent.
    pub(crate) fn by(self, agent: Option<String>) -> Self {
        Self { agent, ..self }
    }
}

/// An outcome that is waited for.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Called> + Send + 'a>>;

/// Runs operations, with whatever caller, trust and token go with them.
pub trait OperationRunner: Send + Sync + 'static {
    /// Runs one call of an operation.
    fn call(&self, call: Call) -> Pending<'_>;
}
