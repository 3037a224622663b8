//! Sends spans in batches, from a thread of the SDK's own, over OTLP. Its queue is bounded, and a span that finds it full
//! is dropped: no request ever waits for a collector.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    Compression, ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanData,
};

use crate::serve::{MessageSink, ServerMessage};

/// The time between two warnings that spans do not arrive.
const SAID_AGAIN: Duration = Duration::from_secs(5 * 60);
/// The largest answer of a collector.
const LARGEST_ANSWER: u64 = 64 * 1024;

#[derive(Debug)]
pub struct Traces {
    pub url: String,
    /// The address of the collector as people read it.
    pub shown: String,
    /// The HTTP client for the collector, with its timeouts.
    pub agent: ureq::Agent,
    /// The headers sent with spans, such as the collector's key.
    pub headers: HashMap<String, String>,
    /// The time that one batch may take in all.
    pub timeout: Duration,
    pub gzip: bool,
    /// The attributes of this server; `service.name` is among them.
    pub resource: Vec<(String, String)>,
    pub sampling: Sampling,
    /// The most spans that may wait; more are dropped.
    pub queue: usize,
    pub batch: usize,
    /// The longest time that spans wait for others.
    pub delay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The share of all traces, from 0 to 1.
    pub share: f64,
    /// True when a decision that the caller has made already is followed.
    pub follows_caller: bool,
}

pub(super) struct SpanPipeline {
    pub(super) provider: SdkTracerProvider,
    pub(super) tracer: SdkTracer,
    pub(super) counts: Arc<Counts>,
    pub(super) shown: String,
}

/// The numbers of spans that were given, and that arrived.
#[derive(Debug, Default)]
pub(super) struct Counts {
    given: AtomicU64,
    sent: AtomicU64,
}

impl Counts {
    pub(super) fn give(&self, spans: usize) {
        self.given.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// The number of spans that were given and did not arrive: not yet, or never.
    pub(super) fn missing(&self) -> u64 {
        // In this order: none has arrived before it was given.
        let sent = self.sent.load(Ordering::Relaxed);
        self.given.load(Ordering::Relaxed).saturating_sub(sent)
    }
}

pub(super) fn open(traces: Traces, say: &MessageSink) -> Result<SpanPipeline, ExporterBuildError> {
    let why = Arc::new(Mutex::default());
    let client = Client {
        agent: traces.agent,
        why: Arc::clone(&why),
    };
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(traces.url)
        .with_timeout(traces.timeout)
        .with_headers(traces.headers);
    if traces.gzip {
        exporter = exporter.with_compression(Compression::Gzip);
    }
    let counts = Arc::<Counts>::default();
    let watched = Watched {
        inner: exporter.build()?,
        shown: traces.shown.clone(),
        counts: Arc::clone(&counts),
        queue: traces.queue as u64,
        why,
        loss: Mutex::default(),
        say: Arc::clone(say),
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(traces.queue)
        .with_max_export_batch_size(traces.batch)
        .with_scheduled_delay(traces.delay)
        .build();
    let said = traces.resource.into_iter();
    let resource = Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(said.map(|(name, value)| KeyValue::new(name, value)))
        .build();
    let share = Sampler::TraceIdRatioBased(traces.sampling.share);
    let sampler = match traces.sampling.follows_caller {
        true => Sampler::ParentBased(Box::new(share)),
        false => share,
    };
    let processor = BatchSpanProcessor::builder(watched);
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(sampler)
        .with_span_processor(processor.with_batch_config(batches).build())
        .build();
    let tracer = provider.tracer("flightline-server");
    Ok(SpanPipeline {
        provider,
        tracer,
        counts,
        shown: traces.shown,
    })
}

/// The HTTP client that sends batches. It is used on the thread of the batches alone, which may wait.
#[derive(Debug)]
struct Client {
    agent: ureq::Agent,
    /// The reason for the failure of the last attempt: the exporter itself does not say.
    why: Arc<Mutex<String>>,
}

impl Client {
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (parts, body) = request.into_parts();
        let response = self.agent.run(Request::from_parts(parts, body.as_ref()))?;
        let (parts, mut body) = response.into_parts();
        let answer = body.with_config().limit(LARGEST_ANSWER).read_to_vec()?;
        Ok(Response::from_parts(parts, answer.into()))
    }
}

// As `async_trait` would write it.
impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = self.send(request);
            *lock(&self.why) = match &answer {
                Ok(answer) => format!("it answers {}", answer.status().as_u16()),
                Err(error) => error.to_string(),
            };
            answer.map_err(Into::into)
        })
    }
}

/// An exporter whose failures are logged, now and then.
struct Watched {
    inner: SpanExporter,
    shown: String,
    counts: Arc<Counts>,
    /// The most spans that may wait.
    queue: u64,
    why: Arc<Mutex<String>>,
    loss: Mutex<SpanLoss>,
    say: MessageSink,
}

/// The known facts about spans that did not arrive.
#[derive(Debug, Default)]
struct SpanLoss {
    /// The time of the last warning.
    said: Option<Instant>,
    /// True when the last warning was that no spans arrive.
    cut_off: bool,
    failed: u64,
    /// The least number of spans that found the queue full.
    dropped: u64,
    /// The number of lost spans at the last warning.
    told: u64,
}

impl Watched {
    fn note(&self, spans: usize, result: &OTelSdkResult) {
        let spans = spans as u64;
        let mut loss = lock(&self.loss);
        match result {
            Ok(()) => drop(self.counts.sent.fetch_add(spans, Ordering::Relaxed)),
            Err(_) => loss.failed += spans,
        }
        // A missing span that neither failed nor can wait in the queue was dropped.
        let elsewhere = loss.failed + self.queue;
        let dropped = self.counts.missing().saturating_sub(elsewhere);
        loss.dropped = loss.dropped.max(dropped);
        let (to, lost) = (&self.shown, loss.failed + loss.dropped);
        let quiet = loss.said.is_some_and(|said| said.elapsed() < SAID_AGAIN);
        let line = match result {
            Err(_) if !quiet => format!(
                "traces do not reach {to}: {}; spans lost so far: {lost} (nothing else is affected)",
                lock(&self.why)
            ),
            Ok(()) if loss.cut_off => {
                format!("traces reach {to} again; spans lost so far: {lost}")
            }
            Ok(()) if lost > loss.told && !quiet => format!(
                "there are more spans than {to} takes; lost so far: {lost}; raise OTEL_BSP_MAX_QUEUE_SIZE, or pick fewer by OTEL_TRACES_SAMPLER"
            ),
            Ok(()) | Err(_) => return,
        };
        loss.said = Some(Instant::now());
        loss.cut_off = result.is_err();
        loss.told = lost;
        (self.say)(ServerMessage::Warning(line));
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.inner.export(batch).await;
        self.note(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
