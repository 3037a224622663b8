//! `fleet init`

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flightline::core::{Code, Refusal};
use flightline::store::{Location, Store};
use flightline::workspace::{Home, STATE_FOLDER, repository_root};
use serde::Serialize;

use super::Done;
use crate::app::App;
use crate::config::{self, Config};

/// Create `.flightline/` at the repository's root, or here where there is none.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What the project is called (default: its folder)
    #[arg(long)]
    name: Option<String>,
}

#[derive(Serialize)]
struct Created {
    state: PathBuf,
    project: String,
    store: String,
    created: bool,
}

pub fn run(args: &InitArgs, app: &mut App) -> Done {
    let existing = app.home.clone();
    let root = match &existing {
        Some(home) => home.root.clone(),
        None => repository_root(&app.here).unwrap_or_else(|| app.here.clone()),
    };
    let state = existing
        .as_ref()
        .map_or_else(|| root.join(STATE_FOLDER), |home| home.state.clone());
    let before = Config::load(Some(&state), &app.env)?;
    let project = match &before.project {
        Some(project) => project.clone(),
        None => new_project(app)?,
    };
    let folder = root.file_name().map_or_else(
        || "project".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let name =
        flightline::core::Title::parse("project name", args.name.as_deref().unwrap_or(&folder))?;
    let location = app.location(&before, &state);
    make_private(&state)?;
    // The store first: a state folder that names a project always has one.
    let mut store = Store::create(&location, &project, &name, app.open_options(&before)?)?;
    if before.project.is_none() {
        config::write_project(&state, &project)?;
    }
    ignore_all(&state)?;
    store.read(|_| Ok::<_, flightline::store::Error>(()))?;
    app.home = Some(Home {
        state: state.clone(),
        root,
    });
    let engine = store.engine();
    let created = Created {
        state: state.clone(),
        project,
        store: location_text(&location, engine),
        created: existing.is_none(),
    };
    app.ui.answer(&created, |page| {
        if created.created {
            page.line(format_args!(
                "Created {STATE_FOLDER}/ ({}, {} store, .gitignore)",
                config::FILE,
                engine
            ));
            page.line("Next: fleet mission create \"…\" --sortie \"…\"");
        } else {
            page.line(format_args!(
                "{} is there already, and sound",
                state.display()
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn location_text(location: &Location, engine: &str) -> String {
    match location {
        Location::Folder(_) => engine.to_owned(),
        Location::Postgres(_) => location.to_string(),
    }
}

fn new_project(app: &App) -> Result<String, Refusal> {
    let options = app.open_options(&Config::load(None, &app.env)?)?;
    Ok(format!("prj-{}", options.ids.next()))
}

fn make_private(state: &std::path::Path) -> Result<(), Refusal> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .map_err(|error| {
            Refusal::new(
                Code::Unavailable,
                format!("cannot create {}: {error}", state.display()),
            )
            .hint("check the owner and the mode of the folder above it")
        })
}

/// Nothing in the state folder belongs into the repository.
fn ignore_all(state: &std::path::Path) -> Result<(), Refusal> {
    let path = state.join(".gitignore");
    if path.exists() {
        return Ok(());
    }
    fs::write(&path, "*\n").map_err(|error| {
        Refusal::new(
            Code::Unavailable,
            format!("cannot write {}: {error}", path.display()),
        )
    })
}
