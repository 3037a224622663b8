//! `fleet note`

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use flightline::core::note::NoteKind;
use flightline::core::{Code, Refusal};
use flightline::note::{AddNote, ListNotes};
use flightline::workspace::file_checksum;

use super::{Done, typed};
use crate::app::App;
use crate::complete;
use crate::ui::Cell;

#[derive(Debug, Subcommand)]
pub enum NoteCommand {
    /// Something was decided
    Decision {
        #[command(flatten)]
        note: NoteArgs,
        /// Why
        #[arg(long, alias = "why", allow_hyphen_values = true)]
        rationale: Option<String>,
    },
    /// Something was learned
    Lesson(NoteArgs),
    /// A rule that must be kept, word for word
    Constraint(NoteArgs),
    /// Something was tried and does not work
    DeadEnd(NoteArgs),
    /// A file worth knowing; its checksum is kept
    Artifact {
        #[command(flatten)]
        note: NoteArgs,
        /// The file
        #[arg(long)]
        path: String,
        /// What sort of file: spec, report …
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
    },
    /// Something is in the way
    Blocker(NoteArgs),
    /// Something is to be done
    NextStep(NoteArgs),
    /// List notes, oldest first
    List {
        /// Of this kind only
        #[arg(long)]
        kind: Option<KindArg>,
    },
}

#[derive(Debug, Args)]
pub struct NoteArgs {
    /// What it says (`-` reads stdin)
    text: String,
    /// The sortie it belongs to
    #[arg(long, value_name = "ID", add = complete::sorties())]
    sortie: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum KindArg {
    Decision,
    Lesson,
    Constraint,
    DeadEnd,
    Artifact,
    Blocker,
    NextStep,
    Late,
}

impl From<KindArg> for NoteKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Decision => Self::Decision,
            KindArg::Lesson => Self::Lesson,
            KindArg::Constraint => Self::Constraint,
            KindArg::DeadEnd => Self::DeadEnd,
            KindArg::Artifact => Self::Artifact,
            KindArg::Blocker => Self::Blocker,
            KindArg::NextStep => Self::NextStep,
            KindArg::Late => Self::Late,
        }
    }
}

pub fn run(command: NoteCommand, app: &mut App) -> Done {
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
            let file = app.home()?.root.join(inside.as_str());
            let checksum = file_checksum(&file).map_err(|error| {
                Refusal::new(
                    Code::NotFound,
                    format!("cannot read {}: {error}", file.display()),
                )
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
        NoteCommand::List { kind } => list(kind.map(Into::into), app),
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

fn add(request: AddNote, app: &mut App) -> Done {
    let note = app.run(&request)?;
    app.ui.answer(&note, |page| {
        page.line(format_args!(
            "Noted {}: {}",
            note.kind.as_str().replace('_', " "),
            Cell::new(&note.text)
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(kind: Option<NoteKind>, app: &mut App) -> Done {
    let notes = app.run(&ListNotes {
        mission: None,
        kind,
    })?;
    let now = app.now()?;
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
                vec![
                    Cell::dim(note.kind.as_str().replace('_', " ")),
                    Cell::new(&note.author),
                    Cell::new(page.time(note.at)),
                    Cell::new(format_args!("{}{why}{path}", note.told())),
                ]
            })
            .collect();
        page.table(&["KIND", "BY", "WHEN", "NOTE"], &rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
