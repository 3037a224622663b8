//! MCP over HTTP: the tools, resources and prompts of `flightline-mcp`, run by this server's threads with the principal's token.

use std::sync::Arc;

use axum::body::Body as Raw;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use flightline::core::Refusal;
use flightline::registry::{Called, LARGEST, Spoken};
use flightline_mcp::{Call, Loaded, OperationRunner, Pending, http};

use super::{HandlerResult, Shared, ops};
use crate::middleware::{JsonBody, Principal};
use crate::request_log::{self, RequestLog};

/// Runs the operations that one request asks for.
struct McpRunner {
    shared: Arc<Shared>,
    principal: Principal,
    headers: HeaderMap,
    /// The notes on the request. They are passed on, because the protocol is spoken on tasks of its own.
    notes: Option<Arc<RequestLog>>,
}

impl McpRunner {
    async fn run(&self, call: Call) -> Result<Called, Refusal> {
        let entry = self.principal.may_call(call.operation)?;
        let caller = self
            .principal
            .caller_of(&self.headers, call.agent.as_deref(), None)?;
        let order = ops::OperationCall {
            entry,
            caller,
            request: entry.read(&call.request.to_string())?,
            rehearse: call.rehearse,
            test_headers: None,
        };
        let (outcome, said) = ops::run(&self.shared, &self.principal, order).await;
        Ok(Called {
            outcome: outcome.and_then(|outcome| outcome.value.text().map(Spoken::Outcome)),
            warnings: said.warnings,
        })
    }
}

impl OperationRunner for McpRunner {
    fn call(&self, call: Call) -> Pending<'_> {
        Box::pin(async move {
            let called = match &self.notes {
                Some(notes) => notes.follow(self.run(call)).await,
                None => self.run(call).await,
            };
            called.unwrap_or_else(|refusal| Err(refusal).into())
        })
    }
}

/// Answers a request of MCP. Every tool is offered: connecting a program to a server is a choice that was made.
pub(crate) async fn speak(
    State(shared): State<Arc<Shared>>,
    principal: Principal,
    request: Request,
) -> HandlerResult {
    let (parts, raw) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), raw);
    let body = JsonBody::within(whole, LARGEST, shared.limits.body).await?;
    let runner = McpRunner {
        shared,
        principal,
        headers: parts.headers.clone(),
        notes: request_log::current(),
    };
    let request = Request::from_parts(parts, Raw::from(body.text));
    // Faults of the protocol are answered in the protocol's own words.
    Ok(http::answer(runner, Loaded::Full, request).await)
}
