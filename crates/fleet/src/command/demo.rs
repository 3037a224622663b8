//! `fleet demo`: the main job in one command. Real processes work, one is killed, one forgets, their
//! coordinator is killed as well; and everything it says is read from the store or was seen.

mod agent;
mod check;
mod crew;
mod dispatch;
mod found;
mod part;
mod script;
mod specialist;
mod stage;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use flightline::core::{Code, Refusal};
use flightline::workspace;
use serde::Serialize;

use self::check::Check;
use self::story::{Beat, Source};
use super::Done;
use crate::app::App;
use crate::ui::{BOLD, Cell, GREEN, Page, RED};

pub use self::agent::{DemoAgentArgs, run as run_agent};

/// After so long it has failed.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The folder to use; it must be empty or not exist (default: a new temporary folder)
    #[arg(long = "in", value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// What the demo shows.
#[derive(Serialize)]
struct Shown {
    folder: PathBuf,
    story: Vec<Beat>,
    checks: Vec<Check>,
    briefing: Option<String>,
    seconds: f64,
}

pub fn run(args: &DemoArgs, app: &mut App) -> Done {
    let began = Instant::now();
    if app.globals.server.is_some() {
        return Err(Refusal::invalid(
            "the demo makes a store of its own, so `--server` has no meaning",
        )
        .hint("leave it out"));
    }
    if app.globals.location.is_some() {
        return Err(Refusal::invalid(
            "the demo makes a store of its own, so `--location` has no meaning",
        )
        .hint("choose its folder with `fleet demo --in DIR`"));
    }
    if workspace::describe(std::process::id()).is_none() {
        return Err(Refusal::new(
            Code::Failed,
            "the demo kills a process and has it noticed, and processes cannot be seen on this system",
        ));
    }
    let named = args.folder.as_ref().map(|folder| app.here.join(folder));
    let folder = stage::folder(named)?;
    if app.ui.terminal && !app.ui.json {
        app.ui.talk(format_args!(
            "Working in {}: eight sorties, four agents, one dispatch. This takes some seconds.",
            folder.display()
        ));
    }
    let mut staged = stage::set_up(&folder, &app.env)?;
    let played = script::play(&mut staged, &folder, began + LIMIT);
    let found = found::look(&mut staged);
    let checks = check::run(&mut staged, &folder, &played, &found);
    let shown = Shown {
        story: story::tell(&played, found.as_ref().ok()),
        briefing: story::briefing(&played.heard, script::FORGETFUL),
        checks,
        seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        folder,
    };
    app.ui.answer(&shown, |page| say(page, &shown))?;
    Ok(if shown.checks.iter().all(|check| check.ok) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn say(page: &mut Page, shown: &Shown) {
    let headline = |page: &mut Page, text: &str| page.line(Cell::styled(text, BOLD));
    headline(page, "What was checked");
    for check in &shown.checks {
        let mark = if check.ok {
            Cell::styled("✓ ok ", GREEN)
        } else {
            Cell::styled("✗ bad", RED)
        };
        page.line(format_args!("  {mark}  {}", check.name));
        if !check.detail.is_empty() {
            page.line(Cell::dim(&check.detail).indent(9));
        }
    }
    page.line("");
    headline(page, "What happened");
    page.line(
        "  From the journal; lines with a star were seen by the demo itself or said by the agent.",
    );
    let rows: Vec<Vec<Cell>> = shown
        .story
        .iter()
        .map(|beat| {
            let star = match beat.source {
                Source::Journal => " ",
                Source::Seen => "*",
            };
            let (whole, rest) = (beat.at_ms / 1000, beat.at_ms % 1000);
            vec![
                Cell::dim(format_args!("{whole:>2}.{rest:03}s {star}")).indent(2),
                Cell::new(&beat.who),
                Cell::new(&beat.what),
            ]
        })
        .collect();
    page.table(&[], &rows);
    if let Some(briefing) = &shown.briefing {
        page.line("");
        headline(
            page,
            &format!("The briefing that {} got", script::FORGETFUL),
        );
        page.block(4, briefing);
    }
    page.line("");
    let folder = shown.folder.display();
    let failed = shown.checks.iter().filter(|check| !check.ok).count();
    page.line(match failed {
        0 => format!(
            "Everything held, in {} s. Look around in {folder}:",
            shown.seconds
        ),
        1 => format!(
            "One check failed, after {} s. Look around in {folder}:",
            shown.seconds
        ),
        many => format!(
            "{many} checks failed, after {} s. Look around in {folder}:",
            shown.seconds
        ),
    });
    page.line(format_args!("  fleet -C {folder}"));
    page.line(format_args!("  fleet -C {folder} checkpoints list"));
    page.line(format_args!("  fleet -C {folder} log"));
}
