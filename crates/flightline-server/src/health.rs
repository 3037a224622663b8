//! What is known of the server's own health: facts with their age, found out by really trying.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value, json};

/// How often a write is tried.
pub(crate) const PROBE_EVERY: Duration = Duration::from_secs(15);
/// A write that was tried longer ago than this says nothing any more.
const PROBE_TOO_OLD: Duration = Duration::from_secs(60);
/// How often everything in the store is checked.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(3_600);

/// What a look at something found, and when.
#[derive(Clone, Debug)]
struct Found {
    at: Instant,
    trouble: Option<String>,
}

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Health {
    probe: Mutex<Option<Found>>,
    integrity: Mutex<Option<Found>>,
    upkeep: Mutex<Option<Found>>,
    stopping: std::sync::atomic::AtomicBool,
}

/// What was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    /// A write, to the disk and back.
    Probe,
    /// Everything in the store.
    Integrity,
    /// What is done beside requests: backups, retention, mail to those who coordinate.
    Upkeep,
}

impl Health {
    /// Notes what a look found.
    pub(crate) fn note(&self, look: Look, trouble: Option<String>) {
        let found = Found {
            at: Instant::now(),
            trouble,
        };
        *self
            .place(look)
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(found);
    }

    /// How long ago something was looked at; nothing when never.
    pub(crate) fn age(&self, look: Look) -> Option<Duration> {
        self.read(look).map(|found| found.at.elapsed())
    }

    /// No request is taken any more.
    pub(crate) fn stop(&self) {
        self.stopping
            .store(true, std::sync::atomic::Ordering::SeqCst);
    }

    fn place(&self, look: Look) -> &Mutex<Option<Found>> {
        match look {
            Look::Probe => &self.probe,
            Look::Integrity => &self.integrity,
            Look::Upkeep => &self.upkeep,
        }
    }

    fn read(&self, look: Look) -> Option<Found> {
        self.place(look)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether requests can be served now.
    pub(crate) fn readiness(&self) -> (StatusCode, Value) {
        let stopping = self.stopping.load(std::sync::atomic::Ordering::SeqCst);
        let writes = self.writes();
        let ready = writes && !stopping;
        (code(ready), json!({ "ready": ready, "stopping": stopping }))
    }

    fn writes(&self) -> bool {
        self.read(Look::Probe)
            .is_some_and(|found| found.trouble.is_none() && found.at.elapsed() < PROBE_TOO_OLD)
    }

    /// Everything that is known, and whether all is well.
    pub(crate) fn report(&self) -> (StatusCode, Value) {
        let tell = |look| match self.read(look) {
            None => json!({ "ok": null }),
            Some(found) => json!({
                "ok": found.trouble.is_none(),
                "age_ms": u64::try_from(found.at.elapsed().as_millis()).unwrap_or(u64::MAX),
                "trouble": found.trouble,
            }),
        };
        let sound = self
            .read(Look::Integrity)
            .is_none_or(|found| found.trouble.is_none());
        let kept = self
            .read(Look::Upkeep)
            .is_none_or(|found| found.trouble.is_none());
        let status = match (self.writes(), sound && kept) {
            (true, true) => "ok",
            (true, false) => "degraded",
            (false, _) => "failing",
        };
        let report = json!({
            "status": status,
            "version": env!("CARGO_PKG_VERSION"),
            "write_probe": tell(Look::Probe),
            "integrity": tell(Look::Integrity),
            "upkeep": tell(Look::Upkeep),
        });
        (code(self.writes()), report)
    }
}

const fn code(well: bool) -> StatusCode {
    if well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}
