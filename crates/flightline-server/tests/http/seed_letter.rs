//! Seed A's examples to the letter: each request as it stands there, but for the ids, and each answer with everything
//! its example has, of the same type.

use std::time::Duration;

use flightline::core::token::Scope;
use flightline_testkit::both_engines;
use serde_json::{Value, json};

use crate::server::{Client, start, token};

const CREATE: &str = r#"{
  "mission_id": "msn-abc123",
  "trigger": "manual",
  "trigger_details": "Before refactoring",
  "created_by": "dispatch-001"
}"#;

const CREATED: &str = r#"{
  "checkpoint": {
    "id": "chk-def456",
    "mission_id": "msn-abc123",
    "timestamp": "2026-01-04T15:30:00.000Z",
    "trigger": "manual",
    "trigger_details": "Before refactoring",
    "progress_percent": 50,
    "sorties": [],
    "active_locks": [],
    "pending_messages": [],
    "recovery_context": {},
    "created_by": "dispatch-001",
    "version": "1.0.0"
  }
}"#;

const LISTED: &str = r#"{
  "checkpoints": [
    {
      "id": "chk-def456",
      "mission_id": "msn-abc123",
      "timestamp": "2026-01-04T15:30:00.000Z",
      "trigger": "progress",
      "progress_percent": 75
    }
  ],
  "total": 4
}"#;

const RECOVER: &str = r#"{
  "dry_run": false,
  "agent_id": "dispatch-001"
}"#;

const RECOVERED: &str = r#"{
  "success": true,
  "recovery_context": {
    "last_action": "Specialist-2 was editing src/auth.ts",
    "next_steps": ["Complete auth.ts changes", "Run tests"],
    "blockers": [],
    "files_modified": ["src/auth.ts"],
    "mission_summary": "Implementing user authentication",
    "elapsed_time_ms": 3600000,
    "last_activity_at": "2026-01-04T15:25:00.000Z"
  },
  "restored": {
    "sorties": 4,
    "locks": 2,
    "messages": 1
  }
}"#;

const PRUNE: &str = r#"{
  "older_than_days": 7,
  "keep_per_mission": 3,
  "mission_id": null,
  "dry_run": false
}"#;

const PRUNED: &str = r#"{
  "deleted": 3,
  "freed_bytes": 2457600,
  "details": [
    {"id": "chk-old001", "mission_id": "msn-abc123"},
    {"id": "chk-old002", "mission_id": "msn-abc123"},
    {"id": "chk-old003", "mission_id": "msn-def456"}
  ]
}"#;

/// Whether everything of the example is there, of the same type.
fn fits(example: &Value, real: &Value, at: &str) {
    match (example, real) {
        (Value::Object(example), Value::Object(real)) => {
            for (name, value) in example {
                let found = real
                    .get(name)
                    .unwrap_or_else(|| panic!("{at}/{name} is missing"));
                fits(value, found, &format!("{at}/{name}"));
            }
        }
        (Value::Array(example), Value::Array(real)) => {
            if let Some(first) = example.first() {
                real.iter()
                    .for_each(|it| fits(first, it, &format!("{at}[]")));
            }
        }
        (Value::String(example), Value::String(real)) => {
            let is_time =
                |text: &str| text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
            assert_eq!(is_time(example), is_time(real), "{at}: {real}");
            let prefix = |text: &str| text.split_once('-').map(|(prefix, _)| prefix.to_owned());
            if at.ends_with("id") {
                assert_eq!(prefix(example), prefix(real), "{at}: {real}");
            }
        }
        (Value::Number(_), Value::Number(_)) | (Value::Bool(_), Value::Bool(_)) => {}
        _ => panic!("{at} is {real}, and not like {example}"),
    }
}

fn example(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The fleet of the example: four sorties, half of them done, two locks, a message.
fn fleet(client: &Client) -> String {
    let sorties =
        ["User model", "Login", "Middleware", "Tests"].map(|title| json!({ "title": title }));
    let made = client
        .post(
            "/api/v1/missions",
            &json!({ "title": "Implementing user authentication", "sorties": sorties }),
        )
        .ok(201);
    let mission = made["mission"]["id"].as_str().unwrap().to_owned();
    let worker = client.and("fleet-agent", "Specialist-2");
    for _ in 0..2 {
        let next = worker
            .post(
                &format!("/api/v1/missions/{mission}/sorties/claim-next"),
                &json!({}),
            )
            .ok(200);
        let id = next["sortie"]["id"].as_str().unwrap();
        worker
            .post(&format!("/api/v1/sorties/{id}/complete"), &json!({}))
            .ok(200);
    }
    worker
        .post(
            &format!("/api/v1/missions/{mission}/sorties/claim-next"),
            &json!({}),
        )
        .ok(200);
    worker
        .post(
            "/api/v1/locks",
            &json!({ "paths": ["src/auth.ts", "src/login.ts"] }),
        )
        .ok(201);
    client
        .post(
            "/api/v1/messages",
            &json!({ "to": ["Specialist-2"], "subject": "Review needed" }),
        )
        .ok(201);
    mission
}

both_engines! {
    fn the_examples_of_the_seed_are_answered_as_it_says(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = fleet(&client);

        let created = client.send("POST", "/api/v1/checkpoints", Some(&CREATE.replace("msn-abc123", &mission))).ok(201);
        fits(&example(CREATED), &created, "");
        let made = &created["checkpoint"];
        for (field, value) in [("trigger", json!("manual")), ("trigger_details", json!("Before refactoring")), ("progress_percent", json!(50)), ("created_by", json!("dispatch-001")), ("version", json!("1.0.0")), ("mission_id", json!(mission))] {
            assert_eq!(made[field], value, "{field}");
        }
        for (field, count) in [("sorties", 4), ("active_locks", 2)] {
            assert_eq!(made[field].as_array().map(Vec::len), Some(count), "{field}: {made}");
        }
        let waiting = made["pending_messages"].as_array().unwrap();
        let waits = waiting.iter().find(|it| it["subject"] == "Review needed").unwrap();
        assert_eq!(waits["to"], json!(["Specialist-2"]));
        let id = made["id"].as_str().unwrap();

        let listed = client.get(&format!("/api/v1/checkpoints?mission_id={mission}&limit=10")).ok(200);
        fits(&example(LISTED), &listed, "");
        assert_eq!(listed["total"].as_u64(), listed["checkpoints"].as_array().map(|all| all.len() as u64));
        assert_eq!(listed["checkpoints"][0]["id"], id);

        let shown = client.get(&format!("/api/v1/checkpoints/{id}")).ok(200);
        fits(&example(CREATED)["checkpoint"], &shown, "");

        let recovered = client.send("POST", &format!("/api/v1/checkpoints/{id}/recover"), Some(RECOVER)).ok(200);
        fits(&example(RECOVERED), &recovered, "");
        assert_eq!((&recovered["success"], &recovered["restored"]["sorties"]), (&json!(true), &json!(0)), "nothing had changed since");
        assert_eq!(recovered["recovery_context"]["mission_summary"].as_str().map(|text| text.contains("Implementing user authentication")), Some(true), "{recovered}");

        let gone = client.delete(&format!("/api/v1/checkpoints/{id}"));
        assert_eq!((gone.status, gone.text.as_str()), (204, ""));

        for number in 0..6 {
            world.pass(Duration::from_secs(60));
            client.post("/api/v1/checkpoints", &json!({ "mission_id": mission, "note": format!("{number}") })).ok(201);
        }
        world.pass(Duration::from_secs(1_800));
        let body = PRUNE.replace("\"older_than_days\": 7", "\"older_than_days\": 0");
        let pruned = client.send("POST", "/api/v1/checkpoints/prune", Some(&body)).ok(200);
        fits(&example(PRUNED), &pruned, "");
        assert_eq!(pruned["deleted"].as_u64(), pruned["details"].as_array().map(|all| all.len() as u64));
        assert!(pruned["deleted"].as_u64() > Some(2), "{pruned}");
        // To the letter: nothing is a week old any more.
        let again = client.send("POST", "/api/v1/checkpoints/prune", Some(PRUNE)).ok(200);
        fits(&example(PRUNED), &again, "");
        assert_eq!(again["deleted"], 0);
        server.end();
    }
}
