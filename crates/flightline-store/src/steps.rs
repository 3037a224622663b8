//! In test builds: the numbered moments at which the store, or a file beside it, is touched, and what
//! befalls the process at one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// Numbers the moments at which the store is touched. All connections of a process share the count.
#[derive(Clone, Debug, Default)]
pub struct Steps(Option<Arc<Plan>>);

#[derive(Debug)]
struct Plan {
    taken: AtomicU64,
    crash_at: Option<u64>,
    freeze_at: Option<u64>,
}

impl Steps {
    /// Ends the process at step `crash_at`, as `kill -9` would; stops it at step `freeze_at`, as a
    /// machine that is put to sleep would. Without either, nothing is counted.
    #[must_use]
    pub fn new(crash_at: Option<u64>, freeze_at: Option<u64>) -> Self {
        let plan = Plan {
            taken: AtomicU64::new(0),
            crash_at,
            freeze_at,
        };
        Self((crash_at.is_some() || freeze_at.is_some()).then(|| Arc::new(plan)))
    }

    /// A moment at which a process may die, or stop for a while.
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
