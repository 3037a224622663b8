//! The routes. Each reads a request, calls one operation, and writes its outcome; none holds a rule.

mod checkpoints;
pub(crate) mod events;
mod health;
mod mcp;
mod ops;
pub(crate) mod page;
#[cfg(feature = "schema")]
pub(crate) mod special;
pub(crate) mod table;
pub(crate) mod take;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use flightline::core::{Code, Refusal};
use flightline::event::Cursor;
use flightline::registry::{Commit, Registered};
use flightline::remote::header::REPLAYED;
use flightline::store::clock::IdSource;
use flightline::{Access, Caller, Done, Fleet};
use serde::Serialize;
use tokio::sync::{Notify, Semaphore, watch};

use crate::health::Health;
use crate::metrics::Metrics;
use crate::middleware::{self, Principal, etag};
use crate::notify::NotifyHandle;
use crate::problem::Problem;
use crate::projects::{Projects, ServedProject};
use crate::serve::{Limits, MessageSink};
use crate::test_mode::TestMode;
use crate::trace::Tracing;
use crate::upkeep::Nudge;
use crate::workers::Queues;

pub(crate) struct Shared {
    pub(crate) queues: Queues,
    pub(crate) nudge: SyncSender<Nudge>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracing: Tracing,
    /// The host names of this server.
    pub(crate) hosts: Vec<String>,
    /// The protocol version of this end.
    pub(crate) api: u32,
    /// In test mode, the clock and the ids to use.
    pub(crate) test_mode: Option<TestMode>,
    pub(crate) ids: IdSource,
    pub(crate) say: MessageSink,
    /// The permits for open streams of events.
    pub(crate) streams: Arc<Semaphore>,
    /// Notified after each write of this server.
    pub(crate) wrote: Arc<Notify>,
    pub(crate) projects: Arc<Projects>,
    /// Notifies other nodes, where there are any.
    pub(crate) post: Option<NotifyHandle>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) limits: Limits,
}

pub(crate) type HandlerResult = Result<Response, Problem>;

pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    let api = Router::new()
        .route(
            "/checkpoints",
            get(checkpoints::list).post(checkpoints::create),
        )
        .route("/checkpoints/prune", post(checkpoints::prune))
        .route(
            "/checkpoints/{id}",
            get(checkpoints::show).delete(checkpoints::delete),
        )
        .route("/checkpoints/{id}/recover", post(checkpoints::recover))
        .route("/events/stream", get(events::stream))
        .route("/ops/{operation}", post(ops::call))
        .merge(table::router());
    Router::new()
        .nest("/api/v1", api)
        .route("/mcp", post(mcp::speak))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(health::openapi))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .fallback(middleware::nowhere)
        .layer(from_fn_with_state(Arc::clone(shared), middleware::enter))
        .with_state(Arc::clone(shared))
}

/// An outcome, and whether it is that of an earlier request with the same key.
pub(crate) struct HandlerOutcome<T> {
    pub(crate) value: T,
    pub(crate) replayed: bool,
    /// The revision of the last change of the subject.
    pub(crate) since: Option<Cursor>,
    pub(crate) looked: bool,
}

impl<T> HandlerOutcome<T> {
    /// Wraps a value that no operation gave.
    pub(crate) fn plain(value: T) -> Self {
        Self {
            value,
            replayed: false,
            since: None,
            looked: true,
        }
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> HandlerOutcome<U> {
        HandlerOutcome {
            value: f(self.value),
            replayed: self.replayed,
            since: self.since,
            looked: self.looked,
        }
    }

    pub(crate) fn and_then<U>(
        self,
        f: impl FnOnce(T) -> Result<U, Refusal>,
    ) -> Result<HandlerOutcome<U>, Refusal> {
        Ok(HandlerOutcome {
            value: f(self.value)?,
            replayed: self.replayed,
            since: self.since,
            looked: self.looked,
        })
    }
}

impl<T: Serialize> HandlerOutcome<T> {
    pub(crate) fn answer(&self, status: StatusCode) -> HandlerResult {
        let text = serde_json::to_string(&self.value).map_err(|error| {
            Refusal::new(Code::Failed, format!("cannot write the answer: {error}"))
        })?;
        let read = self.looked.then_some(text.as_str());
        let tag = self.since.as_ref().and_then(|since| etag::of(since, read));
        let mut response = (status, Body::from(text)).into_response();
        let headers = response.headers_mut();
        if let Some(tag) = tag {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        mark(headers, self.replayed);
        Ok(response)
    }
}

/// Marks an answer as a repeated one: nothing was done this time.
pub(crate) fn mark(headers: &mut HeaderMap, replayed: bool) {
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
}

impl Shared {
    /// Runs one operation, if the principal's token goes that far.
    pub(crate) async fn run<O: Registered>(
        &self,
        principal: &Principal,
        caller: Caller,
        request: O,
    ) -> Result<HandlerOutcome<O::Outcome>, Refusal> {
        let entry = principal.may_call(O::NAME)?;
        self.with(principal.project(), O::ACCESS, entry.commit, move |fleet| {
            fleet
                .run_fully(&request, &caller)
                .map_err(flightline::Error::into_refusal)
        })
        .await
    }

    /// Runs a piece of work that is more than one operation. It may run twice, and only the last time counts.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        project: &Arc<ServedProject>,
        access: Access,
        commit: Commit,
        mut f: impl FnMut(&mut Fleet) -> Result<Done<T>, Refusal> + Send + 'static,
    ) -> Result<HandlerOutcome<T>, Refusal> {
        let done = self.queues.run(&project.id, access, commit, move |fleet| {
            let done = f(fleet)?;
            Ok(HandlerOutcome {
                value: done.outcome,
                replayed: done.replayed,
                since: done.since,
                looked: access == Access::Read,
            })
        });
        let outcome = done.await;
        if access != Access::Read {
            // One nudge that waits already is enough.
            project.note_write();
            let _ = self.nudge.try_send(Nudge::Written);
            self.wrote.notify_one();
        }
        outcome
    }
}
