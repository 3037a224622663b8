//! The door: who does not come in, and what does not get through.

use flightline::core::token::Scope;
use flightline_testkit::{Engine, World};
use serde_json::json;

use crate::server::{Server, start, token};

fn served() -> (World, Server, String) {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let token = token(&world, "tests", Scope::Admin, None);
    (world, server, token)
}

#[test]
fn without_a_token_nothing_is_told() {
    let (_world, server, token) = served();
    let wrong = [
        String::new(),
        "nonsense".to_owned(),
        token.replace("fleet_", "fleet_0"),
        format!("{}0", &token[..token.len() - 1]),
        format!("{token}0"),
        format!("{token} {token}"),
    ];
    for wrong in wrong.iter().filter(|wrong| **wrong != token) {
        for path in [
            "/api/v1/checkpoints",
            "/nowhere",
            "/api/v1/ops/list_missions",
        ] {
            let answer = server.with(wrong).get(path);
            assert_eq!(answer.problem(401), "unauthenticated", "{wrong} {path}");
            assert!(answer.header("www-authenticate").is_some());
            assert!(
                !answer.text.contains(wrong) || wrong.is_empty(),
                "{answer:?}"
            );
        }
    }
    let basic = format!(
        "GET /api/v1/checkpoints HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {token}\r\n\r\n"
    );
    assert!(server.raw(basic.as_bytes()).starts_with("HTTP/1.1 401 "));
    // A token in the address is no token.
    let query = format!(
        "GET /api/v1/checkpoints?token={token} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    assert!(server.raw(query.as_bytes()).starts_with("HTTP/1.1 401 "));
    // Nothing of it is in what the server says of requests.
    let log = server.log();
    assert!(!log.is_empty() && !log.contains(&token[10..]), "{log}");
    server.end();
}

#[test]
fn a_page_of_somebody_else_does_not_come_in() {
    let (_world, server, token) = served();
    let ask = |path: &str, headers: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\n{headers}Connection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let answer = server.raw(request.as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for path in ["/api/v1/ops/x", "/healthz", "/readyz", "/nowhere"] {
        for (headers, status) in [
            ("Host: evil.example\r\n", "421"),
            ("Host: evil.example:7878\r\n", "421"),
            ("Host: localhost\r\nHost: evil.example\r\n", "421"),
            ("Host: localhost\r\nOrigin: http://evil.example\r\n", "403"),
            ("Host: localhost\r\nOrigin: null\r\n", "403"),
            ("Host: localhost:1\r\nOrigin: http://localhost:2\r\n", "403"),
        ] {
            assert_eq!(ask(path, headers), status, "{path} {headers}");
        }
    }
    for host in ["localhost", "127.0.0.1:7", "[::1]:7878", "fleet.example"] {
        assert_eq!(
            ask("/readyz", &format!("Host: {host}\r\n")),
            "200",
            "{host}"
        );
        let own = format!("Host: {host}\r\nOrigin: http://{host}\r\n");
        assert_eq!(ask("/readyz", &own), "200", "{host}");
    }
    let answer = server.with(&token).get("/readyz");
    let allowed = |name: &&(String, String)| name.0.starts_with("access-control");
    assert!(answer.headers.iter().find(allowed).is_none(), "{answer:?}");
    server.end();
}

#[test]
fn what_is_not_there_or_not_so_is_said() {
    let (_world, server, token) = served();
    let client = server.with(&token);
    assert_eq!(client.get("/nowhere").problem(404), "not_found");
    assert_eq!(client.get("/api/v1/nowhere").problem(404), "not_found");
    let wrong = client.delete("/api/v1/checkpoints");
    assert_eq!(wrong.problem(405), "method_not_allowed");
    let allow = wrong.header("allow").unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    for body in ["{", "[1", "{\"a\":}", "\u{0}", "{\"title\":\"\\ud800\"}"] {
        let answer = client.send("POST", "/api/v1/ops/create_mission", Some(body));
        assert_eq!(answer.problem(400), "invalid_input", "{body:?}");
    }
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let answer = client.send("POST", "/api/v1/ops/create_mission", Some(&deep));
    assert_eq!(answer.problem(400), "invalid_input");
    server.end();
}

#[test]
fn only_json_of_a_reasonable_size_is_read() {
    let (_world, server, token) = served();
    let post = |headers: &str, body: &[u8]| {
        let mut request = format!(
            "POST /api/v1/ops/create_mission HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n{headers}\r\n"
        )
        .into_bytes();
        request.extend_from_slice(body);
        let answer = server.raw(&request);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let good = json!({ "title": "M", "sorties": [] }).to_string();
    let length = format!("Content-Length: {}\r\n", good.len());
    let json = "Content-Type: application/json\r\n";
    assert_eq!(post(&format!("{length}{json}"), good.as_bytes()), "200");
    let utf8 = "Content-Type: application/json; charset=utf-8\r\n";
    assert_eq!(post(&format!("{length}{utf8}"), good.as_bytes()), "200");
    for kind in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=application/json\r\n",
    ] {
        assert_eq!(
            post(&format!("{length}{kind}"), good.as_bytes()),
            "415",
            "{kind}"
        );
    }
    // A bomb is not even unpacked.
    let packed = format!("{length}{json}Content-Encoding: gzip\r\n");
    assert_eq!(post(&packed, good.as_bytes()), "415");
    // Too much, as announced: nothing of it is read.
    let announced = format!("Content-Length: {}\r\n{json}", 2 * 1024 * 1024);
    assert_eq!(post(&announced, b""), "413");
    // Too much, bit by bit.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let chunks = format!("Transfer-Encoding: chunked\r\n{json}");
    assert_eq!(post(&chunks, chunk.repeat(20).as_bytes()), "413");
    // Not text at all.
    let bytes = format!("Content-Length: 4\r\n{json}");
    assert_eq!(post(&bytes, &[b'"', 0xff, 0xfe, b'"']), "400");
    // Headers that go on and on.
    let long = format!("X-Long: {}\r\n", "x".repeat(200_000));
    let status = post(&long, b"");
    assert!(matches!(status.as_str(), "431" | ""), "{status}");
    server.end();
}

#[test]
fn a_request_has_an_id_which_may_be_its_own() {
    let (_world, server, token) = served();
    let client = server.with(&token);
    let own = client.and("x-request-id", "job-7.a_b").get("/nowhere");
    assert_eq!(own.json()["request_id"], "job-7.a_b");
    for wrong in ["a b", "", &"x".repeat(65), "a\"b"] {
        let answer = client.and("x-request-id", wrong).get("/nowhere");
        let id = answer.json()["request_id"].as_str().unwrap().to_owned();
        assert!(id.starts_with("req-"), "{wrong}: {id}");
    }
    assert_ne!(
        client.get("/nowhere").json()["request_id"],
        client.get("/nowhere").json()["request_id"]
    );
    let answer = client.get("/nowhere");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(server.log().contains("job-7.a_b"), "{}", server.log());
    server.end();
}
