//! How full a context is, from the records of the clients.

use flightline_clients::usage::{compactions, gauge, record_place, statusline_gauge};
use flightline_clients::{Client, ContextFill};

fn check(client: Client, limit: Option<u64>, tail: &str, expected: Option<(u64, u64)>) {
    let expected = expected.map(|(used, total)| ContextFill { used, total });
    assert_eq!(gauge(client, tail, limit), expected, "{tail}");
    // The first line may be cut.
    let cut = format!("put_tokens\":99}}}}}}\n{tail}");
    assert_eq!(gauge(client, &cut, limit), expected, "{tail}");
}

#[test]
fn claude() {
    let asked = |tokens: u64| {
        format!(
            r#"{{"type":"assistant","isSidechain":false,"message":{{"model":"m","usage":{{"input_tokens":{tokens},"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":7}}}}}}"#
        )
    };
    let side = asked(900).replace("\"isSidechain\":false", "\"isSidechain\":true");
    let synthetic = asked(0).replace("\"m\"", "\"<synthetic>\"");
    let boundary = r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":190106}}"#;
    let mention =
        r#"{"type":"user","message":{"content":"type system, subtype compact_boundary"}}"#;
    let check =
        |limit, tail: &[&str], expected| check(Client::Claude, limit, &tail.join("\n"), expected);
    check(
        None,
        &[&asked(5), mention, &asked(1000), mention],
        Some((1320, 200_000)),
    );
    check(Some(500_000), &[&asked(1000)], Some((1320, 500_000)));
    check(
        None,
        &[&asked(1000), &side, &synthetic],
        Some((1320, 200_000)),
    );
    check(None, &[&asked(300_000)], Some((300_320, 1_000_000)));
    check(None, &[&asked(1000), boundary], None);
    check(
        None,
        &[&asked(1000), boundary, &asked(10)],
        Some((330, 200_000)),
    );
    let known = boundary.replace(
        "\"preTokens\":190106",
        "\"preTokens\":190106,\"postTokens\":5000",
    );
    check(None, &[&asked(1000), &known], Some((5000, 200_000)));
    check(None, &[mention], None);
    check(None, &[], None);
    check(
        None,
        &[&asked(1000), &asked(5)[..60]],
        Some((1320, 200_000)),
    );
    let count = |tail: &[&str]| compactions(Client::Claude, &tail.join("\n"));
    assert_eq!(count(&[&asked(5), mention]), 0);
    assert_eq!(count(&[boundary, mention, boundary]), 2);
    assert_eq!(count(&[&boundary[10..], boundary]), 1);
}

#[test]
fn codex() {
    let count = r#"{"timestamp":"t","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":9000},"last_token_usage":{"input_tokens":100,"total_tokens":150},"model_context_window":190000},"rate_limits":null}}"#;
    let empty = r#"{"type":"event_msg","payload":{"type":"token_count","info":null}}"#;
    let windowless = count.replace(
        "\"model_context_window\":190000",
        "\"model_context_window\":null",
    );
    let compacted = r#"{"type":"compacted","payload":{"message":"summary"}}"#;
    let mention = r#"{"type":"response_item","payload":{"type":"message","content":"compacted"}}"#;
    let check =
        |limit, tail: &[&str], expected| check(Client::Codex, limit, &tail.join("\n"), expected);
    check(None, &[count, empty, mention], Some((150, 190_000)));
    check(Some(5), &[count], Some((150, 190_000)));
    check(None, &[&windowless], None);
    check(Some(400_000), &[&windowless], Some((150, 400_000)));
    check(None, &[count, compacted], None);
    check(None, &[compacted, count], Some((150, 190_000)));
    check(None, &[empty], None);
    assert_eq!(
        compactions(
            Client::Codex,
            &[count, compacted, mention, compacted].join("\n")
        ),
        2
    );
}

#[test]
fn gemini() {
    let said = r#"{"type":"gemini","content":"x","tokens":{"input":5000,"output":50,"total":5050},"model":"gemini-2.5-pro"}"#;
    let resumed = format!(r#"{{"$set":{{"messages":[{{"type":"user","content":"hi"}},{said}]}}}}"#);
    let compressed = format!(
        r#"{{"$set":{{"messages":[{{"type":"user","content":[{{"text":"<state_snapshot>one"}}]}},{said}]}}}}"#
    );
    let again = compressed.replace("one", "two");
    let mention = r#"{"type":"gemini","content":"the <state_snapshot> tag"}"#;
    let check =
        |limit, tail: &[&str], expected| check(Client::Gemini, limit, &tail.join("\n"), expected);
    check(
        None,
        &[
            said,
            r#"{"type":"user","content":"x"}"#,
            r#"{"$set":{"lastUpdated":"t"}}"#,
        ],
        Some((5000, 1_048_576)),
    );
    check(Some(100), &[said], Some((5000, 100)));
    check(None, &[&resumed], Some((5000, 1_048_576)));
    check(None, &[said, &compressed], None);
    check(None, &[&compressed, said], Some((5000, 1_048_576)));
    let count = |tail: &[&str]| compactions(Client::Gemini, &tail.join("\n"));
    assert_eq!(count(&[said, &resumed, mention]), 0);
    assert_eq!(count(&[&compressed, said]), 1);
    assert_eq!(count(&[&compressed, &compressed]), 1);
    assert_eq!(count(&[&compressed, &again]), 2);
}

#[test]
fn copilot() {
    let record = r#"{"type":"session.usage_record","data":{"usage":{"inputTokens":50000,"outputTokens":5,"cacheReadTokens":1}}}"#;
    let start = r#"{"type":"session.compaction_start","data":{"currentTokens":110123,"tokenLimit":120000,"trigger":"threshold"}}"#;
    let complete = r#"{"type":"session.compaction_complete","data":{"success":true,"outcome":"applied","messagesRemoved":4}}"#;
    let cancelled =
        r#"{"type":"session.compaction_complete","data":{"success":false,"outcome":"cancelled"}}"#;
    let check =
        |limit, tail: &[&str], expected| check(Client::Copilot, limit, &tail.join("\n"), expected);
    check(None, &[record], None);
    check(Some(64_000), &[record], Some((50_000, 64_000)));
    check(None, &[record, start], Some((110_123, 120_000)));
    check(None, &[start, cancelled], Some((110_123, 120_000)));
    check(None, &[start, complete], None);
    check(None, &[start, complete, record], Some((50_000, 120_000)));
    assert_eq!(
        compactions(
            Client::Copilot,
            &[start, cancelled, start, complete].join("\n")
        ),
        1
    );
}

#[test]
fn no_record_makes_it_fail() {
    for client in Client::ALL {
        for tail in [
            "",
            "\n",
            "null",
            "[]",
            "{}",
            "{\"type\":3}",
            "\u{feff}",
            "{\"$set\":{\"messages\":[null,{}]}}",
            "{\"data\":{\"currentTokens\":1,\"tokenLimit\":0}}",
        ] {
            assert_eq!(gauge(client, tail, None), None);
            assert_eq!(gauge(client, tail, Some(0)), None);
            assert_eq!(compactions(client, tail), 0);
        }
        let _ = gauge(client, &"{\"type\":\"assistant\"}\n".repeat(20_000), None);
    }
}

#[test]
fn the_status_line_of_claude() {
    let recorded = include_str!("../payloads/claude.statusline.json");
    let session = "362ba9e1-1b9a-4011-b88e-3f2314b3b996".to_owned();
    let found = Some((
        session.clone(),
        ContextFill {
            used: 50_000,
            total: 200_000,
        },
    ));
    assert_eq!(statusline_gauge(recorded), found);
    let mut body: serde_json::Value = serde_json::from_str(recorded).unwrap();
    body["context_window"]["current_usage"] = serde_json::Value::Null;
    body["context_window"]["used_percentage"] = serde_json::json!(24.6);
    let rounded = Some((
        session,
        ContextFill {
            used: 48_000,
            total: 200_000,
        },
    ));
    assert_eq!(statusline_gauge(&body.to_string()), rounded);
    body["context_window"]["used_percentage"] = serde_json::Value::Null;
    assert_eq!(statusline_gauge(&body.to_string()), None);
    for odd in ["", "{}", "null", "{\"session_id\":\"s\"}", &recorded[..300]] {
        assert_eq!(statusline_gauge(odd), None);
    }
}

#[test]
fn a_record_is_found_by_the_session_and_nothing_else_is() {
    let place = record_place(Client::Copilot, "58a9af65-9af8").expect("a place");
    assert_eq!(place.path, "session-state/58a9af65-9af8/events.jsonl");
    for odd in ["", "..", "a/b", "../../etc", "a b"] {
        assert_eq!(record_place(Client::Copilot, odd), None, "{odd}");
    }
    assert_eq!(record_place(Client::Claude, "one"), None);
}
