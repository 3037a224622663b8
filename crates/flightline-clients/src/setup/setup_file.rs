//! The files that a client reads its settings from.

use std::path::{Path, PathBuf};

use crate::Client;

use super::hooks;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetupScope {
    /// The settings are those of one person, in all projects.
    User,
    /// The settings are those of every person, in one project.
    Project,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupFile {
    pub client: Client,
    pub scope: SetupScope,
    /// The file's path below the home folder, or below the repository.
    pub path: String,
    /// A path beside it that the client reads as well. It takes the place of `path` when a file is there already.
    pub instead: Option<&'static str>,
    /// The path of the file when a variable of the environment moves it.
    pub moved: Option<Moved>,
    pub kind: SettingsFormat,
    pub executable: bool,
}

/// A variable of the environment that names a folder, and the path of a file below that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub variable: &'static str,
    pub path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsFormat {
    /// JSON, with or without comments. These parts of it are ours.
    Json(&'static [JsonPart]),
    /// TOML with a table for our MCP server.
    Toml,
    /// Markdown with a block of ours.
    Markdown,
    /// The file is ours as a whole.
    File(OwnedFile),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonPart {
    Hooks,
    Mcp,
    /// The status line, where there is none yet.
    StatusLine,
}

/// A file that is ours as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnedFile {
    Plugin,
    Skill,
    /// The program that Cline runs for an event.
    Script(&'static str),
}

impl SetupFile {
    /// Returns the path of the file. `root` is the home folder, or the repository. `variable` looks up a variable of
    /// the environment, and `exists` says whether there is a file.
    pub fn resolve(
        &self,
        root: &Path,
        variable: impl Fn(&str) -> Option<PathBuf>,
        exists: impl Fn(&Path) -> bool,
    ) -> PathBuf {
        let folder = self
            .moved
            .as_ref()
            .and_then(|moved| Some((variable(moved.variable)?, moved)))
            .filter(|(folder, _)| folder.is_absolute());
        let path = match folder {
            Some((folder, moved)) => folder.join(&moved.path),
            None => root.join(&self.path),
        };
        self.instead
            .map(|name| path.with_file_name(name))
            .filter(|other| exists(other) && !exists(&path))
            .unwrap_or(path)
    }

    fn executable(self) -> Self {
        Self {
            executable: true,
            ..self
        }
    }

    fn or(self, name: &'static str) -> Self {
        Self {
            instead: Some(name),
            ..self
        }
    }
}

/// Returns every file that the setup of a client touches, for one person or for one project.
pub fn places(client: Client, scope: SetupScope) -> Vec<SetupFile> {
    match scope {
        SetupScope::User => user(client),
        SetupScope::Project => project(client),
    }
}

const HOOKS: SettingsFormat = SettingsFormat::Json(&[JsonPart::Hooks]);
const MCP: SettingsFormat = SettingsFormat::Json(&[JsonPart::Mcp]);

fn user(client: Client) -> Vec<SetupFile> {
    let home = |variable, folder: &str, path: &str, kind| SetupFile {
        client,
        scope: SetupScope::User,
        path: format!("{folder}{path}"),
        instead: None,
        moved: Some(Moved {
            variable,
            path: path.to_owned(),
        }),
        kind,
        executable: false,
    };
    let fixed = |path: &str, kind| SetupFile {
        moved: None,
        ..home("", "", path, kind)
    };
    match client {
        Client::Claude => {
            let claude = |path, kind| home("CLAUDE_CONFIG_DIR", ".claude/", path, kind);
            vec![
                claude(
                    "settings.json",
                    SettingsFormat::Json(&[JsonPart::Hooks, JsonPart::StatusLine]),
                ),
                home("CLAUDE_CONFIG_DIR", "", ".claude.json", MCP),
                claude(
                    "skills/flightline/SKILL.md",
                    SettingsFormat::File(OwnedFile::Skill),
                ),
                claude("CLAUDE.md", SettingsFormat::Markdown),
            ]
        }
        Client::Codex => {
            let codex = |path, kind| home("CODEX_HOME", ".codex/", path, kind);
            vec![
                codex("hooks.json", HOOKS),
                codex("config.toml", SettingsFormat::Toml),
                codex("AGENTS.md", SettingsFormat::Markdown),
            ]
        }
        Client::Gemini => vec![
            fixed(
                ".gemini/settings.json",
                SettingsFormat::Json(&[JsonPart::Hooks, JsonPart::Mcp]),
            ),
            fixed(".gemini/GEMINI.md", SettingsFormat::Markdown),
        ],
        Client::Opencode => {
            let opencode = |path, kind| home("XDG_CONFIG_HOME", ".config/", path, kind);
            vec![
                opencode(
                    "opencode/plugins/flightline.js",
                    SettingsFormat::File(OwnedFile::Plugin),
                ),
                opencode("opencode/opencode.json", MCP).or("opencode.jsonc"),
                opencode("opencode/AGENTS.md", SettingsFormat::Markdown),
            ]
        }
        Client::Copilot => {
            let copilot = |path, kind| home("COPILOT_HOME", ".copilot/", path, kind);
            vec![
                copilot("hooks/flightline.json", HOOKS),
                copilot("mcp-config.json", MCP),
                copilot("copilot-instructions.md", SettingsFormat::Markdown),
            ]
        }
        Client::Cline => {
            let mut all = scripts(|path, kind| fixed(path, kind));
            all.push(fixed(".cline/data/settings/cline_mcp_settings.json", MCP));
            all
        }
        Client::Cursor => vec![
            fixed(".cursor/hooks.json", HOOKS),
            fixed(".cursor/mcp.json", MCP),
        ],
    }
}

fn project(client: Client) -> Vec<SetupFile> {
    let below = |path: &str, kind| SetupFile {
        client,
        scope: SetupScope::Project,
        path: path.to_owned(),
        instead: None,
        moved: None,
        kind,
        executable: false,
    };
    let agents = || below("AGENTS.md", SettingsFormat::Markdown);
    match client {
        Client::Claude => vec![
            below(
                ".claude/settings.json",
                SettingsFormat::Json(&[JsonPart::Hooks, JsonPart::StatusLine]),
            ),
            below(".mcp.json", MCP),
            below(
                ".claude/skills/flightline/SKILL.md",
                SettingsFormat::File(OwnedFile::Skill),
            ),
            below("CLAUDE.md", SettingsFormat::Markdown),
        ],
        Client::Codex => vec![
            below(".codex/hooks.json", HOOKS),
            below(".codex/config.toml", SettingsFormat::Toml),
            agents(),
        ],
        Client::Gemini => vec![
            below(
                ".gemini/settings.json",
                SettingsFormat::Json(&[JsonPart::Hooks, JsonPart::Mcp]),
            ),
            below("GEMINI.md", SettingsFormat::Markdown),
        ],
        Client::Opencode => vec![
            below(
                ".opencode/plugins/flightline.js",
                SettingsFormat::File(OwnedFile::Plugin),
            ),
            below("opencode.json", MCP).or("opencode.jsonc"),
            agents(),
        ],
        Client::Copilot => vec![below(".github/hooks/flightline.json", HOOKS), agents()],
        Client::Cline => {
            let mut all = scripts(below);
            all.push(agents());
            all
        }
        Client::Cursor => vec![
            below(".cursor/hooks.json", HOOKS),
            below(".cursor/mcp.json", MCP),
            agents(),
        ],
    }
}

/// Cline runs one program for each event, by its name.
fn scripts(place: impl Fn(&str, SettingsFormat) -> SetupFile) -> Vec<SetupFile> {
    hooks(Client::Cline)
        .iter()
        .map(|hook| {
            let path = format!(".cline/hooks/{}", hook.event);
            place(&path, SettingsFormat::File(OwnedFile::Script(hook.event))).executable()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_moves_a_file() {
        let all = places(Client::Claude, SetupScope::User);
        let home = Path::new("/home/ada");
        let none = |_: &str| None;
        let set = |name: &str| (name == "CLAUDE_CONFIG_DIR").then(|| PathBuf::from("/c"));
        let at = |place: &SetupFile| place.resolve(home, set, |_| false);
        assert_eq!(
            all[0].resolve(home, none, |_| false),
            Path::new("/home/ada/.claude/settings.json")
        );
        assert_eq!(at(&all[0]), Path::new("/c/settings.json"));
        assert_eq!(at(&all[1]), Path::new("/c/.claude.json"));
        assert_eq!(
            all[1].resolve(home, |_| Some(PathBuf::from("")), |_| false),
            Path::new("/home/ada/.claude.json")
        );
    }

    #[test]
    fn a_file_beside_it_is_taken_when_it_is_there() {
        let all = places(Client::Opencode, SetupScope::Project);
        let root = Path::new("/p");
        let with = |name: &'static str| {
            all[1].resolve(root, |_| None, move |path| path == Path::new(name))
        };
        assert_eq!(with("/p/none"), Path::new("/p/opencode.json"));
        assert_eq!(with("/p/opencode.jsonc"), Path::new("/p/opencode.jsonc"));
    }

    #[test]
    fn no_client_has_a_file_twice() {
        for client in Client::ALL {
            for scope in [SetupScope::User, SetupScope::Project] {
                let mut paths: Vec<String> = places(client, scope)
                    .into_iter()
                    .map(|place| place.path)
                    .collect();
                paths.sort();
                let all = paths.len();
                paths.dedup();
                assert_eq!(paths.len(), all, "{client}");
                assert!(all > 1, "{client}");
            }
        }
    }
}
