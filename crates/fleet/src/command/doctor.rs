//! `fleet doctor`: checks the store, its files and the coding agents' hooks, repairs damage, and rebuilds a lost store.

mod connection;
mod fire;

use std::process::ExitCode;

use clap::Args;
use flightline::checkpoint::prune::FreedSpace;
use flightline::core::{Code, Kind, Refusal};
use flightline::doctor::disk::DISK;
use flightline::doctor::{Care, Connection, DoctorCheck, Needs, attend_with};
use flightline::rebuild::{Rebuild, prospect};
use flightline::recovery::tasks::TaskTrouble;
use flightline::status::ShowStatus;

use super::prune::size;
use super::status::{conflicts, settles};
use super::{ATTENTION, CommandResult};
use crate::app::{App, unusable};
use crate::config::write_project;
use crate::ui::{Cell, GREEN, Page, RED, YELLOW};

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Make a backup, repair damage that has a sound copy (values, checkpoints, files, modes), and return free space
    #[arg(long)]
    fix: bool,
    /// Build a new store from the checkpoint files, when the store itself is lost
    #[arg(long, conflicts_with = "fix")]
    rebuild: bool,
    /// Only check whether coding agents reach the fleet; works with a fleet at a server, too
    #[arg(long, conflicts_with_all = ["fix", "rebuild"])]
    agents: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "rebuild")]
    yes: bool,
}

pub fn run(args: &DoctorArgs, app: &mut App) -> CommandResult {
    if args.agents {
        return agents(app);
    }
    app.must_be_local()?;
    if args.fix {
        app.must_be_trusted()?;
    }
    if args.rebuild {
        return rebuild(args, app);
    }
    let care = if args.fix { Care::Repair } else { Care::Look };
    let (folder, stamp) = (app.home()?.state.clone(), app.stamp()?);
    let location = app.location(&app.config()?, &folder)?;
    let diagnosis = {
        let (fleet, ui) = app.fleet_and_ui()?;
        let attended = attend_with(fleet, &folder, care, &stamp, &mut |part, rows| {
            ui.progress(format_args!("looking at: {part}, {rows} rows"));
        });
        ui.progress("");
        attended
    };
    let diagnosis = diagnosis.map_err(|error| match error {
        // A store that cannot even be read has no other way out.
        flightline::Error::Store(error) => unusable(error, &folder, &location),
        error @ flightline::Error::Refused(_) => error.into_refusal(),
    });
    let mut diagnosis = diagnosis.map_err(|refusal| match care {
        Care::Look => refusal,
        Care::Repair => {
            refusal.after_a_write("earlier repairs are kept: run `fleet doctor --fix` again")
        }
    })?;
    app.ui.written |= diagnosis.backup.is_some();
    if diagnosis.is_sound() && args.fix {
        // Space is never freed in a damaged store: rewriting it would spoil the rest.
        diagnosis.checks.extend(free_space(app)?);
    }
    let sound = diagnosis.is_sound();
    let bad = diagnosis.checks.iter().filter(|check| !check.ok);
    let only_the_disk = bad.clone().count() > 0 && bad.clone().all(|check| check.name == DISK);
    // A damaged store tells nothing reliable about the work.
    let needs = if sound { needs(app)? } else { Needs::default() };
    let needed = !sound || !needs.tasks.is_empty() || !needs.attention.is_empty();
    let diagnosis = diagnosis.with(needs, connection::examine(app));
    let connected = diagnosis.connections.iter().all(|it| it.ok);
    let short = match diagnosis.attention.is_empty() {
        true => None,
        false => Some(app.short(&[Kind::Mission, Kind::Sortie, Kind::Checkpoint], &diagnosis)?),
    };
    let shortened = |text: &str| match &short {
        Some(short) => short.text(text),
        None => text.to_owned(),
    };
    app.ui.answer(&diagnosis, |page| {
        for check in &diagnosis.checks {
            let mark = if check.ok {
                Cell::styled("✓ ok ", GREEN)
            } else {
                Cell::styled("✗ bad", RED)
            };
            page.line(format_args!("{mark}  {}", check.name));
            for finding in &check.findings {
                page.line(format_args!("       {finding}"));
            }
        }
        for repaired in &diagnosis.repaired {
            page.line(repaired);
        }
        if let Some(backup) = &diagnosis.backup {
            page.line(format_args!(
                "The store as it was before is kept as {}",
                backup.display()
            ));
        }
        for task in &diagnosis.tasks {
            let mark = Cell::styled("! task", RED);
            page.line(format_args!("{mark} {}", task.line()));
            let next = task.next.iter().map(|command| page.command(command));
            let next = next.collect::<Vec<_>>().join("; then ");
            page.line(format_args!("       run: {next}"));
        }
        for attention in &diagnosis.attention {
            let mark = Cell::styled("! work", YELLOW);
            page.line(format_args!("{mark} {}", shortened(&attention.what)));
            let run = shortened(&settles(page, attention));
            page.line(format_args!("       run: {run}"));
        }
        for connection in &diagnosis.connections {
            show_connection(page, connection);
        }
        if sound && !connected && !needed {
            page.line("The store is sound; the connection of a coding agent needs attention.");
        } else if diagnosis.healthy && diagnosis.set_aside {
            page.line("Everything else is sound; the values set aside have no copy, and nothing depends on them.");
        } else if diagnosis.healthy && diagnosis.attention.is_empty() {
            page.line("Everything is well.");
        } else if sound {
            page.line("The store is sound; the work needs attention.");
        } else if only_the_disk {
            page.line("The store is sound; its disk needs attention.");
        } else {
            let restore = page.command("fleet restore FILE");
            if args.fix {
                let rebuild = page.command("fleet doctor --rebuild");
                page.line(format_args!(
                    "The remaining damage has no sound copy. Go back to a sound state with: {restore}, or {rebuild}"
                ));
            } else {
                let fix = page.command("fleet doctor --fix");
                page.line(format_args!(
                    "Try: {fix}; or go back to a sound state with: {restore}"
                ));
            }
        }
    })?;
    Ok(if diagnosis.healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ATTENTION)
    })
}

/// Checks only that coding agents reach the fleet.
fn agents(app: &mut App) -> CommandResult {
    let found = connection::examine(app);
    let ok = found.iter().all(|it| it.ok) && !found.is_empty();
    app.ui.answer(&found, |page| {
        for connection in &found {
            show_connection(page, connection);
        }
        if found.is_empty() {
            page.line("No coding agent is connected.");
            let next = page.command("fleet setup");
            page.line(format_args!("See which are installed with: {next}"));
        } else if ok {
            page.line("Every connected coding agent reaches the fleet.");
        }
    })?;
    Ok(match ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(ATTENTION),
    })
}

/// Shows a coding agent, and whether its hooks reach the fleet.
fn show_connection(page: &mut Page, connection: &Connection) {
    let mark = match connection.ok {
        true => Cell::styled("✓ ok ", GREEN),
        false => Cell::styled("✗ bad", RED),
    };
    let took = connection
        .answered_ms
        .map(|millis| format!(", answered in {millis} ms"));
    page.line(format_args!(
        "{mark}  hooks of {} ({}{})",
        connection.client,
        connection.path.display(),
        took.unwrap_or_default()
    ));
    for finding in &connection.findings {
        let word = if finding.blocks { "" } else { "note: " };
        page.line(format_args!("       {word}{}", finding.what));
        page.line(format_args!("       do: {}", finding.remedy));
    }
}

/// Finds the tasks that need a decision, where the policy wants them found, and everything else that needs a person.
fn needs(app: &mut App) -> Result<Needs, Refusal> {
    let sightings = app.sightings()?;
    let status = app.run(&ShowStatus {
        mission: None,
        sightings,
    })?;
    let found = status.recovery.into_iter();
    let tasks: Vec<TaskTrouble> = found.flat_map(|found| found.tasks).collect();
    let mut attention = status.attention;
    attention.retain(|it| !tasks.iter().any(|task| task.line() == it.what));
    attention.extend(conflicts(app)?);
    Ok(Needs { tasks, attention })
}

/// Gives free space back, and returns a check when there is something to report.
fn free_space(app: &mut App) -> Result<Option<DoctorCheck>, Refusal> {
    let finding = match FreedSpace::give_back(app.fleet()?, 0, u64::MAX) {
        FreedSpace::Reusable | FreedSpace::Server => return Ok(None),
        FreedSpace::Returned { bytes } => format!("gave {} back to the file system", size(bytes)),
        FreedSpace::Later { why } => format!("not given back to the file system: {why}"),
    };
    Ok(Some(DoctorCheck {
        name: "free space".to_owned(),
        ok: true,
        findings: vec![finding],
    }))
}

fn rebuild(args: &DoctorArgs, app: &mut App) -> CommandResult {
    let config = app.config()?;
    app.must_be_own_home(&config)?;
    if !args.yes {
        let act = "replace this project's store with the content of its checkpoint files";
        app.ui
            .confirm(act, "fleet doctor --rebuild -y", app.asking())?;
    }
    let (state, root) = (app.home()?.state.clone(), app.home()?.root.clone());
    let location = app.location(&config, &state)?;
    // The settings may be lost with the store.
    let of_files = || prospect(&state, &location).project;
    let project = config.project.clone().or_else(of_files).ok_or_else(|| {
        Refusal::new(Code::NoProject, "the configuration names no project")
            .hint("create it with `fleet init`")
    })?;
    // The rebuild makes a new file. If it is cut short, the next one can complete it.
    let was_begun = app.is_being_made()?;
    app.begin_making()?;
    let options = app.open_options(&config)?;
    let stamp = options.clock.now().to_string().replace([':', '.'], "-");
    let name = root.file_name().map_or_else(
        || "project".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let request = Rebuild {
        state: &state,
        project: &project,
        name: &name,
        location: &location,
        options,
        stamp: &stamp,
    };
    let caller = app.caller()?;
    let done = flightline::rebuild::rebuild(&request, &caller).map_err(|error| match error {
        flightline::Error::Store(error) => unusable(error, &state, &location),
        error @ flightline::Error::Refused(_) => error.into_refusal(),
    });
    if done.is_err() && !was_begun && !app.has_unknown_store(&config) {
        // Nothing was made that is to be completed.
        let _ = app.end_making();
    }
    let done = done.map_err(|refusal| {
        refusal.after_a_write("the new store may be in place already: look with `fleet doctor`")
    })?;
    if config.project.is_none() {
        write_project(&state, &project, None)?;
        app.forget_config();
    }
    // The store is in a new file, which is not trusted yet.
    app.trust_it()?;
    app.ui.answer(&done, |page| {
        let count = done.from.len();
        let noun = if count == 1 { "mission" } else { "missions" };
        let checkpoints = done.checkpoints.len();
        let points = if checkpoints == 1 {
            "checkpoint"
        } else {
            "checkpoints"
        };
        page.line(format_args!(
            "Built a new store: {count} {noun}, {checkpoints} {points}, {} values",
            done.values
        ));
        for skipped in &done.skipped {
            page.line(format_args!("  not used: {skipped}"));
        }
        page.line("Not included, because checkpoint files do not contain it:");
        for lost in &done.lost {
            page.line(format_args!("  {lost}"));
        }
        for path in &done.set_aside {
            page.line(format_args!("The old store is kept as {}", path.display()));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
