//! Figures for Prometheus. No id, name or text of anybody is in them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::serve::Line;

/// Upper ends of the classes of durations, in microseconds.
const CLASSES: [u64; 8] = [
    1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000,
];

/// Upper ends of the classes of groups of writes.
const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// What was served so far.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    served: Mutex<BTreeMap<(String, String, u16), Tally>>,
    groups: Groups,
}

/// How many writes commits were for.
#[derive(Debug, Default)]
struct Groups {
    commits: AtomicU64,
    writes: AtomicU64,
    within: [AtomicU64; SIZES.len()],
}

#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    micros: u64,
    within: [u64; CLASSES.len()],
}

impl Metrics {
    /// Counts a request.
    pub(crate) fn count(&self, line: &Line) {
        // Anybody can make methods up; each would be a line here for ever.
        let method = match line.method.as_str() {
            known @ ("GET" | "POST" | "PATCH" | "DELETE") => known,
            _ => "other",
        };
        let key = (method.to_owned(), line.route.clone(), line.status);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = served.entry(key).or_default();
        tally.count += 1;
        tally.micros += line.micros;
        for (within, most) in tally.within.iter_mut().zip(CLASSES) {
            *within += u64::from(line.micros <= most);
        }
    }

    /// Counts a commit and the writes it was for.
    pub(crate) fn group(&self, size: usize) {
        let one_more = |counter: &AtomicU64, by: u64| counter.fetch_add(by, Ordering::Relaxed);
        one_more(&self.groups.commits, 1);
        one_more(&self.groups.writes, size as u64);
        for (within, most) in self.groups.within.iter().zip(SIZES) {
            one_more(within, u64::from(size <= most));
        }
    }

    /// All of it, as Prometheus reads it.
    pub(crate) fn render(&self) -> String {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "flightline_request_duration_seconds";
        let mut text = format!("# HELP {name} How long requests took.\n# TYPE {name} histogram\n");
        for ((method, route, status), tally) in served.iter() {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            for (within, most) in tally.within.iter().zip(CLASSES) {
                let most = seconds(most);
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{most}\"}} {within}");
            }
            let Tally { count, micros, .. } = tally;
            let sum = seconds(*micros);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
            let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
        }
        let name = "flightline_group_commit_size";
        let _ = writeln!(
            text,
            "# HELP {name} How many writes shared a commit.\n# TYPE {name} histogram"
        );
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (within, most) in self.groups.within.iter().zip(SIZES) {
            let _ = writeln!(text, "{name}_bucket{{le=\"{most}\"}} {}", read(within));
        }
        let (commits, writes) = (read(&self.groups.commits), read(&self.groups.writes));
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {commits}");
        let _ = writeln!(text, "{name}_sum {writes}\n{name}_count {commits}");
        text
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
