//! Finds our plugin in a client: the client's own files that tell that it is installed and switched on.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml_edit::Item;

use super::bundle::NAME;
use super::connection::{file, value};
use super::setup_file::{SetupFile, SetupScope};
use super::{JsonPart, SettingsFormat, tables};
use crate::Client;

const HOOKS: &str = "hooks/hooks.json";

/// Our plugin in a client that has it installed and switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlugin {
    /// The plugin's id, such as `flightline@flightline`: the name, and the marketplace that it came from.
    pub id: String,
    pub files: PluginFolder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginFolder {
    At(PathBuf),
    /// The plugin is in a folder of this one that is called by the version: [`newest_version`] says which.
    Versions(SetupFile),
}

impl InstalledPlugin {
    /// Returns the file of the plugin's hooks, to be read like a settings file, and its path.
    pub fn hooks(&self, client: Client, folder: &Path) -> (SetupFile, PathBuf) {
        let place = SetupFile {
            kind: SettingsFormat::Json(&[JsonPart::Hooks]),
            ..file(client, SetupScope::User, HOOKS, None)
        };
        (place, folder.join(HOOKS))
    }

    /// Returns Codex's name for the file of the plugin's hooks, where Codex keeps which hooks are trusted.
    pub fn hooks_key(&self) -> String {
        format!("{}:{HOOKS}", self.id)
    }

    /// Returns the command that takes the plugin out of its client again.
    pub fn removal(&self, client: Client) -> String {
        let act = if client == Client::Codex {
            "remove"
        } else {
            "uninstall"
        };
        format!("{client} plugin {act} {}", self.id)
    }
}

/// Our plugins that a client runs in a folder, as far as its own files say. `read` gives the text of a file.
pub fn installed_plugins(
    client: Client,
    folder: &Path,
    read: &dyn Fn(&SetupFile) -> Option<String>,
) -> Vec<InstalledPlugin> {
    match client {
        Client::Claude => claude(folder, read),
        Client::Codex => codex(read),
        Client::Gemini | Client::Opencode | Client::Copilot | Client::Cline | Client::Cursor => {
            Vec::new()
        }
    }
}

/// The version that Codex uses of those that are there: `local`, else the newest.
pub fn newest_version(versions: &[String]) -> Option<&str> {
    if versions.iter().any(|version| version == "local") {
        return Some("local");
    }
    let numbers = |version: &str| -> Vec<u64> {
        let numbers = version.split(['.', '-', '+']);
        numbers.map_while(|number| number.parse().ok()).collect()
    };
    let compare = |a: &&String, b: &&String| -> Ordering {
        numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
    };
    versions.iter().max_by(compare).map(String::as_str)
}

fn is_ours(id: &str) -> bool {
    id.split('@').next() == Some(NAME)
}

/// Claude Code lists the installed plugins, for whom, and where. Its settings say which are switched on, those nearest to the work last.
fn claude(folder: &Path, read: &dyn Fn(&SetupFile) -> Option<String>) -> Vec<InstalledPlugin> {
    let home = |path: &str, moved| {
        let moved = Some(("CLAUDE_CONFIG_DIR", moved));
        file(Client::Claude, SetupScope::User, path, moved)
    };
    let below = |path| file(Client::Claude, SetupScope::Project, path, None);
    let settings = [
        home(".claude/settings.json", "settings.json"),
        below(".claude/settings.json"),
        below(".claude/settings.local.json"),
    ];
    let settings = settings.map(|place| value(read, &place));
    let is_on = |id: &str| {
        let said = settings.iter().rev();
        let mut said = said.filter_map(|it| it["enabledPlugins"][id].as_bool());
        said.next() == Some(true)
    };
    let registry = value(
        read,
        &home(
            ".claude/plugins/installed_plugins.json",
            "plugins/installed_plugins.json",
        ),
    );
    let mut found = Vec::new();
    for (id, entry) in registry["plugins"].as_object().into_iter().flatten() {
        if !is_ours(id) || !is_on(id) {
            continue;
        }
        // Older versions have one entry, newer ones a list, of which some are for one project only.
        let entries = match entry {
            Value::Array(entries) => entries.as_slice(),
            entry => std::slice::from_ref(entry),
        };
        let is_here = |entry: &&Value| {
            let project = entry["projectPath"].as_str();
            project.is_none_or(|project| folder.starts_with(project))
        };
        let path = entries.iter().filter(is_here);
        let mut path = path.filter_map(|entry| entry["installPath"].as_str());
        found.extend(path.next().map(|path| InstalledPlugin {
            id: id.clone(),
            files: PluginFolder::At(PathBuf::from(path)),
        }));
    }
    found
}

/// Codex lists plugins in `config.toml`, and keeps their files below its own folder.
fn codex(read: &dyn Fn(&SetupFile) -> Option<String>) -> Vec<InstalledPlugin> {
    let home = |path: &str, moved: &str| {
        let moved = Some(("CODEX_HOME", moved));
        file(Client::Codex, SetupScope::User, path, moved)
    };
    let text = read(&home(".codex/config.toml", "config.toml")).unwrap_or_default();
    let Ok(config) = tables::parse(&text) else {
        return Vec::new();
    };
    let plugins = tables::find(config.as_table(), &["plugins"]).and_then(Item::as_table_like);
    let plugins = plugins.into_iter().flat_map(|plugins| plugins.iter());
    let ours = plugins.filter(|(id, entry)| {
        let switch = entry.as_table_like().and_then(|it| it.get("enabled"));
        is_ours(id) && switch.and_then(Item::as_bool) != Some(false)
    });
    let found = ours.filter_map(|(id, _)| {
        let (_, marketplace) = id.split_once('@')?;
        let cache = format!("plugins/cache/{marketplace}/{NAME}");
        Some(InstalledPlugin {
            id: id.to_owned(),
            files: PluginFolder::Versions(home(&format!(".codex/{cache}"), &cache)),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(client: Client, files: &[(&str, &str)]) -> Vec<String> {
        let read = |place: &SetupFile| {
            let scope = match place.scope {
                SetupScope::User => "~/",
                SetupScope::Project => "",
            };
            let path = format!("{scope}{}", place.path);
            let found = files.iter().find(|(known, _)| *known == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let all = installed_plugins(client, Path::new("/srv/shop"), &read);
        let told = all.into_iter().map(|plugin| match plugin.files {
            PluginFolder::At(path) => format!("{} {}", plugin.id, path.display()),
            PluginFolder::Versions(place) => format!("{} {}", plugin.id, place.path),
        });
        told.collect()
    }

    #[test]
    fn claude_code_runs_what_is_installed_and_switched_on() {
        let list = "~/.claude/plugins/installed_plugins.json";
        let user = "~/.claude/settings.json";
        let on = r#"{"enabledPlugins": {"flightline@ours": true, "other@ours": true}}"#;
        let second = r#"{"version":2,"plugins":{"flightline@ours":[{"scope":"user","installPath":"/c/1"}],"other@ours":[{"installPath":"/c/2"}]}}"#;
        let first = r#"{"version":1,"plugins":{"flightline@ours":{"installPath":"/c/1"}}}"#;
        let expected = ["flightline@ours /c/1"];
        assert_eq!(
            found(Client::Claude, &[(list, second), (user, on)]),
            expected
        );
        assert_eq!(
            found(Client::Claude, &[(list, first), (user, on)]),
            expected
        );
        let none: [&str; 0] = [];
        assert_eq!(found(Client::Claude, &[(list, second)]), none);
        assert_eq!(found(Client::Claude, &[(user, on)]), none);
        assert_eq!(found(Client::Claude, &[(list, "["), (user, on)]), none);
        // The settings nearer to the work count.
        let off = r#"{"enabledPlugins": {"flightline@ours": false}}"#;
        let local = ".claude/settings.local.json";
        assert_eq!(
            found(Client::Claude, &[(list, second), (user, on), (local, off)]),
            none
        );
        assert_eq!(
            found(Client::Claude, &[(list, second), (user, off), (local, on)]),
            expected
        );
        for (project, is_here) in [("/srv/shop", true), ("/srv/other", false)] {
            let listed = format!(
                r#"{{"version":2,"plugins":{{"flightline@ours":[{{"scope":"project","projectPath":"{project}","installPath":"/c/1"}}]}}}}"#
            );
            let files = [(list, listed.as_str()), (local, on)];
            assert_eq!(!found(Client::Claude, &files).is_empty(), is_here);
        }
    }

    #[test]
    fn codex_runs_what_is_listed_and_not_switched_off() {
        let config = "~/.codex/config.toml";
        for (entry, is_on) in [
            ("enabled = true", true),
            ("", true),
            ("enabled = false", false),
        ] {
            let text = format!("[plugins.\"flightline@ours\"]\n{entry}\n[plugins.\"x@ours\"]\n");
            let found = found(Client::Codex, &[(config, &text)]);
            let expected = "flightline@ours .codex/plugins/cache/ours/flightline";
            assert_eq!(found, vec![expected; usize::from(is_on)], "{entry}");
        }
        assert!(found(Client::Codex, &[(config, "[")]).is_empty());
        assert!(found(Client::Gemini, &[]).is_empty());
    }

    #[test]
    fn the_newest_version_is_by_number() {
        let all = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(newest_version(&all(&["0.9.0", "0.10.0"])), Some("0.10.0"));
        assert_eq!(newest_version(&all(&["1.0.0", "local"])), Some("local"));
        assert_eq!(newest_version(&[]), None);
    }

    #[test]
    fn the_command_that_removes_it_is_the_clients_own() {
        let plugin = InstalledPlugin {
            id: "flightline@ours".to_owned(),
            files: PluginFolder::At(PathBuf::from("/c")),
        };
        assert_eq!(
            plugin.removal(Client::Claude),
            "claude plugin uninstall flightline@ours"
        );
        assert_eq!(
            plugin.removal(Client::Codex),
            "codex plugin remove flightline@ours"
        );
        assert_eq!(plugin.hooks_key(), "flightline@ours:hooks/hooks.json");
    }
}
