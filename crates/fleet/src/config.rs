//! Configuration: the environment, the user's file, the project's file. Nothing else reads them.
//!
//! The project's file holds data only: a person who can commit to a repository must not be able to point `fleet` at a
//! server or make it run a program.

mod change;
mod traces;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use flightline::core::event::sha256_hex;
use flightline::core::policy::{Knob, KnobType, Policy, Preset, knobs};
use flightline::core::redact::redact;
use flightline::core::{Code, Refusal, RepoPath};
use flightline::store::Location;
use flightline::workspace::beneath::Dir;
use flightline::workspace::{STATE_FOLDER, Surroundings};
use serde::Serialize;
use toml_edit::{DocumentMut, Item};

pub use self::change::{Level, SettingChange, set, write_project};
use self::traces::TraceSettings;

/// The name of the project's file, in the state folder.
pub const FILE: &str = "config.toml";

/// The most bytes of a settings file.
const LARGEST: usize = 1024 * 1024;

/// The folder that holds the mirrors: the only setting of a project that is a path.
const MIRROR_ROOT: &str = "mirrors.root";

/// The setting that is read before all others.
const PRESET: &str = "preset";

#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub agent: Option<String>,
    pub epoch: Option<String>,
    pub session: Option<String>,
    pub mission: Option<String>,
    pub location: Option<String>,
    pub server: Option<String>,
    pub token: Option<Secret>,
    pub user: String,
    pub user_config: Option<PathBuf>,
    /// The folder for the user's data that is neither a setting nor part of a project.
    pub user_state: Option<PathBuf>,
    /// True when the user says which authorities to trust (SSL_CERT_FILE, SSL_CERT_DIR).
    pub authorities_named: bool,
    /// The program that shows long texts on a terminal: FLEET_PAGER, else PAGER, else `less`; none when it is empty or
    /// `cat`.
    pub pager: Option<String>,
    /// True when the user has settings for `less`.
    pub pager_has_settings: bool,
    /// The folders in which clients of coding agents were told to keep their settings.
    pub client_folders: Vec<(&'static str, PathBuf)>,
    /// The part of the environment that `git` is given.
    pub surroundings: Surroundings,
    /// In test builds: the time, the machine's uptime, the first id, the steps at which to end or to stop, and the
    /// patience for a turn.
    pub test_now: Option<String>,
    pub test_uptime_ms: Option<String>,
    pub test_ids: Option<String>,
    pub crash_at: Option<String>,
    pub freeze_at: Option<String>,
    pub patience_ms: Option<String>,
    /// In test builds: the protocol version of this end, and a token that a server takes without knowing it.
    pub test_api: Option<String>,
    pub test_token: Option<Secret>,
}

/// The name of the user that this process runs as, where the environment does not say it, as in cron and in containers.
fn user_of_the_system(path: Option<&OsStr>) -> Option<String> {
    if let Some(name) = flightline::workspace::user_name() {
        return Some(name);
    }
    // The system knows users that are not in its file, and takes a process to say so.
    let id = flightline::workspace::find_program(path, "id")?;
    let said = std::process::Command::new(id).arg("-un").output().ok()?;
    let name = String::from_utf8(said.stdout).ok()?;
    Some(name.trim().to_owned())
}

/// The named pager; `less` when none is named.
fn pager(named: Option<OsString>) -> Option<String> {
    let pager = named.map_or_else(|| Some("less".to_owned()), |named| named.into_string().ok());
    pager.filter(|pager| !matches!(pager.trim(), "" | "cat"))
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Reveals the secret, for the party that it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The variables that move the settings of coding agents.
const CLIENT_FOLDERS: [&str; 4] = [
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "XDG_CONFIG_HOME",
];

impl Environment {
    /// Reads the environment. Refuses a variable of ours that is not UTF-8: taken for absent, an agent would pass for a
    /// person.
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
        // A relative one would be another in each folder, and might be in a repository.
        let absolute = |path: &PathBuf| path.is_absolute();
        let home_or = |named: Option<OsString>, below: &str| {
            let home = || get("HOME").map(|home| Path::new(&home).join(below));
            let named = named.map(PathBuf::from).filter(absolute);
            named.or_else(home).filter(absolute)
        };
        let config_home = get("XDG_CONFIG_HOME").filter(|named| Path::new(named).is_absolute());
        let folder = home_or(config_home.clone(), ".config");
        let user_state = home_or(get("XDG_STATE_HOME"), ".local/state");
        let user = get("USER").or_else(|| get("LOGNAME"));
        Ok(Self {
            agent: text("FLEET_AGENT")?,
            epoch: text("FLEET_EPOCH")?,
            session: text("FLEET_SESSION")?,
            mission: text("FLEET_MISSION")?,
            location: text("FLEET_LOCATION")?,
            server: text("FLEET_SERVER")?,
            token: text("FLEET_TOKEN")?.map(Secret::new),
            user: plain_user(match &user {
                Some(user) => user.to_str().map(str::to_owned),
                None => user_of_the_system(get("PATH").as_deref()),
            }),
            user_config: folder.map(|folder| folder.join("flightline").join(FILE)),
            user_state,
            authorities_named: ["SSL_CERT_FILE", "SSL_CERT_DIR"]
                .iter()
                .any(|name| get(name).is_some()),
            pager: pager(std::env::var_os("FLEET_PAGER").or_else(|| std::env::var_os("PAGER"))),
            pager_has_settings: get("LESS").is_some(),
            client_folders: CLIENT_FOLDERS
                .into_iter()
                .filter_map(|name| Some((name, PathBuf::from(get(name)?))))
                .filter(|(_, folder)| folder.is_absolute())
                .collect(),
            surroundings: Surroundings {
                path: get("PATH"),
                home: get("HOME"),
                config_home,
            },
            test_now: in_tests("FLEET_TEST_NOW")?,
            test_uptime_ms: in_tests("FLEET_TEST_UPTIME_MS")?,
            test_ids: in_tests("FLEET_TEST_IDS")?,
            crash_at: in_tests("FLEET_CRASH_AT")?,
            freeze_at: in_tests("FLEET_TEST_FREEZE_AT")?,
            patience_ms: in_tests("FLEET_TEST_PATIENCE_MS")?,
            test_api: in_tests("FLEET_TEST_API")?,
            test_token: in_tests("FLEET_TEST_TOKEN")?.map(Secret::new),
        })
    }
}

/// Reads the variables that say where the traces of a server go. They are not ours, and matter to nothing else: no command
/// looks at them, and one that is not text is taken for not set.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where the environment is read"
)]
pub fn traces() -> TraceSettings {
    traces::traces(|name| {
        let value = std::env::var_os(name)?.into_string().ok()?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    })
}

/// Cleans a person's name as events show it: letters, digits and little else.
fn plain_user(name: Option<String>) -> String {
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
    pub project: Option<String>,
    /// The settings that decisions depend on.
    pub policy: Policy,
    /// The place where the user keeps stores, unless it is the state folder.
    pub location: Option<Location>,
    /// The folder that holds the mirrors, when it is not the repository's root.
    pub mirror_root: Option<RepoPath>,
    /// The hash of the project's file; none when there is none, or it is empty.
    pub project_sha: Option<String>,
    sources: Vec<(&'static str, &'static str)>,
}

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

    /// Returns the settings in force where the project's are not trusted: of those, only its id is left.
    pub fn of_user_alone(self, env: &Environment) -> Result<Self, Refusal> {
        Ok(Self {
            project: self.project,
            project_sha: self.project_sha,
            ..Self::load(None, env)?
        })
    }

    /// Returns true when the project's file does more than name the project.
    pub fn sets_more_than_a_project(&self) -> bool {
        self.mirror_root.is_some() || self.sources.iter().any(|(_, source)| *source == "project")
    }

    fn from_files(files: &Files) -> Result<Self, Refusal> {
        let mut config = Self {
            project: None,
            policy: Policy::default(),
            location: None,
            mirror_root: None,
            project_sha: None,
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
            let text = document.to_string();
            config.project_sha = (!text.is_empty()).then(|| sha256_hex(&text));
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
            (knob.set)(&mut self.policy, knob.reason, &to_text(item, &knob, path)?)
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
        let first = |name: &str, set: Option<String>, unset: &str, source: &str, meaning: &str| {
            let source = if set.is_some() { source } else { "default" };
            Setting {
                name: name.to_owned(),
                value: set.unwrap_or_else(|| unset.to_owned()),
                source: source.to_owned(),
                meaning: meaning.to_owned(),
            }
        };
        let location = self.location.as_ref().map(ToString::to_string);
        let root = self.mirror_root.as_ref().map(ToString::to_string);
        let mut settings = vec![
            first(
                "project",
                self.project.clone(),
                "none",
                "project",
                "the id of this repository's fleet",
            ),
            first(
                "location",
                location,
                ".flightline",
                "user",
                "where the store is (user level only)",
            ),
            first(
                MIRROR_ROOT,
                root,
                ".",
                "project",
                "the folder in the repository that holds the mirrors (project level only)",
            ),
        ];
        settings.extend(knobs().iter().map(|knob| Setting {
            name: knob.name.to_owned(),
            value: (knob.get)(&self.policy, knob.reason),
            source: source(knob.name),
            meaning: knob.meaning.to_owned(),
        }));
        settings
    }
}

/// A file of settings. A file that does not exist yet sets nothing.
struct File {
    path: PathBuf,
    document: DocumentMut,
}

struct Files {
    user: Option<File>,
    project: Option<File>,
}

impl Files {
    fn read(state: Option<&Path>, env: &Environment) -> Result<Self, Refusal> {
        let file = |path: PathBuf, text: io::Result<Option<String>>| {
            let document = read(&path, text)?.unwrap_or_default();
            Ok::<_, Refusal>(File { path, document })
        };
        let user = |path: PathBuf| {
            let text = users_text(&path);
            file(path, text)
        };
        let project = |state: &Path| file(state.join(FILE), project_text(state));
        Ok(Self {
            user: env.user_config.clone().map(user).transpose()?,
            project: state.map(project).transpose()?,
        })
    }
}

fn mirror_root(text: &str) -> Result<RepoPath, Refusal> {
    let folder =
        RepoPath::parse(text).map_err(|refusal| refusal.hint("give a folder in the repository"))?;
    let mut parts = folder.as_str().split('/');
    match parts.any(|part| part.eq_ignore_ascii_case(".git") || part == STATE_FOLDER) {
        true => Err(
            Refusal::invalid(format!("mirrors are not kept in `{folder}`"))
                .hint("give a folder of the work tree"),
        ),
        false => Ok(folder),
    }
}

/// Finds the item of a dotted name in a file.
fn find<'a>(document: &'a DocumentMut, name: &str) -> Option<&'a Item> {
    name.split('.')
        .try_fold(document.as_item(), |item, part| item.get(part))
}

/// Renders a setting as text, however it is written.
fn to_text(item: &Item, knob: &Knob, path: &Path) -> Result<String, Refusal> {
    let how = match knob.shape {
        KnobType::Span => "write it as text, such as \"10m\"",
        KnobType::Count => "write it as a whole number",
        KnobType::Switch => "write `true` or `false`",
        KnobType::Percents => "write it as a list, such as [25, 50, 75]",
        KnobType::Word => "write it as text",
        KnobType::Names => "write it as a list, such as [\"git_push\", \"deploy\"]",
    };
    let number = |item: &toml_edit::Value| item.as_integer().map(|number| number.to_string());
    let found = match knob.shape {
        KnobType::Span | KnobType::Word => item.as_str().map(str::to_owned),
        KnobType::Count => item.as_value().and_then(number),
        KnobType::Switch => item.as_bool().map(|on| on.to_string()),
        KnobType::Percents => item.as_array().and_then(|list| {
            let parts: Option<Vec<String>> = list.iter().map(number).collect();
            parts.map(|parts| parts.join(","))
        }),
        KnobType::Names => item.as_array().and_then(|list| {
            let parts: Option<Vec<&str>> = list.iter().map(toml_edit::Value::as_str).collect();
            parts.map(|parts| parts.join(","))
        }),
    };
    found.ok_or_else(|| wrong(path, knob.name, how))
}

fn wrong(path: &Path, name: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("{}: `{name}`: {why}", path.display()))
}

/// Parses the location of a store. A folder is relative to `here`; without `here`, it must be absolute.
pub fn parse_location(text: &str, here: Option<&Path>) -> Result<Location, Refusal> {
    let folder = match Location::parse(text) {
        server @ Location::Postgres(_) => return Ok(server),
        Location::Folder(folder) => folder,
    };
    match here {
        _ if text.is_empty() || text.contains("://") => Err(Refusal::invalid(format!(
            "`{text}` is not a location for a store"
        ))
        .hint("give a folder, or `postgres://USER@HOST/DATABASE`")),
        Some(here) => Ok(Location::Folder(real(here.join(folder)))),
        None if folder.is_absolute() => Ok(Location::Folder(real(folder))),
        None => Err(
            Refusal::invalid(format!("`{text}` would be another folder in each project"))
                .hint("give an absolute one"),
        ),
    }
}

/// Resolves the links that lead to a folder that the user named.
fn real(folder: PathBuf) -> PathBuf {
    folder.canonicalize().unwrap_or(folder)
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

/// Reads the project's file. It may have come with the repository: no link in its place is followed.
fn project_text(state: &Path) -> io::Result<Option<String>> {
    match Dir::private(state) {
        Ok(state) => state.read_text(FILE, LARGEST),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the user's own file, wherever it is kept.
fn users_text(path: &Path) -> io::Result<Option<String>> {
    let real = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        real => real?,
    };
    let bytes = flightline::file::plain(&real, LARGEST)?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| io::ErrorKind::InvalidData.into())
}

fn read(path: &Path, text: io::Result<Option<String>>) -> Result<Option<DocumentMut>, Refusal> {
    match text {
        Ok(Some(text)) => match text.parse::<DocumentMut>() {
            Ok(document) => Ok(Some(document)),
            Err(error) => Err(broken(path, &text, &error)),
        },
        Ok(None) => Ok(None),
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
