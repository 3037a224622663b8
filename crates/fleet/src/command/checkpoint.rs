//! `fleet checkpoint` and `fleet checkpoints`: takes, lists, shows, compares, verifies, marks and deletes checkpoints.

mod points;
pub mod show;

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flightline::checkpoint::CheckpointDocument;
use flightline::checkpoint::destructive::BeforeDestructive;
use flightline::checkpoint::inspect::{
    CheckpointMark, CheckpointSummary, DiffCheckpoints, MarkCheckpoint, ShowCheckpoint,
    VerifyCheckpoints,
};
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::core::checkpoint::Reason;
use flightline::core::text::NoteText;
use flightline::core::{CheckpointId, Code, Kind, Name, Refusal};
use flightline::store_job::CompareFiles;

use super::plain::Words;
use super::{ATTENTION, CommandResult, prune, transfer, typed};
use crate::app::{App, DisplayIds};
use crate::complete;
use crate::ui::{Cell, Page, state};

#[derive(Debug, Args)]
pub struct TakeArgs {
    /// A note on the checkpoint
    #[arg(long)]
    note: Option<String>,
    /// The reason for the checkpoint (default: manual)
    #[arg(long)]
    reason: Option<String>,
    /// A destructive operation that is about to run, such as `git_push`
    #[arg(long, value_name = "OPERATION", conflicts_with = "reason")]
    before: Option<String>,
    /// The target of that operation
    #[arg(long, requires = "before")]
    target: Option<String>,
}

#[derive(Debug, Args)]
pub struct CheckpointArg {
    /// The checkpoint: its id, or the beginning of it; `@latest` is the newest, `@latest~2` two before it
    #[arg(add = complete::checkpoints())]
    pub id: String,
}

#[derive(Debug, Subcommand)]
pub enum CheckpointsCommand {
    /// List checkpoints of a mission, newest first
    List {
        /// Maximum number of checkpoints
        #[arg(long, default_value_t = 10)]
        limit: u64,
        /// Include checkpoints that were archived
        #[arg(long)]
        archived: bool,
    },
    /// Show a checkpoint in full
    Show(CheckpointArg),
    /// List checkpoints to go back to, and whether work can resume from each
    RecoveryPoints {
        /// Maximum number of checkpoints
        #[arg(long, default_value_t = 10)]
        limit: u64,
    },
    /// Delete old checkpoints
    Prune(prune::PruneArgs),
    /// Compare two checkpoints, or one with the current state
    Diff {
        /// The earlier checkpoint: its id, or `@latest~1`
        #[arg(add = complete::checkpoints())]
        a: String,
        /// The later checkpoint (default: the current state)
        #[arg(add = complete::checkpoints())]
        b: Option<String>,
        /// End with exit code 5 when something differs
        #[arg(long)]
        exit_code: bool,
    },
    /// Check checkpoints and their files against their hashes: exit code 6 when one is damaged
    Verify {
        /// The checkpoint (default: all of the mission)
        #[arg(add = complete::checkpoints())]
        id: Option<String>,
    },
    /// Pin a checkpoint, so that retention keeps it
    Pin(CheckpointArg),
    /// Unpin a checkpoint, so that retention applies again
    Unpin(CheckpointArg),
    /// Set the note of a checkpoint
    Note {
        #[command(flatten)]
        id: CheckpointArg,
        /// The new text of the note; it replaces the old one
        text: String,
    },
    /// Archive a checkpoint: remove it from lists, counts and limits
    Archive(CheckpointArg),
    /// Write a whole checkpoint to a file
    Export(transfer::CheckpointExportArgs),
    /// Import a checkpoint from a file: a lost one, or one of another store
    Import(transfer::CheckpointImportArgs),
    /// Delete a checkpoint and its file
    Delete {
        #[command(flatten)]
        id: CheckpointArg,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

pub fn take(args: &TakeArgs, app: &mut App) -> CommandResult {
    let note = typed::maybe(args.note.as_ref(), |text| typed::note("note", text))?;
    if let Some(operation) = &args.before {
        return before(args, operation, note, app);
    }
    let request = TakeCheckpoint {
        mission: None,
        reason: args.reason.as_deref().map(read_reason).transpose()?,
        details: None,
        note,
    };
    // While the server is away the time is not known, and the request is queued.
    let asked_at = app.now().ok();
    let Some(taken) = app.run_or_keep(&request)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let taken = settled(taken.id, app)?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission], &taken)?;
    app.ui.answer(&taken, |page| {
        match asked_at.is_some_and(|asked_at| taken.timestamp < asked_at) {
            // An unchanged state has the same checkpoint.
            true => page.line(format_args!(
                "Checkpoint {} is current: nothing has changed since it was taken at {}",
                short.id(taken.id),
                taken.timestamp.to_seconds()
            )),
            false => page.line(format_args!("Checkpoint created: {}", short.id(taken.id))),
        }
        contents(page, &taken, &short);
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prepares for a destructive operation: takes a checkpoint where that is needed. The operation may go on either way.
fn before(
    args: &TakeArgs,
    operation: &str,
    note: Option<NoteText>,
    app: &mut App,
) -> CommandResult {
    let mut prepared = app.run(&BeforeDestructive {
        mission: None,
        operation: Name::parse("the name of an operation", operation)?,
        target: typed::maybe(args.target.as_ref(), |text| typed::title("target", text))?,
        note,
    })?;
    if let Some(taken) = &prepared.checkpoint {
        prepared.checkpoint = Some(settled(taken.id, app)?);
    }
    let short = app.short(&[Kind::Checkpoint, Kind::Mission], &prepared)?;
    app.ui.answer(&prepared, |page| {
        if let Some(taken) = &prepared.checkpoint {
            page.line(format_args!("Checkpoint created: {}", short.id(taken.id)));
            contents(page, taken, &short);
        }
        if let Some(why) = &prepared.why {
            page.line(format_args!("No checkpoint: {why}"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a checkpoint that was just taken, with the state of its file. The store has it even when the file was not
/// written.
fn settled(id: CheckpointId, app: &mut App) -> Result<CheckpointDocument, Refusal> {
    if let Err(refusal) = app.settle_backups() {
        app.ui.warn(refusal.message);
    }
    app.run(&ShowCheckpoint {
        checkpoint: id.to_string(),
    })
}

fn contents(page: &mut Page, taken: &CheckpointDocument, short: &DisplayIds) {
    page.line(format_args!("Mission: {}", short.id(taken.mission_id)));
    page.line(format_args!("Progress: {}%", taken.progress_percent));
    page.line(format_args!("Sorties: {}", sorties_line(taken)));
    page.line(format_args!("Locks: {} active", taken.active_locks.len()));
    page.line(format_args!(
        "Messages: {} pending",
        taken.pending_messages.len()
    ));
}

fn read_reason(word: &str) -> Result<Reason, Refusal> {
    Reason::from_word(&word.replace('-', "_")).ok_or_else(|| {
        let known: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        Refusal::invalid(format!("`{word}` is not a reason"))
            .hint(format!("reasons: {}", known.join(", ")))
    })
}

fn sorties_line(document: &CheckpointDocument) -> String {
    use flightline::core::sortie::SortieStatus::{
        Assigned, Blocked, Completed, Failed, InProgress, Pending, Skipped,
    };
    let count = |wanted| {
        document
            .sorties
            .iter()
            .filter(|sortie| sortie.status == wanted)
            .count()
    };
    let all = [
        Completed, InProgress, Assigned, Blocked, Pending, Failed, Skipped,
    ];
    let parts: Vec<String> = all
        .into_iter()
        .filter(|status| count(*status) > 0)
        .map(|status| format!("{} {}", count(status), status.as_str()))
        .collect();
    match parts.is_empty() {
        true => document.sorties.len().to_string(),
        false => format!("{} ({})", document.sorties.len(), parts.join(", ")),
    }
}

pub fn run(command: CheckpointsCommand, app: &mut App) -> CommandResult {
    match command {
        CheckpointsCommand::List { limit, archived } => show::list(limit, archived, app),
        CheckpointsCommand::Show(id) => show::show(id.id, app),
        CheckpointsCommand::RecoveryPoints { limit } => points::list(limit, app),
        CheckpointsCommand::Prune(args) => prune::run(&args, app),
        CheckpointsCommand::Diff { a, b, exit_code } => diff(a, b, exit_code, app),
        CheckpointsCommand::Verify { id } => verify(id, app),
        CheckpointsCommand::Pin(id) => mark(id, CheckpointMark::Pin, "Pinned", app),
        CheckpointsCommand::Unpin(id) => mark(id, CheckpointMark::Unpin, "Unpinned", app),
        CheckpointsCommand::Note { id, text } => mark(
            id,
            CheckpointMark::Note {
                text: typed::note("note", &text)?,
            },
            "Noted",
            app,
        ),
        CheckpointsCommand::Archive(id) => mark(id, CheckpointMark::Archive, "Archived", app),
        CheckpointsCommand::Export(args) => transfer::export(&args, app),
        CheckpointsCommand::Import(args) => transfer::import(&args, app),
        CheckpointsCommand::Delete { id, yes } => {
            if !yes {
                let command = format!("fleet checkpoints delete {} -y", id.id);
                let act = format!("delete the checkpoint {}", id.id);
                app.ui.confirm(&act, &command, app.asking())?;
            }
            mark(id, CheckpointMark::Delete, "Deleted", app)
        }
    }
}

fn diff(a: String, b: Option<String>, exit_code: bool, app: &mut App) -> CommandResult {
    let differences = app.serve(&DiffCheckpoints { a, b })?;
    let short = app.short(
        &[
            Kind::Sortie,
            Kind::Mission,
            Kind::Agent,
            Kind::Message,
            Kind::Lock,
        ],
        &differences,
    )?;
    let words = Words {
        short: &short,
        names: &BTreeMap::new(),
    };
    app.ui.answer(&differences, |page| {
        for difference in &differences {
            page.line(format_args!(
                "{} {} {}",
                difference.change,
                difference.kind,
                words.thing(&difference.id)
            ));
            if difference.change == "changed" {
                words.fields(page, 2, difference);
            }
        }
        if differences.is_empty() {
            page.line("Nothing differs.");
        }
    })?;
    Ok(if exit_code && !differences.is_empty() {
        ExitCode::from(ATTENTION)
    } else {
        ExitCode::SUCCESS
    })
}

fn verify(id: Option<String>, app: &mut App) -> CommandResult {
    let found = app.serve(&VerifyCheckpoints { checkpoint: id })?;
    let verifications = app.run_job(&CompareFiles { found })?;
    let short = app.short(&[Kind::Checkpoint], &verifications)?;
    app.ui.answer(&verifications, |page| {
        for verification in &verifications {
            let id = short.id(verification.id);
            match &verification.problem {
                None => page.line(format_args!("{}  {id}", Cell::new("✓ sound"))),
                Some(problem) => {
                    page.line(format_args!("{}  {id}: {problem}", Cell::new("✗ damaged")))
                }
            }
        }
        if verifications.is_empty() {
            page.line("No checkpoint yet.");
        }
    })?;
    let sound = verifications.iter().all(|verification| verification.sound);
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Code::Integrity.exit_code())
    })
}

fn mark(id: CheckpointArg, mark: CheckpointMark, verb: &str, app: &mut App) -> CommandResult {
    let deleting = matches!(mark, CheckpointMark::Delete);
    let summary: CheckpointSummary = app.run(&MarkCheckpoint {
        checkpoint: id.id,
        mark,
    })?;
    if deleting {
        app.clear_files()?;
    }
    let short = app.short(&[Kind::Checkpoint], &summary)?;
    app.ui.answer(&summary, |page| match deleting {
        true => page.line(format_args!("{verb} {}", short.id(summary.id))),
        false => page.line(format_args!(
            "{verb} {}  {}",
            short.id(summary.id),
            state(status_word(&summary))
        )),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn status_word(summary: &CheckpointSummary) -> &'static str {
    summary.status.as_str()
}
