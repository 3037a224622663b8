//! A key makes a write happen once.

use flightline::core::token::Scope;
use flightline_testkit::{World, both_engines};
use serde_json::json;

use crate::server::{start, token};

both_engines! {
    fn the_same_key_gives_the_first_answer(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        client.op("create_mission", &json!({ "title": "Once", "sorties": [] })).ok(200);
        let once = client.and("idempotency-key", "key-1");
        let body = json!({ "trigger_details": "first" });
        let first = once.post("/api/v1/checkpoints", &body);
        assert_eq!((first.status, first.header("idempotent-replayed")), (201, None));
        let again = once.post("/api/v1/checkpoints", &body);
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
        assert_eq!(again.json(), first.json());

        let other = once.post("/api/v1/checkpoints", &json!({ "trigger_details": "second" }));
        assert_eq!(other.problem(409), "key_reused");
        assert_eq!(once.op("add_note", &json!({ "kind": "lesson", "text": "x" })).problem(409), "key_reused");

        // Somebody else's key is another key.
        let stranger = server.with(&token(world, "stranger", Scope::Dispatch, None));
        let theirs = stranger.and("idempotency-key", "key-1").post("/api/v1/checkpoints", &json!({ "note": "theirs" }));
        assert_eq!((theirs.status, theirs.header("idempotent-replayed")), (201, None));

        // What was refused may be tried again with the same key.
        let retry = client.and("idempotency-key", "key-2");
        let missing = json!({ "mission": "msn-ffff", "kind": "lesson", "text": "x" });
        assert_eq!(retry.op("add_note", &missing).problem(404), "not_found");
        let right = retry.op("add_note", &json!({ "kind": "lesson", "text": "x" }));
        assert_eq!((right.status, right.header("idempotent-replayed")), (200, None));
        server.end();
    }

    fn deleting_and_pruning_replay_too(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        client.op("create_mission", &json!({ "title": "Once", "sorties": [] })).ok(200);
        let made = client.post("/api/v1/checkpoints", &json!({})).ok(201);
        let path = format!("/api/v1/checkpoints/{}", made["checkpoint"]["id"].as_str().unwrap());
        let once = client.and("idempotency-key", "gone");
        assert_eq!(once.delete(&path).status, 204);
        let again = once.delete(&path);
        assert_eq!((again.status, again.header("idempotent-replayed")), (204, Some("true")));

        let prune = client.and("idempotency-key", "pruned");
        let body = json!({ "older_than_days": 0, "keep_per_mission": 0 });
        let first = prune.post("/api/v1/checkpoints/prune", &body);
        let again = prune.post("/api/v1/checkpoints/prune", &body);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(first.json(), again.json());
        server.end();
    }
}

#[test]
fn a_key_that_is_none_is_refused() {
    let world = World::new(flightline_testkit::Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Dispatch, None));
    let long = "k".repeat(256);
    for key in [long.as_str(), ""] {
        let answer = client
            .and("idempotency-key", key)
            .op("create_mission", &json!({ "title": "Once", "sorties": [] }));
        assert_eq!(answer.problem(400), "invalid_input", "{key}");
    }
    let twice = client
        .and("idempotency-key", "a")
        .and("idempotency-key", "b")
        .op("create_mission", &json!({ "title": "Once", "sorties": [] }));
    assert_eq!(twice.problem(400), "invalid_input");
    server.end();
}
