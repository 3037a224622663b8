//! The program in a command: how its path is written for a shell, and how it is found again.

use crate::Client;

use super::SetupError;

/// The words after `fleet` that start the MCP server.
pub(super) const MCP: [&str; 1] = ["mcp"];

/// Refuses a path that no settings file can hold, or that we would not find again.
pub(super) fn check(binary: &str) -> Result<(), SetupError> {
    if is_fleet(binary) && !binary.chars().any(char::is_control) {
        return Ok(());
    }
    Err(SetupError::Program {
        binary: binary.to_owned(),
    })
}

/// Returns true when a path is that of `fleet`: a suffix such as `.exe` or `-dev` is let pass.
pub(super) fn is_fleet(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_prefix("fleet")
        .is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
}

/// A path as one word for a shell. That of Windows gets forward slashes, which every shell there takes.
pub(super) fn quoted(binary: &str) -> String {
    let windows = binary.as_bytes().get(1) == Some(&b':');
    let path = if windows {
        binary.replace('\\', "/")
    } else {
        binary.to_owned()
    };
    let plain = |it: char| it.is_ascii_alphanumeric() || "/._-+@:".contains(it);
    if path.chars().all(plain) {
        return path;
    }
    let mut word = String::from('"');
    for letter in path.chars() {
        if matches!(letter, '"' | '\\' | '$' | '`') {
            word.push('\\');
        }
        word.push(letter);
    }
    word.push('"');
    word
}

pub(super) fn hook(binary: &str, client: Client, event: &str) -> String {
    format!("{} hook {client} {event}", quoted(binary))
}

pub(super) fn statusline(binary: &str) -> String {
    format!("{} statusline", quoted(binary))
}

pub(super) fn is_hook(command: &str, client: Client) -> bool {
    after_fleet(command)
        .is_some_and(|mut rest| rest.next() == Some("hook") && rest.next() == Some(client.as_str()))
}

pub(super) fn is_statusline(command: &str) -> bool {
    after_fleet(command).is_some_and(|mut rest| rest.next() == Some("statusline"))
}

/// The program that a command starts, as it is found on the disk or on the PATH.
pub(super) fn named(command: &str) -> Option<String> {
    let command = command.trim_start();
    let word = &command[..word_end(command)];
    let mut name = String::new();
    let (mut quote, mut letters) = (None, word.chars());
    while let Some(letter) = letters.next() {
        match quote {
            Some('"') | None if letter == '\\' => name.extend(letters.next()),
            Some(open) if letter == open => quote = None,
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            Some(_) | None => name.push(letter),
        }
    }
    (!name.is_empty()).then_some(name)
}

/// The words after `fleet`, when a command starts with it.
fn after_fleet(command: &str) -> Option<std::str::SplitWhitespace<'_>> {
    let command = command.trim_start();
    let command = command.strip_prefix("& ").unwrap_or(command).trim_start();
    let end = word_end(command);
    let word = command[..end].trim_matches(['"', '\'']);
    is_fleet(word).then(|| command[end..].split_whitespace())
}

fn word_end(command: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in command.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some('"') if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None if letter.is_whitespace() => return at,
            None => {}
        }
    }
    command.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted("/usr/bin/fleet"), "/usr/bin/fleet");
        assert_eq!(quoted("/My Tools/fleet"), "\"/My Tools/fleet\"");
        assert_eq!(quoted("/a$b/`c`/fleet"), "\"/a\\$b/\\`c\\`/fleet\"");
        assert_eq!(
            quoted("C:\\Program Files\\fleet.exe"),
            "\"C:/Program Files/fleet.exe\""
        );
    }

    #[test]
    fn a_command_of_ours_is_found_again() {
        for binary in [
            "/usr/bin/fleet",
            "/My \"Tools\"/fleet",
            "C:\\Program Files\\fleet.exe",
            "/opt/fleet-dev",
            "fleet",
        ] {
            assert_eq!(check(binary), Ok(()), "{binary}");
            let command = hook(binary, Client::Claude, "Stop");
            assert!(is_hook(&command, Client::Claude), "{command}");
            assert!(!is_hook(&command, Client::Codex), "{command}");
            assert!(is_statusline(&statusline(binary)));
            assert!(is_hook(&format!("& {command}; exit 0"), Client::Claude));
        }
    }

    #[test]
    fn other_commands_are_not_ours() {
        for command in [
            "",
            "\"",
            "fleetctl hook claude Stop",
            "entire hook claude Stop",
            "echo fleet hook claude Stop",
            "fleet status",
            "/x/fleet_old hook claude Stop",
        ] {
            assert!(!is_hook(command, Client::Claude), "{command}");
        }
        for binary in ["", "/usr/bin/", "/usr/bin/sh", "/a\nb/fleet"] {
            assert!(check(binary).is_err(), "{binary:?}");
        }
    }
}
