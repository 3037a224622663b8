//! A plugin for the clients that install plugins: the hooks, the MCP server and the skill in one folder, which a person or a team hands around.
//!
//! The folder is a marketplace with one plugin in it, because that is what both clients install from.

use serde_json::{Value, json};

use super::setup_file::{JsonPart, SettingsFormat, SetupFile, SetupScope};
use super::{SetupError, install, skill_md};
use crate::Client;

/// The plugin, and the marketplace that it is in.
pub(super) const NAME: &str = "flightline";
const ABOUT: &str = "Keeps the work of coding agents through compactions, crashes and new sessions";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFile {
    pub path: String,
    pub text: String,
}

/// The files of a folder that a client installs our plugin from; none when the client installs no plugins. The hooks run `fleet` from
/// the PATH, because the folder may be handed to others.
pub fn plugin_files(client: Client, version: &str) -> Result<Option<Vec<PluginFile>>, SetupError> {
    let (manifest, marketplace) = match client {
        Client::Claude => (
            ".claude-plugin/plugin.json",
            ".claude-plugin/marketplace.json",
        ),
        Client::Codex => (
            ".codex-plugin/plugin.json",
            ".agents/plugins/marketplace.json",
        ),
        Client::Gemini | Client::Opencode | Client::Copilot | Client::Cline | Client::Cursor => {
            return Ok(None);
        }
    };
    let hooks = SetupFile {
        client,
        scope: SetupScope::Project,
        path: "hooks/hooks.json".to_owned(),
        instead: None,
        moved: None,
        kind: SettingsFormat::Json(&[JsonPart::Hooks]),
        executable: false,
    };
    let hooks = install(&hooks, None, None, "fleet")?.text;
    let within = |path: &str| format!("{NAME}/{path}");
    Ok(Some(vec![
        PluginFile {
            path: marketplace.to_owned(),
            text: written(&json!({
                "name": NAME,
                "owner": { "name": "Flightline" },
                "metadata": { "description": ABOUT },
                "plugins": [{ "name": NAME, "source": format!("./{NAME}"), "description": ABOUT }],
            })),
        },
        PluginFile {
            path: within(manifest),
            text: written(&json!({
                "name": NAME,
                "version": version,
                "description": ABOUT,
                "author": { "name": "Flightline" },
            })),
        },
        PluginFile {
            path: within("hooks/hooks.json"),
            text: hooks,
        },
        PluginFile {
            path: within(".mcp.json"),
            text: written(&json!({
                "mcpServers": { NAME: { "command": "fleet", "args": ["mcp"] } },
            })),
        },
        PluginFile {
            path: within("skills/flightline/SKILL.md"),
            text: skill_md().to_owned(),
        },
    ]))
}

pub fn plugin_commands(client: Client, folder: &str) -> Vec<String> {
    let add = if client == Client::Codex {
        "add"
    } else {
        "install"
    };
    vec![
        format!("{client} plugin marketplace add {folder}"),
        format!("{client} plugin {add} {NAME}@{NAME}"),
    ]
}

fn written(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{hooks, registered};

    #[test]
    fn a_plugin_has_every_hook_and_names_its_parts() {
        for client in Client::ALL {
            let Some(files) = plugin_files(client, "1.2.3").unwrap() else {
                assert!(!matches!(client, Client::Claude | Client::Codex));
                continue;
            };
            let text = |end: &str| {
                let file = files.iter().find(|file| file.path.ends_with(end));
                file.expect("the file").text.clone()
            };
            let market: Value = serde_json::from_str(&text("marketplace.json")).unwrap();
            let source = market["plugins"][0]["source"].as_str().unwrap();
            let folder = source.strip_prefix("./").unwrap();
            let manifest: Value = serde_json::from_str(&text("/plugin.json")).unwrap();
            assert_eq!(manifest["version"], "1.2.3");
            assert_eq!(manifest["name"], market["plugins"][0]["name"]);
            let ours = files.iter().filter(|file| file.path.starts_with(folder));
            assert_eq!(ours.count(), 4, "{client}");
            let place = SetupFile {
                client,
                scope: SetupScope::Project,
                path: String::new(),
                instead: None,
                moved: None,
                kind: SettingsFormat::Json(&[JsonPart::Hooks]),
                executable: false,
            };
            let found = registered(&place, &text("hooks.json")).unwrap();
            assert_eq!(found.len(), hooks(client).len(), "{client}");
            assert!(found.iter().all(|hook| hook.program == "fleet"));
            // Codex knows no other key.
            let keys: Value = serde_json::from_str(&text("hooks.json")).unwrap();
            assert_eq!(keys.as_object().unwrap().len(), 1, "{client}");
            assert!(text("SKILL.md").starts_with("---\nname:"), "{client}");
        }
    }
}
