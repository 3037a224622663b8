//! What is known of each job: when it ran, how long it took, what came of it, and when it is due again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After its first failure a job is tried again after so long; after each further one in twice the time.
const FIRST_RETRY: Duration = Duration::from_secs(15);
/// … but no later than this.
pub(super) const LAST_RETRY: Duration = Duration::from_secs(15 * 60);

/// What is known of a job.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// When it ended last.
    pub(crate) at: Instant,
    /// How long it took.
    pub(crate) took: Duration,
    /// What went wrong, if anything did.
    pub(crate) trouble: Option<String>,
    /// When it runs next, at the latest.
    pub(crate) due: Instant,
    /// How often it ran.
    pub(crate) runs: u64,
    /// How often it failed.
    pub(crate) failures: u64,
    /// How often in a row.
    in_a_row: u32,
}

/// What went wrong with a job.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// What.
    pub(crate) message: String,
    /// It is tried again within this time.
    pub(crate) retry_within: Duration,
}

/// What is known of every job.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<BTreeMap<&'static str, Record>>);

impl Board {
    /// Notes that a job ran just now, having begun at `began`: and when it is to run again, or what went wrong.
    pub(crate) fn note(
        &self,
        name: &'static str,
        began: Instant,
        outcome: Result<Duration, Trouble>,
    ) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = jobs.get(name);
        let failed = before.map_or(0, |before| before.in_a_row).saturating_add(1);
        let (in_a_row, left, trouble) = match outcome {
            Ok(again) => (0, again, None),
            Err(trouble) => {
                let left = retry(failed).min(trouble.retry_within);
                (failed, left, Some(trouble.message))
            }
        };
        let now = Instant::now();
        let record = Record {
            at: now,
            took: now.duration_since(began),
            due: now + left,
            runs: before.map_or(0, |before| before.runs) + 1,
            failures: before.map_or(0, |before| before.failures) + u64::from(in_a_row > 0),
            in_a_row,
            trouble,
        };
        jobs.insert(name, record);
    }

    /// Has a job run as soon as its thread comes to it; all that failed, when none is named.
    pub(crate) fn hurry(&self, name: Option<&str>) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (known, record) in jobs.iter_mut() {
            if name.map_or(record.trouble.is_some(), |name| name == *known) {
                record.due = Instant::now();
            }
        }
    }

    /// What is known of one job; nothing before it ran.
    pub(crate) fn of(&self, name: &str) -> Option<Record> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(name).cloned()
    }

    /// What is known of all.
    pub(crate) fn all(&self) -> BTreeMap<&'static str, Record> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.clone()
    }

    /// How long until a job is due; nothing is left when it never ran.
    pub(crate) fn left(&self, name: &str) -> Duration {
        self.of(name).map_or(Duration::ZERO, |record| {
            record.due.saturating_duration_since(Instant::now())
        })
    }

    /// Whether a job failed lately and waits before it is tried again.
    pub(crate) fn waits(&self, name: &str) -> bool {
        self.of(name)
            .is_some_and(|record| record.trouble.is_some() && record.due > Instant::now())
    }
}

fn retry(in_a_row: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(in_a_row.saturating_sub(1));
    FIRST_RETRY.saturating_mul(doubled).min(LAST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_later_and_later() {
        let spans: Vec<u64> = (1..=8).map(|failed| retry(failed).as_secs()).collect();
        assert_eq!(spans, [15, 30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(retry(u32::MAX), LAST_RETRY);
    }

    #[test]
    fn a_job_is_due_when_it_never_ran_and_counts_what_became_of_it() {
        let (board, hour) = (Board::default(), Duration::from_secs(3_600));
        assert_eq!(board.left("it"), Duration::ZERO);
        let fails = |retry_within| Trouble {
            message: "no".to_owned(),
            retry_within,
        };
        board.note("it", Instant::now(), Ok(hour));
        assert!(board.left("it") > Duration::from_secs(3_000));
        assert!(!board.waits("it"));
        for _ in 0..2 {
            board.note("it", Instant::now(), Err(fails(LAST_RETRY)));
        }
        assert!(board.waits("it"));
        assert!(board.left("it") > Duration::from_secs(25) && board.left("it") < hour);
        let record = board.of("it").unwrap();
        assert_eq!((record.runs, record.failures), (3, 2));
        board.note("it", Instant::now(), Err(fails(Duration::from_secs(5))));
        assert!(board.left("it") <= Duration::from_secs(5));
        board.note("it", Instant::now(), Ok(hour));
        let record = board.of("it").unwrap();
        assert_eq!((record.runs, record.failures), (5, 3));
        assert!(!board.waits("it"));
    }
}
