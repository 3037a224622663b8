//! Background jobs on two threads, one for quick jobs and one for long ones, each with a connection of its own. Every
//! job has a status: its last outcome, and when it is due again. A failed job is tried again later and later, and
//! delays no other job.

pub(crate) mod job;
pub(crate) mod job_status;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flightline::core::{Code, Refusal};
use flightline::mirror::Mirrors;
use flightline::{Caller, Fleet};

use self::job::{Again, JOBS, Job, PROBE, has_new_backups};
use self::job_status::{JobError, JobRun, LAST_RETRY};
use crate::health::Health;
use crate::projects::{Projects, ServedProject};
use crate::serve::{MessageSink, ServerMessage};
use crate::trace::Tracing;
use crate::workers::{Queues, StoreConfig};

/// The least time between two runs of the eager jobs, however many writes there are.
const BREATH: Duration = Duration::from_millis(50);
/// The factor between the time that the eager jobs took and the time for which the thread sleeps after them.
const REST: u32 = 4;
/// The longest such sleep.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// The time until a long job runs again when one run left more to do.
const SOON: Duration = Duration::from_secs(10);
/// The time that the end waits for a long job that is under way; its work is done in pieces that stand alone.
const LAST_CHORE: Duration = Duration::from_secs(5);

/// The time after which a write is tried again after one that failed.
const PROBE_RETRY: Duration = Duration::from_secs(3);
/// The time after which everything else is tried again when the store could not be reached.
const STORE_RETRY: Duration = Duration::from_secs(15);

/// The places of the files beside the store.
#[derive(Clone, Debug)]
pub(crate) struct SideFiles {
    pub(crate) mirrors: Option<Mirrors>,
    pub(crate) caller: Caller,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Nudge {
    Written,
    End,
}

pub(crate) struct Upkeep {
    nudge: SyncSender<Nudge>,
    quick: JoinHandle<()>,
    end_slow: SyncSender<Nudge>,
    slow: JoinHandle<()>,
    slow_ended: Receiver<()>,
}

pub(crate) struct UpkeepDeps {
    pub(crate) store_config: Arc<StoreConfig>,
    pub(crate) beside: SideFiles,
    pub(crate) queues: Queues,
    pub(crate) projects: Arc<Projects>,
    pub(crate) health: Arc<Health>,
    pub(crate) say: MessageSink,
    pub(crate) tracing: Tracing,
    /// In tests, no job runs by itself: each run is asked for.
    pub(crate) idle: bool,
    /// The last revision when the log was looked at.
    pub(crate) folded_at: AtomicU64,
}

impl Upkeep {
    pub(crate) fn start(deps: UpkeepDeps) -> Result<Self, Refusal> {
        let deps = Arc::new(deps);
        // A health check right after the start must find a tried write.
        for job in JOBS.iter().filter(|job| job.name == PROBE && !deps.idle) {
            run(job, &deps, &mut None, JobScope::Due);
        }
        // One nudge is enough for all writes until the next look.
        let (nudge, nudges) = sync_channel(1);
        let quick = {
            let deps = Arc::clone(&deps);
            spawn("fleet-upkeep", move || live(&deps, &nudges, false))?
        };
        let (end_slow, ends) = sync_channel(1);
        let (ended, slow_ended) = sync_channel(1);
        let slow = spawn("fleet-chores", move || {
            live(&deps, &ends, true);
            let _ = ended.send(());
        })?;
        Ok(Self {
            nudge,
            quick,
            end_slow,
            slow,
            slow_ended,
        })
    }

    /// Returns the sender by which a write wakes the jobs.
    pub(crate) fn nudger(&self) -> SyncSender<Nudge> {
        self.nudge.clone()
    }

    /// Waits until the running jobs are done; the eager jobs run once more for the last writes.
    pub(crate) fn dismiss(self) {
        let _ = self.end_slow.try_send(Nudge::End);
        let _ = self.nudge.send(Nudge::End);
        let _ = self.quick.join();
        // A check of everything may take minutes; nothing is lost when it is not waited for.
        if self.slow_ended.recv_timeout(LAST_CHORE).is_ok() {
            let _ = self.slow.join();
        }
    }
}

fn spawn(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Refusal> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread
        .spawn(life)
        .map_err(|error| Refusal::new(Code::Unavailable, format!("cannot start a thread: {error}")))
}

fn live(deps: &UpkeepDeps, nudges: &Receiver<Nudge>, slow: bool) {
    if deps.idle {
        while let Ok(Nudge::Written) = nudges.recv() {}
        return;
    }
    let mine: Vec<&Job> = JOBS.iter().filter(|job| job.slow == slow).collect();
    let (mut fleet, mut written) = (None, false);
    let (mut last_eager, mut rest) = (Instant::now(), BREATH);
    loop {
        let job_statuses = &deps.health.job_statuses;
        let left = mine.iter().map(|job| job_statuses.left(job.name)).min();
        let left = left.unwrap_or(SOON);
        let left = match written {
            true => rest.saturating_sub(last_eager.elapsed()).min(left),
            false => left,
        };
        let last = match nudges.recv_timeout(left) {
            Ok(Nudge::Written) => {
                written = true;
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Ok(Nudge::End) | Err(RecvTimeoutError::Disconnected) => true,
        };
        let eager = last || (written && last_eager.elapsed() >= rest);
        let began = Instant::now();
        for job in &mine {
            let due = match last {
                true => job.eager,
                false => job_statuses.left(job.name).is_zero(),
            };
            if due || (eager && job.eager && !job_statuses.waits(job.name)) {
                let whose = if last { JobScope::All } else { JobScope::Due };
                run(job, deps, &mut fleet, whose);
            }
        }
        if eager {
            (written, last_eager) = (false, Instant::now());
            rest = (began.elapsed() * REST).clamp(BREATH, LONGEST_REST);
        }
        if last {
            return;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobScope {
    /// All projects but those in which the job failed a moment ago.
    Due,
    /// All projects: it is the last run.
    All,
}

pub(crate) fn run(job: &Job, deps: &UpkeepDeps, fleet: &mut Option<Fleet>, whose: JobScope) {
    let (began, job_statuses) = (Instant::now(), &deps.health.job_statuses);
    let ran = match opened(deps, fleet) {
        Err(refusal) => {
            deps.tracing.job(job.name, began, Some(&refusal));
            JobRun::Not(troubled(job, deps, fleet, None, &refusal))
        }
        Ok(open) => {
            let projects = turn(job, deps, open, whose);
            if projects.is_empty() {
                return;
            }
            let worked = work(job, deps, open, &projects);
            let first = worked.iter().find_map(|(_, it)| it.as_ref().err());
            deps.tracing.job(job.name, began, first);
            noted(job, deps, fleet, worked)
        }
    };
    let was_ill = |record: job_status::JobStatus| !record.is_well();
    if job.name == PROBE
        && matches!(ran, JobRun::For(..))
        && job_statuses.of(PROBE).is_some_and(was_ill)
    {
        // The store is back: so is, perhaps, whatever failed for want of it.
        job_statuses.hurry(None);
    }
    job_statuses.note(job.name, began, ran);
}

/// Returns the projects for which a job runs now.
fn turn(
    job: &Job,
    deps: &UpkeepDeps,
    fleet: &mut Fleet,
    whose: JobScope,
) -> Vec<Arc<ServedProject>> {
    if job.once {
        return vec![Arc::clone(deps.projects.home())];
    }
    let mut projects = deps.projects.all();
    projects.retain(|project| {
        // A copy that was never tried does not wait because another failed.
        whose == JobScope::All
            || !deps.health.job_statuses.rests(job.name, &project.id)
            || (job.name == "backups" && has_new_backups(fleet, deps, project))
    });
    projects
}

/// Runs a job for these projects. The trouble of one stops no other.
fn work(
    job: &Job,
    deps: &UpkeepDeps,
    fleet: &mut Fleet,
    projects: &[Arc<ServedProject>],
) -> Vec<(Arc<ServedProject>, Result<Again, Refusal>)> {
    let mut worked = Vec::new();
    for project in projects {
        deps.store_config.enter(fleet, &project.id);
        let outcome = catch_unwind(AssertUnwindSafe(|| (job.work)(fleet, deps, project)));
        let outcome = outcome.unwrap_or_else(|_| {
            let message = "it failed with an internal error; this is a bug";
            Err(Refusal::new(Code::Unavailable, message))
        });
        worked.push((Arc::clone(project), outcome));
    }
    deps.store_config.enter(fleet, &deps.projects.home().id);
    worked
}

/// The outcome of a job, as its status has it.
fn noted(
    job: &Job,
    deps: &UpkeepDeps,
    fleet: &mut Option<Fleet>,
    worked: Vec<(Arc<ServedProject>, Result<Again, Refusal>)>,
) -> JobRun {
    let (mut again, mut outcomes) = (job.every, Vec::new());
    for (project, outcome) in worked {
        let outcome = match outcome {
            Ok(next) => {
                again = if next == Again::Soon { SOON } else { again };
                Ok(())
            }
            // A job that runs once for all projects is not about the project it runs in.
            Err(refusal) if job.once => {
                return JobRun::Not(troubled(job, deps, fleet, None, &refusal));
            }
            Err(refusal) => Err(troubled(job, deps, fleet, Some(&project), &refusal)),
        };
        outcomes.push((Arc::clone(&project.id), outcome));
    }
    JobRun::For(outcomes, again)
}

/// Logs what went wrong, and returns the error with the time after which the job is tried again.
fn troubled(
    job: &Job,
    deps: &UpkeepDeps,
    fleet: &mut Option<Fleet>,
    project: Option<&ServedProject>,
    refusal: &Refusal,
) -> JobError {
    let elsewhere = project.filter(|project| project.id != deps.projects.home().id);
    let of = elsewhere.map_or_else(String::new, |project| format!(" of {}", project.id));
    let line = format!("{}{of}: {}", job.name, refusal.message);
    (deps.say)(ServerMessage::Warning(line));
    let lost = matches!(refusal.code, Code::Unavailable | Code::CommitUnknown);
    if lost {
        *fleet = None;
        // A probe at once shows whether the store takes writes.
        deps.health.job_statuses.hurry(Some(PROBE));
    }
    JobError {
        message: refusal.message.clone(),
        // When the store is back, that is to be known soon; trouble of its own can wait.
        retry_within: match (job.name, lost) {
            (PROBE, _) => PROBE_RETRY,
            (_, true) => STORE_RETRY,
            (_, false) => LAST_RETRY,
        },
    }
}

fn opened<'a>(deps: &UpkeepDeps, fleet: &'a mut Option<Fleet>) -> Result<&'a mut Fleet, Refusal> {
    match fleet {
        Some(open) => Ok(open),
        None => Ok(fleet.insert(deps.store_config.open()?)),
    }
}
