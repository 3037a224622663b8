//! `fleet checkpoints export` and `import`: writes a whole checkpoint to a file, and reads one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use flightline::checkpoint::export::{self, Replacing};
use flightline::checkpoint::files::WholeCheckpoint;
use flightline::checkpoint::import::{ImportArrival, ImportCheckpoint};
use flightline::checkpoint::inspect::ShowCheckpoint;
use flightline::core::{Code, Kind, Refusal};

use super::checkpoint::CheckpointArg;
use super::prune::size;
use super::{CommandResult, typed};
use crate::app::App;

/// The largest checkpoint that is read from stdin.
const MAX_STDIN: usize = 32 * 1024 * 1024;

#[derive(Debug, Args)]
pub struct CheckpointExportArgs {
    #[command(flatten)]
    id: CheckpointArg,
    /// The file to write (default: the id with `.json`, in this folder); `-` prints it
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct CheckpointImportArgs {
    /// A file that `fleet checkpoints export` wrote, or a checkpoint's own; `-` reads stdin
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

pub fn export(args: &CheckpointExportArgs, app: &mut App) -> CommandResult {
    let found = app.run(&ShowCheckpoint {
        checkpoint: args.id.id.clone(),
    })?;
    let document = app.run(&WholeCheckpoint {
        checkpoint: found.id,
    })?;
    if args.file.as_deref() == Some(Path::new("-")) {
        app.ui.print(&export::text(&document)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.json", document.id)));
    let replacing = if args.force {
        Replacing::Yes
    } else {
        Replacing::No
    };
    let named = app
        .file_to_write(&file)
        .map_err(|error| cannot("write", &file, &error))?;
    let done = export::write(&document, &named, replacing)?;
    let short = app.short(&[Kind::Checkpoint], &done)?;
    app.ui.answer(&done, |page| {
        page.line(format_args!(
            "Exported {} to {} ({})",
            short.id(done.id),
            file.display(),
            size(done.bytes)
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn import(args: &CheckpointImportArgs, app: &mut App) -> CommandResult {
    app.home()?;
    let document = if args.file == Path::new("-") {
        export::from_text(&typed::stdin("checkpoint", MAX_STDIN)?, "stdin")?
    } else {
        let named = app.file_to_read(&args.file);
        export::read(&named.map_err(|error| cannot("read", &args.file, &error))?)?
    };
    let done = app.run(&ImportCheckpoint { document })?;
    app.settle_backups()?;
    let short = app.short(&[Kind::Checkpoint], &done)?;
    let id = short.id(done.checkpoint.id);
    app.ui.answer(&done, |page| {
        match done.arrival {
            ImportArrival::There => page.line(format_args!("{id} is here already, and sound")),
            ImportArrival::Returned | ImportArrival::Copied => {
                page.line(format_args!("Imported {id} ({} values)", done.values));
                let unpin = page.command(format!("fleet checkpoints unpin {id}"));
                page.line(format_args!(
                    "It is pinned, so that retention leaves it alone: {unpin}"
                ));
            }
            ImportArrival::Foreign => {
                page.line(format_args!(
                    "Imported {id} of another journal ({} values)",
                    done.values
                ));
                let list = page.command("fleet checkpoints list --archived");
                page.line(format_args!("It is archived: {list}"));
                let back = page.command(format!("fleet resume --checkpoint {id} --dry-run"));
                page.line(format_args!("To go back to it: {back}"));
            }
        }
        if !done.agents.is_empty() {
            page.line(format_args!(
                "Agents that came along, retired: {}",
                done.agents.join(", ")
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Says why a named file cannot be reached.
pub fn cannot(act: &str, file: &Path, error: &std::io::Error) -> Refusal {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => Code::NotFound,
        _ => Code::Failed,
    };
    Refusal::new(code, format!("cannot {act} {}: {error}", file.display()))
}
