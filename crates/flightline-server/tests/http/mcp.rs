//! MCP over HTTP: the same tools, behind the same door.

use flightline::core::token::Scope;
use flightline_testkit::both_engines;
use serde_json::{Value, json};

use crate::server::{Client, start, token};

/// Asks for a method of the protocol.
fn ask(client: &Client, method: &str, params: &Value) -> Value {
    let client = client.and("accept", "application/json, text/event-stream");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = client.post("/mcp", &body).ok(200);
    assert_eq!(answer["id"], 1, "{answer}");
    answer
}

/// Calls a tool, and gives its result.
fn call(client: &Client, tool: &str, arguments: &Value) -> Value {
    ask(
        client,
        "tools/call",
        &json!({ "name": tool, "arguments": arguments }),
    )["result"]
        .clone()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

both_engines! {
    fn an_agent_works_over_mcp_as_over_http(world: &World) {
        let server = start(world);
        let lead = server.with(&token(world, "lead", Scope::Dispatch, None));
        let hello = ask(&lead, "initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }));
        assert_eq!(hello["result"]["serverInfo"]["name"], "flightline");
        let tools = ask(&lead, "tools/list", &json!({}));
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 15);
        let made = call(&lead, "fleet_mission", &json!({ "action": "create", "title": "Far", "sorties": ["One"] }));
        let mission = made["structuredContent"]["mission"]["id"].as_str().unwrap();
        assert_eq!(lead.get(&format!("/api/v1/missions/{mission}")).ok(200)["mission"]["title"], "Far");
        let ada = server.with(&token(world, "adas", Scope::Agent, Some("ada")));
        let claimed = call(&ada, "fleet_sortie", &json!({ "action": "claim" }));
        assert_eq!(claimed["structuredContent"]["owner"], "ada", "{claimed}");
        // What it is given here counts as given, and is acknowledged here.
        let given = call(&ada, "fleet_context", &json!({}));
        let nonce = given["structuredContent"]["nonce"].clone();
        let done = call(&ada, "fleet_context", &json!({ "ack": nonce }));
        assert_eq!(done["structuredContent"]["receipt"]["status"], "acknowledged", "{done}");
        let preview = call(&lead, "fleet_resume", &json!({ "action": "preview" }));
        assert_eq!(preview["isError"], true, "there is no checkpoint yet: {preview}");
        let read = ask(&ada, "resources/read", &json!({ "uri": "fleet://status" }));
        assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("Far"));
        let log = server.log();
        assert!(log.contains("claim_next") && log.contains("/mcp"), "{log}");
    }

    fn a_token_goes_as_far_over_mcp_as_elsewhere(world: &World) {
        let server = start(world);
        let accept = "application/json, text/event-stream";
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let lead = token(world, "lead", Scope::Dispatch, None);
        assert_eq!(server.with("").and("accept", accept).post("/mcp", &list).status, 401);
        assert_eq!(server.with(&lead).and("accept", accept).and("host", "evil.example").post("/mcp", &list).status, 421);
        assert_eq!(server.with(&lead).and("accept", accept).and("origin", "http://evil.example").post("/mcp", &list).status, 403);
        assert_eq!(server.with(&lead).get("/mcp").status, 405);
        let reader = server.with(&token(world, "reader", Scope::Read, None));
        assert_eq!(call(&reader, "fleet_status", &json!({}))["isError"], false);
        let refused = call(&reader, "fleet_note", &json!({ "kind": "lesson", "text": "x" }));
        assert!(text(&refused).starts_with("error (forbidden)"), "{refused}");
        let ada = server.with(&token(world, "adas", Scope::Agent, Some("ada")));
        let refused = call(&ada, "fleet_heartbeat", &json!({ "agent": "bob" }));
        assert!(text(&refused).starts_with("error (forbidden)"), "{refused}");
        let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "fleet_note", "arguments": { "text": "x".repeat(2 * 1024 * 1024) } } });
        assert_eq!(ada.and("accept", accept).post("/mcp", &large).status, 413);
    }
}
