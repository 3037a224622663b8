//! `fleet conflicts`: lists and settles files of the mirrors that were put aside.

use std::process::ExitCode;

use clap::Subcommand;
use flightline::Error;
use flightline::core::{Code, Refusal};
use flightline::mirror::{Conflict, Mirrors, conflicts, drop_conflict, take_conflict};
use serde_json::json;

use super::CommandResult;
use crate::app::App;
use crate::ui::Page;

#[derive(Debug, Subcommand)]
pub enum ConflictCommand {
    /// List conflicting files, their differences and how to resolve each
    List,
    /// Accept a file, although the store has newer data
    Take {
        /// The file, as listed
        file: String,
    },
    /// Delete a conflicting file
    Drop {
        /// The file, as listed
        file: String,
    },
}

pub fn run(command: &ConflictCommand, app: &mut App) -> CommandResult {
    match command {
        ConflictCommand::List => {
            // Files written since are looked at first.
            app.fleet()?;
            let (found, others) = found(app)?;
            app.ui.answer(&found, |page| {
                list(page, &found);
                if others > 0 {
                    page.line(format_args!(
                        "and {others} more, which are listed once these are settled"
                    ));
                }
                if found.is_empty() {
                    page.line("No conflicting files");
                }
            })?;
        }
        ConflictCommand::Take { file } => {
            app.must_be_trusted()?;
            let mirrors = mirrors(app, file)?;
            let caller = app.caller()?;
            let taken = take_conflict(app.fleet()?, &mirrors, &caller, file);
            let taken = taken.map_err(Error::into_refusal)?;
            app.ui.written = true;
            app.ui.answer(&taken, |page| {
                let changes = match taken.changes.as_slice() {
                    [] => "nothing changed by it".to_owned(),
                    changes => changes.join(", "),
                };
                page.line(format_args!("Took in {file} ({}): {changes}", taken.name));
            })?;
            for warning in &taken.warnings {
                app.ui.warn(warning);
            }
        }
        ConflictCommand::Drop { file } => {
            app.must_be_trusted()?;
            drop_conflict(&mirrors(app, file)?, file).map_err(Error::into_refusal)?;
            app.ui.answer(&json!({ "dropped": file }), |page| {
                page.line(format_args!("Deleted {file}"));
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the files that were put aside; none where there is no mirror.
fn found(app: &App) -> Result<(Vec<Conflict>, usize), Refusal> {
    match app.mirrors()? {
        Some(mirrors) => conflicts(&mirrors).map_err(Error::into_refusal),
        None => Ok((Vec::new(), 0)),
    }
}

/// Prints a line for each file with its differences, and one with the commands that settle it.
fn list(page: &mut Page, found: &[Conflict]) {
    for conflict in found {
        page.line(conflict.line());
        page.line(format_args!("  run: {}", conflict.next.join("; or ")));
    }
}

fn mirrors(app: &App, file: &str) -> Result<Mirrors, Refusal> {
    app.mirrors()?.ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            format!("there is no conflicting file `{file}`: no mirror is kept here"),
        )
        .hint("keep one with `fleet config set mirrors.epic true`")
    })
}
