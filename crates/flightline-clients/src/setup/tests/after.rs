//! Files that a person changed after the install, and entries of older versions.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::Value;

use super::*;

fn value(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}');
    let root = CstRootNode::parse(text, &ParseOptions::default()).unwrap();
    root.to_serde_value().unwrap()
}

/// Adds a key and a comment right behind the first brace.
fn with_more(text: &str) -> String {
    text.replacen('{', "{\n  // mine\n  \"added\": {\"x\": [1]}, ", 1)
}

#[test]
fn only_ours_go_from_a_changed_json_file() {
    for place in everywhere() {
        if !matches!(place.kind, SettingsFormat::Json(_)) {
            continue;
        }
        for before in texts(&place) {
            let ours_before = installed(&place, before).unwrap();
            if before.trim_matches(['\u{feff}', ' ', '\n']).is_empty() || ours_before {
                continue;
            }
            let label = format!("{} {}: {before:?}", place.client, place.path);
            let change = install(&place, Some(before), None, BINARY).unwrap();
            let now = with_more(&change.text);
            let back = remove(&place, &now, change.undo.as_ref())
                .unwrap()
                .expect(&label);
            let mut want = value(&with_more(before));
            // A file of hooks keeps its version, which is needed as long as anything is there.
            if value(&back).get("version").is_some() {
                want["version"] = 1.into();
            }
            assert_eq!(value(&back), want, "{label}\n{back}");
            for comment in ["// mine", "// one", "/* two */", "// after b", "// behind"] {
                if before.contains(comment) {
                    assert!(back.contains(comment), "{label}\n{back}");
                }
            }
            assert_eq!(back.contains('\r'), before.contains('\r'), "{label}");
            assert_eq!(
                back.starts_with('\u{feff}'),
                before.starts_with('\u{feff}'),
                "{label}"
            );
        }
    }
}

#[test]
fn a_changed_file_reads_as_if_we_never_were_there() {
    let settings = place(Client::Claude, "settings.json");
    let before = "{\n  \"model\": \"opus\", // big\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [{ \"type\": \"command\", \"command\": \"say\" }]\n      }\n    ]\n  }\n}\n";
    let change = install(&settings, Some(before), None, BINARY).unwrap();
    let now = change.text.replace("opus", "sonnet");
    let back = remove(&settings, &now, change.undo.as_ref()).unwrap();
    assert_eq!(back, Some(before.replace("opus", "sonnet")));
    // Without a kept way back the result is equal here.
    let back = remove(&settings, &now, None).unwrap();
    assert_eq!(back, Some(before.replace("opus", "sonnet")));
}

#[test]
fn a_handler_that_a_person_put_into_our_group_stays() {
    let settings = place(Client::Claude, "settings.json");
    let change = install(&settings, None, None, BINARY).unwrap();
    let mut file = value(&change.text);
    let list = file["hooks"]["PreToolUse"][0]["hooks"]
        .as_array_mut()
        .unwrap();
    list.push(serde_json::json!({"type": "command", "command": "mine"}));
    let now = serde_json::to_string_pretty(&file).unwrap();
    let back = remove(&settings, &now, change.undo.as_ref())
        .unwrap()
        .unwrap();
    assert_eq!(
        value(&back),
        serde_json::json!({"hooks": {"PreToolUse": [{
            "matcher": "Edit|Write|MultiEdit|NotebookEdit|Bash|TodoWrite",
            "hooks": [{"type": "command", "command": "mine"}]}]}})
    );
    // An install over it changes nothing: the group has the right matcher.
    let again = install(&settings, Some(&now), None, BINARY).unwrap();
    assert_eq!(again.text, now);
}

#[test]
fn a_comment_in_a_list_of_ours_stays() {
    let hooks = place(Client::Cursor, "hooks.json");
    let change = install(&hooks, None, None, BINARY).unwrap();
    let now = change
        .text
        .replacen("\"stop\": [", "\"stop\": [\n      // keep me", 1);
    let back = remove(&hooks, &now, change.undo.as_ref()).unwrap().unwrap();
    assert!(back.contains("// keep me"), "{back}");
    assert!(!back.contains("fleet"), "{back}");
}

#[test]
fn an_older_entry_is_brought_up_to_date_where_it_stands() {
    let settings = place(Client::Claude, "settings.json");
    let before = r#"{
  "hooks": {
    // a hook of an older version
    "Notification": [{"hooks": [{"type": "command", "command": "fleet hook claude Notification"}]}],
    "PostToolUse": [
      {"hooks": [{"type": "command", "command": "/old/fleet hook claude PostToolUse", "async": true}]}, // ours
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]},
      {"hooks": [{"type": "command", "command": "fleet hook claude PostToolUse"}]}
    ],
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [
        {"type": "command", "command": "mine"},
        {"type": "command", "command": "fleet hook claude PreToolUse"}
      ]}
    ],
    "SessionStart": [
      {"hooks": [{"type": "command", "command": "\"/My Tools/fleet\" hook claude SessionStart", "timeout": 10}]}
    ]
  },
  "statusLine": {"type": "command", "command": "fleet statusline", "padding": 0}
}
"#;
    let change = install(&settings, Some(before), None, BINARY).unwrap();
    let text = &change.text;
    let file = value(text);
    let hooks = &file["hooks"];
    assert_eq!(hooks.get("Notification"), None, "{text}");
    assert_eq!(
        hooks["PostToolUse"],
        serde_json::json!([
            {"hooks": [{"type": "command", "command": "/usr/local/bin/fleet hook claude PostToolUse", "timeout": 10}]},
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}])
    );
    assert!(text.contains("// ours"), "{text}");
    assert_eq!(
        hooks["PreToolUse"],
        serde_json::json!([
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]},
            {"matcher": "Edit|Write|MultiEdit|NotebookEdit|Bash|TodoWrite",
             "hooks": [{"type": "command", "command": "/usr/local/bin/fleet hook claude PreToolUse", "timeout": 10}]}])
    );
    assert_eq!(
        hooks["SessionStart"][0]["matcher"],
        "startup|resume|clear|compact|fork"
    );
    assert_eq!(
        file["statusLine"],
        serde_json::json!({"type": "command", "command": "/usr/local/bin/fleet statusline", "padding": 0})
    );
    let again = install(&settings, Some(text), None, BINARY).unwrap();
    assert_eq!(&again.text, text);
    let back = remove(&settings, text, change.undo.as_ref()).unwrap();
    assert_eq!(back.as_deref(), Some(before));
}

#[test]
fn a_server_keeps_the_choices_of_a_person() {
    let config = place(Client::Opencode, "opencode.json");
    let before = r#"{"mcp": {"flightline": {"type": "local", "command": ["fleet", "mcp"], "enabled": false, "environment": {"FLEET_HOME": "/x"}}}}"#;
    let change = install(&config, Some(before), None, BINARY).unwrap();
    assert_eq!(
        value(&change.text)["mcp"]["flightline"],
        serde_json::json!({"type": "local", "command": [BINARY, "mcp"], "enabled": false, "environment": {"FLEET_HOME": "/x"}})
    );
    let config = place(Client::Codex, "config.toml");
    let before = "[mcp_servers.flightline] # ours\ncommand = \"fleet\"\nstartup_timeout_sec = 20\n\n[mcp_servers.flightline.env]\nFLEET_HOME = \"/x\"\n";
    let change = install(&config, Some(before), None, BINARY).unwrap();
    assert_eq!(
        change.text,
        "[mcp_servers.flightline] # ours\nargs = [\"mcp\"]\ncommand = \"/usr/local/bin/fleet\"\nstartup_timeout_sec = 20\n\n[mcp_servers.flightline.env]\nFLEET_HOME = \"/x\"\n"
    );
}

#[test]
fn only_ours_go_from_a_changed_toml_file() {
    let config = place(Client::Codex, "config.toml");
    for before in texts(&config) {
        if installed(&config, before).unwrap() || !before.ends_with('\n') {
            continue;
        }
        let change = install(&config, Some(before), None, BINARY).unwrap();
        let more = "\n[mine]\nx = 1 # keep\n";
        let now = format!("{}{more}", change.text);
        let back = remove(&config, &now, change.undo.as_ref()).unwrap();
        assert_eq!(back, Some(format!("{before}{more}")), "{before:?}");
    }
}

#[test]
fn the_table_of_a_server_goes_with_all_that_is_below_it() {
    let config = place(Client::Codex, "config.toml");
    let text = "a = 1\n\n# the fleet\n[mcp_servers.flightline]\ncommand = \"fleet\"\nargs = [\n  \"mcp\",\n] # old\n\n# next\n[mcp_servers.flightline.env]\nX = \"1\"\n\n[tui]\nx = 1\n";
    assert_eq!(
        remove(&config, text, None).unwrap().as_deref(),
        Some("a = 1\n\n# the fleet\n\n# next\n\n[tui]\nx = 1\n")
    );
}

#[test]
fn only_the_block_goes_from_a_changed_markdown_file() {
    let rules = place(Client::Claude, "CLAUDE.md");
    for before in texts(&rules) {
        if installed(&rules, before).unwrap() || !before.ends_with('\n') {
            continue;
        }
        let change = install(&rules, Some(before), None, BINARY).unwrap();
        for now in [
            format!("# New\n\n{}", change.text),
            format!("{}\n# New\n", change.text),
        ] {
            let back = remove(&rules, &now, change.undo.as_ref()).unwrap().unwrap();
            assert!(!back.contains("flightline"), "{back}");
            assert!(back.contains("# New"), "{back}");
            assert!(back.contains(before.trim()), "{back}");
        }
        let text = format!("# New\n\n{}", change.text);
        let back = remove(&rules, &text, change.undo.as_ref()).unwrap();
        assert_eq!(back, Some(format!("# New\n\n{before}")), "{before:?}");
    }
}

#[test]
fn a_file_that_we_created_goes_when_nothing_else_is_in_it() {
    for place in everywhere() {
        let change = install(&place, None, None, BINARY).unwrap();
        assert!(change.undo.as_ref().unwrap().created());
        for text in [change.text.clone(), format!("{}\n", change.text)] {
            for undo in [change.undo.as_ref(), None] {
                assert_eq!(remove(&place, &text, undo).unwrap(), None, "{place:?}");
            }
        }
    }
    // One that was there, and empty, stays.
    let servers = place(Client::Cursor, "mcp.json");
    let change = install(&servers, Some("{}"), None, BINARY).unwrap();
    let now = format!("{}\n", change.text);
    let back = remove(&servers, &now, change.undo.as_ref()).unwrap();
    assert_eq!(back.as_deref(), Some("{}\n"));
}

#[test]
fn trust_is_part_of_the_way_back() {
    let hooks = place(Client::Codex, "hooks.json");
    let config = place(Client::Codex, "config.toml");
    let with_hooks = install(&hooks, None, None, BINARY).unwrap();
    let trust = codex_trust("/h/.codex/hooks.json", &with_hooks.text);
    assert_eq!(trust.len(), super::hooks(Client::Codex).len());
    let before = "model = \"gpt-5\"";
    let change = install(&config, Some(before), None, BINARY).unwrap();
    let trusting = install_trust(&change.text, &trust).unwrap();
    let change = change.followed_by(trusting);
    let back = remove(&config, &change.text, change.undo.as_ref()).unwrap();
    assert_eq!(back.as_deref(), Some(before));
    // After a change by Codex itself, the two go one by one.
    let now = format!("{}\n\n[tui]\nx = 1\n", change.text);
    let back = remove(&config, &now, change.undo.as_ref())
        .unwrap()
        .unwrap();
    let back = remove_trust(&back, &trust).unwrap();
    assert_eq!(back, "model = \"gpt-5\"\n\n[tui]\nx = 1\n");
}

#[test]
fn the_files_of_ours_name_the_program() {
    let plugin = plugin_js("/My \"Tools\"/fleet");
    assert!(plugin.contains("const FLEET = \"/My \\\"Tools\\\"/fleet\"\n"));
    assert!(!plugin.contains("@fleet@"));
    let script = install(&place(Client::Cline, "PreToolUse"), None, None, BINARY).unwrap();
    assert!(script.text.starts_with("#!/bin/sh\n"));
    assert!(
        script
            .text
            .ends_with("exec /usr/local/bin/fleet hook cline PreToolUse\n")
    );
    for line in agents_md().lines() {
        assert!(line.len() <= 120, "{line}");
    }
    assert!(agents_md().lines().count() <= 40);
    assert!(skill_md().starts_with("---\nname: flightline\ndescription: "));
}

#[test]
fn what_a_client_gets() {
    let show = |client, end| {
        install(&place(client, end), None, None, BINARY)
            .unwrap()
            .text
    };
    let gemini = value(&show(Client::Gemini, "settings.json"));
    assert_eq!(
        gemini["hooks"]["SessionStart"],
        serde_json::json!([{"matcher": "*", "hooks": [{"name": "flightline", "type": "command",
            "command": "/usr/local/bin/fleet hook gemini SessionStart", "timeout": 10000}]}])
    );
    assert_eq!(
        gemini["mcpServers"]["flightline"],
        serde_json::json!({"command": BINARY, "args": ["mcp"]})
    );
    let copilot = value(&show(Client::Copilot, "flightline.json"));
    assert_eq!(copilot["version"], 1);
    assert_eq!(
        copilot["hooks"]["preCompact"],
        serde_json::json!([{"matcher": "manual|auto", "type": "command",
            "bash": "/usr/local/bin/fleet hook copilot preCompact || true",
            "powershell": "& /usr/local/bin/fleet hook copilot preCompact; exit 0", "timeoutSec": 20}])
    );
    let cursor = show(Client::Cursor, "hooks.json");
    assert!(cursor.starts_with("{\n  \"version\": 1,\n  \"hooks\": {\n    \"sessionStart\": ["));
    assert!(cursor.ends_with("}\n"));
    let codex = value(&show(Client::Codex, "hooks.json"));
    let keys: Vec<&String> = codex.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["hooks"]);
    let cline = value(&show(Client::Cline, "cline_mcp_settings.json"));
    assert_eq!(
        cline["mcpServers"]["flightline"]["transport"]["command"],
        BINARY
    );
    assert_eq!(
        show(Client::Codex, "config.toml"),
        "[mcp_servers.flightline]\ncommand = \"/usr/local/bin/fleet\"\nargs = [\"mcp\"]\n"
    );
}
