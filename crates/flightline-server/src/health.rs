//! The server's own health: facts with their age, found out by really trying.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::upkeep::job::{INTEGRITY, JOBS, PROBE};
use crate::upkeep::job_status::{JobStatus, JobStatuses};

/// The age above which the last trial of a write says nothing any more.
const PROBE_TOO_OLD: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) job_statuses: JobStatuses,
    stopping: AtomicBool,
}

impl Health {
    /// Notes that no further request is taken.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn readiness(&self) -> (StatusCode, Value) {
        let stopping = self.stopping.load(Ordering::SeqCst);
        let ready = self.writes() && !stopping;
        (code(ready), json!({ "ready": ready, "stopping": stopping }))
    }

    fn writes(&self) -> bool {
        self.job_statuses
            .of(PROBE)
            .is_some_and(|record| record.is_well() && record.at.elapsed() < PROBE_TOO_OLD)
    }

    /// Reports all known facts, and whether all is well. The reason of a failure is only for callers of its project.
    pub(crate) fn report(&self, project: Option<&str>) -> (StatusCode, Value) {
        let (known, writes) = (self.job_statuses.all(), self.writes());
        let failing = !known.values().all(JobStatus::is_well);
        let status = match (writes, failing) {
            (true, false) => "ok",
            (true, true) => "degraded",
            (false, _) => "failing",
        };
        let jobs: Vec<Value> = JOBS
            .iter()
            .map(|job| {
                let mut told = tell(known.get(job.name), project);
                told["name"] = json!(job.name);
                told
            })
            .collect();
        let report = json!({
            "status": status,
            "version": env!("CARGO_PKG_VERSION"),
            "write_probe": tell(known.get(PROBE), project),
            "integrity": tell(known.get(INTEGRITY), project),
            "jobs": jobs,
        });
        (code(writes), report)
    }
}

/// Reports one job. A job that never ran is neither well nor ill.
fn tell(record: Option<&JobStatus>, project: Option<&str>) -> Value {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    record.map_or_else(
        || json!({ "ok": null }),
        |record| {
            let mut told = json!({
                "ok": record.is_well(),
                "age_ms": millis(record.at.elapsed()),
                "took_ms": millis(record.took),
                "due_in_ms": millis(record.due.saturating_duration_since(Instant::now())),
                "runs": record.runs,
                "failures": record.failures,
            });
            if let Some(project) = project {
                told["trouble"] = json!(record.trouble_for(project));
            }
            told
        },
    )
}

const fn code(well: bool) -> StatusCode {
    if well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}
