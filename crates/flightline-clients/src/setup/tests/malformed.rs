//! Files that are left as they are.

use super::*;

fn refusal(place: &SetupFile, text: &str) -> String {
    install(place, Some(text), None, BINARY)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_malformed_json_file_is_named_by_line_and_column() {
    let settings = place(Client::Claude, "settings.json");
    for (text, said) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 2, column"),
        ("{\n  \"a\": }", "line 2, column 8: "),
        ("{", "line 1, column 1: unterminated object"),
        ("{\"a\": 'x'}", "line 1, column 7: "),
        ("{a: 1}", "line 1, column 2: "),
        ("{} {}", "line 1, column 4: "),
        ("\u{feff}{\n é}", "line 2, column 2: "),
        ("\n  [1]", "line 2, column 3: an object is expected"),
        (
            "{\"hooks\": []}",
            "line 1, column 11: `hooks` is not an object",
        ),
        (
            "{\"hooks\": {\n\"Stop\": 3}}",
            "line 2, column 9: `Stop` is not an array",
        ),
        (
            "{\"hooks\": {},\n \"hooks\": {}}",
            "line 2, column 2: `hooks` is there more than once",
        ),
    ] {
        let refused = refusal(&settings, text);
        assert!(refused.starts_with(said), "{text:?}: {refused}");
    }
}

#[test]
fn a_malformed_toml_file_is_named_by_line_and_column() {
    let config = place(Client::Codex, "config.toml");
    for (text, said) in [
        ("a = 1\nb==2\n", "line 2, column 3: "),
        ("[a\n", "line 1, column "),
        ("a = 1\na = 2\n", "line 2, column 1: "),
        (
            "mcp_servers = { x = { command = \"y\" } }\n",
            "line 1, column 15: `mcp_servers.flightline` is not a table",
        ),
        (
            "[mcp_servers]\nflightline = 3\n",
            "`mcp_servers.flightline` is there already",
        ),
    ] {
        let refused = refusal(&config, text);
        assert!(refused.starts_with(said), "{text:?}: {refused}");
    }
    let document = "x = 1\n[hooks]\nstate = 3\n";
    let trust = [("k".to_owned(), "sha256:0".to_owned())];
    let refused = install_trust(document, &trust).unwrap_err().to_string();
    assert!(refused.starts_with("line 3, column 9: "), "{refused}");
}

#[test]
fn a_block_without_an_end_is_left() {
    let rules = place(Client::Claude, "CLAUDE.md");
    let text = "x\n<!-- flightline:begin -->\ny\n";
    let refused = refusal(&rules, text);
    assert!(refused.starts_with("line 2, column 1: "), "{refused}");
    assert!(remove(&rules, text, None).is_err());
    assert!(
        install(
            &rules,
            Some(&format!("{text}{text}<!-- flightline:end -->")),
            None,
            BINARY
        )
        .is_err()
    );
}

#[test]
fn the_names_of_other_tools_are_theirs() {
    let taken = |place: &SetupFile, text: &str| {
        assert!(
            matches!(
                install(place, Some(text), None, BINARY),
                Err(SetupError::Taken { .. })
            ),
            "{text}"
        );
        assert_eq!(
            remove(place, text, None).unwrap().as_deref(),
            Some(text),
            "{text}"
        );
    };
    let servers = place(Client::Cursor, "mcp.json");
    taken(
        &servers,
        r#"{"mcpServers": {"flightline": {"command": "npx"}}}"#,
    );
    taken(&servers, r#"{"mcpServers": {"flightline": 3}}"#);
    taken(
        &place(Client::Codex, "config.toml"),
        "[mcp_servers.flightline]\nurl = \"http://x\"\n",
    );
    taken(&place(Client::Cline, "PreToolUse"), "#!/bin/sh\nexit 0\n");
    taken(&place(Client::Opencode, "flightline.js"), "export {}\n");
}

#[test]
fn a_program_of_another_name_is_refused() {
    let settings = place(Client::Claude, "settings.json");
    for binary in ["/bin/sh", "", "/x/fleet\n"] {
        let refused = install(&settings, None, None, binary).unwrap_err();
        assert!(matches!(refused, SetupError::Program { .. }), "{refused}");
    }
}
