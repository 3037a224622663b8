//! Figures from the journal of a project, by any writer: a node, or a command beside it.

use std::collections::BTreeMap;

use flightline::metrics_snapshot::{Counted, MetricsSnapshot};

use super::histogram::{Histogram, Scale};
use super::page::{MetricType, MetricsPage, seconds};

/// The events counted since this node began to count.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(super) counted: Option<Counted>,
    checkpoints: BTreeMap<(String, String), u64>,
    checkpoint_bytes: Histogram,
    recoveries: Histogram,
    briefings: BTreeMap<String, u64>,
    compactions: BTreeMap<String, u64>,
    locks_lost: BTreeMap<String, u64>,
    backup_failures: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            counted: None,
            checkpoints: BTreeMap::new(),
            checkpoint_bytes: Histogram::new(Scale::Bytes),
            recoveries: Histogram::new(Scale::Time),
            briefings: BTreeMap::new(),
            compactions: BTreeMap::new(),
            locks_lost: BTreeMap::new(),
            backup_failures: 0,
        }
    }
}

impl Journal {
    pub(super) fn add(&mut self, figures: &MetricsSnapshot) {
        self.counted = Some(figures.counted.clone());
        let happened = &figures.happened;
        for taken in &happened.checkpoints {
            let key = (taken.trigger.clone(), taken.reason.clone());
            *self.checkpoints.entry(key).or_default() += 1;
            self.checkpoint_bytes.add(taken.bytes);
        }
        for millis in &happened.recoveries_ms {
            self.recoveries.add(millis.saturating_mul(1_000));
        }
        let sums = [
            (&mut self.briefings, &happened.briefings),
            (&mut self.compactions, &happened.compactions),
            (&mut self.locks_lost, &happened.locks_lost),
        ];
        for (sum, more) in sums {
            for (word, count) in more {
                *sum.entry(word.clone()).or_default() += count;
            }
        }
        self.backup_failures += happened.backup_failures;
    }

    pub(super) fn write(&self, page: &mut MetricsPage) {
        let name = "flightline_checkpoints_total";
        page.family(name, MetricType::Counter, "Checkpoints that were taken.");
        for ((trigger, reason), count) in &self.checkpoints {
            page.figure(name, &[("trigger", trigger), ("reason", reason)], count);
        }
        let mut histogram = |name: &str, help: &str, histogram: &Histogram| {
            page.family(name, MetricType::Histogram, help);
            histogram.write(page, name, &[]);
        };
        histogram(
            "flightline_checkpoint_bytes",
            "How large the records of checkpoints are.",
            &self.checkpoint_bytes,
        );
        histogram(
            "flightline_recovery_duration_seconds",
            "How long recoveries took.",
            &self.recoveries,
        );
        let mut counts = |names, help: &str, counts: &BTreeMap<String, u64>| {
            let figures = counts.iter().map(|(word, count)| (word.as_str(), *count));
            page.by(names, MetricType::Counter, help, figures);
        };
        counts(
            ("flightline_briefings_total", "outcome"),
            "Briefings by outcome.",
            &self.briefings,
        );
        counts(
            ("flightline_compactions_total", "evidence"),
            "Contexts that were lost, by how that was known.",
            &self.compactions,
        );
        counts(
            ("flightline_locks_lost_total", "how"),
            "Locks that were taken from their holders.",
            &self.locks_lost,
        );
        page.single(
            "flightline_backup_failures_total",
            MetricType::Counter,
            "Copies of checkpoints that could not be written.",
            self.backup_failures,
        );
    }
}

pub(super) fn fleet(page: &mut MetricsPage, figures: &MetricsSnapshot) {
    let mut counts = |names, help: &str, counts: &BTreeMap<String, u64>| {
        let figures = counts.iter().map(|(word, count)| (word.as_str(), *count));
        page.by(names, MetricType::Gauge, help, figures);
    };
    counts(
        ("flightline_missions", "status"),
        "Missions.",
        &figures.missions,
    );
    counts(
        ("flightline_agents", "life"),
        "Agents that are not retired, by how alive they are.",
        &figures.agents,
    );
    counts(
        ("flightline_backups", "state"),
        "Checkpoints by the state of their copy in a file.",
        &figures.backups,
    );
    let space = &figures.space;
    let parts = [
        ("database", Some(space.database)),
        ("log", Some(space.log)),
        ("free", space.free),
    ];
    page.by(
        ("flightline_store_bytes", "part"),
        MetricType::Gauge,
        "Size of the store; free space is inside the database.",
        parts
            .into_iter()
            .filter_map(|(part, bytes)| Some((part, bytes?))),
    );
    let age = figures.oldest_heartbeat_age_ms.unwrap_or(0);
    let singles = [
        (
            "flightline_oldest_heartbeat_age_seconds",
            "How long ago the agent that was silent longest gave its last sign of life.",
            seconds(age.saturating_mul(1_000)),
        ),
        (
            "flightline_locks_held",
            "Locks that are granted.",
            figures.locks.held.to_string(),
        ),
        (
            "flightline_locks_orphaned",
            "Granted locks that have lapsed, or whose agent is gone.",
            figures.locks.orphaned.to_string(),
        ),
        (
            "flightline_messages_pending",
            "Messages that were not read.",
            figures.messages_pending.to_string(),
        ),
        (
            "flightline_briefings_pending",
            "Agents that lost their context and were not briefed since.",
            figures.briefings_pending.to_string(),
        ),
        (
            "flightline_journal_revision",
            "The last revision of the journal.",
            figures.rev.to_string(),
        ),
    ];
    for (name, help, value) in singles {
        page.single(name, MetricType::Gauge, help, value);
    }
}
