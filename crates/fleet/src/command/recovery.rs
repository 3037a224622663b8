//! `fleet detect`, `fleet resume` and `fleet undo`: finds missions that need recovery, resumes them or goes back to a
//! checkpoint, and takes that back.

mod text;
mod tree;

use std::process::ExitCode;

use clap::Args;
use flightline::agent::Sighting;
use flightline::checkpoint::mend::CheckpointsToRead;
use flightline::core::liveness::Life;
use flightline::core::recovery::RecoveryContext;
use flightline::core::time::human_span;
use flightline::core::{Code, Kind, Name, Refusal};
use flightline::recovery::claims::ListClaims;
use flightline::recovery::detect::{Detect, PeekCandidates, RecoveryCandidate};
use flightline::recovery::resume::{Resume, Resumed};
use flightline::recovery::undo::Undo;
use serde::Serialize;

use super::{ATTENTION, CommandResult, replay, typed};
use crate::app::{App, DisplayIds};
use crate::complete;
use crate::ui::{Cell, Page};

pub use self::text::say_analysis;
use self::text::{Tense, left_to_do, say, say_counts, say_next};

#[derive(Debug, Args)]
pub struct DetectArgs {
    /// Resume missions that need recovery, at once
    #[arg(long)]
    auto_resume: bool,
    /// Silence after which a mission needs recovery, such as `5m`
    #[arg(long, value_parser = typed::span)]
    threshold: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Go back to exactly this checkpoint (default: keep everything acknowledged since)
    #[arg(long, value_name = "ID", add = complete::checkpoints())]
    checkpoint: Option<String>,
    /// Show what would be restored without applying it
    #[arg(long)]
    dry_run: bool,
    /// Continue without failed work
    #[arg(long)]
    skip_failed: bool,
    /// Set the workflow back to this state; its history stays
    #[arg(long, value_name = "STATE")]
    reset_to: Option<String>,
    /// Also roll back finished work of agents that are alive
    #[arg(long)]
    force: bool,
    /// Then step through the history, from that checkpoint on
    #[arg(long, conflicts_with = "dry_run")]
    replay: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Also roll back finished work of agents that are alive
    #[arg(long)]
    force: bool,
}

pub fn detect(args: &DetectArgs, app: &mut App) -> CommandResult {
    match args.auto_resume {
        true => app.will_answer("resumed")?,
        false => app.will_answer("candidate")?,
    }
    let sightings = app.sightings()?;
    mend_candidates(args, &sightings, app)?;
    let found = app.run(&Detect {
        threshold_ms: args.threshold,
        sightings: sightings.clone(),
    })?;
    let missions: Vec<&RecoveryCandidate> = found
        .iter()
        .filter(|candidate| candidate.needs_recovery())
        .collect();
    let (can, cannot): (Vec<&RecoveryCandidate>, Vec<&RecoveryCandidate>) = missions
        .iter()
        .partition(|candidate| candidate.checkpoint_available);
    let any_task = found.iter().any(|candidate| !candidate.tasks.is_empty());
    let attention = |open: bool| match open {
        true => ExitCode::from(ATTENTION),
        false => ExitCode::SUCCESS,
    };
    if args.auto_resume {
        let (resumed, refused) = resume_all(&can, &sightings, app);
        if let (Some(refusal), [], true) = (refused.first(), &*resumed, missions.len() == 1) {
            return Err(refusal.clone());
        }
        say_refused(app, &refused);
        let short = app.short(
            &[Kind::Checkpoint, Kind::Mission, Kind::Sortie],
            &(&resumed, &cannot),
        )?;
        app.ui.answer(&resumed, |page| {
            for done in &resumed {
                say(page, done, &short, Tense::Done);
            }
            for candidate in &cannot {
                say_candidate(page, candidate, &short);
            }
            say_rest(page, &found);
        })?;
        return Ok(attention(resumed.len() < missions.len() || any_task));
    }
    let short = app.short(&[Kind::Checkpoint, Kind::Mission, Kind::Sortie], &found)?;
    app.ui.answer(&found, |page| {
        for candidate in &missions {
            say_candidate(page, candidate, &short);
        }
        say_rest(page, &found);
    })?;
    // Offered, and done at once when a person at the terminal says yes.
    let mut wanted = Vec::new();
    for candidate in &can {
        let question = format!("Resume \"{}\"?", candidate.title);
        if app.ui.ask(&question, app.asking()) == Some(true) {
            wanted.push(*candidate);
        }
    }
    let (resumed, refused) = resume_all(&wanted, &sightings, app);
    say_refused(app, &refused);
    if !resumed.is_empty() {
        app.ui.answer(&resumed, |page| {
            for done in &resumed {
                say(page, done, &short, Tense::Done);
            }
        })?;
    }
    Ok(attention(resumed.len() < missions.len() || any_task))
}

/// Looks in the files of missions without a sound checkpoint in the store, so that these can be offered.
fn mend_candidates(
    args: &DetectArgs,
    sightings: &[Sighting],
    app: &mut App,
) -> Result<(), Refusal> {
    let peek = PeekCandidates {
        threshold_ms: args.threshold,
        sightings: sightings.to_vec(),
    };
    for candidate in app.run(&peek)? {
        if candidate.needs_recovery() && !candidate.checkpoint_available {
            app.mend(&CheckpointsToRead::Newest {
                mission: Some(candidate.mission_id.to_string()),
            })?;
        }
    }
    Ok(())
}

fn warn(app: &App, done: &Resumed) {
    for warning in &done.warnings {
        app.ui.warn(warning);
    }
}

fn resume_all(
    candidates: &[&RecoveryCandidate],
    sightings: &[Sighting],
    app: &mut App,
) -> (Vec<Resumed>, Vec<Refusal>) {
    let (mut resumed, mut refused) = (Vec::new(), Vec::new());
    for candidate in candidates {
        let mission = Some(candidate.mission_id.to_string());
        let tree = app.look(&ListClaims {
            mission: mission.clone(),
            checkpoint: None,
        });
        let done = app.serve(&Resume {
            mission,
            sightings: sightings.to_vec(),
            tree: tree.ok().flatten(),
            ..Resume::default()
        });
        match done {
            Ok(done) => {
                warn(app, &done);
                resumed.push(done);
            }
            Err(refusal) => refused.push(refusal),
        }
    }
    (resumed, refused)
}

/// Warns of missions that could not be resumed. A refused mission does not stop the others.
fn say_refused(app: &App, refused: &[Refusal]) {
    for refusal in refused {
        app.ui.warn(&refusal.message);
        if let Some(hint) = &refusal.hint {
            app.ui.talk(hint);
        }
    }
}

/// Prints the other findings: tasks, work that recoveries left, or that there is nothing.
fn say_rest(page: &mut Page, found: &[RecoveryCandidate]) {
    say_tasks(page, found);
    let needs =
        |candidate: &RecoveryCandidate| candidate.needs_recovery() || !candidate.tasks.is_empty();
    if !found.iter().any(needs) {
        page.line("Nothing needs recovery.");
    }
    for candidate in found {
        let Some(at) = candidate.recovered_at else {
            continue;
        };
        page.line(format_args!(
            "{} was resumed at {}, and shows no activity since",
            candidate.title,
            at.to_seconds()
        ));
        for left in &candidate.left {
            let left = left_to_do(page, left);
            page.line(format_args!("  {left}"));
        }
    }
}

/// Prints the tasks that need a decision, and the commands to run next for each.
fn say_tasks(page: &mut Page, found: &[RecoveryCandidate]) {
    for task in found.iter().flat_map(|candidate| &candidate.tasks) {
        page.line(task.line());
        for (at, command) in task.next.iter().enumerate() {
            let label = if at == 0 { "Next:" } else { "then:" };
            page.line(format_args!("  {label} {command}"));
        }
    }
}

#[derive(Serialize)]
struct NothingToResume {
    checkpoint_id: Option<String>,
    why: String,
    hint: Option<String>,
}

fn say_nothing_to_resume(app: &App, refusal: Refusal) -> CommandResult {
    let nothing = NothingToResume {
        checkpoint_id: None,
        why: refusal.message,
        hint: refusal.hint,
    };
    app.ui.answer(&nothing, |page| {
        page.line(format_args!("Would resume nothing: {}", nothing.why));
        if let Some(hint) = &nothing.hint {
            page.line(format_args!("To change that, {hint}"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn say_candidate(page: &mut Page, candidate: &RecoveryCandidate, short: &DisplayIds) {
    let can = if candidate.checkpoint_available {
        "can be recovered"
    } else {
        "needs recovery, and has no checkpoint"
    };
    page.line(format_args!(
        "{} ({}) {can}",
        candidate.title,
        short.id(candidate.mission_id)
    ));
    let mut rows: Vec<Vec<Cell>> = candidate
        .agents
        .iter()
        .map(|agent| {
            let sorties = agent.sorties.iter().map(|id| short.id(id));
            // An agent that is alive knows what it has locked.
            let locks = agent.locks.iter().filter(|_| !agent.keeps);
            let locks = locks.map(|file| format!("the lock on {file}"));
            let held: Vec<String> = sorties.chain(locks).collect();
            let held = match (agent.keeps, held.is_empty()) {
                (_, true) => String::new(),
                (true, false) => format!(", keeps {}", held.join(", ")),
                (false, false) => format!("; held {}", held.join(", ")),
            };
            let life = if agent.life == Life::Active {
                "active".to_owned()
            } else {
                format!("{}: {}", agent.life.as_str(), agent.evidence)
            };
            vec![
                Cell::new(&agent.name).indent(2),
                Cell::new(format_args!("{life}{held}")),
            ]
        })
        .collect();
    rows.push(vec![
        Cell::new("quiet").indent(2),
        Cell::new(format_args!(
            "for {}",
            human_span(candidate.inactivity_duration_ms)
        )),
    ]);
    if let Some(id) = candidate.checkpoint_id {
        let since = candidate.events_since;
        let noun = if since == 1 { "event" } else { "events" };
        rows.push(vec![
            Cell::new("from").indent(2),
            Cell::new(format_args!("{}, plus {since} {noun} since", short.id(id))),
        ]);
    }
    page.table(&[], &rows);
    // The hint must work whatever mission is current when it is typed.
    let mission = format!(" --mission {}", short.id(candidate.mission_id));
    match candidate.checkpoint_at {
        Some(at) => {
            page.line(format_args!(
                "Found checkpoint from {}. Resume?",
                at.to_seconds()
            ));
            let resume = page.command(format!("fleet resume{mission}"));
            let look = page.command(format!("fleet resume{mission} --dry-run"));
            page.line(format_args!(
                "Resume with: {resume}          look first: {look}"
            ));
        }
        None => {
            let look = page.command(format!("fleet status{mission}"));
            page.line(format_args!("Look at it with: {look}"));
        }
    }
}

pub fn resume(args: &ResumeArgs, app: &mut App) -> CommandResult {
    let sightings = app.sightings()?;
    let mut request = Resume {
        mission: None,
        checkpoint: args.checkpoint.clone(),
        force: args.force,
        reopen: args.yes,
        skip_failed: args.skip_failed,
        reset_to: match &args.reset_to {
            Some(word) => Some(Name::parse("a state", word)?),
            None => None,
        },
        sightings,
        tree: None,
    };
    let claims = ListClaims {
        mission: None,
        checkpoint: args.checkpoint.clone(),
    };
    if args.dry_run {
        request.tree = app.look(&claims)?;
        let plan = match app.rehearse(&request) {
            // A dry run also answers when there is nothing to resume.
            Err(refusal) if refusal.code == Code::NotFound && args.checkpoint.is_none() => {
                return say_nothing_to_resume(app, refusal);
            }
            plan => plan?,
        };
        warn(app, &plan);
        let short = app.short(&[Kind::Checkpoint, Kind::Mission, Kind::Sortie], &plan)?;
        app.ui
            .answer(&plan, |page| say(page, &plan, &short, Tense::Would))?;
        return Ok(ExitCode::SUCCESS);
    }
    match args.speaks_of_states() {
        true => app.will_answer("restored-states")?,
        false => app.will_answer("recovery-context")?,
    }
    if let Some(id) = args.checkpoint.as_ref().filter(|_| !args.yes) {
        // A person who names a missing checkpoint is told so, and not asked first.
        let names_nothing = |refusal: &Refusal| {
            matches!(
                refusal.code,
                Code::NotFound | Code::AmbiguousId | Code::InvalidInput
            )
        };
        if let Some(refusal) = app.rehearse(&request).err().filter(names_nothing) {
            return Err(refusal);
        }
        let asking = app.asking();
        app.ui
            .confirm(&format!("go back to {id}"), &args.with_yes(id), asking)?;
        request.reopen = true;
    }
    request.tree = app.look(&claims)?;
    let done = match app.serve(&request) {
        // A mission that failed is not taken up again by accident.
        Err(refusal) if refusal.code == Code::ConfirmationNeeded => {
            let question = format!("{}. Resume it?", refusal.message);
            if app.ui.ask(&question, app.asking()) != Some(true) {
                return Err(refusal);
            }
            request.reopen = true;
            app.serve(&request)?
        }
        done => done?,
    };
    app.settle_backups()?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission, Kind::Sortie], &done)?;
    warn(app, &done);
    if app.ui.json {
        say_context(args, &done, app)?;
    } else {
        app.ui
            .answer(&done, |page| say(page, &done, &short, Tense::Done))?;
    }
    if args.replay {
        return replay::open_at(done.mission_id, done.checkpoint_id, app);
    }
    Ok(ExitCode::SUCCESS)
}

impl ResumeArgs {
    /// Returns true when the command uses seed D's words.
    fn speaks_of_states(&self) -> bool {
        self.skip_failed || self.reset_to.is_some()
    }

    /// The typed command with `-y`.
    fn with_yes(&self, id: &str) -> String {
        let mut command = format!("fleet resume --checkpoint {id}");
        if self.skip_failed {
            command.push_str(" --skip-failed");
        }
        if let Some(state) = &self.reset_to {
            command.push_str(&format!(" --reset-to {state}"));
        }
        if self.force {
            command.push_str(" --force");
        }
        if self.replay {
            command.push_str(" --replay");
        }
        command + " -y"
    }
}

/// Outcome of `fleet resume` in seed D's words: the recovery context, with warnings, errors and the restored state.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatesRestored {
    #[serde(flatten)]
    context: RecoveryContext,
    /// Warnings, such as about a damaged checkpoint that was passed over.
    warnings: Vec<String>,
    /// The blockers that need a decision.
    errors: Vec<String>,
    /// Agents whose work failed and was left out.
    skipped_agents: Vec<String>,
    /// The state the workflow is in now; none when the mission has no workflow.
    restored_state: Option<String>,
}

/// Answers with the recovery context, as seed A does. A caller that uses seed D's words gets seed D's answer beside it.
fn say_context(args: &ResumeArgs, done: &Resumed, app: &App) -> Result<(), Refusal> {
    let context = &done.recovery_context;
    if !args.speaks_of_states() {
        return app.ui.answer(context, |_| {});
    }
    let beside = StatesRestored {
        context: context.clone(),
        warnings: done.warnings.clone(),
        errors: done.errors.clone(),
        skipped_agents: done.skipped_agents.clone(),
        restored_state: done.restored_state.clone(),
    };
    app.ui.answer(&beside, |_| {})
}

pub fn undo(args: &UndoArgs, app: &mut App) -> CommandResult {
    let sightings = app.sightings()?;
    let done = app.serve(&Undo {
        mission: None,
        force: args.force,
        sightings,
    })?;
    app.settle_backups()?;
    warn(app, &done);
    let short = app.short(&[Kind::Checkpoint], &done)?;
    app.ui.answer(&done, |page| {
        page.line(format_args!(
            "Rewind undone. Everything is as it was at {}.",
            short.id(done.checkpoint_id)
        ));
        for lost in &done.lost {
            page.line(format_args!("  {lost}"));
        }
        say_counts(page, &done, Tense::Done);
        say_next(page, &done);
    })?;
    Ok(ExitCode::SUCCESS)
}
