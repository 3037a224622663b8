//! Seed A's six endpoints, with its bodies and status codes.

use std::time::Duration;

use flightline::core::token::Scope;
use flightline_testkit::{World, both_engines};
use serde_json::{Value, json};

use crate::server::{Client, start, token};

const CHECKPOINTS: &str = "/api/v1/checkpoints";

/// A mission of four sorties, of which the first is done and the second in work.
fn mission(client: &Client) -> String {
    let made = client
        .op(
            "create_mission",
            &json!({
                "title": "Implementing user authentication",
                "sorties": [
                    { "title": "User model" }, { "title": "Login" },
                    { "title": "Middleware" }, { "title": "Tests" },
                ],
            }),
        )
        .ok(200);
    let ada = client.and("fleet-agent", "ada");
    for _ in 0..2 {
        let claimed = ada.op("claim_next", &json!({ "lock": false })).ok(200);
        let id = claimed["sortie"]["id"]
            .as_str()
            .expect("a sortie")
            .to_owned();
        if claimed["sortie"]["title"] == "User model" {
            let done = json!({ "sortie": id, "action": { "complete": {} } });
            ada.op("change_sortie", &done).ok(200);
        }
    }
    made["mission"]["id"]
        .as_str()
        .expect("a mission")
        .to_owned()
}

fn take(client: &Client, mission: &str) -> Value {
    let body = json!({
        "mission_id": mission,
        "trigger": "manual",
        "trigger_details": "Before refactoring",
        "created_by": "dispatch-001",
    });
    let answer = client.post(CHECKPOINTS, &body);
    let at = answer.header("location").map(str::to_owned);
    let made = answer.ok(201)["checkpoint"].clone();
    let expected = format!("{CHECKPOINTS}/{}", made["id"].as_str().expect("an id"));
    assert_eq!(at, Some(expected));
    made
}

both_engines! {
    fn a_checkpoint_is_created_listed_and_shown(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        let made = take(&client, &mission);
        for (field, value) in [
            ("mission_id", json!(mission)),
            ("trigger", json!("manual")),
            ("trigger_details", json!("Before refactoring")),
            ("progress_percent", json!(25)),
            ("created_by", json!("dispatch-001")),
            ("version", json!("1.0.0")),
        ] {
            assert_eq!(made[field], value, "{field}");
        }
        for field in ["sorties", "active_locks", "pending_messages"] {
            assert!(made[field].is_array(), "{field}: {made}");
        }
        assert_eq!(made["sorties"].as_array().map(Vec::len), Some(4));
        let time = made["timestamp"].as_str().expect("a time");
        assert!(time.ends_with('Z') && time.len() == 24, "{time}");

        let listed = client.get(&format!("{CHECKPOINTS}?mission_id={mission}&limit=1")).ok(200);
        let keys: Vec<&String> = listed.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["checkpoints", "next_cursor", "total"]);
        // The milestone at 25 % was taken before.
        assert_eq!(listed["total"], 2);
        assert_eq!(listed["checkpoints"].as_array().map(Vec::len), Some(1));
        for field in ["id", "mission_id", "timestamp", "trigger", "progress_percent"] {
            assert_eq!(listed["checkpoints"][0][field], made[field], "{field}");
        }

        let id = made["id"].as_str().expect("an id");
        let shown = client.get(&format!("{CHECKPOINTS}/{id}")).ok(200);
        for field in ["id", "sorties", "active_locks", "recovery_context", "created_by", "rev"] {
            assert_eq!(shown[field], made[field], "{field}");
        }
        // The beginning of an id is enough, as everywhere.
        assert_eq!(client.get(&format!("{CHECKPOINTS}/{}", &id[..13])).ok(200)["id"], id);
        server.end();
    }

    fn recovery_goes_back_to_the_checkpoint(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        let id = take(&client, &mission)["id"].as_str().expect("an id").to_owned();
        let sorties = client.op("list_sorties", &json!({ "mission": mission, "status": null, "agent": null, "limit": 10 })).ok(200);
        let second = sorties.as_array().expect("sorties").iter().find(|it| it["title"] == "Login");
        let second = second.expect("a sortie")["id"].clone();
        let done = json!({ "sortie": second, "action": { "complete": {} } });
        client.and("fleet-agent", "ada").op("change_sortie", &done).ok(200);
        let path = format!("{CHECKPOINTS}/{id}/recover");

        // The agent that finished it is alive: that is not taken back without being told to.
        let refused = client.post(&path, &json!({ "dry_run": false, "agent_id": "dispatch-001" }));
        assert_eq!(refused.problem(409), "unfinished");

        let dry = json!({ "dry_run": true, "agent_id": "dispatch-001", "force": true });
        let stands = || {
            let sortie = client.op("show_sortie", &json!({ "sortie": second })).ok(200);
            let all = client.get(CHECKPOINTS).ok(200);
            (sortie["sortie"]["status"].clone(), all["total"].clone())
        };
        let before = stands();
        let would = client.post(&path, &dry).ok(200);
        assert_eq!(stands(), before, "a dry run changes nothing");
        assert_eq!(before.0, "completed");

        let wet = json!({ "dry_run": false, "agent_id": "dispatch-001", "force": true });
        let did = client.post(&path, &wet).ok(200);
        assert_eq!(did["success"], true);
        assert_eq!(did["restored"], would["restored"]);
        assert_eq!(did["restored"]["sorties"], 1, "one is not as it was found");
        for field in ["last_action", "next_steps", "blockers", "files_modified", "mission_summary", "elapsed_time_ms", "last_activity_at"] {
            assert!(!did["recovery_context"][field].is_null(), "{field}: {did}");
        }
        for field in ["warnings", "errors", "skipped_agents"] {
            assert!(did[field].is_array(), "{field}: {did}");
        }
        assert_ne!(stands().0, "completed");
        server.end();
    }

    fn a_checkpoint_is_deleted_unless_it_is_pinned(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        let id = take(&client, &mission)["id"].as_str().expect("an id").to_owned();
        let path = format!("{CHECKPOINTS}/{id}");
        client.op("mark_checkpoint", &json!({ "checkpoint": id, "mark": "pin" })).ok(200);
        assert_eq!(client.delete(&path).problem(409), "unfinished");
        client.op("mark_checkpoint", &json!({ "checkpoint": id, "mark": "unpin" })).ok(200);
        let gone = client.delete(&path);
        assert_eq!((gone.status, gone.text.as_str()), (204, ""));
        assert_eq!(client.delete(&path).problem(404), "not_found");
        assert_eq!(client.get(&path).problem(404), "not_found");
        server.end();
    }

    fn old_checkpoints_are_pruned(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        for number in 0..4 {
            world.pass(Duration::from_secs(60));
            let note = json!({ "mission_id": mission, "note": format!("number {number}") });
            client.post(CHECKPOINTS, &note).ok(201);
        }
        // Not a day: then the server would have pruned by itself.
        world.pass(Duration::from_secs(1_800));
        let body = |dry: bool| json!({
            "older_than_days": 0, "keep_per_mission": 3, "mission_id": null, "dry_run": dry,
        });
        let path = format!("{CHECKPOINTS}/prune");
        let would = client.post(&path, &body(true)).ok(200);
        let did = client.post(&path, &body(false)).ok(200);
        assert_eq!(would["deleted"], did["deleted"]);
        // Five there were, with the milestone.
        assert_eq!(did["deleted"], 2);
        assert!(did["freed_bytes"].is_u64(), "{did}");
        let details = did["details"].as_array().expect("a list");
        assert_eq!(details.len(), 2);
        for gone in details {
            assert_eq!(gone["mission_id"], mission.as_str());
            let id = gone["id"].as_str().expect("an id");
            assert_eq!(client.get(&format!("{CHECKPOINTS}/{id}")).problem(404), "not_found");
        }
        assert_eq!(client.post(&path, &body(false)).ok(200)["deleted"], 0);
        server.end();
    }

    fn what_was_said_of_a_checkpoint_stands_in_the_answer(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        let post = |trigger: &str, details: &str, by: &str| {
            let body = json!({ "mission_id": mission, "trigger": trigger, "trigger_details": details, "created_by": by });
            client.post(CHECKPOINTS, &body).ok(201)["checkpoint"].clone()
        };
        // Nothing changes between them but who asks, and in which words.
        let asked = [
            ("manual", "Before refactoring", "ada"),
            ("manual", "Before deploying", "ada"),
            ("manual", "Before deploying", "bob"),
            ("progress", "Half way", "bob"),
            ("error", "disk full", "bob"),
        ];
        let mut ids = std::collections::BTreeSet::new();
        for (trigger, details, by) in asked {
            let made = post(trigger, details, by);
            assert_eq!((&made["trigger"], &made["trigger_details"], &made["created_by"]), (&json!(trigger), &json!(details), &json!(by)));
            let blockers = made["recovery_context"]["blockers"].as_array().expect("a list").contains(&json!(details));
            assert_eq!(blockers, trigger == "error", "{made}");
            ids.insert(made["id"].to_string());
        }
        assert_eq!(ids.len(), asked.len());
        let (trigger, details, by) = asked[2];
        assert!(ids.contains(&post(trigger, details, by)["id"].to_string()), "the same again is the same");
        server.end();
    }

    fn nobody_recovers_or_prunes_by_sending_nothing(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        let id = take(&client, &mission)["id"].as_str().expect("an id").to_owned();
        let total = || client.get(CHECKPOINTS).ok(200)["total"].clone();
        let before = total();
        for path in [format!("{CHECKPOINTS}/{id}/recover"), format!("{CHECKPOINTS}/prune")] {
            let empty = client.send("POST", &path, None);
            assert_eq!(empty.problem(400), "invalid_input", "{path}");
        }
        for (path, body, expected) in [
            (format!("{CHECKPOINTS}/prune"), json!([]), "the body is a list, and must be an object"),
            (format!("{CHECKPOINTS}/prune"), json!({ "older_than_days": "x" }), "`older_than_days` of the body is the text \"x\", and must be a whole number that is not negative"),
            (format!("{CHECKPOINTS}/{id}/recover"), json!({ "dry_run": 1 }), "`dry_run` of the body is the number 1, and must be true or false"),
            (format!("{CHECKPOINTS}/{id}/recover"), json!({ "dryrun": true }), "the body has `dryrun`, which is none of its fields: `dry_run`, `agent_id`, `force`, `reopen`, `skip_failed`, `reset_to`"),
            (CHECKPOINTS.to_owned(), json!({ "trigger": "panic" }), "`trigger` of the body is `panic`, which is none of its words: `progress`, `error`, `manual`, `compaction`"),
            ("/api/v1/ops/claim_next".to_owned(), json!([null, false]), "the request for `claim_next` is a list, and must be an object"),
            ("/api/v1/ops/prune_checkpoints".to_owned(), json!({ "plan": { "keep": {} } }), "`plan.keep` of the request for `prune_checkpoints` is an object, and must be a whole number that is not negative"),
        ] {
            let refused = client.post(&path, &body);
            assert_eq!(refused.json()["detail"], expected, "{path} {body}");
        }
        assert_eq!(total(), before);
        server.end();
    }

    fn a_dry_run_of_a_recovery_answers_while_agents_are_at_work(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&client);
        let id = take(&client, &mission)["id"].as_str().expect("an id").to_owned();
        let ada = client.and("fleet-agent", "ada");
        let claimed = ada.op("claim_next", &json!({ "lock": false })).ok(200)["sortie"]["id"].clone();
        ada.op("change_sortie", &json!({ "sortie": claimed, "action": { "complete": {} } })).ok(200);
        let path = format!("{CHECKPOINTS}/{id}/recover");
        assert_eq!(client.post(&path, &json!({})).problem(409), "unfinished");
        let would = client.post(&path, &json!({ "dry_run": true })).ok(200);
        let lost = would["lost"].as_array().expect("a list");
        assert!(lost.iter().any(|lost| lost.to_string().contains("no longer completed")), "{would}");
        let warnings = would["warnings"].to_string();
        assert!(warnings.contains("refused without `--force`"), "{would}");
        server.end();
    }

    fn who_made_it_comes_from_the_token(world: &World) {
        let server = start(world);
        let dispatch = server.with(&token(world, "tests", Scope::Dispatch, None));
        let mission = mission(&dispatch);
        let body = |by: Option<&str>| json!({ "mission_id": mission, "created_by": by, "note": "again" });
        let by = |client: &Client, by: Option<&str>| {
            client.post(CHECKPOINTS, &body(by)).ok(201)["checkpoint"]["created_by"].clone()
        };
        assert_eq!(by(&dispatch, None), "user:tests");
        assert_eq!(by(&dispatch, Some("user:tests")), "user:tests");
        assert_eq!(by(&dispatch, Some("bob")), "bob");
        let ada = server.with(&token(world, "ada-1", Scope::Agent, Some("ada")));
        assert_eq!(by(&ada, None), "ada");
        assert_eq!(by(&ada, Some("ada")), "ada");
        assert_eq!(ada.post(CHECKPOINTS, &body(Some("bob"))).problem(403), "forbidden");
        assert_eq!(ada.post(CHECKPOINTS, &body(Some("user:ada-1"))).problem(403), "forbidden");
        server.end();
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let world = World::new(flightline_testkit::Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Dispatch, None));
    let post = |path: &str, body: Value| client.post(&format!("{CHECKPOINTS}{path}"), &body);
    let none = post("", json!({}));
    assert_eq!(none.problem(404), "not_found", "no mission yet");
    mission(&client);
    for (path, body) in [
        ("", json!({ "trigger": "nonsense" })),
        ("", json!({ "mission_id": 7 })),
        ("", json!({ "trigger": "manual", "reason": "api_error" })),
        ("", json!({ "unknown": true })),
        ("", json!([])),
        ("/prune", json!({ "older_than_days": -1 })),
        ("/nonsense/recover", json!({})),
        ("/..%2f..%2fetc/recover", json!({})),
    ] {
        assert_eq!(
            post(path, body.clone()).problem(400),
            "invalid_input",
            "{path} {body}"
        );
    }
    for query in ["?limit=many", "?limit=-1", "?nonsense=1"] {
        let answer = client.get(&format!("{CHECKPOINTS}{query}"));
        assert_eq!(answer.problem(400), "invalid_input", "{query}");
    }
    let missing = client.get(&format!("{CHECKPOINTS}?mission_id=msn-ffff"));
    assert_eq!(missing.problem(404), "not_found");
    server.end();
}
