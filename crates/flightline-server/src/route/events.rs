//! Events as they come (SSE): nothing twice and nothing left out, across disconnects and restarts, because every event
//! has its place in the journal as its id, and a client that comes back names the last one.

use crate::Schema;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use flightline::event::{Cursor, EventList, ListEvents};
use flightline::maintenance::last_revision;
use flightline::registry::Commit;
use flightline::{Access, Caller, Done, Fleet, Operation};
use hyper::body::{Bytes, Frame};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::{HandlerResult, Shared};
use crate::middleware::{Principal, Query};
use crate::projects::ServedProject;

/// The most events that are read at once.
const AT_ONCE: u64 = 200;
/// The time after which a silent stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The time between two looks for writes of other processes and servers.
const LOOK: Duration = Duration::from_millis(500);
/// The number of pieces that wait for a slow reader.
const WAITING: usize = 8;

/// Parses a place in the journal: `HISTORY.REV`.
pub(crate) fn place(text: &str) -> Result<Cursor, Refusal> {
    let parts = text
        .rsplit_once('.')
        .and_then(|(history, rev)| Some((history, rev.parse().ok()?)));
    let (history, rev) = parts.ok_or_else(|| {
        Refusal::invalid(format!(
            "`{}` is not a position in the journal",
            shown(text)
        ))
        .hint("positions look like `HISTORY.REV`: the `id` of an event in a stream")
    })?;
    Ok(Cursor {
        history: history.to_owned(),
        rev,
    })
}

pub(crate) fn written(cursor: &Cursor) -> String {
    format!("{}.{}", cursor.history, cursor.rev)
}

#[derive(Debug, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventQuery {
    /// Cursor after which the events begin.
    after: Option<String>,
    /// Mission whose events are wanted; without it, all missions.
    mission_id: Option<String>,
    /// Type of the events that are wanted; without it, all types.
    #[serde(rename = "type")]
    kind: Option<String>,
}

pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    principal: Principal,
    headers: HeaderMap,
    Query(wanted): Query<EventQuery>,
) -> HandlerResult {
    principal.may_call(ListEvents::NAME)?;
    let Ok(room) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return Err(Refusal::new(Code::Unavailable, "too many streams are open").into());
    };
    // A browser that comes back says so in a header; the query is for the first time.
    let last = headers.get("last-event-id").map(HeaderValue::to_str);
    let after = match (last, wanted.after) {
        (Some(Ok(text)), _) => Some(place(text)?),
        (Some(Err(_)), _) => return Err(Refusal::invalid("`last-event-id` is not text").into()),
        (None, after) => after.as_deref().map(place).transpose()?,
    };
    let ask = ListEvents {
        mission: wanted.mission_id,
        kind: wanted.kind,
        after,
        // A client that names no place gets nothing of the past.
        limit: 0,
        ..ListEvents::default()
    };
    // A client that names a place in another journal is refused now, and gets no events.
    let reader = Reader {
        shared: Arc::clone(&shared),
        project: Arc::clone(principal.project()),
        caller: principal.caller(&headers)?,
    };
    let now = reader.list(ask.clone()).await?.cursor;
    let begin = ask.after.clone().unwrap_or_else(|| now.clone());
    let (send, pieces) = mpsc::channel(WAITING);
    let follow = Follow {
        reader,
        ask: ListEvents {
            after: Some(begin),
            limit: AT_ONCE,
            ..ask
        },
        send,
        _room: room,
    };
    tokio::spawn(follow.run(now));
    let mut response = Response::new(Body::new(Pieces(pieces)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    Ok(response)
}

/// Reads the journal for a client, as long as its token is valid.
struct Reader {
    shared: Arc<Shared>,
    project: Arc<ServedProject>,
    caller: Caller,
}

impl Reader {
    async fn list(&self, ask: ListEvents) -> Result<EventList, Refusal> {
        let caller = self.caller.clone();
        let look = move |fleet: &mut Fleet| {
            fleet
                .run_fully(&ask, &caller)
                .map_err(flightline::Error::into_refusal)
        };
        let listed = self
            .shared
            .with(&self.project, Access::Read, Commit::Grouped, look);
        Ok(listed.await?.value)
    }
}

/// A reader of the journal, for as long as it reads.
struct Follow {
    reader: Reader,
    ask: ListEvents,
    send: mpsc::Sender<Bytes>,
    /// The permit for one of the streams that may be open at once.
    _room: OwnedSemaphorePermit,
}

impl Follow {
    /// Continues until the client has gone, the server ends, or the journal was replaced.
    async fn run(mut self, now: Cursor) {
        let mut news = self.reader.project.news.subscribe();
        let mut stopping = self.reader.shared.stopping.subscribe();
        let begin = self.ask.after.as_ref().map(written).unwrap_or_default();
        let hello = json!({ "history": now.history, "rev": now.rev });
        if !self
            .say(format!("id: {begin}\nevent: hello\ndata: {hello}\n\n"))
            .await
        {
            return;
        }
        loop {
            news.mark_unchanged();
            let listed = match self.reader.list(self.ask.clone()).await {
                Ok(listed) => listed,
                // No notification says when the store can be read again: look soon.
                Err(refusal) if refusal.retryable => {
                    if *stopping.borrow_and_update() || self.send.is_closed() {
                        return;
                    }
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Err(refusal) => {
                    let why = json!({ "code": refusal.code, "detail": refusal.message });
                    let code = why["code"].as_str().unwrap_or_default();
                    self.say(format!("event: {code}\ndata: {why}\n\n")).await;
                    return;
                }
            };
            let more = listed.events.len() as u64 >= AT_ONCE;
            if !listed.events.is_empty() && !self.say(told(&listed)).await {
                return;
            }
            self.ask.after = Some(listed.cursor);
            if *stopping.borrow_and_update() {
                return;
            }
            if !more && !self.wait(&mut news, &mut stopping).await {
                return;
            }
        }
    }

    /// Waits until there may be something new; false when the client has gone.
    async fn wait(
        &self,
        news: &mut watch::Receiver<u64>,
        stopping: &mut watch::Receiver<bool>,
    ) -> bool {
        tokio::select! {
            changed = news.changed() => changed.is_ok(),
            _ = stopping.changed() => true,
            () = self.send.closed() => false,
            // And looks, should a word have been missed.
            () = tokio::time::sleep(HEARTBEAT) => {
                self.say(": still here\n\n".to_owned()).await
            }
        }
    }

    async fn say(&self, text: String) -> bool {
        self.send.send(Bytes::from(text)).await.is_ok()
    }
}

fn told(listed: &EventList) -> String {
    let mut text = String::new();
    for event in &listed.events {
        let id = written(&Cursor {
            history: listed.cursor.history.clone(),
            rev: event.rev,
        });
        // JSON has no line breaks of its own, and types are words of ours.
        let data = json!(event);
        let _ = write!(text, "id: {id}\nevent: {}\ndata: {data}\n\n", event.kind);
    }
    text
}

/// Wakes the streams when a journal has something new, by any writer. One look serves all listeners.
pub(crate) async fn watch_journals(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.subscribe();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let look_at_all = tokio::select! {
            () = shared.wrote.notified() => false,
            _ = look.tick() => true,
            _ = stopping.changed() => return,
        };
        for project in shared.projects.all() {
            let (wrote, heard) = (project.take_write(), project.take_news());
            if wrote && let Some(post) = &shared.post {
                post.tell(&project.id);
            }
            // Without a listener there is no need to look.
            if !(wrote || heard || look_at_all) || project.news.receiver_count() == 0 {
                continue;
            }
            let look = |fleet: &mut Fleet| {
                let rev = last_revision(fleet);
                rev.map(Done::plain)
                    .map_err(flightline::Error::into_refusal)
            };
            let rev = shared.with(&project, Access::Read, Commit::Grouped, look);
            if let Ok(rev) = rev.await {
                project.news.send_if_modified(|last| {
                    let is_new = *last != rev.value;
                    *last = rev.value;
                    is_new
                });
            }
        }
    }
}

/// A body that comes in pieces.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}
