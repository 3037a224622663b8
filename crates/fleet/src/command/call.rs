//! `fleet call`: runs any operation, from JSON to JSON.

use std::process::ExitCode;

use clap::Args;
use flightline::registry::{CallContext, Spoken, find, public_operations};

use super::{CommandResult, typed};
use crate::app::App;

#[derive(Debug, Args)]
pub struct CallArgs {
    /// The operation, such as `claim_next` (default: list all)
    operation: Option<String>,
}

const MAX_REQUEST: usize = 1024 * 1024;

pub fn run(args: &CallArgs, app: &mut App) -> CommandResult {
    let Some(operation) = &args.operation else {
        let names: Vec<&str> = public_operations().map(|entry| entry.name).collect();
        app.ui.answer(&names, |page| {
            for name in &names {
                page.line(name);
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let request = typed::stdin("request", MAX_REQUEST)?;
    let (caller, folder) = (app.caller()?, app.home()?.state.clone());
    let ask = CallContext {
        caller: &caller,
        folder: &folder,
        rehearse: false,
    };
    let called = find(operation)?.run(app.fleet()?, &request, &ask);
    for warning in called.warnings {
        app.ui.warn(warning);
    }
    let outcome = match called.outcome? {
        Spoken::Outcome(outcome) => outcome,
        Spoken::Later(later) => {
            app.ui.say_later(&later)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    app.ui.written = true;
    app.ui.answer(&outcome, |page| page.line(&outcome))?;
    Ok(ExitCode::SUCCESS)
}
