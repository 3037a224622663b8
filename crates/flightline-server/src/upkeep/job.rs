//! The jobs. Each is done in one go that is short, or in batches that let others in between.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flightline::agent::look_around;
use flightline::agent::monitor::MonitorAgents;
use flightline::checkpoint::backups::{
    FailedBackups, failed_backups, has_untried_backups, settle_and_tell,
};
use flightline::checkpoint::daily::daily;
use flightline::checkpoint::due::take_due;
use flightline::checkpoint::leftovers::clear;
use flightline::checkpoint::thin::thin_some;
use flightline::core::{Code, Refusal};
use flightline::doctor::disk::long_log;
use flightline::lease::SettleLeases;
use flightline::mail::relay::relay;
use flightline::maintenance;
use flightline::mirror::{MirrorNotice, Mirrors, take_in, write_out};
use flightline::recovery::detect::Detect;
use flightline::registry::Commit;
use flightline::store::verify::verify;
use flightline::{Access, Fleet};

use super::UpkeepDeps;
use crate::projects::ServedProject;
use crate::serve::ServerMessage;

pub(crate) const PROBE: &str = "write_probe";
pub(crate) const INTEGRITY: &str = "integrity";

/// The free space on the disk below which writes are about to fail.
const LEAST_ROOM: u64 = 512 * 1024;

/// A job that runs beside requests.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    pub(crate) every: Duration,
    /// True for a job that also runs after a write, and before the end.
    pub(crate) eager: bool,
    /// True for a job whose one run is enough for all projects.
    pub(crate) once: bool,
    /// True for a job that may take long: such jobs have a thread of their own.
    pub(crate) slow: bool,
    pub(crate) work: fn(&mut Fleet, &UpkeepDeps, &ServedProject) -> Result<Again, Refusal>,
}

/// The time at which a job that went well runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// At its usual time.
    AsEver,
    /// Soon: there is more to do.
    Soon,
}

const fn job(
    name: &'static str,
    seconds: u64,
    work: fn(&mut Fleet, &UpkeepDeps, &ServedProject) -> Result<Again, Refusal>,
) -> Job {
    Job {
        name,
        every: Duration::from_secs(seconds),
        eager: false,
        once: false,
        slow: false,
        work,
    }
}

const fn eager(it: Job) -> Job {
    Job { eager: true, ..it }
}

const fn once(it: Job) -> Job {
    Job { once: true, ..it }
}

const fn slow(it: Job) -> Job {
    Job { slow: true, ..it }
}

/// All jobs, in the order in which they run.
pub(crate) const JOBS: &[Job] = &[
    once(job(PROBE, 15, write_probe)),
    eager(job("mirrors_in", 15, mirrors_in)),
    eager(job("due_checkpoints", 15, due_checkpoints)),
    eager(job("backups", 15, backups)),
    eager(job("mirrors_out", 15, mirrors_out)),
    job("staleness", 30, staleness),
    job("leases", 60, leases),
    eager(job("dispatch_mail", 15, dispatch_mail)),
    once(job("wal_checkpoint", 60, wal_checkpoint)),
    slow(job("retention", 900, retention)),
    slow(job("thinning", 3_600, thinning)),
    slow(job(INTEGRITY, 3_600, integrity)),
];

fn refused(error: flightline::Error) -> Refusal {
    error.into_refusal()
}

/// Writes the project's row, through the same queue and thread as requests, to the disk and back. The probe is tiny, so it
/// also fails when less than 512 KiB is left on the disk.
fn write_probe(
    _: &mut Fleet,
    deps: &UpkeepDeps,
    project: &ServedProject,
) -> Result<Again, Refusal> {
    deps.queues
        .run_here(&project.id, Access::Write, Commit::Grouped, |fleet| {
            maintenance::probe(fleet).map_err(refused)
        })?;
    match deps.store_config.location.room() {
        Some(left) if left < LEAST_ROOM => Err(Refusal::new(
            Code::Unavailable,
            format!("the disk is full: {} KiB are left on it", left / 1024),
        )),
        Some(_) | None => Ok(Again::AsEver),
    }
}

fn mirrored(deps: &UpkeepDeps, said: Vec<MirrorNotice>) {
    for line in said {
        if let MirrorNotice::Trouble(line) = line {
            (deps.say)(ServerMessage::Warning(line));
        }
    }
}

/// Returns the mirrors, which belong to the project whose repository the server runs in.
fn mirrors_of<'a>(deps: &'a UpkeepDeps, project: &ServedProject) -> Option<&'a Mirrors> {
    let mirrors = deps.beside.mirrors.as_ref();
    mirrors.filter(|_| project.id == deps.projects.home().id)
}

fn mirrors_in(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    project: &ServedProject,
) -> Result<Again, Refusal> {
    if let Some(mirrors) = mirrors_of(deps, project) {
        let said = take_in(fleet, mirrors, &deps.beside.caller).map_err(refused)?;
        mirrored(deps, said);
    }
    Ok(Again::AsEver)
}

fn mirrors_out(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    project: &ServedProject,
) -> Result<Again, Refusal> {
    if let Some(mirrors) = mirrors_of(deps, project) {
        let said = write_out(fleet, mirrors, &deps.beside.caller).map_err(refused)?;
        mirrored(deps, said);
    }
    Ok(Again::AsEver)
}

fn due_checkpoints(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    _: &ServedProject,
) -> Result<Again, Refusal> {
    take_due(fleet, &deps.beside.caller, false).map_err(refused)?;
    Ok(Again::AsEver)
}

/// Writes copies of checkpoints. New ones are written at once; those that failed are tried again with them, and else later
/// and later.
pub(super) fn backups(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    project: &ServedProject,
) -> Result<Again, Refusal> {
    let (beside, state) = (&deps.beside, deps.projects.state_of(&project.id));
    for (id, warning) in settle_and_tell(fleet, &state, &beside.caller).map_err(refused)? {
        (deps.say)(ServerMessage::Warning(format!("{id}: {warning}")));
    }
    match failed_backups(fleet).map_err(refused)? {
        None => Ok(Again::AsEver),
        Some(FailedBackups { count: 1, why }) => Err(trouble(&format!(
            "the copy of a checkpoint cannot be written: {why}"
        ))),
        Some(FailedBackups { count, why }) => Err(trouble(&format!(
            "the copies of {count} checkpoints cannot be written: {why}"
        ))),
    }
}

fn trouble(message: &str) -> Refusal {
    Refusal::new(Code::Failed, message)
}

/// Returns true when a backup waits that was never tried: then the failure of another is no reason to wait.
pub(super) fn has_new_backups(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    project: &ServedProject,
) -> bool {
    deps.store_config.enter(fleet, &project.id);
    let has_new = has_untried_backups(fleet).unwrap_or(false);
    deps.store_config.enter(fleet, &deps.projects.home().id);
    has_new
}

/// Looks for missions whose agents are gone or silent, and agents that should have given a sign. Each silence is told
/// once, to the agent itself and to the coordinator.
pub(super) fn staleness(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    _: &ServedProject,
) -> Result<Again, Refusal> {
    let sightings = look_around(fleet).map_err(refused)?;
    let detect = Detect {
        threshold_ms: None,
        sightings,
    };
    fleet.run(&detect, &deps.beside.caller).map_err(refused)?;
    let monitor = MonitorAgents::default();
    fleet.run(&monitor, &deps.beside.caller).map_err(refused)?;
    Ok(Again::AsEver)
}

pub(super) fn leases(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    _: &ServedProject,
) -> Result<Again, Refusal> {
    let settle = SettleLeases::default();
    fleet.run(&settle, &deps.beside.caller).map_err(refused)?;
    Ok(Again::AsEver)
}

fn dispatch_mail(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    _: &ServedProject,
) -> Result<Again, Refusal> {
    relay(fleet, &deps.beside.caller).map_err(refused)?;
    Ok(Again::AsEver)
}

/// Folds SQLite's log into the database; gives its space back when nothing was written since the last time.
pub(super) fn wal_checkpoint(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    _: &ServedProject,
) -> Result<Again, Refusal> {
    let before = deps.folded_at.load(Ordering::SeqCst);
    let (rev, long) = maintenance::fold_log(fleet, before).map_err(refused)?;
    deps.folded_at.store(rev, Ordering::SeqCst);
    match long {
        Some(disk) => Err(trouble(&format!(
            "{}; `fleet doctor` names it",
            long_log(&disk)
        ))),
        None => Ok(Again::AsEver),
    }
}

/// Prunes old checkpoints, once a day, and their files with them.
pub(super) fn retention(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    project: &ServedProject,
) -> Result<Again, Refusal> {
    let beside = &deps.beside;
    if !daily(fleet, &beside.caller).map_err(refused)?.is_empty() {
        clear(fleet, &deps.projects.state_of(&project.id)).map_err(refused)?;
    }
    Ok(Again::AsEver)
}

/// Thins old values of the journal, a bit at a time.
pub(super) fn thinning(
    fleet: &mut Fleet,
    deps: &UpkeepDeps,
    _: &ServedProject,
) -> Result<Again, Refusal> {
    let (_, more) = thin_some(fleet, &deps.beside.caller).map_err(refused)?;
    Ok(if more { Again::Soon } else { Again::AsEver })
}

/// Checks everything in the store against its hashes.
fn integrity(fleet: &mut Fleet, _: &UpkeepDeps, _: &ServedProject) -> Result<Again, Refusal> {
    let findings = verify(fleet.store()?).map_err(Refusal::from)?;
    let mut problems = findings.into_iter().flat_map(|finding| finding.problems);
    let Some(first) = problems.next() else {
        return Ok(Again::AsEver);
    };
    let more = problems.count();
    Err(trouble(&match more {
        0 => format!("{first}; look closer with `fleet doctor`"),
        more => format!("{first}, and {more} more; look closer with `fleet doctor`"),
    }))
}
