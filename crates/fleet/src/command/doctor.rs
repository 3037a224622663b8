//! `fleet doctor`

use std::process::ExitCode;

use clap::Args;
use flightline::doctor::examine;

use super::{ATTENTION, Done};
use crate::app::App;
use crate::ui::{Cell, GREEN, RED};

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Repair what is safe to repair: the modes of files, which every command repairs
    #[arg(long)]
    fix: bool,
}

pub fn run(args: &DoctorArgs, app: &mut App) -> Done {
    let diagnosis = examine(app.fleet()?).map_err(flightline::Error::into_refusal)?;
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
        if diagnosis.healthy {
            page.line("Everything is well.");
        } else {
            let fixed = if args.fix {
                "Nothing of this can be repaired safely in place. "
            } else {
                ""
            };
            page.line(format_args!(
                "{fixed}Go back to a sound state with: fleet restore FILE"
            ));
        }
    })?;
    Ok(if diagnosis.healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ATTENTION)
    })
}
