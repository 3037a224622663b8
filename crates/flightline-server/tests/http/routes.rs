//! The routes that are one operation each, and their description.

use std::collections::BTreeSet;

use flightline::core::token::Scope;
use flightline_testkit::{Engine, World, both_engines};
use serde_json::{Value, json};

use crate::server::{start, token};

both_engines! {
    fn a_mission_is_flown_over_http(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let ada = server.with(&token(world, "ada-token", Scope::Agent, Some("ada")));
        let made = boss.post("/api/v1/missions", &json!({ "title": "Fly", "sorties": [{ "title": "One" }] })).ok(201);
        let mission = format!("/api/v1/missions/{}", made["mission"]["id"].as_str().unwrap());
        boss.post(&format!("{mission}/sorties"), &json!({ "title": "Two" })).ok(201);
        assert_eq!(boss.get("/api/v1/missions").ok(200)["missions"].as_array().map(Vec::len), Some(1));
        let agent = ada.post("/api/v1/agents", &json!({ "name": "ada" })).ok(201);
        assert_eq!(agent["agent"]["name"], "ada", "{agent}");
        let claimed = ada.post(&format!("{mission}/sorties/claim-next"), &json!({})).ok(200);
        let sortie = format!("/api/v1/sorties/{}", claimed["sortie"]["id"].as_str().unwrap());
        ada.send("PATCH", &sortie, Some(&json!({ "note": "half of it" }).to_string())).ok(200);
        ada.post("/api/v1/agents/ada/heartbeat", &json!({ "step": "typing" })).ok(200);
        assert_eq!(ada.post("/api/v1/agents/bob/heartbeat", &json!({})).problem(403), "forbidden");
        let lock = ada.post("/api/v1/locks", &json!({ "paths": ["src/a.rs"] })).ok(201);
        let lock = lock[0]["lock"]["id"].as_str().unwrap_or_else(|| panic!("{lock}")).to_owned();
        assert_eq!(boss.and("fleet-agent", "bob").post("/api/v1/locks", &json!({ "paths": ["src"] })).problem(409), "lock_held");
        assert_eq!(boss.get("/api/v1/locks").ok(200)["locks"].as_array().map(Vec::len), Some(1));
        ada.delete(&format!("/api/v1/locks/{lock}")).ok(200);
        ada.post(&format!("{mission}/notes"), &json!({ "kind": "decision", "text": "Rust" })).ok(201);
        assert_eq!(ada.get(&format!("{mission}/notes?kind=decision")).ok(200)["notes"].as_array().map(Vec::len), Some(1));
        ada.post("/api/v1/effects", &json!({ "key": "deploy" })).ok(201);
        ada.post("/api/v1/effects/deploy/done", &json!({})).ok(200);
        boss.post("/api/v1/messages", &json!({ "to": ["ada"], "subject": "Hello" })).ok(201);
        let inbox = boss.get("/api/v1/agents/ada/inbox").ok(200);
        assert!(inbox.to_string().contains("Hello"), "{inbox}");
        assert_eq!(boss.get("/api/v1/agents/nobody/recovery").problem(404), "not_found");
        assert_eq!(boss.get("/api/v1/agents/nobody").problem(404), "not_found");
        let brief = ada.get("/api/v1/agents/ada/recovery").ok(200);
        assert!(brief.to_string().contains("Fly"), "{brief}");
        ada.post(&format!("{sortie}/complete"), &json!({})).ok(200);
        let checkpoint = ada.post("/api/v1/checkpoints", &json!({})).ok(201);
        let id = checkpoint["checkpoint"]["id"].as_str().unwrap().to_owned();
        let path = format!("/api/v1/checkpoints/{id}");
        boss.send("PATCH", &path, Some(&json!({ "pinned": true }).to_string())).ok(200);
        assert_eq!(boss.post(&format!("{path}/verify"), &json!({})).ok(200)[0]["sound"], true);
        boss.get(&format!("{path}/diff/now")).ok(200);
        boss.post(&format!("{mission}/pause"), &json!({ "reason": "lunch" })).ok(200);
        let shown = boss.get(&mission).ok(200);
        assert_eq!(shown["mission"]["status"], "paused");
        assert!(!boss.get(&format!("{mission}/timeline")).ok(200)["events"].as_array().unwrap().is_empty());
        for path in ["/api/v1/events?limit=3", "/api/v1/recovery/candidates", "/api/v1/status", "/api/v1/stats", "/api/v1/agents/ada"] {
            boss.get(path).ok(200);
        }
        server.end();
    }

    fn several_acts_go_in_one_request(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let ada = server.with(&token(world, "ada-token", Scope::Agent, Some("ada")));
        let made = boss.post("/api/v1/missions", &json!({ "title": "Fly", "sorties": [{ "title": "One" }] })).ok(201);
        let mission = made["mission"]["id"].as_str().unwrap().to_owned();
        ada.post("/api/v1/agents", &json!({ "name": "ada" })).ok(201);
        let claimed = ada.post(&format!("/api/v1/missions/{mission}/sorties/claim-next"), &json!({})).ok(200);
        let id = claimed["sortie"]["id"].as_str().unwrap().to_owned();
        let with = ada.send("PATCH", &format!("/api/v1/sorties/{id}"), Some(&json!({ "note": "begun", "checkpoint": true }).to_string())).ok(200);
        assert!(with["checkpoint"].as_str().is_some(), "{with}");
        let batch = json!({ "operations": [
            { "operation": "update_sortie", "request": { "sortie": id, "note": "half of it" } },
            { "operation": "take_checkpoint", "request": { "note": "before lunch" } },
            { "operation": "heartbeat" },
        ] });
        let key = ada.and("idempotency-key", "lunch");
        let done = key.post("/api/v1/batch", &batch).ok(200);
        assert_eq!(done["outcomes"][0]["sortie"]["progress_notes"], "half of it", "{done}");
        let taken = done["outcomes"][1]["id"].as_str().unwrap();
        assert_eq!(boss.post(&format!("/api/v1/checkpoints/{taken}/verify"), &json!({})).ok(200)[0]["sound"], true);
        assert_eq!(key.post("/api/v1/batch", &batch).ok(200), done, "once, however often it is asked for");
        assert_eq!(ada.post("/api/v1/batch", &json!({ "operations": [] })).problem(400), "invalid_input");
        let narrow = json!({ "operations": [{ "operation": "heartbeat" }, { "operation": "archive_mission" }] });
        assert_eq!(ada.post("/api/v1/batch", &narrow).problem(404), "not_found");
        let ended = ada.post(&format!("/api/v1/sorties/{id}/complete"), &json!({ "checkpoint": true, "keep_locks": true })).ok(200);
        assert!(ended["checkpoint"].as_str().is_some(), "{ended}");
        server.end();
    }

    fn what_was_is_looked_at_over_http(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        let ada = server.with(&token(world, "ada-token", Scope::Agent, Some("ada")));
        let made = boss.post("/api/v1/missions", &json!({ "title": "Fly", "sorties": [{ "title": "One" }, { "title": "Two" }] })).ok(201);
        let mission = format!("/api/v1/missions/{}", made["mission"]["id"].as_str().unwrap());
        let renamed = boss.send("PATCH", &mission, Some(&json!({ "title": "Fly high", "phase": "build" }).to_string())).ok(200);
        assert_eq!((renamed["mission"]["title"].as_str(), renamed["mission"]["phase"].as_str()), (Some("Fly high"), Some("build")));
        ada.post(&format!("{mission}/sorties/claim-next"), &json!({})).ok(200);
        let taken = ada.post("/api/v1/checkpoints", &json!({})).ok(201)["checkpoint"].clone();
        let (id, rev) = (taken["id"].as_str().unwrap(), taken["rev"].as_u64().unwrap());
        let sortie = taken["sorties"][0]["id"].as_str().unwrap();
        ada.post(&format!("/api/v1/sorties/{sortie}/complete"), &json!({})).ok(200);

        let briefing = boss.get(&format!("/api/v1/checkpoints/{id}/briefing?agent=ada&max_tokens=500")).ok(200);
        assert!(briefing["text"].as_str().unwrap().contains("Fly high"), "{briefing}");
        assert_eq!(boss.get(&format!("/api/v1/checkpoints/{id}/briefing?agent=eve")).problem(404), "not_found");
        for (at, status) in [(id.to_owned(), "in_progress"), (rev.to_string(), "in_progress"), ("@latest".to_owned(), "completed")] {
            let state = boss.get(&format!("{mission}/state?at={at}")).ok(200);
            assert_eq!(state["sorties"][0]["status"], status, "{at}: {state}");
        }
        assert_eq!(boss.get(&format!("{mission}/state")).ok(200)["progress_percent"], 50);
        assert_eq!(boss.get(&format!("{mission}/state?at=2000-01-01T00:00:00Z")).problem(404), "not_found");
        let replay = boss.get(&format!("{mission}/replay?limit=1000")).ok(200);
        let steps = replay["steps"].as_array().unwrap();
        let first = steps[0]["step"].as_u64().unwrap();
        let one = boss.get(&format!("{mission}/replay?step={first}&states=true")).ok(200);
        assert_eq!(one["steps"].as_array().map(Vec::len), Some(1));
        assert_eq!(one["steps"][0]["state"]["mission"]["title"], "Fly");
        let rest = boss.get(&format!("{mission}/replay?after={}&limit=1000", steps[0]["rev"])).ok(200);
        assert_eq!(rest["steps"][0], steps[1]);
        assert_eq!(boss.get(&format!("{mission}/replay?after=many")).problem(400), "invalid_input");

        boss.post(&format!("/api/v1/checkpoints/{id}/recover"), &json!({ "force": true })).ok(200);
        let done = boss.get("/api/v1/recoveries").ok(200);
        let recovery = done["recoveries"][0]["id"].as_str().unwrap().to_owned();
        let undone = boss.post(&format!("/api/v1/recoveries/{recovery}/undo"), &json!({ "force": true })).ok(200);
        assert!(undone["recovery_context"].is_object(), "{undone}");
        assert_eq!(boss.get(&format!("/api/v1/sorties/{sortie}")).ok(200)["sortie"]["status"], "completed");
        assert_eq!(boss.post(&format!("/api/v1/recoveries/{recovery}/undo"), &json!({})).problem(409), "illegal_transition");

        let lock = ada.post("/api/v1/locks", &json!({ "paths": ["src/a.rs"] })).ok(201)[0]["lock"]["id"].as_str().unwrap().to_owned();
        let bob = boss.and("fleet-agent", "bob");
        let stolen = bob.post(&format!("/api/v1/locks/{lock}/steal"), &json!({ "reason": "urgent" })).ok(200);
        assert_eq!(stolen[0]["holder"], "bob");
        let told = boss.get("/api/v1/messages?agent=ada").ok(200);
        let told = told["messages"].as_array().unwrap().iter().find(|it| it["message"]["subject"].as_str().unwrap().contains("src/a.rs"));
        let message = told.unwrap()["message"]["id"].as_str().unwrap().to_owned();
        ada.post(&format!("/api/v1/messages/{message}/reply"), &json!({ "body": "why?" })).problem(404);
        ada.send("PATCH", "/api/v1/agents/ada", Some(&json!({ "status": "working" }).to_string()));
        assert_eq!(ada.send("PATCH", "/api/v1/agents/bob", Some("{}")).problem(403), "forbidden");

        // What the route decides, a body cannot; and what only a machine of the fleet's can know, nobody from afar.
        for (path, body) in [
            (format!("{mission}/pause"), json!({ "to": "failed" })),
            (format!("/api/v1/sorties/{sortie}/start"), json!({ "reason": "x" })),
            (format!("/api/v1/sorties/{sortie}/complete"), json!({ "sortie": "srt-ffff" })),
            ("/api/v1/agents/ada/takeover".to_owned(), json!({ "to": "bob", "sightings": [] })),
            ("/api/v1/locks".to_owned(), json!({ "paths": ["a"], "sightings": [] })),
        ] {
            assert_eq!(boss.post(&path, &body).problem(400), "invalid_input", "{path} {body}");
        }
        server.end();
    }
}

#[test]
fn the_description_is_the_one_that_is_committed() {
    let text = format!("{:#}\n", flightline_server::make_openapi());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    #[expect(
        clippy::disallowed_methods,
        reason = "as snapshots are renewed everywhere"
    )]
    if std::env::var("UPDATE_EXPECT").is_ok() {
        std::fs::write(path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/openapi.json is old: run this test with UPDATE_EXPECT=1"
    );
}

#[test]
fn every_described_route_is_there_and_asks_for_a_token() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let described = flightline_server::openapi();
    let (nobody, somebody) = (
        server.with("x"),
        server.with(&token(&world, "tests", Scope::Read, None)),
    );
    assert_eq!(somebody.get("/openapi.json").ok(200), *described);
    let mut ids = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, about) in methods.as_object().unwrap() {
            assert!(
                ids.insert(about["operationId"].to_string()),
                "twice: {about}"
            );
            let address = path.replace(['{', '}'], "");
            let body = (method != "get").then_some("{}");
            let answer = nobody.send(&method.to_uppercase(), &address, body);
            if about["security"] == json!([]) {
                assert_eq!(answer.status, 200, "{path}");
            } else {
                assert_eq!(answer.problem(401), "unauthenticated", "{method} {path}");
            }
            if path != "/api/v1/events/stream" {
                let known = somebody.send(&method.to_uppercase(), &address, body);
                let missing = Value::from("there is nothing at this address");
                assert!(known.status != 405, "{method} {path}");
                assert!(
                    known.status != 404 || known.json()["detail"] != missing,
                    "{method} {path}"
                );
            }
        }
    }
    server.end();
}
