//! Whether the server tells the truth about itself.

use std::time::{Duration, Instant};

use flightline::core::token::Scope;
use flightline::store::{Location, Store};
use flightline_testkit::database::Database;
use flightline_testkit::{Engine, World, both_engines};
use serde_json::json;

use crate::server::{Client, start, token};

both_engines! {
    fn health_needs_no_token_and_is_found_out_by_writing(world: &World) {
        let server = start(world);
        let anybody = server.with("nothing");
        let well = anybody.get("/healthz").ok(200);
        assert_eq!(well["status"], "ok", "{well}");
        assert_eq!(well["write_probe"]["ok"], true, "{well}");
        assert!(well["write_probe"]["age_ms"].is_u64(), "{well}");
        assert_eq!(anybody.get("/readyz").ok(200)["ready"], true);
        let jobs = well["jobs"].as_array().unwrap();
        for name in ["write_probe", "backups", "staleness", "leases", "retention", "thinning", "wal_checkpoint", "integrity"] {
            assert!(jobs.iter().any(|job| job["name"] == name), "{name}: {well}");
        }
        server.end();
    }

    fn figures_count_requests_and_name_nobody(world: &World) {
        let server = start(world);
        let token = token(world, "tests", Scope::Read, None);
        let client = server.with(&token);
        client.op("list_missions", &json!({ "limit": 5 })).ok(200);
        client.get("/api/v1/missions/msn-ffff").problem(404);
        client.get("/nowhere").problem(404);
        let figures = client.get("/metrics");
        assert_eq!(figures.status, 200);
        for labels in [
            "method=\"POST\",route=\"/api/v1/ops/{operation}\",status=\"200\"",
            "method=\"GET\",route=\"/api/v1/missions/{id}\",status=\"404\"",
            "method=\"GET\",route=\"unknown\",status=\"404\"",
        ] {
            let line = format!("flightline_request_duration_seconds_count{{{labels}}} 1\n");
            assert!(figures.text.contains(&line), "{labels}: {}", figures.text);
        }
        assert!(!figures.text.contains("msn-ffff") && !figures.text.contains("nowhere"));
        server.end();
    }

    fn a_mission_under_way_gets_a_checkpoint_when_the_server_ends(world: &World) {
        let server = start(world);
        let client = server.with(&token(world, "tests", Scope::Dispatch, None));
        client.op("create_mission", &json!({ "title": "Under way", "sorties": [{ "title": "One" }] })).ok(200);
        client.and("fleet-agent", "ada").op("claim_next", &json!({ "lock": false })).ok(200);
        server.end();
        let again = start(world);
        let client = again.with(&token(world, "again", Scope::Read, None));
        let listed = client.get("/api/v1/checkpoints").ok(200);
        assert_eq!(listed["checkpoints"][0]["reason"], "shutdown", "{listed}");
        // Its file was written, too: the end waits for it.
        let id = listed["checkpoints"][0]["id"].as_str().unwrap();
        let shown = client.get(&format!("/api/v1/checkpoints/{id}")).ok(200);
        assert_eq!(shown["backup"]["state"], "written", "{shown}");
        again.end();
    }
}

/// Asks until the health is as wanted.
pub fn becomes(client: &Client, status: u16, word: &str) -> serde_json::Value {
    let began = Instant::now();
    loop {
        let answer = client.get("/healthz");
        let told = answer.json();
        if answer.status == status && told["status"] == word {
            return told;
        }
        assert!(
            began.elapsed() < Duration::from_secs(45),
            "{status} {word}: {told}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_store_that_was_taken_away_is_told_and_comes_back_by_itself() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Dispatch, None));
    let make = json!({ "title": "Add login", "sorties": [] });
    client.op("create_mission", &make).ok(200);
    let folder = world.folder().join(".flightline");
    let away = world.folder().join("away");
    std::fs::rename(&folder, &away).unwrap();
    // Nothing is written where nobody would ever find it.
    client.op("create_mission", &make).problem(503);
    let told = becomes(&server.with("nothing"), 503, "failing");
    assert_eq!(told["write_probe"]["ok"], false, "{told}");
    assert_eq!(server.with("nothing").get("/readyz").status, 503);
    std::fs::rename(&away, &folder).unwrap();
    client.op("create_mission", &make).ok(200);
    becomes(&client, 200, "ok");
    let listed = client.op("list_missions", &json!({ "limit": 9 })).ok(200);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    server.end();
}

#[test]
fn a_postgres_that_was_stopped_is_told_and_comes_back_by_itself() {
    let (world, database) = (World::new(Engine::Sqlite), Database::start());
    let location = Location::Postgres(database.url().to_owned());
    let project = world.project.clone();
    Store::create(&location, &project, "health", world.options()).unwrap();
    let world = world.at(location, &project);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Dispatch, None));
    let make = json!({ "title": "Add login", "sorties": [] });
    client.op("create_mission", &make).ok(200);
    database.halt();
    client.op("create_mission", &make).problem(503);
    becomes(&client, 503, "failing");
    database.again();
    becomes(&client, 200, "ok");
    client.op("create_mission", &make).ok(200);
    let listed = client.op("list_missions", &json!({ "limit": 9 })).ok(200);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    server.end();
}
