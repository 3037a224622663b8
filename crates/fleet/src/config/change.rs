//! Changes settings: one at a time, in its file, with everything else there left as it is.

use std::path::Path;

use flightline::core::policy::{KnobType, Policy, Preset, knobs};
use flightline::core::{Code, Refusal};
use flightline::file::Replacing;
use flightline::workspace::beneath::Dir;
use toml_edit::{DocumentMut, Item, value};

use super::{
    Config, Environment, FILE, File, Files, MIRROR_ROOT, PRESET, mirror_root, project_text, read,
};

pub struct SettingChange<'a> {
    pub name: &'a str,
    pub value: &'a str,
    pub level: Level,
}

/// Changes one setting in its file, and keeps everything else there as it is. A value that would make no sense together
/// with the other settings, in either file, is not written.
pub fn set(
    change: &SettingChange<'_>,
    state: Option<&Path>,
    env: &Environment,
) -> Result<(), Refusal> {
    let mut files = Files::read(state, env)?;
    let file = match change.level {
        Level::Project => &mut files.project,
        Level::User => &mut files.user,
    };
    let Some(File { path, document }) = file else {
        return Err(Refusal::new(
            Code::NoProject,
            format!("there is no file at {} level", change.level.as_str()),
        ));
    };
    match (change.name, change.level) {
        ("location", Level::User) => document["location"] = value(change.value),
        ("location", Level::Project) => {
            return Err(
                Refusal::invalid("the location of the store cannot be set for a project")
                    .hint("keep it for yourself with `fleet config set location … --user`"),
            );
        }
        // The command has asked the store for this project.
        ("project", Level::Project) => document["project"] = value(change.value),
        (MIRROR_ROOT, Level::Project) => {
            mirror_root(change.value)?;
            insert(document, path, MIRROR_ROOT, value(change.value))?;
        }
        _ => set_knob(document, path, change)?,
    }
    let (path, document) = (path.clone(), document.clone());
    Config::from_files(&files)?;
    write(&path, &document, change.level)
}

fn set_knob(
    document: &mut DocumentMut,
    path: &Path,
    change: &SettingChange<'_>,
) -> Result<(), Refusal> {
    let name = change.name;
    let known = knobs();
    let Some(knob) = known.iter().find(|knob| knob.name == name) else {
        let known: Vec<&str> = known
            .iter()
            .filter(|knob| knob.reason.is_none())
            .map(|knob| knob.name)
            .collect();
        let location = match change.level {
            Level::User => ", location",
            Level::Project => "",
        };
        return Err(Refusal::new(
            Code::NotFound,
            format!(
                "there is no setting `{name}` at {} level",
                change.level.as_str()
            ),
        )
        .hint(format!(
            "settings: {}{location}, and a switch for each trigger (`fleet config list`)",
            known.join(", ")
        )));
    };
    (knob.set)(&mut Policy::default(), knob.reason, change.value).map_err(Refusal::invalid)?;
    let written = match knob.shape {
        KnobType::Span | KnobType::Word => value(change.value),
        KnobType::Count => value(change.value.parse::<i64>().unwrap_or(i64::MAX)),
        KnobType::Switch => value(matches!(change.value, "true" | "on")),
        KnobType::Names => value(
            change
                .value
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect::<toml_edit::Array>(),
        ),
        KnobType::Percents => value(
            change
                .value
                .split(',')
                .filter_map(|percent| percent.trim().parse::<i64>().ok())
                .collect::<toml_edit::Array>(),
        ),
    };
    insert(document, path, name, written)
}

/// Puts a setting with a dotted name into its table.
fn insert(
    document: &mut DocumentMut,
    path: &Path,
    name: &str,
    written: Item,
) -> Result<(), Refusal> {
    let Some((table, key)) = name.split_once('.') else {
        document[name] = written;
        return Ok(());
    };
    let Some(settings) = document
        .entry(table)
        .or_insert(toml_edit::table())
        .as_table_like_mut()
    else {
        return Err(Refusal::invalid(format!(
            "{}: `{table}` holds no settings, and `{name}` would be one of them",
            path.display()
        ))
        .hint(format!("write it as a table: `[{table}]`")));
    };
    settings.insert(key, written);
    Ok(())
}

/// The file that a setting goes to: the project's or the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Project,
    User,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// Writes the project's id into its file; everything else in the file stays.
pub fn write_project(state: &Path, project: &str, preset: Option<Preset>) -> Result<(), Refusal> {
    let path = state.join(FILE);
    let mut document = read(&path, project_text(state))?.unwrap_or_default();
    let is_new = document.is_empty();
    document["project"] = value(project);
    if let Some(preset) = preset {
        document[PRESET] = value(preset.as_str());
    }
    if is_new && let Some(mut key) = document.key_mut("project") {
        key.leaf_decor_mut().set_prefix(
            "# Flightline's settings for this repository. `fleet config list` shows them all.\n",
        );
    }
    write(&path, &document, Level::Project)
}

/// Replaces a file whole or not at all, and reads it back.
fn write(path: &Path, document: &DocumentMut, level: Level) -> Result<(), Refusal> {
    let text = document.to_string();
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::PermissionDenied
        | std::io::ErrorKind::ReadOnlyFilesystem
        | std::io::ErrorKind::StorageFull => Refusal::new(
            Code::Unavailable,
            format!("cannot write {}: {error}", path.display()),
        ),
        _ => Refusal::new(
            Code::Failed,
            format!("cannot write {}: {error}", path.display()),
        ),
    };
    // The links to the user's own file are the user's, and are followed. A state folder may be a stranger's.
    let real = match level {
        Level::User => path.canonicalize().unwrap_or_else(|_| path.to_path_buf()),
        Level::Project => path.to_path_buf(),
    };
    let (folder, name) = match (real.parent(), real.file_name()) {
        (Some(folder), Some(name)) => (folder, name),
        _ => return Err(cannot(std::io::Error::other("it names no file"))),
    };
    let folder = match level {
        Level::User => {
            Dir::towards(None, folder).and_then(|(above, below)| above.make(below, 0o755))
        }
        Level::Project => Dir::private(folder),
    };
    folder
        .and_then(|folder| folder.put(name, &text, Replacing::Yes, 0o600))
        .map_err(cannot)
}
