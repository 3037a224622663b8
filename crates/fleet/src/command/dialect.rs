//! `fleet import` and `fleet export`: reads and writes the files of the other systems.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use flightline::core::dialect::compress::unfolded;
use flightline::core::dialect::{Dialect, MAX_BYTES, orchestrator};
use flightline::core::{Code, Refusal};
use flightline::dialect::orchestrator::files::{index, packed};
use flightline::dialect::{
    ExportDocuments, ExportedDocuments, ImportDocuments, ImportedDocument, Incoming,
};
use flightline::file::Replacing;
use flightline::workspace::beneath::Dir;

use super::transfer::cannot;
use super::{CommandResult, typed};
use crate::app::App;

/// The systems whose files are known.
const DIALECTS: [&str; 4] = ["sitebuilder", "epic", "orchestrator", "recovery"];

/// The most files that one import reads.
const MOST_FILES: usize = 1_000;
/// The most bytes that one import reads, decompressed.
const MOST_BYTES: usize = 8 * MAX_BYTES;

#[derive(Debug, Args)]
pub struct DialectImportArgs {
    /// The system: sitebuilder, epic, orchestrator or recovery
    #[arg(value_parser = DIALECTS)]
    dialect: String,
    /// A file, or a folder with such files; `-` reads stdin
    #[arg(value_hint = ValueHint::AnyPath)]
    path: PathBuf,
}

#[derive(Debug, Args)]
pub struct DialectExportArgs {
    /// The format: sitebuilder, epic, orchestrator or recovery
    #[arg(value_parser = DIALECTS)]
    dialect: String,
    /// The folder to write to (default: print)
    #[arg(value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Overwrite the files that exist
    #[arg(long)]
    force: bool,
}

pub fn import(args: &DialectImportArgs, app: &mut App) -> CommandResult {
    app.home()?;
    let dialect = dialect(&args.dialect)?;
    let read = if args.path == Path::new("-") {
        let bytes = typed::stdin_bytes("document", MAX_BYTES)?;
        vec![Ok(incoming("stdin", unfolded(&bytes, "stdin")?))]
    } else {
        let path = app.led_to(&args.path);
        let path = path.map_err(|error| cannot("read", &args.path, &error))?;
        read(dialect, &path, &args.path, app)?
    };
    // A document that cannot be read keeps no other out, and is reported with them.
    let (mut documents, mut unread) = (Vec::new(), Vec::new());
    for one in read {
        match one {
            Ok(document) => documents.push(document),
            Err((file, refusal)) => unread.push(ImportedDocument::refused(&file, refusal)),
        }
    }
    let mut taken = match documents.is_empty() {
        true => Vec::new(),
        false => app.run(&ImportDocuments {
            dialect,
            documents,
            mission: app.globals.mission.clone(),
        })?,
    };
    taken.extend(unread);
    taken.sort_by(|a, b| a.file.cmp(&b.file));
    report(&taken, app)
}

/// Prints a line for each file: its subject and the changes it made, or why it was not imported.
fn report(taken: &[ImportedDocument], app: &mut App) -> CommandResult {
    app.ui.answer(&taken, |page| {
        for one in taken {
            if let Some(refusal) = &one.refused {
                page.line(format_args!("Refused: {}", refusal.message));
                continue;
            }
            let how = if one.changed { "Imported" } else { "Known" };
            let changes = match one.changes.as_slice() {
                [] => String::new(),
                changes => format!(": {}", changes.join(", ")),
            };
            page.line(format_args!(
                "{how}: {} from {}{changes}",
                one.name, one.file
            ));
        }
    })?;
    for one in taken {
        for warning in &one.warnings {
            app.ui.warn(format_args!("{}: {warning}", one.file));
        }
    }
    let refused: Vec<&Refusal> = taken
        .iter()
        .filter_map(|one| one.refused.as_ref())
        .collect();
    let Some(first) = refused.first() else {
        return Ok(ExitCode::SUCCESS);
    };
    app.ui.warn(format_args!(
        "{} of {} files were not taken in; nothing of them was changed",
        refused.len(),
        taken.len()
    ));
    Ok(ExitCode::from(first.code.exit_code()))
}

pub fn export(args: &DialectExportArgs, app: &mut App) -> CommandResult {
    let dialect = dialect(&args.dialect)?;
    let given = app.run(&ExportDocuments {
        dialect,
        mission: app.globals.mission.clone(),
        since: None,
        ended_since: None,
    })?;
    let has_index = dialect == Dialect::Orchestrator && !given.documents.is_empty();
    if let Some(folder) = &args.folder {
        let place = make_folder(folder, app)?;
        for document in &given.documents {
            let bytes =
                packed(document).map_err(|error| Refusal::new(Code::Failed, error.to_string()))?;
            let same = place.read(&document.file, MAX_BYTES).ok().flatten();
            if same.as_ref() == Some(&bytes) {
                continue;
            }
            place
                .put(&document.file, &bytes, replacing(args), 0o644)
                .map_err(|error| unwritten(&folder.join(&document.file), &error))?;
        }
        if has_index {
            write_index(&given, &place, folder, replacing(args))?;
        }
    }
    app.ui.answer(&given, |page| match &args.folder {
        Some(folder) => {
            for document in &given.documents {
                page.line(format_args!(
                    "Exported {}",
                    folder.join(&document.file).display()
                ));
            }
            if has_index {
                let index = folder.join(orchestrator::INDEX_FILE);
                page.line(format_args!("Exported {}", index.display()));
            }
            if given.documents.is_empty() {
                page.line("There is nothing to export");
            }
        }
        None => {
            for document in &given.documents {
                page.line(format_args!("==> {} <==", document.file));
                page.block(0, document.text.trim_end());
            }
        }
    })?;
    for lost in &given.lost {
        app.ui.warn(format_args!(
            "{} was not exported: {}",
            lost.file,
            lost.what.join(", ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

const fn replacing(args: &DialectExportArgs) -> Replacing {
    if args.force {
        Replacing::Yes
    } else {
        Replacing::No
    }
}

/// Brings the index of a folder up to date with the files written there. An index that is there already is replaced;
/// another file of that name is refused.
fn write_index(
    given: &ExportedDocuments,
    place: &Dir,
    shown: &Path,
    replacing: Replacing,
) -> Result<(), Refusal> {
    let shown = shown.join(orchestrator::INDEX_FILE);
    let mut written = Vec::with_capacity(given.documents.len());
    for document in &given.documents {
        let seen = place.entry(&document.file);
        let seen = seen.map_err(|error| unwritten(&shown, &error))?;
        written.push((document, seen.map_or(0, |seen| seen.size)));
    }
    let before = place.read(orchestrator::INDEX_FILE, MAX_BYTES);
    let before = before.map_err(|error| unwritten(&shown, &error))?;
    let text = before.as_deref().map(String::from_utf8_lossy);
    let entries = text.map(|text| orchestrator::read_index(&text));
    let (entries, replacing) = match entries {
        Some(Ok(entries)) => (entries, Replacing::Yes),
        Some(Err(_)) | None => (Vec::new(), replacing),
    };
    let text = orchestrator::write_index(&index(&written, &entries, place)?);
    if before.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    place
        .put(orchestrator::INDEX_FILE, &text, replacing, 0o644)
        .map_err(|error| unwritten(&shown, &error))
}

fn dialect(word: &str) -> Result<Dialect, Refusal> {
    Dialect::from_word(word)
        .ok_or_else(|| Refusal::invalid(format!("there is no dialect `{word}`")))
}

/// A document, or the file that could not be read, with the refusal.
type Read = Result<Incoming, (String, Refusal)>;

/// Reads the documents in a file, or in the files of a folder.
fn read(dialect: Dialect, path: &Path, shown: &Path, app: &App) -> Result<Vec<Read>, Refusal> {
    let unread = |error: &dyn std::fmt::Display| {
        Refusal::new(
            Code::Failed,
            format!("cannot read {}: {error}", shown.display()),
        )
    };
    let (above, below) = app.towards(path).map_err(|error| unread(&error))?;
    let folder = match above.find(&below) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Ok(vec![Ok(read_file(path, shown, app)?)]),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Ok(vec![Ok(read_file(path, shown, app)?)]);
        }
        Err(error) => return Err(unread(&error)),
    };
    let mut names = folder.names_in("").map_err(|error| unread(&error))?;
    names.retain(|name| {
        let packed = dialect == Dialect::Orchestrator && orchestrator::is_document(name);
        (packed || name.ends_with(".json")) && !name.starts_with('.')
    });
    if names.is_empty() {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there are no `.json` files in {}", shown.display()),
        ));
    }
    if names.len() > MOST_FILES {
        return Err(Refusal::new(
            Code::TooLong,
            format!(
                "{} holds {} files, and at most {MOST_FILES} are taken in at once",
                shown.display(),
                names.len()
            ),
        ));
    }
    let (mut documents, mut bytes) = (Vec::with_capacity(names.len()), 0);
    for name in &names {
        let shown = shown.join(name);
        let document = match read_file(&path.join(name), &shown, app) {
            Ok(document) => document,
            Err(refusal) if names.len() > 1 => {
                documents.push(Err((shown.display().to_string(), refusal)));
                continue;
            }
            Err(refusal) => return Err(refusal),
        };
        bytes += document.text.len();
        if bytes > MOST_BYTES {
            return Err(Refusal::new(
                Code::TooLong,
                format!(
                    "the files in {} unfold into more than {MOST_BYTES} bytes together",
                    shown.display()
                ),
            )
            .hint("import them one by one"));
        }
        documents.push(Ok(document));
    }
    Ok(documents)
}

fn read_file(path: &Path, shown: &Path, app: &App) -> Result<Incoming, Refusal> {
    let file = shown.display().to_string();
    let bytes = app
        .towards(path)
        .and_then(|(above, below)| above.read(below, MAX_BYTES))
        .map_err(|error| Refusal::invalid(format!("cannot read `{file}`: {error}")))?
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no file `{file}`")))?;
    Ok(incoming(&file, unfolded(&bytes, &file)?))
}

/// Makes the folder that the command line names, where it is missing.
fn make_folder(folder: &Path, app: &App) -> Result<Dir, Refusal> {
    let made = app
        .towards(&app.here.join(folder))
        .and_then(|(above, below)| above.make(below, 0o755));
    made.map_err(|error| unwritten(folder, &error))
}

fn incoming(file: &str, text: String) -> Incoming {
    Incoming {
        file: file.to_owned(),
        text,
        before: None,
        even_if_older: false,
    }
}

fn unwritten(file: &Path, error: &std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::AlreadyExists {
        return Refusal::new(
            Code::AlreadyExists,
            format!("{} exists already, and says something else", file.display()),
        )
        .hint("choose another folder, or replace it with `--force`");
    }
    Refusal::new(
        Code::Failed,
        format!("cannot write {}: {error}", file.display()),
    )
}
