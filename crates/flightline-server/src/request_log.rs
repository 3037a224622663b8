//! The log of a request: notes on its way, reported when it is answered. The log, the figures
//! and the traces all have it from here. No token, no body and no address as it was typed is ever noted.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method};
use flightline::Access;
use flightline::core::Name;

use crate::route::Shared;
use crate::serve::{AccessLogLine, ServerMessage};

tokio::task_local! {
    /// The notes on the request that is under way.
    static NOTES: Arc<RequestLog>;
}

#[derive(Debug)]
pub(crate) struct RequestLog {
    began: Instant,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    project: Option<Arc<str>>,
    agent: Option<Name>,
    operation: Option<&'static str>,
    waits: Vec<Arc<QueueWait>>,
}

/// A wait of a request: first in the queue of the threads, then in the store.
#[derive(Debug)]
pub(crate) struct QueueWait {
    pub(crate) queue: &'static str,
    /// The operation that waits; none while the token is looked up.
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "traces tell it"))]
    pub(crate) operation: Option<&'static str>,
    pub(crate) sent: Instant,
    taken: OnceLock<Instant>,
    answered: OnceLock<Instant>,
}

/// A request that was answered, as the middleware knows it.
pub(crate) struct AnsweredRequest<'a> {
    pub(crate) request_id: String,
    pub(crate) method: Method,
    pub(crate) route: String,
    pub(crate) status: u16,
    pub(crate) code: Option<String>,
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "traces tell it"))]
    pub(crate) headers: &'a HeaderMap,
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "traces tell it"))]
    pub(crate) path: &'a str,
    pub(crate) request_bytes: u64,
    /// The size of the answer in bytes; none of a stream.
    pub(crate) response_bytes: Option<u64>,
    pub(crate) checkpoint: bool,
}

pub(crate) struct ServedRequest<'a> {
    pub(crate) line: AccessLogLine,
    pub(crate) answered: AnsweredRequest<'a>,
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "traces tell it"))]
    pub(crate) began: Instant,
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "traces tell it"))]
    pub(crate) ended: Instant,
    pub(crate) waits: Vec<Arc<QueueWait>>,
}

impl RequestLog {
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            noted: Mutex::default(),
        })
    }

    /// Keeps the notes of a request while `way` runs.
    pub(crate) async fn follow<T>(self: &Arc<Self>, way: impl Future<Output = T>) -> T {
        NOTES.scope(Arc::clone(self), way).await
    }

    pub(crate) fn tell(&self, shared: &Shared, mut answered: AnsweredRequest<'_>) {
        let ended = Instant::now();
        let noted = std::mem::take(&mut *self.open());
        let waited = noted.waits.iter().filter_map(|wait| wait.waited()).sum();
        let line = AccessLogLine {
            request_id: std::mem::take(&mut answered.request_id),
            method: answered.method.to_string(),
            route: std::mem::take(&mut answered.route),
            status: answered.status,
            code: answered.code.take(),
            micros: micros(ended.duration_since(self.began)),
            queue_micros: micros(waited),
            project: noted.project.map(|project| project.to_string()),
            agent: noted.agent.map(|agent| agent.to_string()),
            operation: noted.operation,
            trace_id: None,
        };
        let mut served = ServedRequest {
            line,
            answered,
            began: self.began,
            ended,
            waits: noted.waits,
        };
        shared.metrics.count(&served);
        served.line.trace_id = shared.tracing.request(&served);
        (shared.say)(ServerMessage::Served(served.line));
    }

    fn open(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the notes of the request that is under way, for code that continues it on another task.
pub(crate) fn current() -> Option<Arc<RequestLog>> {
    NOTES.try_with(Arc::clone).ok()
}

pub(crate) fn project(id: &Arc<str>) {
    note(|noted| noted.project = Some(Arc::clone(id)));
}

pub(crate) fn agent(name: &str) {
    note(|noted| noted.agent = Name::parse("agent name", name).ok());
}

pub(crate) fn operation(name: &'static str) {
    note(|noted| noted.operation = Some(name));
}

/// Notes that the request is sent to the threads. Returns none when no request is under way here.
pub(crate) fn queue_wait(access: Access) -> Option<Arc<QueueWait>> {
    let queue = match access {
        Access::Read => "read",
        Access::Write | Access::Pulse => "write",
    };
    let mut begun = None;
    note(|noted| {
        let wait = Arc::new(QueueWait {
            queue,
            operation: noted.operation,
            sent: Instant::now(),
            taken: OnceLock::new(),
            answered: OnceLock::new(),
        });
        noted.waits.push(Arc::clone(&wait));
        begun = Some(wait);
    });
    begun
}

fn note(f: impl FnOnce(&mut Noted)) {
    // Work of our own is no request.
    let _ = NOTES.try_with(|notes| f(&mut notes.open()));
}

impl QueueWait {
    /// Notes that a thread took the request: the first time counts, should it run twice.
    pub(crate) fn take(&self) {
        self.taken.get_or_init(Instant::now);
    }

    /// Notes that the request is done, and its writes durable.
    pub(crate) fn answer(&self) {
        self.answered.get_or_init(Instant::now);
    }

    /// The times at which a thread took the request and was done with it; none when the queue was full.
    pub(crate) fn times(&self) -> Option<(Instant, Instant)> {
        Some((*self.taken.get()?, *self.answered.get()?))
    }

    pub(crate) fn waited(&self) -> Option<Duration> {
        Some(self.times()?.0.duration_since(self.sent))
    }
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
