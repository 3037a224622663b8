//! Whether we are there, and well.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use super::{Done, Outcome, Shared};

pub(crate) async fn healthz(State(shared): State<Arc<Shared>>) -> Done {
    answer(shared.health.report())
}

pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> Done {
    answer(shared.health.readiness())
}

fn answer((status, value): (StatusCode, Value)) -> Done {
    Outcome {
        value,
        replayed: false,
    }
    .answer(status)
}
