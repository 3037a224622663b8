//! `fleet backup` and `fleet restore`: copies the store to a file, and replaces the store by such a copy.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flightline::backup;
use flightline::core::shell::shell_word;
use flightline::core::{Code, Refusal};

use super::CommandResult;
use crate::app::App;

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The file to write; it must not exist
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The backup to restore
    file: PathBuf,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub fn back_up(args: &BackupArgs, app: &mut App) -> CommandResult {
    app.must_be_local()?;
    // No link in the repository leads the copy elsewhere, and `..` means what it says.
    let place = app.towards(&app.here.join(&args.file));
    let (above, below) = place
        .and_then(|(above, below)| above.entry(&below).map(|_| (above, below)))
        .map_err(|error| {
            Refusal::new(
                Code::Unavailable,
                format!("cannot write {}: {error}", args.file.display()),
            )
        })?;
    let file = above.path().join(below);
    let done = backup::back_up(app.fleet()?, &file).map_err(flightline::Error::into_refusal)?;
    app.ui.written = true;
    app.ui.answer(&done, |page| {
        page.line(format_args!(
            "Backed up revision {} ({} events, {} records, {} KiB) to {}, and verified it",
            done.rev,
            done.events,
            done.subjects,
            done.bytes.div_ceil(1024),
            args.file.display()
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &RestoreArgs, app: &mut App) -> CommandResult {
    app.must_be_local()?;
    app.must_be_trusted()?;
    let shown = args.file.display();
    let found = app
        .file_to_read(&args.file)
        .and_then(|file| Ok(file.is_there()?.then_some(file)));
    let missing =
        |why: String| Refusal::new(Code::NotFound, why).hint("make one with `fleet backup FILE`");
    let file = found
        .map_err(|error| missing(format!("{shown} is no backup: {error}")))?
        .ok_or_else(|| missing(format!("there is no backup {shown}")))?;
    if !args.yes {
        let act = format!(
            "replace everything in this project's store with {}",
            args.file.display()
        );
        app.ui.confirm(&act, &command(&args.file), app.asking())?;
    }
    app.will_answer("restored")?;
    let keep = undo_file(app)?;
    let caller = app.caller()?;
    let done = backup::restore(app.fleet()?, &file, &keep, &caller)
        .map_err(flightline::Error::into_refusal)?;
    app.ui.written = true;
    let state = app.home()?.state.clone();
    let troubles = backup::bring_files_up(app.fleet()?, &state, &caller)
        .map_err(flightline::Error::into_refusal)?;
    for trouble in troubles {
        app.ui.warn(trouble);
    }
    app.ui.answer(&done, |page| {
        page.line(format_args!(
            "Restored revision {} ({} events) from {}",
            done.rev,
            done.events,
            args.file.display()
        ));
        page.line("Earlier sessions, locks and cursors are void: agents must register again");
        let back = page.command(command(&done.undo));
        page.line(format_args!("Undo it with: {back}"));
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The command that restores a file, as a shell reads it.
fn command(file: &Path) -> String {
    format!(
        "fleet restore {} -y",
        shell_word(&file.display().to_string())
    )
}

/// The file that keeps the present store: in the state folder, under a name with the time.
fn undo_file(app: &mut App) -> Result<PathBuf, Refusal> {
    let stem = format!("before-restore-{}", app.stamp()?);
    backup::free_file(&app.home()?.state, &stem).map_err(flightline::Error::into_refusal)
}
