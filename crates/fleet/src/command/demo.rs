//! `fleet demo`: the main job in one command. It plays `script.txt` line by line with this very program, kills a real
//! process, and checks the outcome in the store.

mod check;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use flightline::core::{Code, Refusal};
use flightline::workspace;
use serde::Serialize;

use self::check::DemoCheck;
use self::stage::Stage;
use super::CommandResult;
use crate::app::App;
use crate::ui::{BOLD, Cell, DIM, GREEN, RED, Ui};

/// The script of the demo: its acts, in order. A line that ends with a backslash goes on in the next one.
const SCRIPT: &str = include_str!("demo/script.txt");

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The folder to use; it must be empty or not exist (default: a new temporary folder)
    #[arg(long = "in", value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Serialize)]
struct DemoReport {
    folder: PathBuf,
    acts: Vec<DemoStep>,
    checks: Vec<DemoCheck>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
pub struct DemoStep {
    /// The agent that acted; none for the user.
    who: Option<String>,
    command: String,
    output: String,
    exit_code: Option<i32>,
    expected: i32,
}

pub fn run(args: &DemoArgs, app: &mut App) -> CommandResult {
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
    let mut stage = Stage::new(named, &app.env)?;
    let talks = !app.ui.json && !app.ui.quiet;
    let mut acts = Vec::new();
    for line in SCRIPT.replace("\\\n    ", "").lines() {
        match line.split_once(' ') {
            None if talks => app.ui.print("")?,
            Some(("#", text)) if talks => app.ui.print(&Cell::styled(text, BOLD).to_string())?,
            None | Some(("#", _)) => {}
            Some(_) => {
                let act = stage.act(line)?;
                if talks {
                    tell(&act, &app.ui)?;
                }
                acts.push(act);
            }
        }
    }
    let checks = check::run(&mut stage, &acts);
    let shown = DemoReport {
        folder: stage.folder.clone(),
        acts,
        checks,
        seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
    };
    conclude(&shown, app)?;
    Ok(match shown.checks.iter().all(|check| check.ok) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Shows a line of the script and its output.
fn tell(act: &DemoStep, ui: &Ui) -> Result<(), Refusal> {
    let who = act.who.as_deref().unwrap_or_default();
    let prompt = format!("{who}$ {}", act.command);
    for (number, line) in stage::wrapped(&prompt, 76).into_iter().enumerate() {
        let line = match number {
            0 => line,
            _ => format!("    {line}"),
        };
        ui.print(&Cell::styled(line, GREEN).to_string())?;
    }
    for line in act.output.lines() {
        for line in stage::wrapped(line, 78) {
            ui.print(format!("  {line}").trim_end())?;
        }
    }
    match act.exit_code {
        Some(0) => Ok(()),
        Some(code) => {
            ui.print(&Cell::styled(format_args!("  [exit code {code}]"), DIM).to_string())
        }
        None => ui.print(&Cell::styled("  [killed]", DIM).to_string()),
    }
}

/// Shows the checks, and the commands to go on with.
fn conclude(shown: &DemoReport, app: &App) -> Result<(), Refusal> {
    app.ui.answer(shown, |page| {
        page.line("");
        page.line(Cell::styled("What was checked", BOLD));
        for check in &shown.checks {
            let mark = match check.ok {
                true => Cell::styled("✓ ok ", GREEN),
                false => Cell::styled("✗ bad", RED),
            };
            page.line(format_args!("  {mark}  {}", check.name));
            if !check.detail.is_empty() {
                page.line(Cell::dim(&check.detail).indent(9));
            }
        }
        page.line("");
        let failed = shown.checks.iter().filter(|check| !check.ok).count();
        let (folder, seconds) = (shown.folder.display(), shown.seconds);
        page.line(match failed {
            0 => format!("Everything held, in {seconds} s. Look around in {folder}:"),
            1 => format!("One check failed, after {seconds} s. Look around in {folder}:"),
            many => format!("{many} checks failed, after {seconds} s. Look around in {folder}:"),
        });
        for command in ["", " checkpoints list", " log"] {
            page.line(format_args!("  fleet -C {folder}{command}"));
        }
    })
}

/// Runs an agent's process: it lives until the demo ends, however that ends.
pub fn wait_for_the_end() -> CommandResult {
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    Ok(ExitCode::SUCCESS)
}
