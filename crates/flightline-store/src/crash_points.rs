//! In test builds, numbers the moments at which the store, or a file beside it, is touched; ends or stops the process at
//! one of them; and counts the reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Signal, getpid, kill_process};

/// Numbers the moments at which the store is touched. All connections of a process share the count.
#[derive(Clone, Debug, Default)]
pub struct CrashPoints(Option<Arc<CrashSchedule>>);

#[derive(Debug)]
struct CrashSchedule {
    taken: AtomicU64,
    crash_at: Option<u64>,
    freeze_at: Option<u64>,
    reads: Option<Mutex<BTreeMap<&'static str, Reads>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub queries: u64,
    pub rows: u64,
    /// The number of steps that the engine took for the queries, where it says so: also for rows that it only looked at.
    pub work: u64,
}

impl Reads {
    fn add(&mut self, more: Self) {
        self.queries += more.queries;
        self.rows += more.rows;
        self.work += more.work;
    }
}

impl CrashPoints {
    /// Ends the process at step `crash_at`, as `kill -9` would; stops it at step `freeze_at`, as a
    /// machine that is put to sleep would. Without either, nothing is counted.
    pub fn new(crash_at: Option<u64>, freeze_at: Option<u64>) -> Self {
        let plan = CrashSchedule {
            taken: AtomicU64::new(0),
            crash_at,
            freeze_at,
            reads: None,
        };
        Self((crash_at.is_some() || freeze_at.is_some()).then(|| Arc::new(plan)))
    }

    /// Counts reads, and never ends the process.
    pub fn counting() -> Self {
        Self(Some(Arc::new(CrashSchedule {
            taken: AtomicU64::new(0),
            crash_at: None,
            freeze_at: None,
            reads: Some(Mutex::default()),
        })))
    }

    pub(crate) fn counts(&self) -> bool {
        self.0.as_ref().is_some_and(|plan| plan.reads.is_some())
    }

    /// Counts a query that gave `rows` rows and took `work` steps of the engine.
    pub(crate) fn read(&self, sql: &'static str, rows: usize, work: u64) {
        let reads = self.0.as_ref().and_then(|plan| plan.reads.as_ref());
        if let Some(reads) = reads {
            let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
            reads.entry(sql).or_default().add(Reads {
                queries: 1,
                rows: rows as u64,
                work,
            });
        }
    }

    /// The reads since the last call, by statement.
    pub fn take_reads(&self) -> BTreeMap<&'static str, Reads> {
        let reads = self.0.as_ref().and_then(|plan| plan.reads.as_ref());
        let Some(reads) = reads else {
            return BTreeMap::new();
        };
        std::mem::take(&mut *reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The reads since the last call, in all.
    pub fn take_read(&self) -> Reads {
        let mut all = Reads::default();
        for reads in self.take_reads().into_values() {
            all.add(reads);
        }
        all
    }

    /// Counts a moment at which the process may die, or stop for a while, and ends or stops the process if it is the
    /// chosen one.
    pub fn step(&self) {
        let Some(plan) = &self.0 else { return };
        let step = plan.taken.fetch_add(1, Ordering::SeqCst) + 1;
        if plan.crash_at == Some(step) {
            let _ = kill_process(getpid(), Signal::KILL);
            std::process::abort();
        }
        if plan.freeze_at == Some(step) {
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}
