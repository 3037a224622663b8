//! `fleet checkpoints prune`

use std::process::ExitCode;

use clap::Args;
use flightline::checkpoint::prune::{ApplyPrune, PlanPrune, Pruned};
use flightline::core::time::{human_span, parse_span};
use flightline::core::{Kind, Refusal};

use crate::app::{App, Short};
use crate::command::Done;
use crate::ui::Page;

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Delete checkpoints older than this: days, or a span such as `12h` (default: 7 days)
    #[arg(long, value_name = "DAYS")]
    older_than: Option<String>,
    /// Keep at least this many of the newest per mission (default: 3)
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// Show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl PruneArgs {
    /// The same command, as one who means it types it.
    fn again(&self, request: &PlanPrune) -> String {
        let mut command = "fleet checkpoints prune".to_owned();
        if let Some(mission) = &request.mission {
            command += &format!(" --mission {mission}");
        }
        if let Some(span) = &self.older_than {
            command += &format!(" --older-than {span}");
        }
        if let Some(keep) = self.keep {
            command += &format!(" --keep {keep}");
        }
        command + " -y"
    }
}

pub fn run(args: &PruneArgs, app: &mut App) -> Done {
    let older_than_ms = match &args.older_than {
        Some(text) => Some(parse_span(text, "d").map_err(Refusal::invalid)?),
        None => None,
    };
    let mission = app.caller()?.mission;
    let request = PlanPrune {
        mission,
        older_than_ms,
        keep: args.keep,
    };
    let plan = app.run(&request)?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission])?;
    if args.dry_run || plan.deleted == 0 {
        app.ui
            .answer(&plan, |page| say_plan(page, &plan, &short, "Would delete:"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes {
        let mut page = Page::talk();
        say_plan(&mut page, &plan, &short, "Would delete:");
        app.ui.talk(page.text());
        let act = format!(
            "delete {} {}",
            plan.deleted,
            if plan.deleted == 1 {
                "checkpoint"
            } else {
                "checkpoints"
            }
        );
        let asking = app.asking();
        app.ui
            .agree("\nProceed?", &act, &args.again(&request), asking)?;
    }
    let delete = plan
        .details
        .iter()
        .map(|checkpoint| checkpoint.id)
        .collect();
    let done = app.run(&ApplyPrune {
        plan: request,
        delete,
    })?;
    for checkpoint in &done.details {
        app.remove_backup(checkpoint.mission_id, checkpoint.id)?;
    }
    app.ui
        .answer(&done, |page| say_plan(page, &done, &short, "Deleted:"))?;
    Ok(ExitCode::SUCCESS)
}

fn say_plan(page: &mut Page, plan: &Pruned, short: &Short, headline: &str) {
    let days = plan.policy.older_than_ms / 86_400_000;
    let age = match plan.policy.older_than_ms % 86_400_000 {
        0 => format!("{days} {}", if days == 1 { "day" } else { "days" }),
        _ => human_span(plan.policy.older_than_ms),
    };
    page.line(format_args!(
        "Pruning checkpoints older than {age} (keeping {} per mission)...",
        plan.policy.keep
    ));
    page.line("");
    if plan.details.is_empty() {
        page.line("Nothing to delete.");
        return;
    }
    page.line(headline);
    for checkpoint in &plan.details {
        let day = checkpoint.timestamp.to_string();
        page.line(format_args!(
            "  {}  {}  {}  {}",
            short.id(checkpoint.id),
            short.id(checkpoint.mission_id),
            day.get(..10).unwrap_or(&day),
            checkpoint.trigger
        ));
    }
    page.line("");
    let noun = if plan.deleted == 1 {
        "checkpoint"
    } else {
        "checkpoints"
    };
    page.line(format_args!(
        "Total: {} {noun} ({})",
        plan.deleted,
        size(plan.freed_bytes)
    ));
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1_000_000 => {
            format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
        }
        bytes if bytes >= 1_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_is_told_as_seed_a_tells_it() {
        assert_eq!(size(2_457_600), "2.4 MB");
        assert_eq!(
            (size(999), size(1_000)),
            ("999 bytes".to_owned(), "1.0 kB".to_owned())
        );
    }
}
