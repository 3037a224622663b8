//! Every payload that a real client was seen to send goes through the binary, in the order it came, and every answer is one that the client takes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use expect_test::expect_file;
use flightline_clients::Client;
use serde_json::Value;

use crate::cli::world::World;

/// Starts a hook of a client that writes this and does not close the input.
pub fn left_open(world: &World, client: &str, event: &str, text: &str) -> (Child, ChildStdin) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fleet"))
        .args(["hook", client, event])
        .current_dir(world.repo())
        .env_clear()
        .env("HOME", world.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("written");
    (child, stdin)
}

/// Where the recorded clients worked.
const RECORDED_IN: &str = "/home/user/proj";

/// The payloads of a client, each with its event, as if it had worked in this world.
pub fn recorded(client: Client, world: &World) -> Vec<(String, String)> {
    let texts: &[&str] = match client {
        Client::Claude => &[
            include_str!("../../../../flightline-clients/tests/payloads/claude.jsonl"),
            include_str!("../../../../flightline-clients/tests/payloads/claude.interactive.jsonl"),
        ],
        Client::Codex => &[include_str!(
            "../../../../flightline-clients/tests/payloads/codex.jsonl"
        )],
        Client::Gemini => &[include_str!(
            "../../../../flightline-clients/tests/payloads/gemini.jsonl"
        )],
        Client::Opencode => &[include_str!(
            "../../../../flightline-clients/tests/payloads/opencode.jsonl"
        )],
        Client::Copilot => &[include_str!(
            "../../../../flightline-clients/tests/payloads/copilot.jsonl"
        )],
        Client::Cline => &[include_str!(
            "../../../../flightline-clients/tests/payloads/cline.jsonl"
        )],
        Client::Cursor => &[include_str!(
            "../../../../flightline-clients/tests/payloads/cursor.jsonl"
        )],
    };
    let repo = world.repo().display().to_string();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let line = line.replace(RECORDED_IN, &repo);
            let line: Value = serde_json::from_str(&line).expect("a line is JSON");
            let event = line["event"].as_str().expect("an event").to_owned();
            (event, line["stdin"].to_string())
        })
        .collect()
}

/// Checks that a client takes an answer: nothing at all, or an object that has only fields which the client knows.
pub fn takes(client: Client, event: &str, stdout: &str) {
    if stdout.is_empty() {
        return;
    }
    let answer: Value = serde_json::from_str(stdout)
        .unwrap_or_else(|error| panic!("{client} {event}: {error}: {stdout}"));
    let fields = answer.as_object().expect("an object");
    let known: &[&str] = match client {
        Client::Claude | Client::Codex => &["systemMessage", "hookSpecificOutput"],
        Client::Gemini => &["systemMessage", "hookSpecificOutput", "decision", "reason"],
        Client::Opencode => &["context", "deny", "notice", "env"],
        Client::Copilot => &[
            "additionalContext",
            "permissionDecision",
            "permissionDecisionReason",
        ],
        Client::Cline => &["cancel", "context", "errorMessage"],
        Client::Cursor => &[
            "additional_context",
            "permission",
            "user_message",
            "agent_message",
        ],
    };
    for field in fields.keys() {
        assert!(
            known.contains(&field.as_str()),
            "{client} {event}: {stdout}"
        );
    }
    if let Some(specific) = answer.get("hookSpecificOutput") {
        assert_eq!(specific["hookEventName"], event, "{client}: {stdout}");
        assert!(
            !matches!(event, "PreCompact" | "PostCompact" | "SessionEnd" | "Stop"),
            "{client} refuses one with {event}: {stdout}"
        );
    }
    if client == Client::Cline {
        assert!(answer["cancel"].is_boolean(), "{event}: {stdout}");
    }
}

/// The beginning of what an answer says.
fn said(stdout: &str) -> String {
    let answer: Value = serde_json::from_str(stdout).unwrap_or_default();
    let specific = &answer["hookSpecificOutput"];
    let texts = [
        ("context", &specific["additionalContext"]),
        ("context", &answer["additionalContext"]),
        ("context", &answer["additional_context"]),
        ("context", &answer["context"]),
        ("deny", &specific["permissionDecisionReason"]),
    ];
    let found = texts.iter().find_map(|(word, text)| {
        let line = text.as_str()?.lines().next()?;
        Some(format!("{word}: {line}"))
    });
    let env = answer["env"].as_object().map(|env| format!("env: {env:?}"));
    found.or(env).unwrap_or_else(|| "nothing".to_owned())
}

#[test]
fn every_recorded_payload_is_answered_in_a_way_that_its_client_takes() {
    for client in Client::ALL {
        let world = World::new().local_only("the ids of the server's own acts would differ");
        let mut story = String::new();
        for (event, payload) in recorded(client, &world) {
            let ran = world
                .line(&format!("hook {client} {event}"))
                .stdin(payload)
                .run();
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{client} {event}");
            takes(client, &event, ran.stdout.trim_end());
            writeln!(story, "{event:24} {}", said(&ran.stdout)).unwrap();
        }
        let agents = world.json("agents list");
        for agent in agents.as_array().expect("a list") {
            let (name, epoch) = (&agent["agent"]["name"], &agent["agent"]["epoch"]);
            writeln!(story, "agent {name} epoch {epoch}").unwrap();
        }
        for mission in world.json("missions list").as_array().expect("a list") {
            writeln!(story, "mission {}", mission["title"]).unwrap();
        }
        // Without a mission there are none to list.
        let listed = |what: &str| {
            let ran = world.fleet(&format!("{what} list --json"));
            let all = (ran.code == 0).then(|| ran.json());
            all.and_then(|all| all.as_array().cloned())
                .unwrap_or_default()
        };
        for sortie in listed("sorties") {
            writeln!(story, "sortie {} {}", sortie["title"], sortie["status"]).unwrap();
        }
        for taken in listed("checkpoints") {
            writeln!(story, "checkpoint {}", taken["reason"]).unwrap();
        }
        world.ok("doctor");
        let file = format!("hook_corpus/{client}.txt");
        expect_file![file].assert_eq(&story);
    }
}
