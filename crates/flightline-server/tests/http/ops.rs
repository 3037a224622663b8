//! Any operation by its name, and who may ask for it.

use flightline::core::token::Scope;
use flightline::registry::operations;
use flightline_server::openapi;
use flightline_testkit::{Engine, World, both_engines};
use serde_json::json;

use crate::server::{start, token};

both_engines! {
    fn operations_answer_over_http_as_they_do_locally(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        let made = client.op("create_mission", &json!({ "title": "Far", "sorties": [{ "title": "One" }] })).ok(200);
        let mission = made["mission"]["id"].as_str().unwrap();
        let there = client.op("show_mission", &json!({ "mission": mission })).ok(200);
        let show = flightline::mission::ShowMission { mission: Some(mission.to_owned()) };
        let here = world.run("", &show).unwrap();
        assert_eq!(there, serde_json::to_value(here).unwrap());
        server.end();
    }

    fn an_agents_token_acts_as_that_agent_and_no_other(world: &World) {
        let server = start(world);
        let boss = server.with(&token(world, "boss", Scope::Dispatch, None));
        boss.op("create_mission", &json!({ "title": "M", "sorties": [{ "title": "One" }, { "title": "Two" }] })).ok(200);
        let ada = server.with(&token(world, "ada-token", Scope::Agent, Some("ada")));
        let claimed = ada.op("claim_next", &json!({ "lock": false })).ok(200);
        let owner = claimed["sortie"]["assigned_to"].clone();
        assert_eq!(ada.op("show_agent", &json!({ "agent": "ada", "sightings": [] })).ok(200)["agent"]["id"], owner);

        assert_eq!(ada.and("fleet-agent", "bob").op("claim_next", &json!({ "lock": false })).problem(403), "forbidden");
        let register = |name: &str| json!({ "name": name, "role": null, "kind": null, "session": null, "process": null, "feature": null });
        assert_eq!(ada.op("register_agent", &register("bob")).problem(403), "forbidden");
        ada.op("register_agent", &register("ada")).ok(200);
        assert_eq!(ada.op("retire_agent", &json!({ "agent": "bob", "reason": null })).problem(403), "forbidden");
        // Who coordinates may.
        boss.and("fleet-agent", "bob").op("claim_next", &json!({ "lock": false })).ok(200);
        server.end();
    }
}

#[test]
fn a_token_goes_as_far_as_its_scope() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let of = |name: &str, scope, agent| server.with(&token(&world, name, scope, agent));
    let read = of("reader", Scope::Read, None);
    let agent = of("worker", Scope::Agent, Some("ada"));
    let dispatch = of("boss", Scope::Dispatch, None);
    let admin = of("root", Scope::Admin, None);
    let make = json!({ "title": "M", "sorties": [] });
    assert_eq!(read.op("create_mission", &make).problem(403), "forbidden");
    agent.op("create_mission", &make).ok(200);
    let list = json!({ "archived": false, "limit": 5 });
    for client in [&read, &agent, &dispatch, &admin] {
        client.op("list_missions", &list).ok(200);
    }
    let made = agent.post("/api/v1/checkpoints", &json!({})).ok(201);
    let path = format!(
        "/api/v1/checkpoints/{}",
        made["checkpoint"]["id"].as_str().unwrap()
    );
    for client in [&read, &agent] {
        assert_eq!(client.delete(&path).problem(403), "forbidden");
        let prune = client.post("/api/v1/checkpoints/prune", &json!({ "dry_run": true }));
        assert_eq!(prune.problem(403), "forbidden");
    }
    assert_eq!(dispatch.delete(&path).status, 204);
    let tokens = json!({ "all": true });
    assert_eq!(
        dispatch.op("list_tokens", &tokens).problem(403),
        "forbidden"
    );
    let listed = admin.op("list_tokens", &tokens).ok(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(4));
    assert!(!listed.to_string().contains("sha256"), "{listed}");

    // What was taken back opens nothing, from the next request on.
    read.op("list_missions", &list).ok(200);
    admin
        .op("revoke_token", &json!({ "token": "reader" }))
        .ok(200);
    assert_eq!(
        read.op("list_missions", &list).problem(401),
        "unauthenticated"
    );
    // Nor does what has expired.
    world.pass(std::time::Duration::from_secs(3_600));
    assert_eq!(
        admin.op("list_tokens", &tokens).problem(401),
        "unauthenticated"
    );
    server.end();
}

#[test]
fn what_is_no_operation_or_does_not_fit_is_said() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Admin, None));
    assert_eq!(client.op("nonsense", &json!({})).problem(404), "not_found");
    assert_eq!(client.op("..%2fetc", &json!({})).problem(404), "not_found");
    let wrong = client.op("list_missions", &json!({ "limit": "many" }));
    assert_eq!(wrong.problem(400), "invalid_input");
    let epoch = client
        .and("fleet-epoch", "soon")
        .op("list_missions", &json!({}));
    assert_eq!(epoch.problem(400), "invalid_input");
    // An old incarnation is fenced, as it is locally.
    let ada = client.and("fleet-agent", "ada");
    client
        .op("create_mission", &json!({ "title": "M", "sorties": [] }))
        .ok(200);
    ada.op("add_note", &json!({ "kind": "lesson", "text": "x" }))
        .ok(200);
    let old = ada
        .and("fleet-epoch", "9")
        .op("add_note", &json!({ "kind": "lesson", "text": "x" }));
    assert_eq!(old.problem(409), "fenced");
    server.end();
}

#[test]
fn every_operation_is_described_by_its_own_name() {
    let document = openapi();
    let described: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .filter_map(|path| path.strip_prefix("/api/v1/ops/"))
        .filter(|name| !name.starts_with('{'))
        .collect();
    for name in &described {
        let post = &document["paths"][format!("/api/v1/ops/{name}")]["post"];
        assert_eq!(post["x-operation"], *name);
        let body = &post["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["type"], "object", "{name}: {body}");
        let answer = &post["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(answer.is_object(), "{name}: {answer}");
        assert!(post["summary"].as_str().unwrap().len() > 5, "{name}");
    }
    // An internal operation is asked for by `fleet` alone, and told to nobody.
    let internal: Vec<&str> = operations()
        .iter()
        .map(|entry| entry.name)
        .filter(|name| !described.contains(name))
        .collect();
    assert_eq!(
        internal,
        [
            "list_processes",
            "name_history",
            "apply_prune",
            "plan_thinning",
            "thin_journal",
            "record_thinning",
            "tell_put_aside",
            "settle_backups",
            "compare_files",
            "after_write",
            "clear_files",
            "give_back",
            "mend_from_files"
        ]
    );
    let by_name = &document["paths"]["/api/v1/ops/{operation}"]["post"];
    let names = by_name["parameters"][0]["schema"]["enum"]
        .as_array()
        .unwrap();
    assert_eq!(names.len(), described.len());
    assert_eq!(
        by_name["x-scopes"].as_object().unwrap().len(),
        described.len()
    );
}

#[test]
fn an_internal_operation_is_carried_out_and_an_inner_step_is_not_known() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Admin, None));
    for name in ["list_processes", "name_history", "plan_thinning"] {
        client.op(name, &json!({})).ok(200);
    }
    for step in [
        "check_token",
        "due_checkpoints",
        "examine_checkpoints",
        "mend_checkpoint",
        "record_backups",
        "record_files",
        "relay_events",
        "unsettled_backups",
        "verify_checkpoint",
    ] {
        assert_eq!(client.op(step, &json!({})).problem(404), "not_found");
    }
    server.end();
}

#[test]
fn a_whole_number_may_be_written_with_a_point() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Dispatch, None));
    client.op("list_missions", &json!({ "limit": 5.0 })).ok(200);
    let answer = client.op("list_missions", &json!({ "limit": 5.5 }));
    assert_eq!(answer.problem(400), "invalid_input");
    assert!(answer.text.contains("`limit` of the request"), "{answer:?}");
    server.end();
}
