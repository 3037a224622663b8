//! Three projects on one server: each hears of itself, and the trouble of one is not that of the others.

use flightline::core::Kind;
use flightline::core::token::Scope;
use flightline_testkit::{Engine, World, damage};
use serde_json::{Value, json};

use crate::exposition::read;
use crate::health::becomes;
use crate::metrics::value;
use crate::server::{Client, Server, start, token};

/// Three projects in one database, and the server of the first.
struct Three {
    worlds: [World; 3],
    server: Server,
    clients: Vec<Client>,
}

impl Three {
    fn start(worlds: [World; 3]) -> Self {
        let server = start(&worlds[0]);
        let client = |world| server.with(&token(world, "tests", Scope::Dispatch, None));
        let clients = worlds.iter().map(client).collect();
        Self {
            worlds,
            server,
            clients,
        }
    }

    /// Nothing of what one hears is about another.
    fn keeps_apart(&self, listener: usize, heard: &str) {
        for (number, world) in self.worlds.iter().enumerate() {
            let bare = world.project.trim_start_matches("prj-");
            let named = heard.contains(&world.project) || heard.contains(bare);
            let titled = heard.contains(&title(number));
            assert!(number == listener || !(named || titled), "{heard}");
        }
    }
}

fn title(number: usize) -> String {
    format!("Mission of {number}")
}

fn worlds() -> [World; 3] {
    [(); 3].map(|()| World::new(Engine::Postgres))
}

fn begin(client: &Client, number: usize) -> Value {
    let mission = json!({ "title": title(number), "sorties": [{ "title": "Model" }] });
    client.op("create_mission", &mission).ok(200)
}

#[test]
fn figures_are_those_of_the_tokens_own_project() {
    let three = Three::start(worlds());
    for (number, client) in three.clients.iter().enumerate() {
        for _ in 0..=number {
            begin(client, number);
        }
        client.get("/metrics");
    }
    for (number, client) in three.clients.iter().enumerate() {
        for _ in 0..=number {
            let nothing = json!({ "mission": null, "reason": null, "details": null, "note": null });
            client.op("take_checkpoint", &nothing).ok(200);
            let note = json!({ "kind": "lesson", "text": format!("of {number}") });
            client.op("add_note", &note).ok(200);
        }
    }
    let mut requests = Vec::new();
    for (number, client) in three.clients.iter().enumerate() {
        let text = client.get("/metrics").text;
        three.keeps_apart(number, &text);
        let page = read(&text);
        let own = u32::try_from(number + 1).unwrap();
        for name in ["flightline_missions", "flightline_checkpoints_total"] {
            let seen = value(&page, name, &[]);
            assert!((seen - f64::from(own)).abs() < 0.1, "{name}: {text}");
        }
        // What is about the server is the same for all: the requests of everybody.
        let op = [("route", "/api/v1/ops/{operation}")];
        requests.push(value(
            &page,
            "flightline_request_duration_seconds_count",
            &op,
        ));
    }
    assert!(
        requests.iter().all(|seen| (seen - 18.0).abs() < 0.1),
        "{requests:?}"
    );
    three.server.end();
}

#[test]
fn a_project_that_is_damaged_shows_and_the_others_go_on() {
    let worlds = worlds();
    // Damage that was there before the server was.
    let first = start(&worlds[0]);
    let made = begin(
        &first.with(&token(&worlds[0], "before", Scope::Dispatch, None)),
        0,
    );
    let sortie = made["sorties"][0]["id"].as_str().unwrap().to_owned();
    first.end();
    damage::everywhere(&worlds[0], Kind::Sortie, &sortie, 0);
    let three = Three::start(worlds);
    let told = becomes(&three.clients[0], 200, "degraded");
    for (number, client) in three.clients.iter().enumerate() {
        let answer = client.get("/healthz");
        assert_eq!(answer.status, 200, "writes go on: {answer:?}");
        let told = answer.json();
        assert_eq!(told["integrity"]["ok"], false, "{told}");
        let trouble = told["integrity"]["trouble"].as_str().unwrap();
        match number {
            0 => assert!(trouble.contains(&sortie), "{trouble}"),
            _ => {
                assert_eq!(trouble, "it fails in another project");
                assert!(!answer.text.contains("checksum"), "{told}");
                three.keeps_apart(number, &answer.text);
            }
        }
        let page = read(&client.get("/metrics").text);
        let healthy = value(&page, "flightline_job_healthy", &[("task", "integrity")]);
        assert!(healthy.abs() < 0.1, "it is watched for everybody");
    }
    let anybody = three.server.with("nothing").get("/healthz");
    assert!(anybody.json()["integrity"].get("trouble").is_none());
    assert!(!anybody.text.contains("checksum"), "{told}");
    assert_eq!(
        three.clients[0]
            .get(&format!("/api/v1/sorties/{sortie}"))
            .problem(500),
        "integrity"
    );
    for number in [1, 2] {
        let client = &three.clients[number];
        begin(client, number);
        let ada = client.and("fleet-agent", "ada");
        let claimed = ada.op("claim_next", &json!({ "lock": false })).ok(200);
        let id = claimed["sortie"]["id"].as_str().unwrap();
        client.get(&format!("/api/v1/sorties/{id}")).ok(200);
        let checkpoint = json!({ "mission": null, "reason": null, "details": null, "note": null });
        client.op("take_checkpoint", &checkpoint).ok(200);
        assert_eq!(three.worlds[number].problems(), [""; 0]);
    }
    three.server.end();
    // Those under way got their checkpoint when it ended, whatever is wrong with the first.
    for number in [1, 2] {
        let again = start(&three.worlds[number]);
        let client = again.with(&token(&three.worlds[number], "again", Scope::Read, None));
        let listed = client.get("/api/v1/checkpoints").ok(200);
        assert_eq!(listed["checkpoints"][0]["reason"], "shutdown", "{listed}");
        again.end();
    }
}
