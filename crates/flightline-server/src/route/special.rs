//! The descriptions of routes that are more than one operation each.

use flightline::checkpoint::CheckpointDocument;
use flightline::checkpoint::prune::Pruned;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::checkpoints::{
    CheckpointListQuery, CheckpointPage, Create, CreatedCheckpoint, Prune, Recover, Recovered,
};
use super::events::EventQuery;

type Shape = fn(&mut SchemaGenerator) -> Schema;

/// A route that is more than one operation, or an envelope of its own, with its description.
#[derive(Clone, Copy)]
pub(crate) struct Special {
    pub(crate) id: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    pub(crate) status: u16,
    pub(crate) scope: &'static str,
    pub(crate) query: Option<Shape>,
    pub(crate) body: Option<Shape>,
    pub(crate) answer: Option<Shape>,
    /// The media type of the answer.
    pub(crate) written: &'static str,
    /// True when answers have tags, and requests may have preconditions.
    pub(crate) tagged: bool,
}

const fn special(
    id: &'static str,
    route: (&'static str, &'static str),
    about: &'static str,
    answer: (u16, &'static str),
) -> Special {
    Special {
        id,
        method: route.0,
        path: route.1,
        about,
        status: answer.0,
        scope: answer.1,
        query: None,
        body: None,
        answer: None,
        written: "application/json",
        tagged: false,
    }
}

impl Special {
    const fn asks(self, query: Shape) -> Self {
        Self {
            query: Some(query),
            ..self
        }
    }

    const fn takes(self, body: Shape) -> Self {
        Self {
            body: Some(body),
            ..self
        }
    }

    const fn gives(self, answer: Shape) -> Self {
        Self {
            answer: Some(answer),
            ..self
        }
    }

    const fn as_text(self, written: &'static str) -> Self {
        Self {
            answer: Some(String::json_schema),
            written,
            ..self
        }
    }

    const fn tagged(self) -> Self {
        Self {
            tagged: true,
            ..self
        }
    }
}

fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    Schema::default()
}

#[rustfmt::skip]
pub(crate) const SPECIAL: &[Special] = &[
    special("createCheckpoint", ("POST", "/api/v1/checkpoints"), "Take a checkpoint of a mission", (201, "agent")).takes(Create::json_schema).gives(CreatedCheckpoint::json_schema),
    special("listCheckpoints", ("GET", "/api/v1/checkpoints"), "Checkpoints of a mission, newest first", (200, "read")).asks(CheckpointListQuery::json_schema).gives(CheckpointPage::json_schema).tagged(),
    special("showCheckpoint", ("GET", "/api/v1/checkpoints/{id}"), "A checkpoint in full", (200, "read")).gives(|schemas| schemas.subschema_for::<CheckpointDocument>()).tagged(),
    special("recoverCheckpoint", ("POST", "/api/v1/checkpoints/{id}/recover"), "Go back to exactly this checkpoint", (200, "dispatch")).takes(Recover::json_schema).gives(Recovered::json_schema).tagged(),
    special("deleteCheckpoint", ("DELETE", "/api/v1/checkpoints/{id}"), "Delete a checkpoint and its file", (204, "dispatch")).tagged(),
    special("pruneCheckpoints", ("POST", "/api/v1/checkpoints/prune"), "Delete the checkpoints that retention gives up", (200, "dispatch")).takes(Prune::json_schema).gives(|schemas| schemas.subschema_for::<Pruned>()),
    special("streamEvents", ("GET", "/api/v1/events/stream"), "A stream of new events", (200, "read")).asks(EventQuery::json_schema).as_text("text/event-stream"),
    special("callOperation", ("POST", "/api/v1/ops/{operation}"), "Any operation by its name", (200, "read")).takes(object).gives(anything),
    special("metrics", ("GET", "/metrics"), "Get the figures of the server for Prometheus", (200, "read")).as_text("text/plain"),
    special("openapi", ("GET", "/openapi.json"), "Get this description of the API", (200, "read")).gives(object),
    special("healthz", ("GET", "/healthz"), "The health of the server", (200, "read")).gives(object),
    special("readyz", ("GET", "/readyz"), "Whether requests can be served", (200, "read")).gives(object),
];
