//! What is done beside requests, on a thread and a connection of its own: backups of checkpoints, mirrors,
//! checkpoints that time makes due, retention, mail to those who coordinate, and looks at our own health.
//! A failure is noted in the health and tried again; it stands in nobody's way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use flightline::checkpoint::due::take_due;
use flightline::checkpoint::files::settle_and_tell;
use flightline::checkpoint::leftovers::clear;
use flightline::checkpoint::prune::daily;
use flightline::core::{Code, Refusal};
use flightline::mail::relay::relay;
use flightline::mirror::{Mirrors, Said as MirrorSaid, take_in, write_out};
use flightline::store::verify::verify;
use flightline::{Access, Caller, Fleet};

use crate::crew::{Company, Lines, Place};
use crate::health::{CHECK_EVERY, Health, Look, PROBE_EVERY};
use crate::projects::{Project, Projects};
use crate::serve::{Said, Say};

/// Where files beside the store are.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// The mirrors in this repository, when there are any.
    pub(crate) mirrors: Option<Mirrors>,
    /// Who it is done for.
    pub(crate) caller: Caller,
}

/// Why the thread is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nudge {
    /// Something was written.
    Written,
    /// It is to end.
    End,
}

/// The thread that does it.
pub(crate) struct Upkeep {
    nudge: SyncSender<Nudge>,
    thread: JoinHandle<()>,
}

/// What the thread works with.
pub(crate) struct Means {
    pub(crate) place: Arc<Place>,
    pub(crate) beside: Beside,
    pub(crate) lines: Lines,
    pub(crate) projects: Arc<Projects>,
    pub(crate) health: Arc<Health>,
    pub(crate) say: Say,
    /// In tests: everything is asked for, and nothing is done by itself.
    pub(crate) idle: bool,
}

impl Upkeep {
    /// Starts the thread.
    pub(crate) fn start(means: Means) -> Result<Self, Refusal> {
        // One nudge is enough for whatever was written until it is looked at.
        let (nudge, nudges) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("fleet-upkeep".to_owned())
            .spawn(move || live(&means, &nudges))
            .map_err(|error| {
                Refusal::new(Code::Unavailable, format!("cannot start a thread: {error}"))
            })?;
        Ok(Self { nudge, thread })
    }

    /// Something was written: there may be something to do.
    pub(crate) fn nudger(&self) -> SyncSender<Nudge> {
        self.nudge.clone()
    }

    /// Ends when what is under way is done; what was written last is looked after once more.
    pub(crate) fn dismiss(self) {
        let Self { nudge, thread } = self;
        let _ = nudge.send(Nudge::End);
        let _ = thread.join();
    }
}

fn live(means: &Means, nudges: &Receiver<Nudge>) {
    let mut fleet: Option<Fleet> = None;
    loop {
        let last = match nudges.recv_timeout(PROBE_EVERY) {
            Ok(Nudge::Written) | Err(RecvTimeoutError::Timeout) => false,
            Ok(Nudge::End) | Err(RecvTimeoutError::Disconnected) => true,
        };
        match (means.idle, last) {
            (true, true) => return,
            (true, false) => continue,
            (false, _) => {}
        }
        if !last
            && means
                .health
                .age(Look::Probe)
                .is_none_or(|age| age >= PROBE_EVERY)
        {
            probe(&means.lines, &means.projects.home().id, &means.health);
        }
        fleet = match fleet {
            Some(fleet) => Some(fleet),
            None => match means.place.open() {
                Ok(fleet) => Some(fleet),
                Err(refusal) => {
                    means.health.note(Look::Upkeep, Some(refusal.message));
                    None
                }
            },
        };
        if let Some(open) = &mut fleet {
            let kept = pass_all(open, means);
            if let Err(refusal) = &kept {
                (means.say)(Said::Warning(refusal.message.clone()));
            }
            let failed = kept.is_err();
            means
                .health
                .note(Look::Upkeep, kept.err().map(|refusal| refusal.message));
            if !last
                && means
                    .health
                    .age(Look::Integrity)
                    .is_none_or(|age| age >= CHECK_EVERY)
            {
                let trouble = check(open);
                if let Some(trouble) = &trouble {
                    (means.say)(Said::Warning(trouble.clone()));
                }
                means.health.note(Look::Integrity, trouble);
            }
            if failed {
                fleet = None;
            }
        }
        if last {
            return;
        }
    }
}

/// Writes, through the same queue and thread as everybody: the project's row, to the disk and back.
pub(crate) fn probe(lines: &Lines, project: &Arc<str>, health: &Health) {
    let written = lines.run_here(project, Access::Write, Company::Welcome, |fleet| {
        fleet
            .store()?
            .write(|_| Ok::<_, flightline::store::Error>(()))
            .map_err(Refusal::from)
    });
    health.note(Look::Probe, written.err().map(|refusal| refusal.message));
}

/// Everything in the store against its hashes.
fn check(fleet: &mut Fleet) -> Option<String> {
    let findings = fleet
        .store()
        .and_then(|store| verify(store).map_err(flightline::Error::from));
    match findings {
        Err(error) => Some(error.to_string()),
        Ok(findings) => {
            let mut problems = findings.into_iter().flat_map(|finding| finding.problems);
            let first = problems.next()?;
            let more = problems.count();
            Some(match more {
                0 => format!("{first}; look closer with `fleet doctor`"),
                more => format!("{first}, and {more} more; look closer with `fleet doctor`"),
            })
        }
    }
}

/// One pass over every project. The trouble of one stops no other.
fn pass_all(fleet: &mut Fleet, means: &Means) -> Result<(), Refusal> {
    let mut passed = Ok(());
    for project in means.projects.all() {
        means.place.enter(fleet, &project.id);
        passed = passed.and(pass(fleet, means, &project));
    }
    means.place.enter(fleet, &means.projects.home().id);
    passed
}

fn pass(fleet: &mut Fleet, means: &Means, project: &Project) -> Result<(), Refusal> {
    let (beside, say) = (&means.beside, &means.say);
    let state = means.projects.state_of(&project.id);
    let mirrors = beside.mirrors.as_ref();
    let mirrors = mirrors.filter(|_| project.id == means.projects.home().id);
    let caller = &beside.caller;
    let refused = flightline::Error::into_refusal;
    let mirrored = |said: Vec<MirrorSaid>| {
        for line in said {
            if let MirrorSaid::Trouble(line) = line {
                say(Said::Warning(line));
            }
        }
    };
    if let Some(mirrors) = mirrors {
        mirrored(take_in(fleet, mirrors, caller).map_err(refused)?);
    }
    take_due(fleet, caller, false).map_err(refused)?;
    for (id, warning) in settle_and_tell(fleet, &state, caller).map_err(refused)? {
        say(Said::Warning(format!("{id}: {warning}")));
    }
    if let Some(mirrors) = mirrors {
        mirrored(write_out(fleet, mirrors, caller).map_err(refused)?);
    }
    if !daily(fleet, caller).map_err(refused)?.is_empty() {
        clear(fleet, &state).map_err(refused)?;
    }
    relay(fleet, caller).map_err(refused)
}
