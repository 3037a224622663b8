//! `fleet init`: creates a store for a repository's fleet.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flightline::core::policy::Preset;
use flightline::core::shell::shell_word;
use flightline::core::{Code, Refusal, Title};
use flightline::file::Replacing;
use flightline::inventory::{inventory, unknown_project};
use flightline::rebuild::{is_unfinished, prospect};
use flightline::store::{Location, OpenOptions, Store, StoreError};
use flightline::workspace::beneath::Dir;
use flightline::workspace::{Home, STATE_FOLDER, discover, repository_root};
use serde::Serialize;
use serde_json::json;

use super::CommandResult;
use crate::app::{App, IGNORE_ALL, IGNORED, unusable};
use crate::config::{self, Config};

/// Create `.flightline/` at the repository's root, or here where there is none.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The name of the project (default: the folder's name)
    #[arg(long)]
    name: Option<String>,
    /// The preset: settings and files of one way of working (default: fleet)
    #[arg(long, value_parser = presets())]
    preset: Option<String>,
    /// Create it in this folder, even if there is a fleet above it or around this repository
    #[arg(long)]
    here: bool,
    /// Start with an empty store, even if checkpoint files of an earlier one exist
    #[arg(long)]
    empty: bool,
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
    /// Refuses to make an empty store where files of checkpoints show that one is lost: those files bring its work back.
    fn refuse_files(&self, state: &Path, location: &Location) -> Result<(), Refusal> {
        let left = prospect(state, location);
        if self.empty || left.files == 0 {
            return Ok(());
        }
        Err(Refusal::new(
            Code::ConfirmationNeeded,
            format!(
                "the store of {} is missing, but its checkpoint files exist",
                state.display()
            ),
        )
        .hint(format!(
            "{}\nto start an empty store next to them: `fleet init --empty`",
            left.hint()
        )))
    }

    fn preset(&self) -> Option<Preset> {
        self.preset.as_deref().and_then(Preset::from_word)
    }
}

pub fn run(args: &InitArgs, app: &mut App) -> CommandResult {
    app.must_be_local()?;
    let existing = match args.here {
        true => here(app),
        false => app.home.clone(),
    };
    let root = match &existing {
        Some(home) => home.root.clone(),
        None if args.here => app.here.clone(),
        None => repository_root(&app.here).unwrap_or_else(|| app.here.clone()),
    };
    if existing.is_none() && !args.here {
        ask_if_nested(&root, app)?;
    }
    let state = existing
        .as_ref()
        .map_or_else(|| root.join(STATE_FOLDER), |home| home.state.clone());
    let before = Config::load(Some(&state), &app.env)?;
    let folder = root.file_name().map_or_else(
        || "project".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let name = Title::parse("project name", args.name.as_deref().unwrap_or(&folder))?;
    let location = app.location(&before, &state)?;
    let reading = app.open_options(&before)?;
    let left_behind = || nameless(&location, &state, reading);
    let project = match before.project.clone().or_else(left_behind) {
        Some(project) => project,
        None => new_project(app)?,
    };
    if app.env.user_state.is_none() {
        return Err(Refusal::new(
            Code::Unavailable,
            "cannot record that this fleet is yours: neither HOME nor XDG_STATE_HOME is set",
        )
        .hint("set HOME to a folder of yours, then run the command again"));
    }
    if before.project.is_some() {
        refuse_change(args, &before, &state)?;
    }
    if is_unfinished(&location) {
        return Err(Refusal::new(
            Code::NoProject,
            "a rebuild of this store was cut short, and the store it made is not in its place yet",
        )
        .hint("complete it with `fleet doctor --rebuild -y`"));
    }
    app.home = Some(Home {
        state: state.clone(),
        root: root.clone(),
    });
    app.must_not_adopt(&before)?;
    make_private(&state)?;
    app.forget_config();
    let was_begun = app.is_being_made()?;
    app.begin_making()?;
    let mut making = Making {
        state: &state,
        location: &location,
        project: &project,
        name: &name,
        has_store: false,
    };
    let options = app.open_options(&before)?;
    let made = making.complete(args, &before, options, app);
    let has_store = making.has_store || !matches!(app.fingerprint(&before), Ok(None));
    if made.is_err() && !has_store && !was_begun {
        // Nothing was made: only an attempt that left a store is to be completed.
        let _ = app.end_making();
    }
    let (engine, is_new) = made?;
    let created = Created {
        state: state.clone(),
        project,
        store: location_text(&location, engine),
        created: is_new,
    };
    // A place that was only typed must be typed again, or the next command looks elsewhere.
    let forgotten = app.globals.location.is_some() && before.location.as_ref() != Some(&location);
    let left = match is_new {
        true => prospect(&state, &location).files,
        false => 0,
    };
    app.ui.answer(&created, |page| {
        if created.created && existing.is_some() {
            page.line(format_args!(
                "Created the missing {engine} store of {}: it is empty",
                state.display()
            ));
            match left {
                0 => {}
                1 => page.line("1 checkpoint file stays where it is"),
                files => page.line(format_args!("{files} checkpoint files stay where they are")),
            }
        } else if created.created {
            page.line(format_args!(
                "Created {STATE_FOLDER}/ ({}, {} store, .gitignore)",
                config::FILE,
                engine
            ));
            if forgotten {
                page.line("Every command needs that location: set FLEET_LOCATION, or save it with");
                page.line("  fleet config set location … --user");
            }
            let next = page.command("fleet missions create \"…\" --sortie \"…\"");
            page.line(format_args!("Next: {next}"));
            let setup = page.command("fleet setup claude");
            page.line(format_args!("Connect a coding agent: {setup}"));
        } else {
            page.line(format_args!(
                "{} exists already and is sound (preset {})",
                state.display(),
                before.policy.preset.as_str()
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A store that is made, or completed.
struct Making<'a> {
    state: &'a Path,
    location: &'a Location,
    project: &'a str,
    name: &'a Title,
    /// True once there is a store to be completed.
    has_store: bool,
}

impl Making<'_> {
    /// Makes the store where there is none, then the rest of the state folder. Returns the engine, and whether the store
    /// is new.
    fn complete(
        &mut self,
        args: &InitArgs,
        before: &Config,
        options: OpenOptions,
        app: &mut App,
    ) -> Result<(&'static str, bool), Refusal> {
        let (state, location, project) = (self.state, self.location, self.project);
        let steps = options.steps.clone();
        steps.step();
        // The store first: a state folder that names a project always has one.
        let (store, is_new) = match open(location, project, options.clone()) {
            Err(StoreError::Missing(_)) => {
                args.refuse_files(state, location)?;
                let made = Store::create(location, project, self.name, options)?;
                (made, true)
            }
            Err(StoreError::UnknownProject(_)) => {
                refuse_beside(location, state, project, options.clone())?;
                args.refuse_files(state, location)?;
                let made = Store::create(location, project, self.name, options)?;
                (made, true)
            }
            found => (
                found.map_err(|error| unusable(error, state, location))?,
                false,
            ),
        };
        self.has_store = true;
        steps.step();
        for repaired in store.repaired() {
            app.ui.warn(repaired);
        }
        if before.project.is_none() {
            config::write_project(state, project, args.preset())?;
            app.forget_config();
            steps.step();
        }
        ignore_all(state)?;
        steps.step();
        app.trust_it()?;
        steps.step();
        Ok((store.engine(), is_new))
    }
}

/// The fleet of this very folder.
fn here(app: &App) -> Option<Home> {
    let home = app.home.clone()?;
    (home.state.parent() == Some(app.here.as_path())).then_some(home)
}

/// Asks before a repository gets a fleet of its own although it lies inside one that has a fleet: its commands would no
/// longer see the outer fleet.
fn ask_if_nested(root: &Path, app: &App) -> Result<(), Refusal> {
    let Some(above) = root.parent() else {
        return Ok(());
    };
    let user_home = app.env.surroundings.home.as_ref().map(Path::new);
    let Ok(Some(outer)) = discover(above, user_home) else {
        return Ok(());
    };
    let (inner, outer) = (root.display(), outer.state);
    let outer = outer.parent().unwrap_or(&outer).display();
    let question =
        format!("{inner} lies inside {outer}, which has a fleet already. Create another one?");
    if app.ui.ask(&question, app.asking()) == Some(true) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::ConfirmationNeeded,
        format!("{inner} lies inside {outer}, which has a fleet already"),
    )
    .hint(format!(
        "nothing was created; to create a separate fleet for {inner}: `fleet init --here`\nto look at the other one: `fleet -C {} status`",
        shell_word(&outer.to_string())
    )))
}

/// Refuses to change the settings of an existing fleet in passing.
fn refuse_change(args: &InitArgs, before: &Config, state: &Path) -> Result<(), Refusal> {
    let is = before.policy.preset;
    let Some(wanted) = args.preset().filter(|wanted| *wanted != is) else {
        return Ok(());
    };
    let (is, wanted) = (is.as_str(), wanted.as_str());
    Err(Refusal::new(
        Code::AlreadyExists,
        format!("{} exists already, with the preset `{is}`", state.display()),
    )
    .hint(format!(
        "nothing was changed; to change it to `{wanted}`, with its numbers and its files: `fleet config set preset {wanted}`"
    ))
    .details(json!({ "state": state, "preset": is })))
}

/// Finds the project of a state folder that names none: its making was cut short, or its file was lost.
fn nameless(location: &Location, state: &Path, options: OpenOptions) -> Option<String> {
    // A store elsewhere may belong to other repositories.
    if *location != Location::Folder(state.to_path_buf()) {
        return None;
    }
    let projects = Store::open(location, "", options).ok()?.projects().ok()?;
    <[String; 1]>::try_from(projects).ok().map(|[only]| only)
}

/// Refuses to make a project beside another one in the repository's own store: the name was changed in the settings.
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

fn open(location: &Location, project: &str, options: OpenOptions) -> Result<Store, StoreError> {
    let mut store = Store::open(location, project, options)?;
    store.read(|_| Ok::<_, StoreError>(()))?;
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

/// Has git ignore the whole state folder.
pub fn ignore_all(state: &Path) -> Result<(), Refusal> {
    let written = Dir::private(state).and_then(|state| match state.entry(IGNORED)? {
        Some(_) => Ok(()),
        None => state.put(IGNORED, IGNORE_ALL, Replacing::No, 0o644),
    });
    written.map_err(|error| {
        Refusal::new(
            Code::Unavailable,
            format!("cannot write {}: {error}", state.join(IGNORED).display()),
        )
    })
}
