//! Changing settings: one at a time, in its file, with everything else there left as it is.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flightline::core::policy::{Policy, Preset, Shape, knobs};
use flightline::core::{Code, Refusal};
use toml_edit::{DocumentMut, Item, value};

use super::{Config, Environment, FILE, File, Files, MIRROR_ROOT, PRESET, mirror_root, read};

/// A setting that is to change.
pub struct Change<'a> {
    pub name: &'a str,
    pub value: &'a str,
    pub level: Level,
}

/// Changes one setting in its file, keeping everything else there as it is. What would not make sense
/// together with the other settings, in either file, is not written.
pub fn set(change: &Change<'_>, state: Option<&Path>, env: &Environment) -> Result<(), Refusal> {
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
                Refusal::invalid("where the store is cannot be set for a project")
                    .hint("keep it for yourself with `fleet config set location … --user`"),
            );
        }
        (MIRROR_ROOT, Level::Project) => {
            mirror_root(change.value)?;
            insert(document, path, MIRROR_ROOT, value(change.value))?;
        }
        _ => set_knob(document, path, change)?,
    }
    let (path, document) = (path.clone(), document.clone());
    Config::from_files(&files)?;
    write(&path, &document)
}

fn set_knob(document: &mut DocumentMut, path: &Path, change: &Change<'_>) -> Result<(), Refusal> {
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
        Shape::Span | Shape::Word => value(change.value),
        Shape::Count => value(change.value.parse::<i64>().unwrap_or(i64::MAX)),
        Shape::Switch => value(matches!(change.value, "true" | "on")),
        Shape::Names => value(
            change
                .value
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect::<toml_edit::Array>(),
        ),
        Shape::Percents => value(
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

/// Whose file a setting goes to.
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

/// Writes the project's id into its file; what else the file says stays.
pub fn write_project(state: &Path, project: &str, preset: Option<Preset>) -> Result<(), Refusal> {
    let path = state.join(FILE);
    let mut document = read(&path)?.unwrap_or_default();
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
    write(&path, &document)
}

/// Replaces a file whole or not at all, and reads it back.
fn write(path: &Path, document: &DocumentMut) -> Result<(), Refusal> {
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
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(cannot)?;
    let aside = folder.join(format!(".{FILE}.{}", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&aside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| fs::rename(&aside, path))
        .and_then(|()| fs::File::open(folder).and_then(|folder| folder.sync_all()));
    if let Err(error) = written {
        let _ = fs::remove_file(&aside);
        return Err(cannot(error));
    }
    match fs::read_to_string(path) {
        Ok(found) if found == text => Ok(()),
        _ => Err(Refusal::new(
            Code::Integrity,
            format!("{} does not read back as written", path.display()),
        )),
    }
}
