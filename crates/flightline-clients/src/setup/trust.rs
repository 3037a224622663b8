//! The trust that Codex asks for. Codex runs a hook of a person only when `config.toml` has the hook's hash: writing
//! that is a consent, so that it is done only for a user who gave it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toml_edit::Item;

use super::undo::hex;
use super::{EditedSettings, SetupError, SetupUndo, program, tables, unless_ours};
use crate::Client;

const STATE: [&str; 2] = ["hooks", "state"];
const HASH: &str = "trusted_hash";

/// The key and the hash of each of our hooks in a `hooks.json` of Codex, as Codex reckons them. A file that cannot be read has none.
pub fn codex_trust(hooks_json_path: &str, text: &str) -> Vec<(String, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Ok(file) = serde_json::from_str::<Value>(text) else {
        return Vec::new();
    };
    let Some(events) = file["hooks"].as_object() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (event, groups) in events {
        let label = snake(event);
        for (group_at, group) in groups.as_array().into_iter().flatten().enumerate() {
            let handlers = group["hooks"].as_array().into_iter().flatten();
            for (handler_at, handler) in handlers.enumerate() {
                let command = handler["command"].as_str().unwrap_or_default();
                if program::is_hook(command, Client::Codex) {
                    let key = format!("{hooks_json_path}:{label}:{group_at}:{handler_at}");
                    all.push((key, hash(event, &label, group, handler)));
                }
            }
        }
    }
    all.sort();
    all
}

/// The hash of a handler: of its compact JSON with sorted keys, in which the limit is the one that Codex applies.
fn hash(event: &str, label: &str, group: &Value, handler: &Value) -> String {
    let asked = handler["timeout"].as_u64();
    let timeout = match event {
        "SessionEnd" => asked.unwrap_or(1).clamp(1, 3),
        _ => asked.unwrap_or(600).max(1),
    };
    let mut hook = BTreeMap::from([
        ("async", json!(handler["async"].as_bool().unwrap_or(false))),
        ("command", handler["command"].clone()),
        ("timeout", json!(timeout)),
        ("type", json!("command")),
    ]);
    if let Some(message) = handler["statusMessage"].as_str() {
        hook.insert("statusMessage", json!(message));
    }
    let mut identity = BTreeMap::from([("event_name", json!(label))]);
    // Codex ignores the matcher of these two.
    if let Some(matcher) = group["matcher"].as_str()
        && !matches!(event, "UserPromptSubmit" | "Stop")
    {
        identity.insert("matcher", json!(matcher));
    }
    // The maps are sorted here, and not by a feature of the JSON library that another crate may turn off.
    let hook = serde_json::to_string(&hook).unwrap_or_default();
    let mut fields: Vec<String> = identity
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    fields.insert(1, format!("\"hooks\":[{hook}]"));
    let text = format!("{{{}}}", fields.join(","));
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}

/// `SessionStart` as `session_start`.
fn snake(event: &str) -> String {
    let mut label = String::with_capacity(event.len() + 4);
    for letter in event.chars() {
        if letter.is_ascii_uppercase() && !label.is_empty() {
            label.push('_');
        }
        label.push(letter.to_ascii_lowercase());
    }
    label
}

/// The reason why Codex skips a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// The user has not trusted the hook.
    Never,
    /// The hook was trusted, and has changed since.
    Changed,
}

/// The hooks that Codex skips, by the text of `config.toml`. [`codex_trust`] gives the hooks.
pub fn codex_untrusted(
    config: &str,
    hooks: &[(String, String)],
) -> Result<Vec<(String, Untrusted)>, SetupError> {
    let document = tables::parse(config)?;
    let mut found = Vec::new();
    for (key, hash) in hooks {
        let path = [STATE[0], STATE[1], key, HASH];
        let trusted = tables::find(document.as_table(), &path).and_then(Item::as_str);
        match trusted {
            Some(trusted) if trusted == hash => {}
            Some(_) => found.push((key.clone(), Untrusted::Changed)),
            None => found.push((key.clone(), Untrusted::Never)),
        }
    }
    Ok(found)
}

/// Returns `config.toml` with the trust in these hooks, and the way back. [`codex_trust`] gives the hooks, and `undo`
/// is the way back that the last consent gave, if one was kept. Refuses when a key that is needed holds something else.
pub fn trust_hooks(
    before: Option<&str>,
    undo: Option<&SetupUndo>,
    hooks: &[(String, String)],
) -> Result<EditedSettings, SetupError> {
    let text = install_trust(before.unwrap_or_default(), hooks)?;
    if undo.is_none() && before == Some(text.as_str()) {
        return Ok(EditedSettings { text, undo: None });
    }
    let restored = match (before, undo) {
        (Some(now), Some(undo)) => undo.restore(now),
        _ => None,
    };
    let original = match (restored, before, undo) {
        (Some(original), ..) => original,
        (None, Some(now), Some(undo)) => unless_ours(remove_trust(now, hooks)?, now, Some(undo)),
        (None, before, _) => before.map(str::to_owned),
    };
    let undo = SetupUndo::between(original.as_deref(), &text, Vec::new());
    Ok(EditedSettings {
        text,
        undo: Some(undo),
    })
}

/// A settings file without our entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The text; none when nothing is left of a file that was made for them.
    pub text: Option<String>,
    /// The way back, where another setup has entries in that file.
    pub undo: Option<SetupUndo>,
}

/// Returns `config.toml` without the trust in these hooks.
pub fn distrust_hooks(
    now: &str,
    undo: Option<&SetupUndo>,
    hooks: &[(String, String)],
) -> Result<Left, SetupError> {
    let left = remove_trust(now, hooks)?;
    match undo.and_then(|undo| undo.restore(now)) {
        Some(original) if lines(original.as_deref().unwrap_or_default()) == lines(&left) => {
            Ok(Left {
                text: original,
                undo: None,
            })
        }
        // Another setup has entries here as well: they stay, and so does the way back from them.
        Some(_) => {
            let undo = undo.and_then(|undo| undo.follow(now, &left));
            Ok(Left {
                text: Some(left),
                undo,
            })
        }
        None => Ok(Left {
            text: unless_ours(left, now, undo),
            undo: None,
        }),
    }
}

/// Returns `config.toml` without the connection of its user: as before that, with the trust that has been given to
/// other hooks since. The user's own hooks are those in the file at `hooks_json_path`. `None` when `undo` does not lead
/// back from `now`.
pub fn disconnect(
    now: &str,
    undo: &SetupUndo,
    hooks_json_path: &str,
) -> Result<Option<Left>, SetupError> {
    let Some(original) = undo.restore(now) else {
        return Ok(None);
    };
    let before = trusted(original.as_deref().unwrap_or_default())?;
    let mut others = trusted(now)?;
    let own = format!("{hooks_json_path}:");
    others.retain(|other| !before.contains(other) && !other.0.starts_with(&own));
    if others.is_empty() {
        return Ok(Some(Left {
            text: original,
            undo: None,
        }));
    }
    let left = install_trust(original.as_deref().unwrap_or_default(), &others)?;
    let undo = SetupUndo::between(original.as_deref(), &left, undo.kept().to_vec());
    Ok(Some(Left {
        text: Some(left),
        undo: Some(undo),
    }))
}

/// Returns every trusted hook in a `config.toml`, with its hash.
fn trusted(config: &str) -> Result<Vec<(String, String)>, SetupError> {
    let document = tables::parse(config)?;
    let state = tables::find(document.as_table(), &STATE).and_then(Item::as_table_like);
    let all = state.into_iter().flat_map(|state| state.iter());
    let hashes = all.filter_map(|(key, entry)| {
        let hash = entry.as_table_like()?.get(HASH)?.as_str()?;
        Some((key.to_owned(), hash.to_owned()))
    });
    Ok(hashes.collect())
}

/// Returns the lines of a text that are not empty, however they are spaced.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

/// The text of `config.toml` with the trust in these hooks. [`codex_trust`] gives them. Refuses when a key that is needed
/// holds something else.
pub fn install_trust(text: &str, hooks: &[(String, String)]) -> Result<String, SetupError> {
    let mut text = text.to_owned();
    for (key, hash) in hooks {
        let path = [STATE[0], STATE[1], key];
        text = tables::put(&text, &path, &[(HASH, hash.as_str().into())])?;
    }
    Ok(text)
}

/// The text of `config.toml` without the trust in these hooks. Where another hash is trusted under a key, it stays.
pub fn remove_trust(text: &str, hooks: &[(String, String)]) -> Result<String, SetupError> {
    let document = tables::parse(text)?;
    let paths: Vec<[&str; 3]> = hooks
        .iter()
        .map(|(key, hash)| ([STATE[0], STATE[1], key.as_str()], hash))
        .filter(|(path, hash)| {
            let entry = tables::find(document.as_table(), path).and_then(Item::as_table_like);
            let trusted = entry.and_then(|it| it.get(HASH)).and_then(Item::as_str);
            trusted == Some(hash.as_str())
        })
        .map(|(path, _)| path)
        .collect();
    let paths: Vec<&[&str]> = paths.iter().map(<[&str; 3]>::as_slice).collect();
    tables::cut(text, &paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOOKS: &str = r#"{"hooks": {
        "SessionStart": [
            {"hooks": [{"type": "command", "command": "other"}]},
            {"matcher": "startup", "hooks": [
                {"type": "command", "command": "other"},
                {"type": "command", "command": "fleet hook codex SessionStart", "timeout": 30}]}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "fleet hook codex SessionEnd", "timeout": 9}]}],
        "Stop": [{"matcher": "x", "hooks": [{"type": "command", "command": "fleet hook codex Stop", "statusMessage": "hi"}]}]}}"#;

    fn sha(text: &str) -> String {
        format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
    }

    #[test]
    fn keys_and_hashes_are_those_of_codex() {
        let end = r#"{"event_name":"session_end","hooks":[{"async":false,"command":"fleet hook codex SessionEnd","timeout":3,"type":"command"}]}"#;
        let start = r#"{"event_name":"session_start","hooks":[{"async":false,"command":"fleet hook codex SessionStart","timeout":30,"type":"command"}],"matcher":"startup"}"#;
        let stop = r#"{"event_name":"stop","hooks":[{"async":false,"command":"fleet hook codex Stop","statusMessage":"hi","timeout":600,"type":"command"}]}"#;
        assert_eq!(
            codex_trust("/h/hooks.json", HOOKS),
            [
                ("/h/hooks.json:session_end:0:0".to_owned(), sha(end)),
                ("/h/hooks.json:session_start:1:1".to_owned(), sha(start)),
                ("/h/hooks.json:stop:0:0".to_owned(), sha(stop)),
            ]
        );
        assert_eq!(codex_trust("/h", "{"), []);
    }

    #[test]
    fn trust_comes_and_goes() {
        let hooks = codex_trust("/My \"h\"/hooks.json", HOOKS);
        for before in [
            "",
            "model = \"x\"\n",
            "model = \"x\"",
            "a = 1\r\n[b]\r\nc = 2\r\n",
        ] {
            let with = install_trust(before, &hooks).unwrap();
            assert_eq!(with.matches(HASH).count(), 3, "{with}");
            assert_eq!(install_trust(&with, &hooks).unwrap(), with);
            assert_eq!(remove_trust(&with, &hooks).unwrap(), before);
        }
    }

    #[test]
    fn a_connection_that_ends_leaves_the_trust_in_other_hooks() {
        let path = "/home/ada/.codex/hooks.json";
        let own = codex_trust(path, HOOKS);
        let repository = codex_trust("/srv/shop/.codex/hooks.json", HOOKS);
        for before in [None, Some("model = \"x\"\n"), Some("# mine\r\n")] {
            let first = trust_hooks(before, None, &own).unwrap();
            let both = trust_hooks(Some(&first.text), first.undo.as_ref(), &repository).unwrap();
            let undo = both.undo.unwrap();
            let Left { text, undo } = disconnect(&both.text, &undo, path).unwrap().unwrap();
            let left = text.unwrap();
            assert_eq!(trusted(&left).unwrap(), repository);
            assert!(left.starts_with(before.unwrap_or_default()), "{left}");
            // The other one leads back to the very beginning.
            let as_before = Left {
                text: before.map(str::to_owned),
                undo: None,
            };
            let end = distrust_hooks(&left, undo.as_ref(), &repository).unwrap();
            assert_eq!(end, as_before);
            let first_undo = first.undo.unwrap();
            let alone = disconnect(&first.text, &first_undo, path).unwrap();
            assert_eq!(alone, Some(as_before));
            assert_eq!(disconnect("other = 1\n", &first_undo, path).unwrap(), None);
        }
    }

    #[test]
    fn hooks_that_codex_skips_are_named() {
        let hooks = codex_trust("/h", HOOKS);
        let all = codex_untrusted("", &hooks).unwrap();
        assert!(all.iter().all(|(_, why)| *why == Untrusted::Never));
        assert_eq!(all.len(), 3);
        let mut old = hooks.clone();
        old[1].1 = "sha256:00".to_owned();
        let text = install_trust("", &old).unwrap();
        assert_eq!(
            codex_untrusted(&text, &hooks).unwrap(),
            [(hooks[1].0.clone(), Untrusted::Changed)]
        );
        assert!(codex_untrusted("= 1", &hooks).is_err());
    }

    #[test]
    fn another_hash_stays() {
        let hooks = codex_trust("/h", HOOKS);
        let mut old = hooks.clone();
        old[0].1 = "sha256:00".to_owned();
        let text = install_trust("", &old).unwrap();
        assert_eq!(
            remove_trust(&text, &hooks).unwrap().matches(HASH).count(),
            1
        );
        let new = install_trust(&text, &hooks).unwrap();
        assert_eq!(new, install_trust("", &hooks).unwrap());
    }
}
