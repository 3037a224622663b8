//! Whether we are there, and well.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use flightline::Access;
use flightline::core::token::Scope;
use flightline::registry::Commit;
use serde_json::Value;

use super::{Answer, Outcome, Shared};
use crate::door::Guest;
use crate::metrics::Now;

/// The reason of a failure is shown to callers with a token only, because it may name files or stored content; the
/// reason of a failure in one project only to callers of that project.
pub(crate) async fn healthz(
    State(shared): State<Arc<Shared>>,
    guest: Option<Extension<Guest>>,
) -> Answer {
    let project = guest.as_ref().map(|guest| &*guest.project().id);
    answer(shared.health.report(project))
}

pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> Answer {
    answer(shared.health.readiness())
}

pub(crate) async fn openapi(guest: Guest) -> Answer {
    guest.must_have(Scope::Read)?;
    Outcome::plain(crate::published::openapi()).answer(StatusCode::OK)
}

pub(crate) async fn metrics(State(shared): State<Arc<Shared>>, guest: Guest) -> Answer {
    guest.must_have(Scope::Read)?;
    let metrics = Arc::clone(&shared.metrics);
    let look = shared.lines.run(
        &guest.project().id,
        Access::Read,
        Commit::Grouped,
        move |fleet| metrics.look(fleet),
    );
    let now = Now {
        // When the store does not answer, the rest is worth knowing all the more.
        fleet: look.await.ok(),
        health: &shared.health,
        waiting: shared.lines.waiting(),
        streams: shared.limits.streams - shared.streams.available_permits(),
    };
    let mut response = Response::new(Body::from(shared.metrics.render(now)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    Ok(response)
}

fn answer((status, value): (StatusCode, Value)) -> Answer {
    Outcome::plain(value).answer(status)
}
