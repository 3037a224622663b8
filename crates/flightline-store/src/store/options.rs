//! The options for opening a store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::{Clock, IdSource};
use crate::crash_points::CrashPoints;

#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub clock: Clock,
    pub ids: IdSource,
    /// The time to wait for the turn to write.
    pub patience: Duration,
    /// The purpose of this process, for other processes that wait for it.
    pub purpose: String,
    /// The time without any write after which silence before it proves nothing.
    pub downtime_ms: u64,
    /// True when every write is run twice, the first time rolled back: a closure that touches anything but its transaction
    /// shows.
    pub rehearse: bool,
    /// In test builds, the steps at which this process ends, or stops.
    pub steps: CrashPoints,
    /// True when the last written values are kept in memory, for processes that write again and again. A program that
    /// changes the tables by itself, as tests do, turns it off first.
    pub remember: Arc<AtomicBool>,
    /// True when the user made this fleet, or trusts it. A fleet that came from somewhere else is only looked at.
    pub trusted: bool,
    /// For tests of a full disk: the most pages of the database. SQLite only.
    pub max_pages: Option<u32>,
    /// True when a SQLite store of an earlier version is copied beside itself before it is upgraded.
    pub keep_old: bool,
    /// True for the one connection of a server that writes to a SQLite store: its log is folded on a thread of its own,
    /// and more of the store stays in memory.
    pub keeps_log: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            ids: IdSource::default(),
            patience: Duration::from_secs(10),
            purpose: "unknown".to_owned(),
            downtime_ms: flightline_core::policy::Policy::default().downtime_ms,
            rehearse: false,
            steps: CrashPoints::default(),
            remember: Arc::default(),
            trusted: true,
            max_pages: None,
            keep_old: true,
            keeps_log: false,
        }
    }
}
