//! No payload makes the reader fail.

use flightline_clients::{Client, HookEventKind, wire};
use serde_json::{Value, json};

#[test]
fn a_payload_may_be_cut_anywhere() {
    for (client, event, body) in super::recorded() {
        let text = body.to_string();
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            assert_eq!(
                wire::read(client, &event, &text[..at]),
                None,
                "{client} {event} {at}"
            );
        }
    }
}

#[test]
fn a_field_may_be_missing_or_of_another_type() {
    let odd = [
        json!(null),
        json!(true),
        json!(-3),
        json!(1.5e300),
        json!(""),
        json!("x"),
        json!([]),
        json!([[null]]),
        json!({}),
        json!({"x": {}}),
    ];
    for (client, event, body) in super::recorded() {
        for path in paths(&body, "") {
            for value in &odd {
                let mut changed = body.clone();
                *changed.pointer_mut(&path).unwrap() = value.clone();
                let _ = wire::read(client, &event, &changed.to_string());
            }
        }
        for key in body.as_object().unwrap().keys() {
            let mut fewer = body.clone();
            fewer.as_object_mut().unwrap().remove(key);
            let _ = wire::read(client, &event, &fewer.to_string());
        }
    }
}

/// Every place in a value.
fn paths(value: &Value, at: &str) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, it)| (format!("{at}/{key}"), it))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(key, it)| (format!("{at}/{key}"), it))
            .collect(),
        _ => Vec::new(),
    };
    inner
        .into_iter()
        .flat_map(|(path, it)| [vec![path.clone()], paths(it, &path)].concat())
        .collect()
}

#[test]
fn an_unknown_event_is_of_no_interest() {
    for client in Client::ALL {
        for (named, _, mut body) in super::recorded() {
            if named != client {
                continue;
            }
            for key in ["hook_event_name", "hookName"] {
                body.as_object_mut().unwrap().remove(key);
            }
            let found = wire::read(client, "SomethingNew", &body.to_string()).unwrap();
            assert_eq!(found.happening, HookEventKind::Other);
        }
    }
}

#[test]
fn odd_texts_tell_nothing() {
    let deep = format!(
        "{{\"session_id\":\"s\",\"a\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    for client in Client::ALL {
        for event in ["SessionStart", "PreToolUse", "chat.message", "", "\0"] {
            for text in [
                "",
                " ",
                "null",
                "[]",
                "{}",
                "3",
                "\"x\"",
                "{\"session_id\":null}",
                "{\"session_id\":3}",
                "\u{feff}",
                "{]",
                "\0",
                &deep,
            ] {
                assert_eq!(wire::read(client, event, text), None, "{client} {event}");
            }
        }
    }
}

#[test]
fn a_prompt_may_be_of_ten_megabytes() {
    let prompt = "ä\"\\n<hook_context>".repeat(500_000);
    for (client, event, mut body) in super::recorded() {
        let is_prompt = [
            "UserPromptSubmit",
            "BeforeAgent",
            "chat.message",
            "userPromptSubmitted",
            "beforeSubmitPrompt",
        ];
        if is_prompt.contains(&event.as_str()) {
            body["prompt"] = json!(prompt);
            let found = wire::read(client, &event, &body.to_string()).unwrap();
            assert_eq!(
                found.happening,
                HookEventKind::Prompt {
                    text: prompt.clone()
                }
            );
        }
    }
    let command =
        json!({"session_id": "s", "tool_name": "Bash", "tool_input": {"command": prompt}});
    assert!(wire::read(Client::Claude, "PreToolUse", &command.to_string()).is_some());
}
