//! Configuration: the environment, the user's file, the project's file. Nothing else reads them.
//!
//! The project's file holds data only: who can commit to a repository must not be able to point
//! `fleet` at a server or make it run something.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flightline::core::policy::{KNOBS, Policy};
use flightline::core::redact::redact;
use flightline::core::time::{human_span, parse_span};
use flightline::core::{Code, Refusal};
use flightline::store::Location;
use serde::Serialize;
use toml_edit::{DocumentMut, Item, value};

/// The name of the project's file, in the state folder.
pub const FILE: &str = "config.toml";

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
    /// In test builds: the time, the first id, and where to crash.
    pub test_now: Option<String>,
    pub test_ids: Option<String>,
    pub crash_at: Option<String>,
}

impl Environment {
    /// Reads the environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the environment is read"
    )]
    pub fn read() -> Self {
        let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let in_tests = |name: &str| {
            if cfg!(debug_assertions) {
                get(name)
            } else {
                None
            }
        };
        let folder = get("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| get("HOME").map(|home| Path::new(&home).join(".config")));
        Self {
            agent: get("FLEET_AGENT"),
            epoch: get("FLEET_EPOCH"),
            session: get("FLEET_SESSION"),
            mission: get("FLEET_MISSION"),
            location: get("FLEET_LOCATION"),
            user: plain_user(get("USER").or_else(|| get("LOGNAME")).as_deref()),
            user_config: folder.map(|folder| folder.join("flightline").join(FILE)),
            test_now: in_tests("FLEET_TEST_NOW"),
            test_ids: in_tests("FLEET_TEST_IDS"),
            crash_at: in_tests("FLEET_CRASH_AT"),
        }
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
        let mut config = Self {
            project: None,
            policy: Policy::default(),
            location: None,
            sources: Vec::new(),
        };
        if let Some(path) = &env.user_config
            && let Some(document) = read(path)?
        {
            config.take_policy(&document, path, "user")?;
            config.location = text(&document, "location").map(|text| Location::parse(&text));
        }
        if let Some(path) = state.map(|state| state.join(FILE))
            && let Some(document) = read(&path)?
        {
            config.take_policy(&document, &path, "project")?;
            config.project = text(&document, "project");
            for forbidden in ["location", "server", "token"] {
                if document.contains_key(forbidden) {
                    return Err(Refusal::invalid(format!("`{forbidden}` is not allowed in {}", path.display()))
                        .hint("a project's file holds data only; set it for yourself with `fleet config set --user`"));
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
        for knob in KNOBS {
            let Some(item) = knob
                .name
                .split('.')
                .try_fold(document.as_item(), |item, part| item.get(part))
            else {
                continue;
            };
            let wrong = |why: String| {
                Refusal::invalid(format!("{}: `{}`: {why}", path.display(), knob.name))
            };
            let text = item
                .as_str()
                .ok_or_else(|| wrong("write it as text, such as \"10m\"".to_owned()))?;
            (knob.set)(&mut self.policy, parse_span(text, "s").map_err(wrong)?);
            self.sources.retain(|(name, _)| *name != knob.name);
            self.sources.push((knob.name, source));
        }
        Ok(())
    }

    /// Every setting with its source.
    pub fn settings(&self) -> Vec<Setting> {
        let source = |name: &str| {
            self.sources
                .iter()
                .find(|(known, _)| *known == name)
                .map_or("default", |(_, source)| *source)
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
        settings.extend(KNOBS.iter().map(|knob| Setting {
            name: knob.name.to_owned(),
            value: human_span((knob.get)(&self.policy)).replace(' ', ""),
            source: source(knob.name),
            meaning: knob.meaning.to_owned(),
        }));
        settings
    }
}

/// Changes one setting in a file, keeping everything else in it as it is.
pub fn set(path: &Path, name: &str, new: &str, level: Level) -> Result<(), Refusal> {
    let mut document = read(path)?.unwrap_or_default();
    if name == "location" && level == Level::User {
        document["location"] = value(new);
        return write(path, &document);
    }
    let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) else {
        let known: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no setting `{name}` at {} level", level.as_str()),
        )
        .hint(format!(
            "settings: {}{}",
            known.join(", "),
            if level == Level::User {
                ", location"
            } else {
                ""
            }
        )));
    };
    let span = parse_span(new, "s").map_err(Refusal::invalid)?;
    let mut policy = Policy::default();
    for other in KNOBS {
        let item = other
            .name
            .split('.')
            .try_fold(document.as_item(), |item, part| item.get(part));
        if let Some(found) = item
            .and_then(Item::as_str)
            .and_then(|text| parse_span(text, "s").ok())
        {
            (other.set)(&mut policy, found);
        }
    }
    (knob.set)(&mut policy, span);
    policy.check().map_err(Refusal::invalid)?;
    let (table, key) = name.split_once('.').unwrap_or(("", name));
    document[table].or_insert(toml_edit::table())[key] = value(new);
    write(path, &document)
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

/// Writes a new project file.
pub fn write_project(state: &Path, project: &str) -> Result<(), Refusal> {
    let path = state.join(FILE);
    let mut document: DocumentMut =
        "# Flightline's settings for this repository. `fleet config list` shows them all.\n"
            .parse()
            .map_err(|error| {
                Refusal::new(
                    Code::Failed,
                    format!("cannot write {}: {error}", path.display()),
                )
            })?;
    document["project"] = value(project);
    write(&path, &document)
}

fn text(document: &DocumentMut, key: &str) -> Option<String> {
    document.get(key).and_then(Item::as_str).map(str::to_owned)
}

fn read(path: &Path) -> Result<Option<DocumentMut>, Refusal> {
    match fs::read_to_string(path) {
        Ok(text) => match text.parse() {
            Ok(document) => Ok(Some(document)),
            Err(error) => Err(Refusal::invalid(format!(
                "{} cannot be read: {error}",
                path.display()
            ))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::new(
            Code::Failed,
            format!("{} cannot be read: {error}", path.display()),
        )),
    }
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
