//! Our entries in JSON files: hooks, MCP servers, a status line. Comments, order and layout of all the rest stay.

mod entries;
mod sheet;

use jsonc_parser::cst::{CstInputValue, CstNode, CstObject};
use jsonc_parser::json;
use serde_json::Value;

use crate::Client;

use super::{JsonPart, SetupError, SetupUndo, hooks, program};
pub(super) use entries::shell_command;
use entries::{handlers, mcp_entry, mcp_key, shape_of};
use sheet::{JsonEditor, array_in, drop_prop, merge, object_in, same, single};

const SERVER: &str = "flightline";

pub(super) fn install(
    client: Client,
    parts: &[JsonPart],
    before: Option<&str>,
    binary: &str,
) -> Result<String, SetupError> {
    let sheet = JsonEditor::open(before.unwrap_or_default())?;
    if entries::has_version(client, parts) && single(&sheet, &sheet.object, "version")?.is_none() {
        sheet.object.insert(0, "version", json!(1));
    }
    for part in parts {
        match part {
            JsonPart::Hooks => put_hooks(&sheet, client, binary)?,
            JsonPart::Mcp => put_server(&sheet, client, binary)?,
            JsonPart::StatusLine => put_status_line(&sheet, binary)?,
        }
    }
    Ok(sheet.text())
}

/// The text without our entries; `None` when nothing is left.
pub(super) fn remove(
    client: Client,
    parts: &[JsonPart],
    now: &str,
    undo: Option<&SetupUndo>,
) -> Result<Option<String>, SetupError> {
    let sheet = JsonEditor::open(now)?;
    let kept = |key: &str| undo.is_some_and(|undo| undo.kept().iter().any(|it| it == key));
    let mut gone = false;
    for part in parts {
        gone |= match part {
            JsonPart::Hooks => drop_hooks(&sheet, client, &kept)?,
            JsonPart::Mcp => drop_server(&sheet, client, &kept)?,
            JsonPart::StatusLine => drop_status_line(&sheet)?,
        };
    }
    if !gone {
        return Ok(Some(now.to_owned()));
    }
    if entries::has_version(client, parts) && !kept("version") {
        let props = sheet.object.properties();
        if let [only] = props.as_slice()
            && only.decoded_name().as_deref() == Some("version")
        {
            only.clone().remove();
        }
    }
    let ours = undo.is_none_or(SetupUndo::created);
    Ok((!(ours && sheet.is_bare())).then(|| sheet.text()))
}

/// The keys that our entries need and that a text has already.
pub(super) fn kept(
    client: Client,
    parts: &[JsonPart],
    text: &str,
) -> Result<Vec<String>, SetupError> {
    let sheet = JsonEditor::open(text)?;
    let mut keys = Vec::new();
    for prop in sheet.object.properties() {
        let Some(name) = prop.decoded_name() else {
            continue;
        };
        let ours = parts.iter().any(|part| match part {
            JsonPart::Hooks => name == "hooks" || name == "version",
            JsonPart::Mcp => name == mcp_key(client),
            JsonPart::StatusLine => false,
        });
        if !ours {
            continue;
        }
        if name == "hooks"
            && let Some(events) = prop.object_value()
        {
            let names = events.properties();
            let names = names.iter().filter_map(|event| event.decoded_name());
            keys.extend(names.map(|event| format!("hooks/{event}")));
        }
        keys.push(name);
    }
    Ok(keys)
}

pub(super) fn commands(client: Client, text: &str) -> Result<Vec<(String, String)>, SetupError> {
    let sheet = JsonEditor::open(text)?;
    let Some(events) = single(&sheet, &sheet.object, "hooks")?.and_then(|it| it.object_value())
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for prop in events.properties() {
        let (Some(event), Some(list)) = (prop.decoded_name(), prop.array_value()) else {
            continue;
        };
        let commands = handlers(&list, client)
            .into_iter()
            .filter_map(|it| it.command());
        found.extend(commands.map(|command| (event.clone(), command)));
    }
    Ok(found)
}

/// Returns the value of a JSON text; none when it is no JSON object.
pub(super) fn value(text: &str) -> Option<Value> {
    let sheet = JsonEditor::open(text).ok()?;
    sheet.value()
}

fn put_hooks(sheet: &JsonEditor, client: Client, binary: &str) -> Result<(), SetupError> {
    let events = object_in(sheet, &sheet.object, "hooks")?;
    for hook in hooks(client) {
        let list = array_in(sheet, &events, hook.event)?;
        let shape = shape_of(client, hook, binary);
        let mut found = handlers(&list, client).into_iter();
        let first = found.next();
        for other in found {
            other.remove();
        }
        match first {
            Some(entry) if entry.fits(&shape) => entry.update(&shape),
            Some(entry) => {
                entry.remove();
                list.append(shape.group());
            }
            None => {
                list.ensure_multiline();
                list.append(shape.group());
            }
        }
    }
    let known = |event: &str| hooks(client).iter().any(|hook| hook.event == event);
    for prop in events.properties() {
        if prop.decoded_name().is_none_or(|event| known(&event)) {
            continue;
        }
        let Some(list) = prop.array_value() else {
            continue;
        };
        let old = handlers(&list, client);
        if old.is_empty() {
            continue;
        }
        for entry in old {
            entry.remove();
        }
        if list.elements().is_empty() {
            drop_prop(prop);
        }
    }
    Ok(())
}

fn drop_hooks(
    sheet: &JsonEditor,
    client: Client,
    kept: &dyn Fn(&str) -> bool,
) -> Result<bool, SetupError> {
    let Some(prop) = single(sheet, &sheet.object, "hooks")? else {
        return Ok(false);
    };
    let Some(events) = prop.object_value() else {
        return Ok(false);
    };
    let mut gone = false;
    for event in events.properties() {
        let Some(list) = event.array_value() else {
            continue;
        };
        let ours = handlers(&list, client);
        if ours.is_empty() {
            continue;
        }
        gone = true;
        for entry in ours {
            entry.remove();
        }
        let name = event.decoded_name().unwrap_or_default();
        if list.elements().is_empty() && !kept(&format!("hooks/{name}")) {
            drop_prop(event);
        }
    }
    if gone && events.properties().is_empty() && !kept("hooks") {
        drop_prop(prop);
    }
    Ok(gone)
}

fn put_server(sheet: &JsonEditor, client: Client, binary: &str) -> Result<(), SetupError> {
    let servers = object_in(sheet, &sheet.object, mcp_key(client))?;
    let want = mcp_entry(client, binary);
    let Some(prop) = single(sheet, &servers, SERVER)? else {
        servers.append(SERVER, CstInputValue::Object(want));
        return Ok(());
    };
    match prop.object_value() {
        Some(entry) if entries::is_server(&entry) => merge(&entry, &want),
        Some(_) | None => {
            return Err(SetupError::Taken {
                what: format!("{}.{SERVER}", mcp_key(client)),
            });
        }
    }
    Ok(())
}

fn drop_server(
    sheet: &JsonEditor,
    client: Client,
    kept: &dyn Fn(&str) -> bool,
) -> Result<bool, SetupError> {
    let Some(prop) = single(sheet, &sheet.object, mcp_key(client))? else {
        return Ok(false);
    };
    let Some(servers) = prop.object_value() else {
        return Ok(false);
    };
    let Some(entry) = single(sheet, &servers, SERVER)? else {
        return Ok(false);
    };
    if !entry
        .object_value()
        .is_some_and(|it| entries::is_server(&it))
    {
        return Ok(false);
    }
    entry.remove();
    if servers.properties().is_empty() && !kept(mcp_key(client)) {
        drop_prop(prop);
    }
    Ok(true)
}

const STATUS_LINE: &str = "statusLine";

fn put_status_line(sheet: &JsonEditor, binary: &str) -> Result<(), SetupError> {
    let want: CstInputValue = program::statusline(binary).into();
    match single(sheet, &sheet.object, STATUS_LINE)? {
        None => {
            sheet.object.append(
                STATUS_LINE,
                json!({"type": "command", "command": want, "refreshInterval": 5}),
            );
        }
        Some(prop) => {
            let command = prop.object_value().and_then(|entry| status_command(&entry));
            if let Some(command) = command
                && !same(&command, &want)
                && let Some(literal) = command.as_string_lit()
            {
                literal.replace_with(want);
            }
        }
    }
    Ok(())
}

fn drop_status_line(sheet: &JsonEditor) -> Result<bool, SetupError> {
    let prop = single(sheet, &sheet.object, STATUS_LINE)?.filter(|prop| {
        prop.object_value()
            .is_some_and(|it| status_command(&it).is_some())
    });
    let found = prop.is_some();
    if let Some(prop) = prop {
        prop.remove();
    }
    Ok(found)
}

fn status_command(entry: &CstObject) -> Option<CstNode> {
    let command = entry.get("command")?.value()?;
    let text = command.as_string_lit()?.decoded_value().ok()?;
    program::is_statusline(&text).then_some(command)
}
