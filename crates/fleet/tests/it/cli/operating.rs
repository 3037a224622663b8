//! Operating a server: its log, its health check, its end, and whether the manual says what is so.

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::server::{PATIENCE, Server};
use crate::cli::world::World;

fn get(url: &str, path: &str, token: &str) -> u16 {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .build();
    let asked = ureq::Agent::new_with_config(config)
        .get(format!("{url}{path}"))
        .header("authorization", format!("Bearer {token}"))
        .header("x-request-id", "asked-by-a-test")
        .call();
    asked.unwrap().status().as_u16()
}

fn token(world: &World) -> String {
    let made = world
        .line("token create tests --json")
        .without("FLEET_TEST_NOW");
    made.run().json()["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_log_for_programs_is_one_document_a_line_and_holds_no_secret() {
    let world = World::new().local_only("it has a server of its own");
    let token = token(&world);
    let server = Server::start(&world, "-v --log-format json");
    assert_eq!(get(&server.url, "/api/v1/missions?limit=3", &token), 200);
    assert_eq!(get(&server.url, "/api/v1/missions/msn-ffff", &token), 404);
    assert_eq!(
        get(&server.url, "/api/v1/missions", "fleet_nonsense_secret"),
        401
    );
    server.signal(Signal::TERM);
    let (status, said) = server.wait();
    assert!(status.success(), "{said}");
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let requests: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "request")
        .collect();
    assert_eq!(requests.len(), 3, "{said}");
    for line in &lines {
        for field in ["time", "level", "event"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
    }
    for (line, status) in requests.iter().zip([200, 404, 401]) {
        assert_eq!(line["status"], status, "{line}");
        assert_eq!(line["request_id"], "asked-by-a-test", "{line}");
        assert_eq!(line["method"], "GET", "{line}");
        assert_eq!(line["code"].is_null(), status == 200, "{line}");
        let (took, waited) = (line["duration_us"].as_u64(), line["queue_us"].as_u64());
        assert!(
            took.is_some() && waited.is_some() && waited <= took,
            "{line}"
        );
        // Who has no token that opens anything has no project.
        assert_eq!(line["project"].is_string(), status != 401, "{line}");
        let asked = match status {
            200 => Value::from("list_missions"),
            404 => Value::from("show_mission"),
            _ => Value::Null,
        };
        assert_eq!(line["operation"], asked, "{line}");
        assert!(
            line["agent"].is_null() && line["trace_id"].is_null(),
            "{line}"
        );
        assert!(
            line["route"]
                .as_str()
                .unwrap()
                .starts_with("/api/v1/missions"),
            "{line}"
        );
    }
    let secret = token.rsplit('_').next().unwrap();
    for private in [secret, "msn-ffff", "nonsense", "limit=3"] {
        assert!(!said.contains(private), "{private}: {said}");
    }
}

#[cfg(not(feature = "otel"))]
#[test]
fn who_wants_traces_of_a_build_that_has_none_is_told_so_once() {
    let mut world = World::new().local_only("it has a server of its own");
    let at = "http://user:hunter2@127.0.0.1:4318".to_owned();
    world.everywhere.push(("OTEL_EXPORTER_OTLP_ENDPOINT", at));
    let server = Server::start(&world, "");
    server.signal(Signal::TERM);
    let (status, said) = server.wait();
    assert!(status.success(), "{said}");
    let line = "warning: OTEL_EXPORTER_OTLP_ENDPOINT is set, and this `fleet` was built without OpenTelemetry: no traces are sent\n";
    assert_eq!(said, line);
    assert_eq!(world.ok("status").stderr, "");
}

#[test]
fn requests_are_told_when_asked_for_and_nothing_when_quiet() {
    let world = World::new().local_only("it has a server of its own");
    let token = token(&world);
    for (level, told) in [("", 0), ("-v", 1), ("-q", 0)] {
        let server = Server::start(&world, level);
        assert_eq!(get(&server.url, "/api/v1/missions", &token), 200);
        server.signal(Signal::TERM);
        let (_, said) = server.wait();
        let lines = said
            .lines()
            .filter(|line| line.starts_with("request method=GET"));
        assert_eq!(lines.count(), told, "{level}: {said}");
    }
}

#[test]
fn a_health_check_says_what_the_server_says() {
    let world = World::new().local_only("it has a server of its own");
    let server = Server::start(&world, "");
    let check = format!("serve --check {}", server.url);
    assert_eq!(world.ok(&check).stdout, "The server is ok\n");
    let told = world.json(&check);
    assert_eq!(told["status"], "ok", "{told}");
    // Also for who has logged in to another server.
    let elsewhere = world.line(&check).env("FLEET_SERVER", "http://127.0.0.1:1");
    let elsewhere = elsewhere.env("FLEET_TOKEN", "none").run();
    assert_eq!(elsewhere.code, 0, "{elsewhere:?}");
    // The store is taken away: nothing can be written.
    let (state, away) = (world.state(), world.repo().join("away"));
    std::fs::rename(&state, &away).unwrap();
    let began = std::time::Instant::now();
    let refused = loop {
        let checked = world.fleet(&check);
        if checked.code != 0 {
            break checked;
        }
        assert!(began.elapsed() < PATIENCE, "{checked:?}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(
        refused.stderr.contains("the server is failing"),
        "{refused:?}"
    );
    std::fs::rename(&away, &state).unwrap();
    server.signal(Signal::TERM);
    server.wait();
    let gone = world.fleet(&check);
    assert_eq!(gone.code, 7, "{gone:?}");
    assert!(gone.stderr.contains("does not answer"), "{gone:?}");
    assert_eq!(world.fleet("serve --check nonsense").code, 7);
}

/// Every command in the manual can be typed: the binary itself reads it.
#[test]
fn the_manual_names_commands_that_there_are() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
    let text = std::fs::read_to_string(manual).unwrap();
    let (mut inside, mut commands) = (false, Vec::new());
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = language == "sh";
        } else if inside && line.starts_with("fleet ") {
            commands.push(line.strip_prefix("fleet ").unwrap());
        }
    }
    assert!(commands.len() > 15, "{commands:?}");
    let world = World::new();
    for command in commands {
        let typed = command.split(" #").next().unwrap().trim();
        let read = world.fleet(&format!("{typed} --help"));
        assert_eq!(read.code, 0, "`fleet {typed}`: {read:?}");
    }
}
