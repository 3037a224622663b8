//! `fleet effect`: begins, finishes and lists external actions that must not happen twice.

use std::process::ExitCode;

use clap::Subcommand;
use flightline::core::effect::{Effect, EffectState};
use flightline::effect::{BeginEffect, FinishEffect, ListEffects};

use super::{CommandResult, typed};
use crate::app::App;
use crate::complete;
use crate::ui::{Cell, state};

#[derive(Debug, Subcommand)]
pub enum EffectCommand {
    /// Begin an effect; refused if it was done, or may have been
    Begin {
        /// The key of the effect, such as `deploy-v3`
        key: String,
        /// A description of the effect
        #[arg(long, allow_hyphen_values = true)]
        what: Option<String>,
        /// The sortie it belongs to
        #[arg(long, value_name = "ID", add = complete::sorties())]
        sortie: Option<String>,
        /// Begin again, after you checked that it did not happen; refused while the agent that began it is alive
        #[arg(long)]
        again: bool,
    },
    /// Report that an effect happened
    Done {
        /// The key with which the effect was begun
        key: String,
        /// The result, such as the id of what was made
        #[arg(long, allow_hyphen_values = true)]
        result: Option<String>,
    },
    /// List effects, oldest first
    List {
        /// Only effects that are not known to have happened
        #[arg(long)]
        in_doubt: bool,
    },
}

pub fn run(command: EffectCommand, app: &mut App) -> CommandResult {
    match command {
        EffectCommand::Begin {
            key,
            what,
            sortie,
            again,
        } => {
            let request = BeginEffect {
                key: typed::name("effect key", &key)?,
                mission: None,
                sortie,
                what: typed::maybe(what.as_ref(), |text| typed::note("what", text))?,
                again,
                sightings: app.sightings()?,
            };
            let effect = app.run(&request)?;
            app.ui.answer(&effect, |page| {
                let done = page.command(format!("fleet effect done {}", effect.key));
                page.line(format_args!(
                    "{}  {}   go ahead, then: {done}",
                    state("intent"),
                    effect.key
                ));
            })?;
        }
        EffectCommand::Done { key, result } => {
            let result = typed::maybe(result.as_ref(), |text| typed::note("result", text))?;
            let done = FinishEffect {
                key: typed::name("effect key", &key)?,
                mission: None,
                result,
            };
            let Some(effect) = app.run_or_keep(&done)? else {
                return Ok(ExitCode::SUCCESS);
            };
            app.ui.answer(&effect, |page| {
                page.line(format_args!("{}  {}", state("done"), effect.key))
            })?;
        }
        EffectCommand::List { in_doubt } => list(in_doubt, app)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(in_doubt: bool, app: &mut App) -> Result<(), flightline::core::Refusal> {
    let effects = app.run(&ListEffects {
        mission: None,
        in_doubt,
    })?;
    let now = app.now()?;
    app.ui.answer(&effects, |page| {
        page.at(now);
        if effects.is_empty() {
            page.line("No effect.");
            return;
        }
        let row = |effect: &Effect| {
            let (at, result) = match &effect.state {
                EffectState::Intent { at } => (*at, String::new()),
                EffectState::Done { at, result } => (
                    *at,
                    result
                        .as_ref()
                        .map_or_else(String::new, |result| format!(" → {result}")),
                ),
            };
            let what = effect.what.as_deref().unwrap_or("");
            vec![
                state(effect.state.as_str()),
                Cell::new(&effect.key),
                Cell::new(&effect.by),
                Cell::new(page.time(at)),
                Cell::new(format_args!("{what}{result}")),
            ]
        };
        let rows: Vec<Vec<Cell>> = effects.iter().map(row).collect();
        page.table(&["STATE", "KEY", "BY", "WHEN", "WHAT"], &rows);
    })
}
