//! `fleet note`: records decisions, lessons, constraints and other notes, and closes, replaces or withdraws them.

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use flightline::core::note::{Note, NoteEnding, NoteKind};
use flightline::core::{Code, Kind, Refusal};
use flightline::note::end::{EndHow, EndNote, ReplaceNote};
use flightline::note::{AddNote, ListNotes};

use super::{CommandResult, typed};
use crate::app::App;
use crate::complete;
use crate::ui::Cell;

#[derive(Debug, Subcommand)]
pub enum NoteCommand {
    /// Record a decision
    Decision {
        #[command(flatten)]
        note: NoteArgs,
        /// The reason for the decision
        #[arg(long, alias = "why", allow_hyphen_values = true)]
        rationale: Option<String>,
    },
    /// Record a lesson
    Lesson(NoteArgs),
    /// Record a constraint: a rule to follow, quoted word for word
    Constraint(NoteArgs),
    /// Record a dead end: an attempt that does not work
    DeadEnd(NoteArgs),
    /// Record an important file, with its checksum
    Artifact {
        #[command(flatten)]
        note: NoteArgs,
        /// The file: its path in the repository
        #[arg(long)]
        path: String,
        /// The type of file: spec, report …
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
    },
    /// Record a blocker
    Blocker(NoteArgs),
    /// Record a next step
    NextStep(NoteArgs),
    /// Close a note that is dealt with
    Close(NoteEndArgs),
    /// Replace a note; the old one is kept, but no longer valid
    #[command(alias = "replace")]
    Edit {
        /// The note: its id, or the beginning of it
        id: String,
        /// The new text (`-` reads stdin)
        text: String,
        /// The reason, if it is a decision
        #[arg(long, alias = "why", allow_hyphen_values = true)]
        rationale: Option<String>,
    },
    /// Withdraw a note that is no longer valid, or never was
    Withdraw(NoteEndArgs),
    /// List notes, oldest first
    List {
        /// Only notes of this kind
        #[arg(long, value_parser = kinds())]
        kind: Option<NoteKind>,
        /// Include closed, withdrawn and replaced notes
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub struct NoteEndArgs {
    /// The note: its id, or the beginning of it
    id: String,
    /// The reason it ends, kept in its history
    #[arg(long, allow_hyphen_values = true)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct NoteArgs {
    /// The text (`-` reads stdin)
    text: String,
    /// The sortie it belongs to
    #[arg(long, value_name = "ID", add = complete::sorties())]
    sortie: Option<String>,
}

/// The kinds of notes, as they are typed.
fn kinds() -> impl TypedValueParser<Value = NoteKind> {
    let words = NoteKind::ALL.map(|kind| kind.as_str().replace('_', "-"));
    PossibleValuesParser::from(words).try_map(|word| {
        NoteKind::from_spelling(&word).ok_or_else(|| format!("`{word}` is no kind of note"))
    })
}

pub fn run(command: NoteCommand, app: &mut App) -> CommandResult {
    match command {
        NoteCommand::Decision { note, rationale } => {
            let rationale =
                typed::maybe(rationale.as_ref(), |text| typed::note("rationale", text))?;
            add(
                AddNote {
                    rationale,
                    ..request(NoteKind::Decision, &note)?
                },
                app,
            )
        }
        NoteCommand::Lesson(note) => add(request(NoteKind::Lesson, &note)?, app),
        NoteCommand::Constraint(note) => add(request(NoteKind::Constraint, &note)?, app),
        NoteCommand::DeadEnd(note) => add(request(NoteKind::DeadEnd, &note)?, app),
        NoteCommand::Blocker(note) => add(request(NoteKind::Blocker, &note)?, app),
        NoteCommand::NextStep(note) => add(request(NoteKind::NextStep, &note)?, app),
        NoteCommand::Artifact { note, path, kind } => {
            let inside = app.path(&path)?;
            let checksum = app.checksum(&inside).map_err(|error| {
                let code = match error.kind() {
                    ErrorKind::NotFound => Code::NotFound,
                    _ => Code::InvalidInput,
                };
                Refusal::new(code, format!("cannot read {inside}: {error}"))
            })?;
            let artifact_type = typed::maybe(kind.as_ref(), |text| typed::name("type", text))?;
            let request = request(NoteKind::Artifact, &note)?;
            add(
                AddNote {
                    path: Some(inside),
                    checksum: Some(checksum),
                    artifact_type,
                    ..request
                },
                app,
            )
        }
        NoteCommand::Close(args) => end(&args, EndHow::Closed, app),
        NoteCommand::Withdraw(args) => end(&args, EndHow::Withdrawn, app),
        NoteCommand::Edit {
            id,
            text,
            rationale,
        } => {
            let request = ReplaceNote {
                note: id,
                text: typed::note("note", &text)?,
                rationale: typed::maybe(rationale.as_ref(), |text| typed::note("rationale", text))?,
            };
            let note = app.run(&request)?;
            said(&note, app)
        }
        NoteCommand::List { kind, all } => list(kind, all, app),
    }
}

fn request(kind: NoteKind, args: &NoteArgs) -> Result<AddNote, Refusal> {
    Ok(AddNote {
        mission: None,
        kind,
        text: typed::note("note", &args.text)?,
        rationale: None,
        sortie: args.sortie.clone(),
        path: None,
        checksum: None,
        artifact_type: None,
    })
}

fn add(request: AddNote, app: &mut App) -> CommandResult {
    let Some(note) = app.run_or_keep(&request)? else {
        return Ok(ExitCode::SUCCESS);
    };
    said(&note, app)
}

fn said(note: &Note, app: &mut App) -> CommandResult {
    let short = app.short(&[Kind::Note], note)?;
    app.ui.answer(note, |page| {
        page.line(format_args!(
            "Noted {} {}: {}",
            note.kind.as_str().replace('_', " "),
            short.id(note.id),
            Cell::new(&note.text)
        ));
        if let Some(old) = note.replaces {
            page.line(format_args!("It replaces {}.", short.id(old)));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn end(args: &NoteEndArgs, how: EndHow, app: &mut App) -> CommandResult {
    let request = EndNote {
        note: args.id.clone(),
        how,
        reason: typed::maybe(args.reason.as_ref(), |text| typed::note("reason", text))?,
    };
    let note = app.run(&request)?;
    let short = app.short(&[Kind::Note], &note)?;
    app.ui.answer(&note, |page| {
        let done = match how {
            EndHow::Closed => "Closed",
            EndHow::Withdrawn => "Withdrew",
        };
        let kind = note.kind.as_str().replace('_', " ");
        page.line(format_args!(
            "{done} {kind} {}: {}",
            short.id(note.id),
            Cell::new(&note.text)
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(kind: Option<NoteKind>, all: bool, app: &mut App) -> CommandResult {
    let notes = app.run(&ListNotes {
        mission: None,
        kind,
        all,
    })?;
    let (short, now) = (app.short(&[Kind::Note], &notes)?, app.now()?);
    app.ui.answer(&notes, |page| {
        page.at(now);
        if notes.is_empty() {
            page.line("No note yet.");
            return;
        }
        let rows: Vec<Vec<Cell>> = notes
            .iter()
            .map(|note| {
                let why = note
                    .rationale
                    .as_ref()
                    .map_or_else(String::new, |why| format!(" (because {why})"));
                let path = note
                    .path
                    .as_ref()
                    .map_or_else(String::new, |path| format!(" [{path}]"));
                let ended = note.ended.as_ref().map_or_else(String::new, |end| {
                    let how = match end.how {
                        NoteEnding::Replaced { by } => format!("replaced with {}", short.id(by)),
                        NoteEnding::Closed | NoteEnding::Withdrawn => end.how.as_str().to_owned(),
                    };
                    let why = end.reason.as_ref();
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    format!(" ({how} by {}{why})", end.by)
                });
                vec![
                    Cell::new(short.id(note.id)),
                    Cell::dim(note.kind.as_str().replace('_', " ")),
                    Cell::new(&note.author),
                    Cell::new(page.time(note.at)),
                    Cell::new(format_args!("{}{why}{path}{ended}", note.told())),
                ]
            })
            .collect();
        page.table(&["ID", "KIND", "BY", "WHEN", "NOTE"], &rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
