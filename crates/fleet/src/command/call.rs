//! `fleet call`: any operation, from JSON to JSON.

use std::process::ExitCode;

use clap::Args;
use flightline_server::{call, operation_names};

use super::{Done, typed};
use crate::app::App;

#[derive(Debug, Args)]
pub struct CallArgs {
    /// The operation, such as `claim_next`; none lists them all
    operation: Option<String>,
}

/// The largest request.
const MAX_REQUEST: usize = 1024 * 1024;

pub fn run(args: &CallArgs, app: &mut App) -> Done {
    let Some(operation) = &args.operation else {
        let names = operation_names();
        app.ui.answer(&names, |page| {
            for name in &names {
                page.line(name);
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let request = typed::stdin("request", MAX_REQUEST)?;
    let caller = app.caller()?;
    let outcome = call(app.fleet()?, operation, &request, &caller)?;
    app.ui.written = true;
    app.ui.answer(&outcome, |page| page.line(&outcome))?;
    Ok(ExitCode::SUCCESS)
}
