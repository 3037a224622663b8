//! The health endpoints: `/healthz` and `/readyz`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use flightline::Access;
use flightline::core::token::Scope;
use flightline::registry::Commit;
use serde_json::Value;

use super::{HandlerOutcome, HandlerResult, Shared};
use crate::metrics::Now;
use crate::middleware::Principal;

/// The reason of a failure is shown to callers with a token only, because it may name files or stored content; the
/// reason of a failure in one project only to callers of that project.
pub(crate) async fn healthz(
    State(shared): State<Arc<Shared>>,
    principal: Option<Extension<Principal>>,
) -> HandlerResult {
    let project = principal.as_ref().map(|principal| &*principal.project().id);
    answer(shared.health.report(project))
}

pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> HandlerResult {
    answer(shared.health.readiness())
}

pub(crate) async fn openapi(principal: Principal) -> HandlerResult {
    principal.must_have(Scope::Read)?;
    HandlerOutcome::plain(crate::published::openapi()).answer(StatusCode::OK)
}

pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    principal: Principal,
) -> HandlerResult {
    principal.must_have(Scope::Read)?;
    let metrics = Arc::clone(&shared.metrics);
    let look = shared.queues.run(
        &principal.project().id,
        Access::Read,
        Commit::Grouped,
        move |fleet| metrics.look(fleet),
    );
    let now = Now {
        // When the store does not answer, the rest is worth knowing all the more.
        fleet: look.await.ok(),
        health: &shared.health,
        waiting: shared.queues.waiting(),
        streams: shared.limits.streams - shared.streams.available_permits(),
    };
    let mut response = Response::new(Body::from(shared.metrics.render(now)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    Ok(response)
}

fn answer((status, value): (StatusCode, Value)) -> HandlerResult {
    HandlerOutcome::plain(value).answer(status)
}
