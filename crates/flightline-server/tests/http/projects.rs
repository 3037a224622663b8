//! Many projects in one store, kept apart by the token; and several servers on it.

use flightline::core::token::Scope;
use flightline_testkit::{Engine, World};
use serde_json::{Value, json};

use crate::events::Listener;
use crate::server::{Client, start, token};

/// A mission with a sortie and a checkpoint, and their ids.
fn begin(client: &Client) -> [String; 3] {
    let id = |answer: &Value, name: &str| answer[name].as_str().unwrap().to_owned();
    let mission = client
        .op("create_mission", &json!({ "title": "M" }))
        .ok(200);
    let mission = id(&mission["mission"], "id");
    let sorties = json!({ "sorties": [{ "title": "S" }] });
    let sortie = client.op("add_sorties", &sorties).ok(200);
    let sortie = id(&sortie[0], "id");
    let checkpoint = json!({ "mission_id": mission });
    let checkpoint = client.post("/api/v1/checkpoints", &checkpoint).ok(201);
    [mission, sortie, id(&checkpoint["checkpoint"], "id")]
}

#[test]
fn a_token_opens_its_own_project_and_no_other() {
    let (ours, theirs) = (World::new(Engine::Postgres), World::new(Engine::Postgres));
    let server = start(&ours);
    let us = server.with(&token(&ours, "tests", Scope::Admin, None));
    let them = server.with(&token(&theirs, "tests", Scope::Admin, None));
    let ([mission, sortie, checkpoint], _) = (begin(&us), begin(&them));
    for (method, path, body) in [
        ("GET", format!("/api/v1/missions/{mission}"), None),
        ("GET", format!("/api/v1/sorties/{sortie}"), None),
        ("GET", format!("/api/v1/checkpoints/{checkpoint}"), None),
        ("DELETE", format!("/api/v1/checkpoints/{checkpoint}"), None),
        (
            "POST",
            format!("/api/v1/checkpoints/{checkpoint}/recover"),
            Some("{}"),
        ),
        (
            "GET",
            format!("/api/v1/checkpoints?mission_id={mission}"),
            None,
        ),
        (
            "POST",
            format!("/api/v1/sorties/{sortie}/claim"),
            Some("{}"),
        ),
    ] {
        let answer = them.send(method, &path, body);
        assert_eq!(answer.problem(404), "not_found", "{method} {path}");
    }
    // What they list is theirs alone.
    let listed = them
        .op("list_missions", &json!({ "archived": true, "limit": 100 }))
        .ok(200);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert!(!listed.to_string().contains(&mission));
    let tokens = them.op("list_tokens", &json!({ "all": true })).ok(200);
    assert_eq!(tokens.as_array().unwrap().len(), 1);
    // The same key in two projects is two keys.
    for client in [&us, &them] {
        let note = json!({ "kind": "lesson", "text": "once" });
        let first = client.and("idempotency-key", "same").op("add_note", &note);
        assert_eq!(first.header("idempotent-replayed"), None);
        first.ok(200);
    }
    // A checkpoint's file goes where its project's files go.
    let folder = ours
        .folder()
        .join(".flightline/projects")
        .join(&theirs.project);
    server.end();
    let files = std::fs::read_dir(folder.join("checkpoints")).unwrap();
    assert!(files.count() > 0);
    assert_eq!(ours.problems(), Vec::<String>::new());
    assert_eq!(theirs.problems(), Vec::<String>::new());
}

#[test]
fn a_token_with_another_projects_name_opens_nothing() {
    let (ours, theirs) = (World::new(Engine::Postgres), World::new(Engine::Postgres));
    let server = start(&ours);
    let token = token(&ours, "tests", Scope::Admin, None);
    let hex = |world: &World| world.project.replace("prj-", "").replace('-', "");
    let forged = token.replace(&hex(&ours), &hex(&theirs));
    assert_ne!(token, forged);
    let unknown = token.replace(&hex(&ours), &"0".repeat(32));
    // Before and after the right one is known.
    for _ in 0..2 {
        for wrong in [&forged, &unknown] {
            let answer = server.with(wrong).get("/api/v1/missions");
            assert_eq!(answer.problem(401), "unauthenticated");
            assert_eq!(answer.json()["detail"], "this token is not known");
        }
        server.with(&token).get("/api/v1/missions").ok(200);
    }
    server.end();
}

#[test]
fn a_token_that_is_revoked_opens_nothing_from_then_on_on_any_server() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let world = World::new(engine);
        let servers = [start(&world), start(&world)];
        let given = token(&world, "tests", Scope::Dispatch, None);
        let streams: Vec<Listener> = servers
            .iter()
            .map(|server| {
                server.with(&given).get("/api/v1/missions").ok(200);
                let mut stream = Listener::new(server, &given, "Connection: close\r\n");
                assert_eq!(stream.next().unwrap().1, "hello");
                stream
            })
            .collect();
        let revoke = flightline::token::RevokeToken {
            token: "tests".to_owned(),
        };
        world.run("", &revoke).unwrap();
        for server in &servers {
            let client = server.with(&given);
            for answer in [
                client.get("/api/v1/missions"),
                client.op("create_mission", &json!({ "title": "M" })),
                client.op("heartbeat", &json!({})),
                client.get("/api/v1/events/stream"),
                client.get("/metrics"),
            ] {
                assert_eq!(answer.problem(401), "unauthenticated");
            }
        }
        // Nor does a stream that was open bring anything.
        for mut stream in streams {
            let heard: Vec<String> = std::iter::from_fn(|| stream.next())
                .map(|(_, name, _)| name)
                .collect();
            assert_eq!(heard, ["unauthenticated"]);
        }
        servers.into_iter().for_each(crate::server::Server::end);
    }
}

#[test]
fn what_one_server_writes_listeners_of_another_hear_at_once() {
    let world = World::new(Engine::Postgres);
    let (here, there) = (start(&world), start(&world));
    let token = token(&world, "tests", Scope::Dispatch, None);
    let mut listener = Listener::new(&there, &token, "");
    assert_eq!(listener.next().unwrap().1, "hello");
    let mut revs = Vec::new();
    for number in 0..20 {
        let mission = json!({ "title": format!("M{number}") });
        here.with(&token).op("create_mission", &mission).ok(200);
        let (_, _, event) = listener.next().unwrap();
        revs.push(event["rev"].as_u64().unwrap());
    }
    assert!(
        revs.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{revs:?}"
    );
    here.end();
    there.end();
}
