//! `fleet checkpoints prune`: deletes old checkpoints and thins the journal, or shows the plan.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use flightline::checkpoint::prune::{
    FreedSpace, PlanPrune, Pruned, PrunedCheckpoint, REWRITTEN_AT_ONCE, apply_all, plan_all,
};
use flightline::checkpoint::thin::Thinned;
use flightline::core::retention::{Guard, RetentionRule};
use flightline::core::time::{human_span, parse_span};
use flightline::core::{Kind, Refusal};
use flightline::store_job::GiveBack;

use super::CommandResult;
use crate::app::{App, DisplayIds};
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
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Trust the clock, even if it is days ahead of the last work
    #[arg(long)]
    force: bool,
}

pub fn run(args: &PruneArgs, app: &mut App) -> CommandResult {
    let older_than_ms = match &args.older_than {
        Some(text) => Some(parse_span(text, "d").map_err(Refusal::invalid)?),
        None => None,
    };
    let mission = app.caller()?.mission;
    let request = PlanPrune {
        mission,
        older_than_ms,
        keep: args.keep,
        force: args.force,
        as_of: None,
    };
    let caller = app.caller()?;
    let mut plan =
        plan_all(app.fleet()?, &caller, &request).map_err(flightline::Error::into_refusal)?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission], &plan)?;
    if args.dry_run {
        app.ui
            .answer(&plan, |page| say(page, &plan, &short, Act::Planned))?;
        return Ok(ExitCode::SUCCESS);
    }
    if plan.is_empty() {
        // A command that died while pruning may have left files behind, and the daily one leaves space free.
        app.clear_files()?;
        plan.space = app.run_job(&GiveBack {
            loose: 0,
            most: REWRITTEN_AT_ONCE,
        })?;
        app.ui
            .answer(&plan, |page| say(page, &plan, &short, Act::Done))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.force {
        plan.check_clock().map_err(|error| {
            let refusal = error.into_refusal();
            let again = args.again(app, " --force");
            refusal.hint(format!(
                "put the clock right; if it is right, run `{again}`"
            ))
        })?;
    }
    if !args.yes {
        let mut page = app.ui.page();
        say(&mut page, &plan, &short, Act::Planned);
        app.ui.talk(page.text());
        let mut acts = Vec::new();
        if plan.deleted > 0 {
            acts.push(format!("delete {}", checkpoints(plan.deleted)));
        }
        if !plan.archived.is_empty() {
            acts.push(format!(
                "archive {}",
                checkpoints(plan.archived.len() as u64)
            ));
        }
        if plan.journal.values > 0 {
            acts.push(format!("thin the journal by {}", old_values(&plan.journal)));
        }
        let act = acts.join(" and ");
        let (again, asking) = (args.again(app, " -y"), app.asking());
        app.ui.agree("\nProceed?", &act, &again, asking)?;
    }
    let done = apply_all(app.fleet()?, &caller, &request, &plan).map_err(|error| {
        // Pruning works in parts.
        error
            .into_refusal()
            .after_a_write("some of it may be done already: run the command again to do the rest")
    })?;
    app.ui.written = true;
    app.clear_files()?;
    app.ui
        .answer(&done, |page| say(page, &done, &short, Act::Done))?;
    Ok(ExitCode::SUCCESS)
}

/// The tense of the report: a plan, or a deed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Planned,
    Done,
}

impl PruneArgs {
    /// The typed command once more, with another flag.
    fn again(&self, app: &App, flag: &str) -> String {
        let mut command = "fleet checkpoints prune".to_owned();
        for (name, value) in [
            ("--mission", app.globals.mission.clone()),
            ("--older-than", self.older_than.clone()),
            ("--keep", self.keep.map(|keep| keep.to_string())),
        ] {
            if let Some(value) = value {
                command.push_str(&format!(" {name} {value}"));
            }
        }
        for (flag, given) in [(" --force", self.force), (" -y", self.yes)] {
            if given {
                command.push_str(flag);
            }
        }
        command + flag
    }
}

fn say(page: &mut Page, plan: &Pruned, short: &DisplayIds, act: Act) {
    let age = span(plan.policy.older_than_ms);
    page.line(format_args!(
        "Pruning checkpoints older than {age} (keeping {} per mission)...",
        plan.policy.keep
    ));
    let going: Vec<&PrunedCheckpoint> = plan.details.iter().chain(&plan.archived).collect();
    let by_completion = |one: &&&PrunedCheckpoint| match one.rule {
        RetentionRule::NotFinal | RetentionRule::LongCompleted => true,
        RetentionRule::Old | RetentionRule::Surplus => false,
    };
    let completed = going.iter().filter(by_completion).count() as u64;
    if completed > 0 {
        page.line(format_args!(
            "Completed missions keep only their final checkpoint, for {}; the others go a day after completion: {}.",
            span(plan.policy.completed_ms),
            checkpoints(completed)
        ));
    }
    page.line("");
    if plan.is_empty() {
        page.line("Nothing to delete.");
    } else if plan.details.is_empty() {
        page.line("No checkpoint to delete.");
    } else {
        page.line(match act {
            Act::Planned => "Would delete:",
            Act::Done => "Deleted:",
        });
        say_checkpoints(page, &plan.details, short);
        page.line(format_args!(
            "Total: {} ({}){}",
            checkpoints(plan.deleted),
            size(plan.file_bytes),
            by_rule(plan, &age)
        ));
    }
    if !plan.archived.is_empty() {
        page.line("");
        page.line(match act {
            Act::Planned => "Would archive, because the limit is exceeded:",
            Act::Done => "Archived, because the limit is exceeded:",
        });
        say_checkpoints(page, &plan.archived, short);
        page.hint(format_args!(
            "Total: {} (see them with `fleet checkpoints list --archived`)",
            checkpoints(plan.archived.len() as u64)
        ));
    }
    let values = (plan.journal.values > 0).then(|| old_values(&plan.journal));
    let space = space(plan).filter(|_| act == Act::Done);
    let journal: Vec<String> = values.into_iter().chain(space).collect();
    if !journal.is_empty() {
        page.line(format_args!("Journal: {}", journal.join("; ")));
    }
    if let Some(ahead) = plan.clock.as_ref().filter(|_| act == Act::Planned) {
        page.line("");
        page.line(format_args!("Needs --force: {}", ahead.told()));
    }
    if !plan.kept.is_empty() {
        let mut counts: BTreeMap<Guard, usize> = BTreeMap::new();
        for kept in &plan.kept {
            *counts.entry(kept.guard).or_default() += 1;
        }
        let reasons: Vec<String> = counts
            .iter()
            .map(|(guard, count)| format!("{count} {}", guard.as_str()))
            .collect();
        page.line(format_args!("Expired, but kept: {}", reasons.join(", ")));
    }
}

fn by_rule(plan: &Pruned, age: &str) -> String {
    let mut counts: BTreeMap<RetentionRule, u64> = BTreeMap::new();
    for one in &plan.details {
        *counts.entry(one.rule).or_default() += 1;
    }
    if counts.keys().all(|rule| *rule == RetentionRule::Old) {
        return String::new();
    }
    let rules = counts.iter().map(|(rule, count)| match rule {
        RetentionRule::Old => format!("{count} older than {age}"),
        RetentionRule::Surplus => format!("{count} more than the {} that stay", plan.policy.most),
        RetentionRule::NotFinal => format!("{count} of completed missions, not the final one"),
        RetentionRule::LongCompleted => format!(
            "{count} of missions completed over {} ago",
            span(plan.policy.completed_ms)
        ),
    });
    format!(": {}", rules.collect::<Vec<_>>().join(", "))
}

/// Renders a span in days when it is a whole number of days.
fn span(millis: u64) -> String {
    match (millis / 86_400_000, millis % 86_400_000) {
        (1, 0) => "1 day".to_owned(),
        (days, 0) => format!("{days} days"),
        _ => human_span(millis),
    }
}

/// Tells the use of the space that was freed in the store.
fn space(done: &Pruned) -> Option<String> {
    match &done.space {
        FreedSpace::Reusable if done.journal.values == 0 => None,
        FreedSpace::Reusable => Some("the store uses that space again".to_owned()),
        FreedSpace::Returned { bytes } => Some(format!(
            "the store gave {} back to the file system",
            size(*bytes)
        )),
        FreedSpace::Later { why } => Some(format!(
            "the store uses that space again, and will give it back another time, because {why}"
        )),
        FreedSpace::Server if done.journal.values == 0 => None,
        FreedSpace::Server => {
            Some("PostgreSQL uses that space again after its next vacuum".to_owned())
        }
    }
}

fn say_checkpoints(page: &mut Page, these: &[PrunedCheckpoint], short: &DisplayIds) {
    for checkpoint in these {
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
}

fn checkpoints(count: u64) -> String {
    format!(
        "{count} {}",
        if count == 1 {
            "checkpoint"
        } else {
            "checkpoints"
        }
    )
}

fn old_values(journal: &Thinned) -> String {
    let noun = if journal.values == 1 {
        "old value"
    } else {
        "old values"
    };
    format!("{} {noun} ({})", journal.values, size(journal.bytes))
}

pub fn size(bytes: u64) -> String {
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
