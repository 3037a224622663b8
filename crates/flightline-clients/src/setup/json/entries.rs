//! The shape of our entries for each client, and how they are found again.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject};

use super::sheet::{KeyValues, replace};
use crate::Client;
use crate::setup::program::{self, is_fleet, is_hook};
use crate::setup::{Hook, JsonPart};

/// Returns true when a hooks file says which version of the format it has.
pub(super) fn has_version(client: Client, parts: &[JsonPart]) -> bool {
    matches!(client, Client::Cursor | Client::Copilot) && parts.contains(&JsonPart::Hooks)
}

/// A hook as its client wants it written.
pub(super) struct HookShape {
    handler: KeyValues,
    /// The keys of the group around the handler, for clients that have groups.
    group: Option<KeyValues>,
}

/// Returns a hook in the form that a client wants.
pub(super) fn shape_of(client: Client, hook: &Hook, binary: &str) -> HookShape {
    let command = program::hook(binary, client, hook.event);
    let matcher = hook.matcher.map(|it| ("matcher".to_owned(), it.into()));
    let timeout = CstInputValue::from(hook.timeout);
    match client {
        Client::Claude | Client::Codex | Client::Opencode | Client::Cline => HookShape {
            handler: keys([
                ("type", "command".into()),
                ("command", command.into()),
                ("timeout", timeout),
            ]),
            group: Some(matcher.into_iter().collect()),
        },
        Client::Gemini => HookShape {
            handler: keys([
                ("name", "flightline".into()),
                ("type", "command".into()),
                ("command", command.into()),
                ("timeout", timeout),
            ]),
            group: Some(matcher.into_iter().collect()),
        },
        // A command that fails denies the tool: without `fleet`, the agent could do nothing any more.
        Client::Copilot => HookShape {
            handler: matcher
                .into_iter()
                .chain(keys([
                    ("type", "command".into()),
                    ("bash", shell_command(client, hook.event, binary).into()),
                    ("powershell", format!("& {command}; exit 0").into()),
                    ("timeoutSec", timeout),
                ]))
                .collect(),
            group: None,
        },
        Client::Cursor => HookShape {
            handler: keys([("command", command.into()), ("timeout", timeout)])
                .into_iter()
                .chain(matcher)
                .collect(),
            group: None,
        },
    }
}

/// The command of a hook as a POSIX shell gets it.
pub(in crate::setup) fn shell_command(client: Client, event: &str, binary: &str) -> String {
    let command = program::hook(binary, client, event);
    match client {
        Client::Copilot => format!("{command} || true"),
        Client::Claude
        | Client::Codex
        | Client::Gemini
        | Client::Opencode
        | Client::Cline
        | Client::Cursor => command,
    }
}

fn keys<const N: usize>(all: [(&str, CstInputValue); N]) -> KeyValues {
    all.map(|(key, value)| (key.to_owned(), value)).to_vec()
}

impl HookShape {
    /// A new element for the event's list.
    pub fn group(&self) -> CstInputValue {
        let handler = CstInputValue::Object(self.handler.clone());
        match &self.group {
            None => handler,
            Some(group) => {
                let mut group = group.clone();
                let handlers = CstInputValue::Array(vec![handler]);
                group.push(("hooks".to_owned(), handlers));
                CstInputValue::Object(group)
            }
        }
    }

    fn matcher(&self) -> Option<String> {
        let group = self.group.as_ref()?;
        group.iter().find_map(|(key, value)| match value {
            CstInputValue::String(text) if key == "matcher" => Some(text.clone()),
            _ => None,
        })
    }
}

pub(super) struct HookEntry {
    handler: CstObject,
    /// The group around it, and the list of the handlers in that.
    group: Option<(CstObject, CstArray)>,
}

/// The hooks of ours in an event's list.
pub(super) fn handlers(list: &CstArray, client: Client) -> Vec<HookEntry> {
    let mut found = Vec::new();
    for element in list.elements() {
        let Some(object) = element.as_object() else {
            continue;
        };
        if is_handler(&object, client) {
            found.push(HookEntry {
                handler: object,
                group: None,
            });
            continue;
        }
        let Some(inner) = object.array_value("hooks") else {
            continue;
        };
        for handler in inner.elements().iter().filter_map(CstNode::as_object) {
            if is_handler(&handler, client) {
                found.push(HookEntry {
                    handler,
                    group: Some((object.clone(), inner.clone())),
                });
            }
        }
    }
    found
}

fn is_handler(object: &CstObject, client: Client) -> bool {
    ["command", "bash", "powershell"]
        .iter()
        .any(|key| text(object, key).is_some_and(|command| is_hook(&command, client)))
}

fn text(object: &CstObject, key: &str) -> Option<String> {
    let value = object.get(key)?.value()?;
    value.as_string_lit()?.decoded_value().ok()
}

impl HookEntry {
    /// Returns true when the entry can be brought up to date where it stands: not in a form for other clients, nor in a
    /// group of several handlers with another matcher.
    pub fn fits(&self, shape: &HookShape) -> bool {
        match (&self.group, &shape.group) {
            (None, None) => true,
            (Some((group, list)), Some(_)) => {
                list.elements().len() == 1 || text(group, "matcher") == shape.matcher()
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// Brings it up to date where it stands.
    pub fn update(&self, shape: &HookShape) {
        replace(&self.handler, &shape.handler);
        let Some((group, list)) = &self.group else {
            return;
        };
        let want = shape.matcher();
        if list.elements().len() != 1 || text(group, "matcher") == want {
            return;
        }
        match (group.get("matcher"), want) {
            (Some(prop), Some(want)) => prop.set_value(want.into()),
            (Some(prop), None) => prop.remove(),
            (None, Some(want)) => {
                group.insert(0, "matcher", want.into());
            }
            (None, None) => {}
        }
    }

    pub fn command(&self) -> Option<String> {
        ["command", "bash"]
            .iter()
            .find_map(|key| text(&self.handler, key))
    }

    /// Takes it out, and the group around it when that has no other handler.
    pub fn remove(self) {
        match self.group {
            Some((group, list)) if list.elements().len() <= 1 => group.remove(),
            Some(_) | None => self.handler.remove(),
        }
    }
}

/// The key that a client has its MCP servers under.
pub(super) const fn mcp_key(client: Client) -> &'static str {
    match client {
        Client::Opencode => "mcp",
        Client::Claude
        | Client::Codex
        | Client::Gemini
        | Client::Copilot
        | Client::Cline
        | Client::Cursor => "mcpServers",
    }
}

/// Our MCP server as a client wants it written.
pub(super) fn mcp_entry(client: Client, binary: &str) -> KeyValues {
    let args = || CstInputValue::from(program::MCP.to_vec());
    let command = || CstInputValue::from(binary);
    match client {
        Client::Claude => keys([
            ("type", "stdio".into()),
            ("command", command()),
            ("args", args()),
        ]),
        Client::Codex | Client::Gemini | Client::Cursor => {
            keys([("command", command()), ("args", args())])
        }
        Client::Opencode => {
            let mut words = vec![binary];
            words.extend(program::MCP);
            keys([
                ("type", "local".into()),
                ("command", words.into()),
                ("enabled", true.into()),
            ])
        }
        Client::Copilot => keys([
            ("tools", vec!["*"].into()),
            ("type", "local".into()),
            ("command", command()),
            ("args", args()),
        ]),
        Client::Cline => {
            let transport = keys([
                ("type", "stdio".into()),
                ("command", command()),
                ("args", args()),
            ]);
            keys([("transport", CstInputValue::Object(transport))])
        }
    }
}

/// Returns true when an entry of that name runs `fleet`.
pub(super) fn is_server(entry: &CstObject) -> bool {
    let transport = entry.object_value("transport");
    let command = transport.as_ref().unwrap_or(entry).get("command");
    let Some(value) = command.and_then(|prop| prop.value()) else {
        return false;
    };
    let first = match value.as_array() {
        Some(words) => words.elements().into_iter().next(),
        None => Some(value),
    };
    first
        .and_then(|word| word.as_string_lit()?.decoded_value().ok())
        .is_some_and(|word| is_fleet(&word))
}
