#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files as others do"
)]
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::*;

fn typed(line: &str, environment: Option<&str>) -> Repeated {
    let arguments: Vec<OsString> = words(line).into_iter().map(OsString::from).collect();
    let cli = Cli::try_parse_from(&arguments).expect("a command");
    Repeated::of(&cli.globals, environment, &arguments)
}

#[test]
fn a_command_repeats_what_was_typed_and_it_needs() {
    let bob = "fleet locks acquire src/a.rs --agent bob";
    for (line, shown, complete) in [
        (
            bob,
            "fleet locks acquire src/a.rs --wait 15m",
            "fleet locks acquire src/a.rs --wait 15m --agent bob",
        ),
        (
            bob,
            "fleet sorties claim srt-1 --agent NAME",
            "fleet sorties claim srt-1 --agent bob",
        ),
        (
            bob,
            "fleet mail send --to ada --subject \"…\"",
            "fleet mail send --to ada --subject \"…\" --agent bob",
        ),
        (
            bob,
            "fleet context --agent ada",
            "fleet context --agent ada",
        ),
        (bob, "fleet agents list", "fleet agents list"),
        (
            bob,
            "fleet agents register bob",
            "fleet agents register bob",
        ),
        (
            bob,
            "fleet agents takeover ada NEW",
            "fleet agents takeover ada NEW --agent bob",
        ),
        (bob, "fleet locks --help", "fleet locks --help"),
        ("fleet -C 'a b' status", "fleet init", "fleet -C 'a b' init"),
        (
            "fleet --location /s status",
            "fleet doctor --fix",
            "fleet --location /s doctor --fix",
        ),
        (
            "fleet --server http://h -C x status",
            "fleet login http://h",
            "fleet -C x login http://h",
        ),
        (
            "fleet sorties claim --next --mission msn-1",
            "fleet sorties list",
            "fleet sorties list --mission msn-1",
        ),
        (
            "fleet sorties claim --next --mission msn-1",
            "fleet sorties show srt-1",
            "fleet sorties show srt-1",
        ),
        (
            "fleet status --mission msn-1",
            "fleet missions use ID",
            "fleet missions use ID",
        ),
        (
            "fleet resume --checkpoint chk-1 -y",
            "fleet resume --checkpoint chk-1 --force",
            "fleet resume --checkpoint chk-1 --force -y",
        ),
        (
            "fleet resume --checkpoint chk-1 -y",
            "fleet resume --checkpoint chk-1 --dry-run",
            "fleet resume --checkpoint chk-1 --dry-run",
        ),
        (
            "fleet resume --checkpoint chk-1 -y",
            "fleet checkpoints list",
            "fleet checkpoints list",
        ),
        (
            "fleet doctor --rebuild -y",
            "fleet doctor --fix",
            "fleet doctor --fix",
        ),
    ] {
        assert_eq!(typed(line, None).command(shown), complete, "{line}");
    }
    let named = typed("fleet sorties complete srt-1", Some("ada"));
    let claim = "fleet sorties claim srt-1 --agent NAME";
    assert_eq!(named.command(claim), "fleet sorties claim srt-1");
    let person = typed("fleet sorties complete srt-1", None);
    assert_eq!(person.command(claim), claim);
}

#[test]
fn in_a_text_only_commands_of_ours_in_backticks_are_completed() {
    let bob = typed("fleet status --agent bob", None);
    assert_eq!(
        bob.complete("fleet undo, `rm x`, `fleet undo` and `fleet agents list`"),
        "fleet undo, `rm x`, `fleet undo --agent bob` and `fleet agents list`"
    );
    // A backtick in a quoted word ends no command.
    assert_eq!(
        bob.complete(r"see `fleet locks release '$(x)`y`'\''z'`, or `fleet undo`"),
        r"see `fleet locks release '$(x)`y`'\''z' --agent bob`, or `fleet undo --agent bob`"
    );
}

/// Every command in backticks in a text of ours, whatever prints it, is one that there is, with flags that there are.
#[test]
fn every_command_in_the_sources_can_be_typed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in [
        "fleet",
        "flightline",
        "flightline-core",
        "flightline-store",
        "flightline-workspace",
        "flightline-server",
    ] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a source");
        for command in commands(&text) {
            seen += 1;
            if let Err(error) = Cli::try_parse_from(words(&command))
                && !matches!(
                    error.kind(),
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
                )
            {
                wrong.push(format!("{}: `{command}`: {}", file.display(), error.kind()));
            }
        }
    }
    assert!(seen > 150, "only {seen} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs")
            && !path.ends_with("hint/tests.rs")
        {
            found.push(path);
        }
    }
}

/// Finds the commands in the lines of a source that are no comments; values that are filled in are words.
fn commands(source: &str) -> Vec<String> {
    let lines = source.lines().map(str::trim_start);
    // What stands in a file that we write is read, not pasted.
    let code = lines.filter(|line| !line.starts_with("//") && !line.contains("\"# "));
    let code: Vec<&str> = code.map(|line| line.trim_end_matches('\\')).collect();
    let mut found = Vec::new();
    for line in code {
        let parts: Vec<&str> = line.split('`').collect();
        for pair in parts.windows(2) {
            let (before, part) = (pair[0], pair[1]);
            let closed = line.contains(&format!("`{part}`"));
            if closed && !before.ends_with('\\') && (part == "fleet" || part.starts_with("fleet "))
            {
                found.push(filled(part));
            }
        }
    }
    found
}

/// Fills each place of a command in a format string.
fn filled(command: &str) -> String {
    let mut text = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(match name {
            "kind" => "mission",
            "last" | "step" => "7",
            "purpose" => "status",
            "needed" => "read",
            _ => "x",
        });
        rest = after;
    }
    text.push_str(rest);
    text.replace("\\\"", "\"")
}

/// Splits a command into words as a shell does, without redirections to files.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    let typed = words.into_iter().take_while(|word| word != "<");
    typed.filter(|word| !word.is_empty()).collect()
}
