//! Figures for Prometheus. They hold no id, name or text of users.

mod histogram;
mod journal;
mod page;
mod process;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flightline::core::Refusal;
use flightline::metrics_snapshot::{MetricsSnapshot, ReadMetricsSnapshot};
use flightline::{Caller, Fleet};

use self::histogram::{Histogram, Scale};
use self::journal::Journal;
use self::page::{MetricType, MetricsPage, seconds};
use crate::health::Health;
use crate::request_log::{ServedRequest, micros};
use crate::upkeep::job::JOBS;

/// The requests served so far, and the figures from the journal since this node began to count.
#[derive(Debug)]
pub(crate) struct Metrics {
    began: Instant,
    served: Mutex<BTreeMap<(&'static str, String, u16), Histogram>>,
    refused: Mutex<BTreeMap<String, u64>>,
    request_bytes: Mutex<Histogram>,
    response_bytes: Mutex<Histogram>,
    /// The times that requests waited for a thread, by the name of the queue.
    waits: Mutex<BTreeMap<&'static str, Histogram>>,
    /// The times that it took to take checkpoints on request.
    checkpoints: Mutex<Histogram>,
    /// The numbers of writes that shared a commit.
    groups: Mutex<Histogram>,
    /// The figures from the journal, by project.
    journals: Mutex<BTreeMap<String, Journal>>,
}

/// The figures that are read at each scrape, beside the counted ones.
pub(crate) struct Now<'a> {
    pub(crate) health: &'a Health,
    /// The number of waiting requests, by the name of the queue.
    pub(crate) waiting: Vec<(&'static str, usize)>,
    pub(crate) streams: usize,
    /// The fleet; none when the store does not answer.
    pub(crate) fleet: Option<(MetricsSnapshot, Journal)>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram = |scale| Mutex::new(Histogram::new(scale));
        Self {
            began: Instant::now(),
            served: Mutex::default(),
            refused: Mutex::default(),
            request_bytes: histogram(Scale::Bytes),
            response_bytes: histogram(Scale::Bytes),
            waits: Mutex::default(),
            checkpoints: histogram(Scale::Time),
            groups: histogram(Scale::Count),
            journals: Mutex::default(),
        }
    }
}

impl Metrics {
    pub(crate) fn count(&self, served: &ServedRequest<'_>) {
        let (line, answered) = (&served.line, &served.answered);
        // A client can make methods up; each would be a line here for ever.
        let method = ["GET", "POST", "PATCH", "DELETE"]
            .into_iter()
            .find(|known| *known == line.method)
            .unwrap_or("other");
        let key = (method, line.route.clone(), line.status);
        open(&self.served)
            .entry(key)
            .or_insert_with(|| Histogram::new(Scale::Time))
            .add(line.micros);
        open(&self.request_bytes).add(answered.request_bytes);
        if let Some(bytes) = answered.response_bytes {
            open(&self.response_bytes).add(bytes);
        }
        if let Some(code) = &line.code {
            *open(&self.refused).entry(code.clone()).or_default() += 1;
        }
        if answered.checkpoint {
            open(&self.checkpoints).add(line.micros);
        }
        let mut waits = open(&self.waits);
        for wait in &served.waits {
            if let Some(waited) = wait.waited() {
                waits
                    .entry(wait.queue)
                    .or_insert_with(|| Histogram::new(Scale::Time))
                    .add(micros(waited));
            }
        }
    }

    /// Counts a commit of `size` writes.
    pub(crate) fn group(&self, size: usize) {
        open(&self.groups).add(size as u64);
    }

    /// Reads the figures of a fleet, and counts what its journal has had since the last read.
    pub(crate) fn look(&self, fleet: &mut Fleet) -> Result<(MetricsSnapshot, Journal), Refusal> {
        let project = fleet.store()?.project().to_owned();
        let known = open(&self.journals).get(&project).cloned();
        let request = ReadMetricsSnapshot {
            after: known.and_then(|known| known.counted),
        };
        let figures = fleet
            .run(&request, &Caller::default())
            .map_err(flightline::Error::into_refusal)?;
        let mut journals = open(&self.journals);
        let journal = journals.entry(project).or_default();
        // Two requests may look at once: events that both have seen count once.
        if journal.counted == request.after {
            journal.add(&figures);
        }
        Ok((figures, journal.clone()))
    }

    pub(crate) fn render(&self, now: Now<'_>) -> String {
        let mut page = MetricsPage::default();
        let version = env!("CARGO_PKG_VERSION");
        page.family(
            "flightline_build_info",
            MetricType::Gauge,
            "The version that runs.",
        );
        page.figure("flightline_build_info", &[("version", version)], 1);
        page.single(
            "flightline_uptime_seconds",
            MetricType::Gauge,
            "Time since the start of this node.",
            whole(self.began.elapsed()),
        );
        process::write(&mut page);
        self.requests(&mut page);
        let waiting = now.waiting.iter().map(|(name, length)| (*name, *length));
        page.by(
            ("flightline_queue_length", "queue"),
            MetricType::Gauge,
            "Requests that wait for a thread, or are being done.",
            waiting,
        );
        page.single(
            "flightline_streams_open",
            MetricType::Gauge,
            "Streams of events that are open.",
            now.streams,
        );
        jobs(&mut page, now.health);
        page.single(
            "flightline_store_up",
            MetricType::Gauge,
            "Whether the store answered this scrape.",
            u8::from(now.fleet.is_some()),
        );
        if let Some((figures, journal)) = &now.fleet {
            journal::fleet(&mut page, figures);
            journal.write(&mut page);
        }
        page.text()
    }

    fn requests(&self, page: &mut MetricsPage) {
        let name = "flightline_request_duration_seconds";
        page.family(name, MetricType::Histogram, "How long requests took.");
        for ((method, route, status), histogram) in open(&self.served).iter() {
            let status = status.to_string();
            let labels = [("method", *method), ("route", route), ("status", &status)];
            histogram.write(page, name, &labels);
        }
        let name = "flightline_queue_wait_seconds";
        let help = "How long requests waited for a thread.";
        page.family(name, MetricType::Histogram, help);
        for (queue, histogram) in open(&self.waits).iter() {
            histogram.write(page, name, &[("queue", queue)]);
        }
        let mut single = |name: &str, help: &str, histogram: &Mutex<Histogram>| {
            page.family(name, MetricType::Histogram, help);
            open(histogram).write(page, name, &[]);
        };
        single(
            "flightline_request_bytes",
            "How large the bodies of requests were.",
            &self.request_bytes,
        );
        single(
            "flightline_response_bytes",
            "How large the bodies of answers were, but for streams.",
            &self.response_bytes,
        );
        single(
            "flightline_checkpoint_duration_seconds",
            "How long requests for a checkpoint took on this node.",
            &self.checkpoints,
        );
        single(
            "flightline_group_commit_size",
            "How many writes shared a commit.",
            &self.groups,
        );
        let refused = open(&self.refused);
        page.by(
            ("flightline_refusals_total", "code"),
            MetricType::Counter,
            "Requests that were refused, by the code of the problem.",
            refused.iter().map(|(code, count)| (code.as_str(), count)),
        );
        page.single(
            "flightline_lock_conflicts_total",
            MetricType::Counter,
            "Requests that were refused because another agent holds the lock.",
            refused.get("lock_held").unwrap_or(&0),
        );
    }
}

fn jobs(page: &mut MetricsPage, health: &Health) {
    let known = health.job_statuses.all();
    let ran = || {
        JOBS.iter()
            .filter_map(|job| Some((job.name, known.get(job.name)?)))
    };
    page.by(
        ("flightline_job_last_run_age_seconds", "task"),
        MetricType::Gauge,
        "Time since the last run of a background job.",
        ran().map(|(name, record)| (name, whole(record.at.elapsed()))),
    );
    page.by(
        ("flightline_job_last_duration_seconds", "task"),
        MetricType::Gauge,
        "Duration of the last run of a background job.",
        ran().map(|(name, record)| (name, whole(record.took))),
    );
    page.by(
        ("flightline_job_healthy", "task"),
        MetricType::Gauge,
        "Whether the last run of a background job succeeded.",
        ran().map(|(name, record)| (name, u8::from(record.is_well()))),
    );
    page.by(
        ("flightline_job_runs_total", "task"),
        MetricType::Counter,
        "Number of runs of a background job.",
        ran().map(|(name, record)| (name, record.runs)),
    );
    page.by(
        ("flightline_job_failures_total", "task"),
        MetricType::Counter,
        "Number of failed runs of a background job.",
        ran().map(|(name, record)| (name, record.failures)),
    );
}

fn whole(span: Duration) -> String {
    seconds(micros(span))
}
