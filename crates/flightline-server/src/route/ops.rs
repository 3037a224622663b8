//! Any operation by its name: what `fleet` itself uses when it talks to a server.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use flightline::Access;
use flightline::core::Refusal;
use serde_json::Value;

use super::{Done, Shared};
use crate::door::{Body, Guest, Named};
use crate::operation::{self, Entry};

pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    Named(name): Named<String>,
    guest: Guest,
    headers: HeaderMap,
    body: Body,
) -> Done {
    let entry = operation::find(&name)?;
    guest.must_have(entry.scope)?;
    check_agent(&guest, entry, &body)?;
    let caller = guest.caller(&headers)?;
    let outcome = shared
        .with(entry.access, entry.company, move |fleet| {
            entry.run(fleet, &body.0, &caller)
        })
        .await?;
    outcome.answer(StatusCode::OK)
}

/// The agent that writes comes from the token: a body that names another is refused here, whatever the
/// operation would make of it.
pub(crate) fn check_agent(guest: &Guest, entry: Entry, body: &Body) -> Result<(), Refusal> {
    if entry.access == Access::Read {
        return Ok(());
    }
    let field = match entry.name {
        "register_agent" => "name",
        "take_over" => "to",
        _ => "agent",
    };
    let request: Value = body.read()?;
    match request.get(field) {
        Some(Value::String(agent)) => guest.must_be(agent),
        _ => Ok(()),
    }
}
