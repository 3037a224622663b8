//! `fleet init`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flightline::core::policy::Preset;
use flightline::core::{Code, Refusal};
use flightline::file::Replacing;
use flightline::inventory::{inventory, unknown_project};
use flightline::rebuild::{is_unfinished, prospect};
use flightline::store::{Error, Location, OpenOptions, Store};
use flightline::workspace::beneath::Dir;
use flightline::workspace::{Home, STATE_FOLDER, repository_root};
use serde::Serialize;

use super::Done;
use crate::app::{App, unusable};
use crate::config::{self, Change, Config, Level};

/// Create `.flightline/` at the repository's root, or here where there is none.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What the project is called (default: its folder)
    #[arg(long)]
    name: Option<String>,
    /// Whose numbers and files to use (default: fleet)
    #[arg(long, value_parser = presets())]
    preset: Option<String>,
}

fn presets() -> clap::builder::PossibleValuesParser {
    let words = Preset::ALL.iter().map(|preset| preset.as_str());
    words.collect::<Vec<_>>().into()
}

#[derive(Serialize)]
struct Created {
    state: PathBuf,
    project: String,
    store: String,
    created: bool,
}

impl InitArgs {
    fn preset(&self) -> Option<Preset> {
        self.preset.as_deref().and_then(Preset::from_word)
    }
}

pub fn run(args: &InitArgs, app: &mut App) -> Done {
    app.must_be_local()?;
    let existing = app.home.clone();
    let root = match &existing {
        Some(home) => home.root.clone(),
        None => repository_root(&app.here).unwrap_or_else(|| app.here.clone()),
    };
    let state = existing
        .as_ref()
        .map_or_else(|| root.join(STATE_FOLDER), |home| home.state.clone());
    let before = Config::load(Some(&state), &app.env)?;
    let folder = root.file_name().map_or_else(
        || "project".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let name =
        flightline::core::Title::parse("project name", args.name.as_deref().unwrap_or(&folder))?;
    let location = app.location(&before, &state)?;
    let options = app.open_options(&before)?;
    let steps = options.steps.clone();
    let left_behind = || nameless(&location, &state, options.clone());
    let project = match before.project.clone().or_else(left_behind) {
        Some(project) => project,
        None => new_project(app)?,
    };
    if existing.is_some() && !options.trusted {
        return Err(Error::Untrusted.into());
    }
    if is_unfinished(&location) {
        return Err(Refusal::new(
            Code::NoProject,
            "a rebuild of this store was cut short, and the store it made is not in its place yet",
        )
        .hint("complete it with `fleet doctor --rebuild -y`"));
    }
    make_private(&state)?;
    app.home = Some(Home {
        state: state.clone(),
        root: root.clone(),
    });
    app.begin_making()?;
    steps.step();
    // The store first: a state folder that names a project always has one.
    let (store, is_new) = match open(&location, &project, options.clone()) {
        Err(Error::Missing(_)) => (Store::create(&location, &project, &name, options)?, true),
        Err(Error::UnknownProject(_)) => {
            refuse_beside(&location, &state, &project, options.clone())?;
            (Store::create(&location, &project, &name, options)?, true)
        }
        found => (
            found.map_err(|error| unusable(error, &state, &location))?,
            false,
        ),
    };
    steps.step();
    for repaired in store.repaired() {
        app.ui.warn(repaired);
    }
    if before.project.is_none() {
        config::write_project(&state, &project, args.preset())?;
        steps.step();
    } else if let Some(preset) = args.preset() {
        let change = Change {
            name: "preset",
            value: preset.as_str(),
            level: Level::Project,
        };
        config::set(&change, Some(&state), &app.env)?;
    }
    ignore_all(&state)?;
    steps.step();
    app.trust_it()?;
    steps.step();
    let engine = store.engine();
    let created = Created {
        state: state.clone(),
        project,
        store: location_text(&location, engine),
        created: is_new,
    };
    // A place that was only typed must be typed again, or the next command looks elsewhere.
    let forgotten = app.globals.location.is_some() && before.location.as_ref() != Some(&location);
    let lost = (is_new && existing.is_some()).then(|| prospect(&state, &location));
    app.ui.answer(&created, |page| {
        if created.created && existing.is_some() {
            page.line(format_args!(
                "Created the {engine} store that {} was lacking: it is empty",
                state.display()
            ));
            if let Some(prospect) = lost.as_ref().filter(|lost| lost.files > 0) {
                page.line(prospect.hint());
            }
        } else if created.created {
            page.line(format_args!(
                "Created {STATE_FOLDER}/ ({}, {} store, .gitignore)",
                config::FILE,
                engine
            ));
            if forgotten {
                page.line("Every command needs that location: set FLEET_LOCATION, or keep it with");
                page.line("  fleet config set location … --user");
            }
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

/// The project of a state folder that names none: its making was cut short, or its file was lost.
fn nameless(location: &Location, state: &Path, options: OpenOptions) -> Option<String> {
    // A store elsewhere may belong to other repositories.
    if *location != Location::Folder(state.to_path_buf()) {
        return None;
    }
    let projects = Store::open(location, "", options).ok()?.projects().ok()?;
    <[String; 1]>::try_from(projects).ok().map(|[only]| only)
}

/// Refuses to make a project beside another one in the repository's own store: its name was changed in the settings.
fn refuse_beside(
    location: &Location,
    state: &std::path::Path,
    project: &str,
    options: OpenOptions,
) -> Result<(), Refusal> {
    // A store elsewhere may belong to other repositories.
    if *location != Location::Folder(state.to_path_buf()) {
        return Ok(());
    }
    let mut store = Store::open(location, project, options)?;
    let known = inventory(&mut store).map_err(flightline::Error::into_refusal)?;
    match known.is_empty() {
        true => Ok(()),
        false => Err(unknown_project(project, known)),
    }
}

/// Opens a store and looks whether the project is in it.
fn open(location: &Location, project: &str, options: OpenOptions) -> Result<Store, Error> {
    let mut store = Store::open(location, project, options)?;
    store.read(|_| Ok::<_, Error>(()))?;
    Ok(store)
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

pub fn make_private(state: &Path) -> Result<(), Refusal> {
    Dir::make_private(state).map(drop).map_err(|error| {
        Refusal::new(
            Code::Unavailable,
            format!("cannot create {}: {error}", state.display()),
        )
        .hint("check the owner and the mode of the folder above it")
    })
}

/// Nothing in the state folder belongs into the repository.
pub fn ignore_all(state: &Path) -> Result<(), Refusal> {
    let written = Dir::private(state).and_then(|state| match state.entry(".gitignore")? {
        Some(_) => Ok(()),
        None => state.put(".gitignore", "*\n", Replacing::No, 0o644),
    });
    written.map_err(|error| {
        Refusal::new(
            Code::Unavailable,
            format!(
                "cannot write {}: {error}",
                state.join(".gitignore").display()
            ),
        )
    })
}
