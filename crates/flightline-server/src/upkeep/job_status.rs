//! The status of each job: when it ran, how long it took, its outcome, and when it is due again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a job is tried again after its first failure; after each further one it is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(15);
/// The longest time between two attempts.
pub(super) const LAST_RETRY: Duration = Duration::from_secs(15 * 60);

#[derive(Clone, Debug)]
pub(crate) struct JobStatus {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    /// The failure of the whole job, if it failed.
    trouble: Option<Failure>,
    /// The failures in single projects.
    troubles: BTreeMap<Arc<str>, Failure>,
    pub(crate) due: Instant,
    pub(crate) runs: u64,
    pub(crate) failures: u64,
}

#[derive(Clone, Debug)]
struct Failure {
    message: String,
    due: Instant,
    /// The number of failures in a row.
    in_a_row: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct JobError {
    pub(crate) message: String,
    pub(crate) retry_within: Duration,
}

#[derive(Debug)]
pub(crate) enum JobRun {
    /// The job ran for these projects, and runs again after this time.
    For(Vec<(Arc<str>, Result<(), JobError>)>, Duration),
    /// The job could not run at all.
    Not(JobError),
}

#[derive(Debug, Default)]
pub(crate) struct JobStatuses(Mutex<BTreeMap<&'static str, JobStatus>>);

impl JobStatus {
    /// Returns true when the last run went well everywhere.
    pub(crate) fn is_well(&self) -> bool {
        self.trouble.is_none() && self.troubles.is_empty()
    }

    /// The trouble as callers of a project may see it: the trouble of another project is hidden from them.
    pub(crate) fn trouble_for(&self, project: &str) -> Option<&str> {
        let own = self.trouble.as_ref().or_else(|| self.troubles.get(project));
        match own {
            Some(failure) => Some(&failure.message),
            None if self.is_well() => None,
            None => Some("it fails in another project"),
        }
    }

    fn failures(&mut self) -> impl Iterator<Item = &mut Failure> {
        self.trouble.iter_mut().chain(self.troubles.values_mut())
    }
}

impl Failure {
    fn new(trouble: JobError, before: Option<&Self>) -> Self {
        let in_a_row = before.map_or(0, |before| before.in_a_row).saturating_add(1);
        Self {
            message: trouble.message,
            due: Instant::now() + retry(in_a_row).min(trouble.retry_within),
            in_a_row,
        }
    }
}

impl JobStatuses {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<&'static str, JobStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a job ran just now, having begun at `began`, and its outcome.
    pub(crate) fn note(&self, name: &'static str, began: Instant, ran: JobRun) {
        let mut jobs = self.jobs();
        let now = Instant::now();
        let mut record = jobs.remove(name).unwrap_or(JobStatus {
            at: now,
            took: Duration::ZERO,
            trouble: None,
            troubles: BTreeMap::new(),
            due: now,
            runs: 0,
            failures: 0,
        });
        (record.at, record.took) = (now, now.duration_since(began));
        record.runs += 1;
        let failed = match ran {
            JobRun::For(projects, again) => {
                (record.trouble, record.due) = (None, now + again);
                let mut failed = false;
                for (project, outcome) in projects {
                    let before = record.troubles.remove(&project);
                    if let Err(trouble) = outcome {
                        failed = true;
                        let failure = Failure::new(trouble, before.as_ref());
                        record.troubles.insert(project, failure);
                    }
                }
                failed
            }
            JobRun::Not(trouble) => {
                let failure = Failure::new(trouble, record.trouble.as_ref());
                record.due = failure.due;
                record.trouble = Some(failure);
                true
            }
        };
        record.failures += u64::from(failed);
        let soonest = record.failures().map(|failure| failure.due).min();
        record.due = soonest.map_or(record.due, |soonest| soonest.min(record.due));
        jobs.insert(name, record);
    }

    /// Makes a job due at once; all jobs that failed, when none is named.
    pub(crate) fn hurry(&self, name: Option<&str>) {
        for (known, record) in self.jobs().iter_mut() {
            if name.map_or(!record.is_well(), |name| name == *known) {
                let now = Instant::now();
                record.due = now;
                record.failures().for_each(|failure| failure.due = now);
            }
        }
    }

    /// The record of one job; none before it ran.
    pub(crate) fn of(&self, name: &str) -> Option<JobStatus> {
        self.jobs().get(name).cloned()
    }

    pub(crate) fn all(&self) -> BTreeMap<&'static str, JobStatus> {
        self.jobs().clone()
    }

    /// The time until a job is due; zero when it never ran.
    pub(crate) fn left(&self, name: &str) -> Duration {
        self.of(name).map_or(Duration::ZERO, |record| {
            record.due.saturating_duration_since(Instant::now())
        })
    }

    /// Returns true when a job failed lately and waits before it is tried again.
    pub(crate) fn waits(&self, name: &str) -> bool {
        let jobs = self.jobs();
        let failure = jobs.get(name).and_then(|record| record.trouble.as_ref());
        failure.is_some_and(|failure| failure.due > Instant::now())
    }

    /// Returns true when a job failed lately in this project, and is not tried there yet. Other projects do not wait.
    pub(crate) fn rests(&self, name: &str, project: &str) -> bool {
        let jobs = self.jobs();
        let failure = jobs
            .get(name)
            .and_then(|record| record.troubles.get(project));
        failure.is_some_and(|failure| failure.due > Instant::now())
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

    fn fails(retry_within: Duration) -> JobError {
        JobError {
            message: "no".to_owned(),
            retry_within,
        }
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_job_is_due_when_it_never_ran_and_counts_what_became_of_it() {
        let job_statuses = JobStatuses::default();
        let well = || JobRun::For(Vec::new(), HOUR);
        assert_eq!(job_statuses.left("it"), Duration::ZERO);
        job_statuses.note("it", Instant::now(), well());
        assert!(job_statuses.left("it") > Duration::from_secs(3_000));
        assert!(!job_statuses.waits("it"));
        for _ in 0..2 {
            job_statuses.note("it", Instant::now(), JobRun::Not(fails(LAST_RETRY)));
        }
        assert!(job_statuses.waits("it"));
        assert!(
            job_statuses.left("it") > Duration::from_secs(25) && job_statuses.left("it") < HOUR
        );
        let record = job_statuses.of("it").unwrap();
        assert_eq!((record.runs, record.failures), (3, 2));
        job_statuses.note(
            "it",
            Instant::now(),
            JobRun::Not(fails(Duration::from_secs(5))),
        );
        assert!(job_statuses.left("it") <= Duration::from_secs(5));
        job_statuses.note("it", Instant::now(), well());
        let record = job_statuses.of("it").unwrap();
        assert_eq!((record.runs, record.failures), (5, 3));
        assert!(!job_statuses.waits("it"));
    }

    #[test]
    fn what_fails_in_one_project_is_tried_there_later_and_later_and_in_others_as_ever() {
        let (job_statuses, ill, well): (_, Arc<str>, Arc<str>) =
            (JobStatuses::default(), "ill".into(), "well".into());
        for _ in 0..3 {
            let both = vec![
                (Arc::clone(&ill), Err(fails(LAST_RETRY))),
                (Arc::clone(&well), Ok(())),
            ];
            job_statuses.note("it", Instant::now(), JobRun::For(both, HOUR));
        }
        assert!(!job_statuses.waits("it"));
        assert!(job_statuses.rests("it", &ill) && !job_statuses.rests("it", &well));
        let left = job_statuses.left("it");
        assert!(left > Duration::from_secs(50) && left < HOUR, "{left:?}");
        let record = job_statuses.of("it").unwrap();
        assert_eq!((record.runs, record.failures), (3, 3));
        assert_eq!(record.trouble_for(&ill), Some("no"));
        assert_eq!(
            record.trouble_for(&well),
            Some("it fails in another project")
        );
        // Where it was not tried, the earlier record stays.
        let one = vec![(Arc::clone(&well), Ok(()))];
        job_statuses.note("it", Instant::now(), JobRun::For(one, HOUR));
        assert!(job_statuses.rests("it", &ill) && job_statuses.left("it") < HOUR);
        job_statuses.hurry(None);
        assert!(!job_statuses.rests("it", &ill) && job_statuses.left("it").is_zero());
        let one = vec![(ill, Ok(()))];
        job_statuses.note("it", Instant::now(), JobRun::For(one, HOUR));
        assert!(job_statuses.of("it").unwrap().is_well());
    }
}
