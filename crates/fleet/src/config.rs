//! Configuration: the environment, the user's file, the project's file. Nothing else reads them.
//!
//! The project's file holds data only: who can commit to a repository must not be able to point
//! `fleet` at a server or make it run something.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flightline::core::policy::{Knob, Policy, Preset, Shape, knobs};
use flightline::core::redact::redact;
use flightline::core::{Code, Refusal, RepoPath};
use flightline::store::Location;
use flightline::workspace::Surroundings;
use serde::Serialize;
use toml_edit::{DocumentMut, Item, value};

/// The name of the project's file, in the state folder.
pub const FILE: &str = "config.toml";

/// The folder that holds the mirrors: the only setting of a project that is a path.
const MIRROR_ROOT: &str = "mirrors.root";

/// The setting that is read before all others.
const PRESET: &str = "preset";

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub agent: Option<String>,
    pub epoch: Option<String>,
    pub session: Option<String>,
    pub mission: Option<String>,
    pub location: Option<String>,
    pub user: String,
    pub user_config: Option<PathBuf>,
    /// What `git` is given of it.
    pub surroundings: Surroundings,
    /// In test builds: the time, the first id, where to end or to stop, and how long to wait for a turn.
    pub test_now: Option<String>,
    pub test_ids: Option<String>,
    pub crash_at: Option<String>,
    pub freeze_at: Option<String>,
    pub patience_ms: Option<String>,
}

impl Environment {
    /// Reads the environment.
    ///
    /// # Errors
    /// When a variable of ours is not UTF-8: taken for absent, an agent would pass for a person.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the environment is read"
    )]
    pub fn read() -> Result<Self, Refusal> {
        let get = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name: &str| match get(name).map(OsString::into_string) {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => Err(Refusal::invalid(format!("{name} is not UTF-8"))
                .hint(format!("set it anew, or run `unset {name}`"))),
            None => Ok(None),
        };
        let in_tests = |name: &str| {
            if cfg!(debug_assertions) {
                text(name)
            } else {
                Ok(None)
            }
        };
        let folder = get("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| get("HOME").map(|home| Path::new(&home).join(".config")));
        let user = get("USER").or_else(|| get("LOGNAME"));
        Ok(Self {
            agent: text("FLEET_AGENT")?,
            epoch: text("FLEET_EPOCH")?,
            session: text("FLEET_SESSION")?,
            mission: text("FLEET_MISSION")?,
            location: text("FLEET_LOCATION")?,
            user: plain_user(user.as_deref().and_then(|user| user.to_str())),
            user_config: folder.map(|folder| folder.join("flightline").join(FILE)),
            surroundings: Surroundings {
                path: get("PATH"),
                home: get("HOME"),
                config_home: get("XDG_CONFIG_HOME"),
            },
            test_now: in_tests("FLEET_TEST_NOW")?,
            test_ids: in_tests("FLEET_TEST_IDS")?,
            crash_at: in_tests("FLEET_CRASH_AT")?,
            freeze_at: in_tests("FLEET_TEST_FREEZE_AT")?,
            patience_ms: in_tests("FLEET_TEST_PATIENCE_MS")?,
        })
    }
}

/// A person's name as events show it: letters, digits and little else.
fn plain_user(name: Option<&str>) -> String {
    let kept: String = name
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
        .take(40)
        .collect();
    if kept.is_empty() || redact(&kept) != kept {
        "unknown".to_owned()
    } else {
        kept
    }
}

/// The project's and the user's settings together.
#[derive(Clone, Debug)]
pub struct Config {
    /// The project's id.
    pub project: Option<String>,
    /// The numbers to decide by.
    pub policy: Policy,
    /// Where the user keeps stores, unless it is the state folder.
    pub location: Option<Location>,
    /// The folder that holds the mirrors, when it is not the repository's root.
    pub mirror_root: Option<RepoPath>,
    sources: Vec<(&'static str, &'static str)>,
}

/// A setting, its value and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    pub name: String,
    pub value: String,
    pub source: String,
    pub meaning: String,
}

impl Config {
    /// Reads the project's file in `state`, when there is one, and the user's.
    pub fn load(state: Option<&Path>, env: &Environment) -> Result<Self, Refusal> {
        Self::from_files(&Files::read(state, env)?)
    }

    fn from_files(files: &Files) -> Result<Self, Refusal> {
        let mut config = Self {
            project: None,
            policy: Policy::default(),
            location: None,
            mirror_root: None,
            sources: Vec::new(),
        };
        // A preset is where the numbers start; the project's word goes before the user's.
        for (file, source) in [(&files.project, "project"), (&files.user, "user")] {
            if let Some(File { path, document }) = file
                && config.sources.is_empty()
            {
                config.take_preset(document, path, source)?;
            }
        }
        if let Some(File { path, document }) = &files.user {
            config.take_policy(document, path, "user")?;
            config.location = text(document, path, "location")?
                .map(|text| parse_location(&text, None))
                .transpose()?;
        }
        if let Some(File { path, document }) = &files.project {
            config.take_policy(document, path, "project")?;
            config.project = text(document, path, "project")?;
            config.mirror_root = find(document, MIRROR_ROOT)
                .map(|item| mirror_root(item.as_str().unwrap_or_default()))
                .transpose()
                .map_err(|refusal| wrong(path, MIRROR_ROOT, &refusal.message))?;
            for forbidden in ["location", "server", "token"] {
                if document.contains_key(forbidden) {
                    let way_out = if forbidden == "location" {
                        ", and keep it for yourself with `fleet config set location … --user`"
                    } else {
                        ""
                    };
                    return Err(Refusal::invalid(format!(
                        "`{forbidden}` is not allowed in {}",
                        path.display()
                    ))
                    .hint(format!(
                        "a project's file holds data only: take it out{way_out}"
                    )));
                }
            }
        }
        config.policy.check().map_err(Refusal::invalid)?;
        Ok(config)
    }

    fn take_policy(
        &mut self,
        document: &DocumentMut,
        path: &Path,
        source: &'static str,
    ) -> Result<(), Refusal> {
        for knob in knobs() {
            let Some(item) = find(document, knob.name).filter(|_| knob.name != PRESET) else {
                continue;
            };
            (knob.set)(&mut self.policy, knob.reason, &plain(item, &knob, path)?)
                .map_err(|why| wrong(path, knob.name, &why))?;
            self.sources.retain(|(name, _)| *name != knob.name);
            self.sources.push((knob.name, source));
        }
        Ok(())
    }

    fn take_preset(
        &mut self,
        document: &DocumentMut,
        path: &Path,
        source: &'static str,
    ) -> Result<(), Refusal> {
        let Some(word) = text(document, path, PRESET)? else {
            return Ok(());
        };
        let preset = Preset::from_word(&word).ok_or_else(|| {
            let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.as_str()).collect();
            wrong(path, PRESET, &format!("there is no preset `{word}`"))
                .hint(format!("presets: {}", known.join(", ")))
        })?;
        self.policy = preset.policy();
        self.sources.push((PRESET, source));
        Ok(())
    }

    /// Every setting with its source.
    pub fn settings(&self) -> Vec<Setting> {
        let chosen = self.sources.iter().any(|(name, _)| *name == PRESET);
        let unset = if chosen { "preset" } else { "default" };
        let source = |name: &str| {
            self.sources
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(unset, |(_, source)| *source)
                .to_owned()
        };
        let mut settings = vec![Setting {
            name: "project".to_owned(),
            value: self.project.clone().unwrap_or_else(|| "none".to_owned()),
            source: if self.project.is_some() {
                "project"
            } else {
                "default"
            }
            .to_owned(),
            meaning: "the id of this repository's fleet".to_owned(),
        }];
        settings.push(Setting {
            name: "location".to_owned(),
            value: self
                .location
                .as_ref()
                .map_or_else(|| ".flightline".to_owned(), ToString::to_string),
            source: if self.location.is_some() {
                "user"
            } else {
                "default"
            }
            .to_owned(),
            meaning: "where the store is (user level only)".to_owned(),
        });
        settings.push(Setting {
            name: MIRROR_ROOT.to_owned(),
            value: self
                .mirror_root
                .as_ref()
                .map_or_else(|| ".".to_owned(), ToString::to_string),
            source: if self.mirror_root.is_some() {
                "project"
            } else {
                "default"
            }
            .to_owned(),
            meaning: "the folder in the repository that holds the mirrors (project level only)"
                .to_owned(),
        });
        settings.extend(knobs().iter().map(|knob| Setting {
            name: knob.name.to_owned(),
            value: (knob.get)(&self.policy, knob.reason),
            source: source(knob.name),
            meaning: knob.meaning.to_owned(),
        }));
        settings
    }
}

/// A file of settings. One that does not exist yet says nothing.
struct File {
    path: PathBuf,
    document: DocumentMut,
}

/// The files that hold settings.
struct Files {
    user: Option<File>,
    project: Option<File>,
}

impl Files {
    fn read(state: Option<&Path>, env: &Environment) -> Result<Self, Refusal> {
        let file = |path: PathBuf| {
            let document = read(&path)?.unwrap_or_default();
            Ok::<_, Refusal>(File { path, document })
        };
        Ok(Self {
            user: env.user_config.clone().map(file).transpose()?,
            project: state.map(|state| state.join(FILE)).map(file).transpose()?,
        })
    }
}

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

fn mirror_root(text: &str) -> Result<RepoPath, Refusal> {
    RepoPath::parse(text).map_err(|refusal| refusal.hint("give a folder in the repository"))
}

/// What a dotted name stands for in a file.
fn find<'a>(document: &'a DocumentMut, name: &str) -> Option<&'a Item> {
    name.split('.')
        .try_fold(document.as_item(), |item, part| item.get(part))
}

/// A setting as text, however it is written.
fn plain(item: &Item, knob: &Knob, path: &Path) -> Result<String, Refusal> {
    let how = match knob.shape {
        Shape::Span => "write it as text, such as \"10m\"",
        Shape::Count => "write it as a whole number",
        Shape::Switch => "write `true` or `false`",
        Shape::Percents => "write it as a list, such as [25, 50, 75]",
        Shape::Word => "write it as text",
        Shape::Names => "write it as a list, such as [\"git_push\", \"deploy\"]",
    };
    let number = |item: &toml_edit::Value| item.as_integer().map(|number| number.to_string());
    let found = match knob.shape {
        Shape::Span | Shape::Word => item.as_str().map(str::to_owned),
        Shape::Count => item.as_value().and_then(number),
        Shape::Switch => item.as_bool().map(|on| on.to_string()),
        Shape::Percents => item.as_array().and_then(|list| {
            let parts: Option<Vec<String>> = list.iter().map(number).collect();
            parts.map(|parts| parts.join(","))
        }),
        Shape::Names => item.as_array().and_then(|list| {
            let parts: Option<Vec<&str>> = list.iter().map(toml_edit::Value::as_str).collect();
            parts.map(|parts| parts.join(","))
        }),
    };
    found.ok_or_else(|| wrong(path, knob.name, how))
}

fn wrong(path: &Path, name: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("{}: `{name}`: {why}", path.display()))
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

/// Reads where a store is. A folder is relative to `here`; where there is no such place, it must be
/// absolute.
pub fn parse_location(text: &str, here: Option<&Path>) -> Result<Location, Refusal> {
    let folder = match Location::parse(text) {
        server @ Location::Postgres(_) => return Ok(server),
        Location::Folder(folder) => folder,
    };
    match here {
        _ if text.is_empty() || text.contains("://") => Err(Refusal::invalid(format!(
            "`{text}` is not a place for a store"
        ))
        .hint("give a folder, or `postgres://USER@HOST/DATABASE`")),
        Some(here) => Ok(Location::Folder(here.join(folder))),
        None if folder.is_absolute() => Ok(Location::Folder(folder)),
        None => Err(
            Refusal::invalid(format!("`{text}` would be another folder in each project"))
                .hint("give an absolute one"),
        ),
    }
}

fn text(document: &DocumentMut, path: &Path, key: &str) -> Result<Option<String>, Refusal> {
    match document.get(key) {
        None => Ok(None),
        Some(item) => item
            .as_str()
            .map(|text| Some(text.to_owned()))
            .ok_or_else(|| {
                Refusal::invalid(format!("{}: `{key}`: write it as text", path.display()))
            }),
    }
}

fn read(path: &Path) -> Result<Option<DocumentMut>, Refusal> {
    match fs::read_to_string(path) {
        Ok(text) => match text.parse::<DocumentMut>() {
            Ok(document) => Ok(Some(document)),
            Err(error) => Err(broken(path, &text, &error)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(Refusal::invalid(
            format!("{} cannot be read: it is not UTF-8", path.display()),
        )),
        Err(error) => Err(Refusal::new(
            Code::Failed,
            format!("{} cannot be read: {error}", path.display()),
        )),
    }
}

fn broken(path: &Path, text: &str, error: &toml_edit::TomlError) -> Refusal {
    let line = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map_or_else(String::new, |before| {
            format!("line {}: ", before.matches('\n').count() + 1)
        });
    Refusal::invalid(format!(
        "{} cannot be read: {line}{}",
        path.display(),
        error.message().replace('\n', ", ")
    ))
    .hint("correct that line, and try again")
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
