//! Makes spans, in the words of OpenTelemetry's conventions for HTTP servers. A span is made when all is known, with the
//! times at which it happened. It holds no content of requests or answers, and no token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use flightline::core::Refusal;
use flightline::core::redact::contains_secret;
use flightline::core::text::counted;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;

use super::export::{self, SpanPipeline, Traces};
use crate::problem::Problem;
use crate::request_log::ServedRequest;
use crate::serve::{MessageSink, ServerMessage};

/// The time that the end waits for the last spans to be taken.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Methods that are reported as they are; a client can make others up.
const METHODS: [&str; 9] = [
    "GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT",
];

#[derive(Clone, Default)]
pub(crate) struct Tracing(Option<Arc<Open>>);

struct Open {
    way: SpanPipeline,
    address: SocketAddr,
    say: MessageSink,
}

impl Tracing {
    /// Starts tracing, if a collector is configured; otherwise no thread is started.
    pub(crate) fn start(traces: Option<Traces>, address: SocketAddr, say: &MessageSink) -> Self {
        let Some(traces) = traces else {
            return Self(None);
        };
        match export::open(traces, say) {
            Ok(way) => Self(Some(Arc::new(Open {
                way,
                address,
                say: Arc::clone(say),
            }))),
            Err(error) => {
                say(ServerMessage::Warning(format!(
                    "no traces are sent: {error}"
                )));
                Self(None)
            }
        }
    }

    /// Makes the span of a request. Returns the id of its trace, if it was sampled.
    pub(crate) fn request(&self, served: &ServedRequest<'_>) -> Option<String> {
        self.0.as_ref()?.request(served)
    }

    pub(crate) fn job(&self, name: &'static str, began: Instant, refused: Option<&Refusal>) {
        if let Some(open) = &self.0 {
            open.job(name, began, refused);
        }
    }

    /// Sends the remaining spans, for as long as that may take.
    pub(crate) fn end(&self) {
        let Some(open) = &self.0 else {
            return;
        };
        // The counts tell how many spans were lost.
        let _ = open.way.provider.shutdown_with_timeout(LAST_SPANS);
        let (lost, to) = (open.way.counts.missing(), &open.way.shown);
        if lost > 0 {
            let text = format!("traces: {} did not reach {to}", counted(lost, "span"));
            (open.say)(ServerMessage::Warning(text));
        }
    }
}

impl Open {
    fn request(&self, served: &ServedRequest<'_>) -> Option<String> {
        let clock = Clock::now();
        // The trace that the caller belongs to; a header that cannot be read is none.
        let asked = HeaderExtractor(served.answered.headers);
        let caller = TraceContextPropagator::new().extract_with_context(&Context::new(), &asked);
        let method = method(&served.line.method);
        let mut span = SpanBuilder::from_name(name(method, route(served)))
            .with_kind(SpanKind::Server)
            .with_start_time(clock.at(served.began))
            // A sampler may look at them.
            .with_attributes(self.of_request(served, method))
            .start_with_context(&self.way.tracer, &caller);
        if !span.is_recording() {
            return None;
        }
        if served.line.status >= 500 {
            span.set_status(Status::error(""));
        }
        let id = span.span_context().trace_id().to_string();
        let inside = caller.with_span(span);
        let waits = served.waits.iter();
        let waits: Vec<_> = waits
            .filter_map(|wait| Some((wait, wait.times()?)))
            .collect();
        self.way.counts.give(1 + 2 * waits.len());
        for (wait, (taken, answered)) in waits {
            let mut told = vec![KeyValue::new("flightline.queue", wait.queue)];
            told.extend(text("flightline.operation", wait.operation));
            for (name, from, to) in [("queue", wait.sent, taken), ("store", taken, answered)] {
                SpanBuilder::from_name(name)
                    .with_kind(SpanKind::Internal)
                    .with_start_time(clock.at(from))
                    .with_attributes(told.clone())
                    .start_with_context(&self.way.tracer, &inside)
                    .end_with_timestamp(clock.at(to));
            }
        }
        inside.span().end_with_timestamp(clock.at(served.ended));
        Some(id)
    }

    fn of_request(&self, served: &ServedRequest<'_>, method: &'static str) -> Vec<KeyValue> {
        let (line, answered) = (&served.line, &served.answered);
        let mut told = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("url.scheme", "http"),
            KeyValue::new("http.response.status_code", i64::from(line.status)),
            KeyValue::new("server.address", self.address.ip().to_string()),
            KeyValue::new("server.port", i64::from(self.address.port())),
            KeyValue::new("http.request.body.size", whole(answered.request_bytes)),
            KeyValue::new("flightline.request_id", line.request_id.clone()),
        ];
        if let Some(route) = route(served) {
            told.push(KeyValue::new("http.route", route.to_owned()));
            told.push(KeyValue::new("url.path", path(route, answered.path)));
        }
        let size = answered.response_bytes.map(whole);
        told.extend(size.map(|size| KeyValue::new("http.response.body.size", size)));
        told.extend(text("flightline.code", line.code.clone()));
        if line.status >= 500 {
            let code = line.code.clone();
            let kind = code.unwrap_or_else(|| line.status.to_string());
            told.push(KeyValue::new("error.type", kind));
        }
        told.extend(text("flightline.project", line.project.clone()));
        told.extend(text("flightline.agent", line.agent.clone()));
        told.extend(text("flightline.operation", line.operation));
        told
    }

    fn job(&self, name: &'static str, began: Instant, refused: Option<&Refusal>) {
        let clock = Clock::now();
        let mut span = SpanBuilder::from_name(format!("job {name}"))
            .with_kind(SpanKind::Internal)
            .with_start_time(clock.at(began))
            .with_attributes([KeyValue::new("flightline.job", name)])
            .start_with_context(&self.way.tracer, &Context::new());
        if let Some(refusal) = refused {
            // The log has the message of the error, which may name stored content; a span has only its code.
            let code = Problem::from(refusal.clone()).code().to_owned();
            span.set_attribute(KeyValue::new("error.type", code));
            span.set_status(Status::error(""));
        }
        self.way.counts.give(usize::from(span.is_recording()));
        span.end_with_timestamp(clock.at(clock.now));
    }
}

/// Maps moments of the monotonic clock to times of day.
struct Clock {
    now: Instant,
    time: SystemTime,
}

impl Clock {
    /// Reads the system's clock. Collectors compare the times with those of other machines, so the clock of tests is not
    /// used.
    fn now() -> Self {
        Self {
            now: Instant::now(),
            time: opentelemetry::time::now(),
        }
    }

    fn at(&self, moment: Instant) -> SystemTime {
        let ago = self.now.saturating_duration_since(moment);
        self.time.checked_sub(ago).unwrap_or(self.time)
    }
}

fn text(name: &'static str, value: Option<impl Into<Value>>) -> Option<KeyValue> {
    value.map(|value| KeyValue::new(name, value))
}

fn whole(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn method(asked: &str) -> &'static str {
    let known = METHODS.into_iter().find(|known| *known == asked);
    known.unwrap_or("_OTHER")
}

/// The route as it stands in the router; none for an address without a route.
fn route<'a>(served: &'a ServedRequest<'_>) -> Option<&'a str> {
    Some(served.line.route.as_str()).filter(|route| route.starts_with('/'))
}

fn name(method: &str, route: Option<&str>) -> String {
    let method = match method {
        "_OTHER" => "HTTP",
        known => known,
    };
    match route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    }
}

/// The address that was asked for, without its query. A part that does not look like an id stays as the route has it.
fn path(route: &str, asked: &str) -> String {
    let plain = |part: &str| {
        // Secrets are longer.
        (1..=40).contains(&part.len())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && !contains_secret(part)
    };
    let mut asked = asked.split('/');
    let parts = route.split('/').map(|ours| match asked.next() {
        Some(theirs) if ours.starts_with('{') && plain(theirs) => theirs,
        _ => ours,
    });
    parts.collect::<Vec<_>>().join("/")
}
