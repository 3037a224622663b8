//! Finds out whether a client really runs the hooks that stand in its settings: which hooks of ours a file has, and the
//! obstacles to running them.

use std::path::Path;

use serde_json::Value;
use toml_edit::Item;

use super::setup_file::{Moved, OwnedFile, SettingsFormat, SetupFile, SetupScope};
use super::{SetupError, hooks, json, own_files, program, tables};
use crate::Client;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredHook {
    pub event: String,
    pub command: String,
    pub program: String,
    /// True when the command, or the whole file around it, is exactly as `fleet setup` writes it for this program.
    pub is_as_written: bool,
}

/// The hooks of ours in a settings file. A file without any has none of our hooks, whatever else of ours is in it.
pub fn registered(place: &SetupFile, text: &str) -> Result<Vec<RegisteredHook>, SetupError> {
    let client = place.client;
    let of = |event: &str, command: String, written: &dyn Fn(&str) -> bool| {
        let program = program::named(&command)?;
        Some(RegisteredHook {
            event: event.to_owned(),
            is_as_written: written(&program),
            command,
            program,
        })
    };
    Ok(match place.kind {
        SettingsFormat::Json(_) => json::commands(client, text)?
            .into_iter()
            .filter_map(|(event, command)| {
                let found = command.clone();
                of(&event, command, &|program| {
                    found == json::shell_command(client, &event, program)
                })
            })
            .collect(),
        SettingsFormat::File(OwnedFile::Plugin) => {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("const FLEET = "));
            let binary: Option<String> = line.and_then(|word| serde_json::from_str(word).ok());
            let all = hooks(client).iter().filter_map(|hook| {
                let command = program::hook(binary.as_deref()?, client, hook.event);
                of(hook.event, command, &|program| {
                    text == own_files::plugin_js(program)
                })
            });
            all.collect()
        }
        SettingsFormat::File(OwnedFile::Script(event)) => {
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix("exec "));
            let ours = line.filter(|line| program::is_hook(line, client));
            let written = |program: &str| text == own_files::script(event, program);
            ours.and_then(|line| of(event, line.to_owned(), &written))
                .into_iter()
                .collect()
        }
        SettingsFormat::File(OwnedFile::Skill)
        | SettingsFormat::Markdown
        | SettingsFormat::Toml => Vec::new(),
    })
}

/// An obstacle that keeps a client from running its hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookObstacle {
    pub what: String,
    /// The remedy that a person can apply.
    pub remedy: String,
    /// True when the hooks certainly do not run. Otherwise it depends on how the client is started.
    pub certain: bool,
}

/// Returns the obstacles that keep a client from running the hooks of a scope in a folder, as far as its own files say.
/// `read` gives the text of a file. The settings in a file that cannot be read are not known, and no obstacle is told
/// of them.
pub fn obstacles(
    client: Client,
    scope: SetupScope,
    folder: &Path,
    read: &dyn Fn(&SetupFile) -> Option<String>,
) -> Vec<HookObstacle> {
    match client {
        Client::Claude => claude(folder, read),
        Client::Codex => codex(scope, folder, read),
        Client::Gemini => gemini(scope, folder, read),
        Client::Copilot => copilot(scope, folder, read),
        // These clients have no switch, or none that can be read.
        Client::Opencode | Client::Cline | Client::Cursor => Vec::new(),
    }
}

pub(super) fn file(
    client: Client,
    scope: SetupScope,
    path: &str,
    moved: Option<(&'static str, &str)>,
) -> SetupFile {
    SetupFile {
        client,
        scope,
        path: path.to_owned(),
        instead: None,
        moved: moved.map(|(variable, path)| Moved {
            variable,
            path: path.to_owned(),
        }),
        kind: SettingsFormat::Json(&[]),
        executable: false,
    }
}

fn switched_off(what: String, setting: &str) -> HookObstacle {
    HookObstacle {
        what,
        remedy: format!("take `{setting}` out of that file"),
        certain: true,
    }
}

fn claude(folder: &Path, read: &dyn Fn(&SetupFile) -> Option<String>) -> Vec<HookObstacle> {
    let home = |path| {
        let moved = Some(("CLAUDE_CONFIG_DIR", path));
        file(
            Client::Claude,
            SetupScope::User,
            &format!(".claude/{path}"),
            moved,
        )
    };
    let below = |path| file(Client::Claude, SetupScope::Project, path, None);
    let mut found = Vec::new();
    for place in [
        home("settings.json"),
        below(".claude/settings.json"),
        below(".claude/settings.local.json"),
    ] {
        if value(read, &place)["disableAllHooks"] == Value::Bool(true) {
            let what = format!("`disableAllHooks` in {} switches all hooks off", place.path);
            found.push(switched_off(what, "disableAllHooks"));
        }
    }
    let moved = Some(("CLAUDE_CONFIG_DIR", ".claude.json"));
    let state = value(
        read,
        &file(Client::Claude, SetupScope::User, ".claude.json", moved),
    );
    let accepted = folder.ancestors().any(|above| {
        let project = &state["projects"][above.display().to_string()];
        project["hasTrustDialogAccepted"] == Value::Bool(true)
    });
    if !accepted {
        found.push(HookObstacle {
            what: "an interactive session runs no hooks before you trust this folder".to_owned(),
            remedy: "start Claude Code here once, and accept its question".to_owned(),
            certain: false,
        });
    }
    found
}

fn codex(
    scope: SetupScope,
    folder: &Path,
    read: &dyn Fn(&SetupFile) -> Option<String>,
) -> Vec<HookObstacle> {
    let moved = Some(("CODEX_HOME", "config.toml"));
    let place = file(Client::Codex, SetupScope::User, ".codex/config.toml", moved);
    let text = read(&place).unwrap_or_default();
    let Ok(config) = tables::parse(&text) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for key in ["hooks", "codex_hooks"] {
        let switch = tables::find(config.as_table(), &["features", key]);
        if switch.and_then(Item::as_bool) == Some(false) {
            let what = format!("`features.{key}` in {} switches all hooks off", place.path);
            found.push(switched_off(what, &format!("features.{key}")));
        }
    }
    let is_trusted = |above: &Path| {
        let path = above.display().to_string();
        let level = tables::find(config.as_table(), &["projects", &path, "trust_level"]);
        level.and_then(Item::as_str) == Some("trusted")
    };
    if scope == SetupScope::Project && !folder.ancestors().any(is_trusted) {
        found.push(HookObstacle {
            what: "Codex reads the hooks of a project only after you trust the project".to_owned(),
            remedy: "start Codex here once, and trust the folder".to_owned(),
            certain: true,
        });
    }
    found
}

fn gemini(
    scope: SetupScope,
    folder: &Path,
    read: &dyn Fn(&SetupFile) -> Option<String>,
) -> Vec<HookObstacle> {
    let home = |path: &str| file(Client::Gemini, SetupScope::User, path, None);
    let settings = [
        home(".gemini/settings.json"),
        file(
            Client::Gemini,
            SetupScope::Project,
            ".gemini/settings.json",
            None,
        ),
    ];
    let mut found = Vec::new();
    let mut asks = true;
    for place in &settings {
        let settings = value(read, place);
        let hooks = &settings["hooksConfig"];
        if hooks["enabled"] == Value::Bool(false) {
            let what = format!("`hooksConfig.enabled` in {} is false", place.path);
            found.push(switched_off(what, "hooksConfig.enabled"));
        }
        let mut disabled = hooks["disabled"].as_array().into_iter().flatten();
        if disabled.any(|name| name.as_str() == Some("flightline")) {
            let what = format!(
                "`hooksConfig.disabled` in {} names `flightline`",
                place.path
            );
            found.push(switched_off(what, "flightline"));
        }
        if settings["security"]["folderTrust"]["enabled"] == Value::Bool(false) {
            asks = false;
        }
    }
    if scope == SetupScope::Project && asks {
        let rules = value(read, &home(".gemini/trustedFolders.json"));
        found.extend(gemini_trust(&rules, folder));
    }
    found
}

/// Of the rules that concern a folder the one with the longest path counts.
fn gemini_trust(rules: &Value, folder: &Path) -> Option<HookObstacle> {
    let mut best: Option<(usize, bool)> = None;
    for (path, level) in rules.as_object().into_iter().flatten() {
        let rule = Path::new(path);
        let (above, trusts) = match level.as_str() {
            Some("TRUST_PARENT") => (rule.parent().unwrap_or(rule), true),
            Some("TRUST_FOLDER") => (rule, true),
            Some("DO_NOT_TRUST") => (rule, false),
            _ => continue,
        };
        let longest = best.map_or(0, |(length, _)| length);
        if folder.starts_with(above) && path.len() >= longest {
            best = Some((path.len(), trusts));
        }
    }
    match best {
        Some((_, true)) => None,
        Some((_, false)) => Some(HookObstacle {
            what: "Gemini CLI was told not to trust this folder: it reads none of its settings"
                .to_owned(),
            remedy: "type `/permissions` in Gemini CLI here, and trust the folder".to_owned(),
            certain: true,
        }),
        None => Some(HookObstacle {
            what: "Gemini CLI reads the settings of a folder only after you trust the folder"
                .to_owned(),
            remedy: "start Gemini CLI here once, and trust the folder".to_owned(),
            certain: false,
        }),
    }
}

fn copilot(
    scope: SetupScope,
    folder: &Path,
    read: &dyn Fn(&SetupFile) -> Option<String>,
) -> Vec<HookObstacle> {
    if scope == SetupScope::User {
        return Vec::new();
    }
    let moved = Some(("COPILOT_HOME", "config.json"));
    let place = file(
        Client::Copilot,
        SetupScope::User,
        ".copilot/config.json",
        moved,
    );
    let state = value(read, &place);
    let trusted = ["trusted_folders", "trustedFolders"];
    let trusted = trusted.iter().filter_map(|key| state[*key].as_array());
    let mut trusted = trusted.flatten().filter_map(Value::as_str);
    if trusted.any(|path| folder.starts_with(path)) {
        return Vec::new();
    }
    vec![HookObstacle {
        what: "Copilot CLI runs the hooks of a repository only in a folder that you trust"
            .to_owned(),
        remedy: "accept its question, or give `--trust-folder` to `copilot -p`".to_owned(),
        certain: false,
    }]
}

pub(super) fn value(read: &dyn Fn(&SetupFile) -> Option<String>, place: &SetupFile) -> Value {
    let text = read(place).unwrap_or_default();
    json::value(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{install, places};

    #[test]
    fn what_setup_writes_is_found_again() {
        for client in Client::ALL {
            for scope in [SetupScope::User, SetupScope::Project] {
                for binary in ["fleet", "/opt/my \"own\" $tools/fleet"] {
                    let mut events = Vec::new();
                    for place in places(client, scope) {
                        let text = install(&place, None, None, binary).unwrap().text;
                        for hook in registered(&place, &text).unwrap() {
                            assert_eq!(hook.program, binary, "{client} {}", hook.command);
                            events.push(hook.event);
                        }
                    }
                    let mut wanted: Vec<&str> =
                        hooks(client).iter().map(|hook| hook.event).collect();
                    wanted.sort_unstable();
                    events.sort_unstable();
                    assert_eq!(events, wanted, "{client}");
                }
            }
        }
    }

    /// The obstacles of a client whose files below the home folder are these.
    fn told(client: Client, scope: SetupScope, files: &[(&str, &str)]) -> Vec<(String, bool)> {
        let read = |place: &SetupFile| {
            let found = files.iter().find(|(path, _)| *path == place.path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let folder = Path::new("/srv/shop");
        let all = obstacles(client, scope, folder, &read);
        all.into_iter().map(|it| (it.what, it.certain)).collect()
    }

    #[test]
    fn switches_and_trust_are_read_as_each_client_reads_them() {
        use Client::{Claude, Codex, Copilot, Gemini};
        use SetupScope::{Project, User};
        let none: [(String, bool); 0] = [];
        let accepted = r#"{"projects":{"/srv":{"hasTrustDialogAccepted":true}}}"#;
        assert_eq!(told(Claude, User, &[(".claude.json", accepted)]), none);
        assert!(!told(Claude, User, &[])[0].1, "`claude -p` runs them");
        let off = "{\"disableAllHooks\": true, /* for now */}";
        let files = [
            (".claude.json", accepted),
            (".claude/settings.local.json", off),
        ];
        let found = told(Claude, User, &files);
        assert!(found[0].1 && found[0].0.contains("settings.local.json"));

        assert_eq!(told(Codex, User, &[]), none);
        assert!(told(Codex, Project, &[])[0].1);
        let config =
            "[projects.\"/srv/shop\"]\ntrust_level = \"trusted\"\n[features]\nhooks = false\n";
        let found = told(Codex, Project, &[(".codex/config.toml", config)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0.contains("features.hooks"), "{found:?}");

        assert_eq!(told(Gemini, User, &[]), none);
        for (rules, certain) in [
            (
                r#"{"/srv/shop":"DO_NOT_TRUST","/srv":"TRUST_FOLDER"}"#,
                Some(true),
            ),
            (
                r#"{"/srv/shop":"TRUST_FOLDER","/srv":"DO_NOT_TRUST"}"#,
                None,
            ),
            (r#"{"/srv/other":"TRUST_PARENT"}"#, None),
            (r#"{"/elsewhere":"TRUST_FOLDER"}"#, Some(false)),
            ("not json", Some(false)),
        ] {
            let found = told(Gemini, Project, &[(".gemini/trustedFolders.json", rules)]);
            let found = found.first().map(|(_, certain)| *certain);
            assert_eq!(found, certain, "{rules}");
        }
        let settings = r#"{"hooksConfig":{"disabled":["flightline"]},"security":{"folderTrust":{"enabled":false}}}"#;
        let found = told(Gemini, Project, &[(".gemini/settings.json", settings)]);
        // The stand-in has one text for the user's and for the project's file.
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|(what, _)| what.contains("disabled")));

        assert_eq!(told(Copilot, User, &[]), none);
        let trusted = r#"{"trusted_folders":["/srv"]}"#;
        assert_eq!(
            told(Copilot, Project, &[(".copilot/config.json", trusted)]),
            none
        );
        assert!(!told(Copilot, Project, &[])[0].1);
    }
}
