//! Figures of this process: its memory and its open files.
#![expect(clippy::disallowed_methods, reason = "the system's own files: /proc")]

use super::page::{MetricType, MetricsPage};

pub(super) fn write(page: &mut MetricsPage) {
    if let Some(bytes) = resident() {
        page.single(
            "flightline_process_resident_memory_bytes",
            MetricType::Gauge,
            "Memory of this process.",
            bytes,
        );
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        page.single(
            "flightline_process_open_fds",
            MetricType::Gauge,
            "Files and connections of this process that are open.",
            open.count(),
        );
    }
}

/// Reads the memory in use, in bytes, from Linux's `/proc`; elsewhere it is unknown.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1_024)
}
