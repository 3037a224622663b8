//! Whether the server tells the truth about itself.

use flightline::core::token::Scope;
use flightline_testkit::both_engines;
use serde_json::json;

use crate::server::{start, token};

both_engines! {
    fn health_needs_no_token_and_is_found_out_by_writing(world: &World) {
        let server = start(world);
        let anybody = server.with("nothing");
        let well = anybody.get("/healthz").ok(200);
        assert_eq!(well["status"], "ok", "{well}");
        assert_eq!(well["write_probe"]["ok"], true, "{well}");
        assert!(well["write_probe"]["age_ms"].is_u64(), "{well}");
        assert_eq!(anybody.get("/readyz").ok(200)["ready"], true);
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
