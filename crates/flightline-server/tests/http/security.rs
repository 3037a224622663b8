//! Attackers: who does not come in, and who does not act as another.

use flightline::core::token::Scope;
use flightline_testkit::{Engine, World};
use serde_json::{Value, json};

use crate::server::{start, token};

/// Every route there is: its method, its address with something in it, and the scope it needs.
fn routes() -> Vec<(String, String, String)> {
    let described = flightline_server::openapi();
    let paths = described["paths"].as_object().unwrap();
    let routes = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(|(method, about)| {
            let address = path.replace(['{', '}'], "");
            let scope = about["x-scope"].as_str().unwrap().to_owned();
            (method.to_uppercase(), address, scope)
        })
    });
    let open = [
        "/healthz",
        "/readyz",
        "/api/v1/events/stream",
        "/api/v1/ops/operation",
    ];
    let mut routes: Vec<_> = routes.collect();
    routes.retain(|(_, path, _)| !open.contains(&path.as_str()));
    assert!(routes.len() > 60, "{}", routes.len());
    routes
}

/// Every operation there is, internal ones too, and the scope it needs.
fn operations() -> Vec<(String, String)> {
    let known = flightline::registry::operations().iter();
    known
        .map(|entry| (entry.name.to_owned(), entry.scope.as_str().to_owned()))
        .collect()
}

fn rank(scope: &str) -> usize {
    let scopes = ["read", "agent", "dispatch", "admin"];
    scopes.iter().position(|it| *it == scope).unwrap()
}

#[test]
fn no_route_and_no_operation_does_more_than_its_token_may() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let of = |name: &str, scope, agent| server.with(&token(&world, name, scope, agent));
    let tokens = [
        of("reader", Scope::Read, None),
        of("worker", Scope::Agent, Some("ada")),
        of("boss", Scope::Dispatch, None),
        of("root", Scope::Admin, None),
    ];
    let nobody = server.with("fleet_0_0");
    let before = tokens[3].op("list_events", &json!({ "limit": 0 })).ok(200)["cursor"].clone();
    let refused = |answer: crate::server::Answer, what: &str| {
        assert_eq!(answer.problem(403), "forbidden", "{what}");
    };
    for (method, path, scope) in routes() {
        let body = (method != "GET" && method != "DELETE").then_some("{}");
        assert_eq!(
            nobody.send(&method, &path, body).problem(401),
            "unauthenticated",
            "{method} {path}"
        );
        for narrower in &tokens[..rank(&scope)] {
            refused(
                narrower.send(&method, &path, body),
                &format!("{method} {path}"),
            );
        }
    }
    for (name, scope) in operations() {
        assert_eq!(
            nobody.op(&name, &json!({})).problem(401),
            "unauthenticated",
            "{name}"
        );
        for narrower in &tokens[..rank(&scope)] {
            refused(narrower.op(&name, &json!({})), &name);
        }
    }
    let after = tokens[3].op("list_events", &json!({ "limit": 0 })).ok(200)["cursor"].clone();
    assert_eq!(after, before, "nothing of it was done");
    server.end();
}

#[test]
fn an_agents_token_acts_as_no_other_wherever_it_says_so() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let boss = server.with(&token(&world, "boss", Scope::Dispatch, None));
    let ada = server.with(&token(&world, "ada-token", Scope::Agent, Some("ada")));
    let bob = boss.and("fleet-agent", "bob");
    let made = boss
        .post(
            "/api/v1/missions",
            &json!({ "title": "M", "sorties": [{ "title": "One" }, { "title": "Two" }] }),
        )
        .ok(201);
    let sortie = made["sorties"][0]["id"].as_str().unwrap().to_owned();
    bob.post(&format!("/api/v1/sorties/{sortie}/claim"), &json!({}))
        .ok(200);

    // In a header: on every route and for every operation that a worker may ask for.
    let as_bob = [ada.and("fleet-agent", "bob")];
    for (method, path, scope) in routes() {
        if rank(&scope) > rank("agent") || matches!(path.as_str(), "/metrics" | "/openapi.json") {
            continue;
        }
        let body = (method != "GET" && method != "DELETE").then_some("{}");
        for client in &as_bob {
            let answer = client.send(&method, &path, body);
            // What does not fit is refused before it is asked who it is for.
            assert!(
                matches!(answer.status, 400 | 403),
                "{method} {path}: {answer:?}"
            );
        }
    }
    for (name, scope) in operations() {
        if rank(&scope) <= rank("agent") {
            for client in &as_bob {
                assert_eq!(
                    client.op(&name, &json!({})).problem(403),
                    "forbidden",
                    "{name}"
                );
            }
        }
    }

    // In an address, and in a body.
    for (method, path, body) in [
        ("POST", "/api/v1/agents/bob/heartbeat", json!({})),
        ("GET", "/api/v1/agents/bob/recovery", Value::Null),
        (
            "POST",
            "/api/v1/agents/bob/recovery/ack",
            json!({ "nonce": "x" }),
        ),
        ("POST", "/api/v1/agents/bob/retire", json!({})),
        ("PATCH", "/api/v1/agents/bob", json!({ "status": "idle" })),
        ("POST", "/api/v1/agents/bob/resume", json!({})),
        ("POST", "/api/v1/agents", json!({ "name": "bob" })),
        (
            "POST",
            "/api/v1/agents/ada/takeover",
            json!({ "to": "bob" }),
        ),
        (
            "POST",
            "/api/v1/agents/bob/takeover",
            json!({ "to": "ada", "force": true }),
        ),
        (
            "POST",
            "/api/v1/checkpoints",
            json!({ "created_by": "bob" }),
        ),
        (
            "POST",
            "/api/v1/checkpoints/chk-ffff/recover",
            json!({ "agent_id": "bob" }),
        ),
        (
            "POST",
            &format!("/api/v1/sorties/{sortie}/review"),
            json!({ "reviewer": "bob", "score": 5 }),
        ),
    ] {
        let text = (!body.is_null()).then(|| body.to_string());
        let answer = ada.send(method, path, text.as_deref());
        assert_eq!(answer.problem(403), "forbidden", "{method} {path} {body}");
    }
    for (name, body) in [
        ("update_agent", json!({ "agent": "bob", "status": "idle" })),
        ("retire_agent", json!({ "agent": "bob" })),
        (
            "add_review",
            json!({ "sortie": sortie, "reviewer": "bob", "score": 5 }),
        ),
        (
            "take_over",
            json!({ "from": "bob", "to": "ada", "force": true }),
        ),
    ] {
        assert_eq!(
            ada.op(name, &body).problem(403),
            "forbidden",
            "{name} {body}"
        );
    }

    // Of several, each is looked at: one that is somebody else's, and none is done.
    let mine = ada
        .post("/api/v1/locks", &json!({ "paths": ["src/mine.rs"] }))
        .ok(201)[0]["lock"]["id"]
        .clone();
    let his = bob
        .post("/api/v1/locks", &json!({ "paths": ["src/his.rs"] }))
        .ok(201)[0]["lock"]["id"]
        .clone();
    for name in ["release_locks", "renew_locks"] {
        let both = ada.op(name, &json!({ "locks": [mine, his] }));
        assert_eq!(both.problem(409), "fenced", "{name}");
    }
    let held = boss.get("/api/v1/locks").ok(200);
    assert_eq!(held["total"], 2, "{held}");
    let to_ada = boss
        .post(
            "/api/v1/messages",
            &json!({ "to": ["ada"], "subject": "hers" }),
        )
        .ok(201)["message"]["id"]
        .clone();
    let to_bob = boss
        .post(
            "/api/v1/messages",
            &json!({ "to": ["bob"], "subject": "his" }),
        )
        .ok(201)["message"]["id"]
        .clone();
    let both = ada.op("acknowledge_mail", &json!({ "messages": [to_ada, to_bob] }));
    assert_eq!(both.problem(409), "not_yours");
    let hers = boss.get("/api/v1/agents/ada/inbox").ok(200);
    assert!(hers.to_string().contains("\"hers\""), "{hers}");
    server.end();
}

#[test]
fn projects_in_one_database_do_not_see_one_another() {
    let (ours, theirs) = (World::new(Engine::Postgres), World::new(Engine::Postgres));
    let (here, there) = (start(&ours), start(&theirs));
    let our_token = token(&ours, "root", Scope::Admin, None);
    let their_token = token(&theirs, "their-root", Scope::Admin, None);
    let (we, they) = (here.with(&our_token), there.with(&their_token));
    we.post("/api/v1/missions", &json!({ "title": "Ours" }))
        .ok(201);

    let text = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{value}"))
            .to_owned()
    };
    // Everything of theirs, by its whole id.
    let made = they
        .post(
            "/api/v1/missions",
            &json!({ "title": "Their secret plan", "sorties": [{ "title": "Theirs" }] }),
        )
        .ok(201);
    let (mission, sortie) = (
        text(&made["mission"]["id"]),
        text(&made["sorties"][0]["id"]),
    );
    let agent = text(
        &they
            .post("/api/v1/agents", &json!({ "name": "eve" }))
            .ok(201)["agent"]["id"],
    );
    let eve = they.and("fleet-agent", "eve");
    let lock = text(
        &eve.post("/api/v1/locks", &json!({ "paths": ["src/theirs.rs"] }))
            .ok(201)[0]["lock"]["id"],
    );
    let message = text(
        &they
            .post(
                "/api/v1/messages",
                &json!({ "to": ["eve"], "subject": "Their mail" }),
            )
            .ok(201)["message"]["id"],
    );
    let checkpoint = text(
        &they
            .post("/api/v1/checkpoints", &json!({ "mission_id": mission }))
            .ok(201)["checkpoint"]["id"],
    );
    they.post(
        &format!("/api/v1/checkpoints/{checkpoint}/recover"),
        &json!({ "force": true }),
    )
    .ok(200);
    let recovery = text(&they.get("/api/v1/recoveries").ok(200)["recoveries"][0]["id"]);
    let mark = they.get("/api/v1/events?limit=1").ok(200)["cursor"]["rev"].clone();

    for (method, path, _) in routes() {
        let path = [
            ("/missions/id", &mission),
            ("/sorties/id", &sortie),
            ("/locks/id", &lock),
            ("/messages/id", &message),
            ("/checkpoints/id", &checkpoint),
            ("/recoveries/id", &recovery),
            ("/diff/other", &checkpoint),
            ("/agents/id", &agent),
        ]
        .iter()
        .fold(path, |path, (from, id)| {
            let (before, _) = from.rsplit_once('/').unwrap();
            path.replace(from, &format!("{before}/{id}"))
        });
        // A caller under a name of an agent elsewhere is an agent of our own.
        let acts = path.contains("/heartbeat") || path.contains("/recovery");
        if !path.contains('-') || acts {
            continue;
        }
        let body = (method != "GET" && method != "DELETE").then_some(r#"{"reason":"x"}"#);
        for client in [&we, &we.and("fleet-agent", "mallory")] {
            let answer = client.send(&method, &path, body);
            assert!(
                (400..500).contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
            assert!(
                !answer.text.contains("secret plan") && !answer.text.contains("Theirs"),
                "{path}: {answer:?}"
            );
        }
    }
    // A list names only what is ours.
    for path in [
        "/api/v1/missions",
        "/api/v1/agents",
        "/api/v1/locks",
        "/api/v1/messages",
        "/api/v1/events",
        "/api/v1/stats",
        "/api/v1/status",
    ] {
        let answer = we.get(path).ok(200).to_string();
        for id in [&mission, &sortie, &lock, &message, &checkpoint] {
            assert!(!answer.contains(id.as_str()), "{path}");
        }
    }
    // A token leads to its own project, whichever node it is brought to.
    for (node, secret, own, foreign) in [
        (&here, &their_token, mission.as_str(), "Ours"),
        (&there, &our_token, "Ours", mission.as_str()),
    ] {
        let seen = node
            .with(secret)
            .get("/api/v1/missions")
            .ok(200)
            .to_string();
        assert!(seen.contains(own) && !seen.contains(foreign), "{seen}");
    }
    // Nothing of theirs has changed.
    let since = they.get("/api/v1/events?limit=50").ok(200);
    let strange = since["events"].as_array().unwrap().iter().find(|event| {
        event["rev"].as_u64() > mark.as_u64()
            && ["user:root", "mallory"].contains(&event["actor"].as_str().unwrap())
    });
    assert_eq!(strange, None);
    here.end();
    there.end();
}

#[test]
fn what_is_in_an_address_leads_nowhere_else() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let root = server.with(&token(&world, "root", Scope::Admin, None));
    root.post("/api/v1/missions", &json!({ "title": "M" }))
        .ok(201);
    let long = "a".repeat(4_000);
    for name in [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "%2fetc%2fpasswd",
        "..%5c..%5c",
        "%00",
        "msn-%00",
        "a%0d%0ab",
        "%ff%fe",
        "%25",
        "'%20OR%201=1--",
        "msn-ffff%2f..%2f..",
        "@latest~99999999999999999999",
        "@latest~-1",
        "-",
        "~",
        long.as_str(),
        "%F0%9F%9A%80",
    ] {
        for path in [
            "missions",
            "sorties",
            "agents",
            "checkpoints",
            "locks",
            "messages",
            "recoveries",
            "effects",
        ] {
            let (method, path) = match path {
                "locks" => ("DELETE", format!("/api/v1/locks/{name}")),
                "messages" => ("POST", format!("/api/v1/messages/{name}/read")),
                "recoveries" => ("POST", format!("/api/v1/recoveries/{name}/undo")),
                "effects" => ("POST", format!("/api/v1/effects/{name}/done")),
                noun => ("GET", format!("/api/v1/{noun}/{name}")),
            };
            let body = (method == "POST").then_some("{}");
            let answer = root.send(method, &path, body);
            assert!(
                matches!(answer.status, 400 | 404),
                "{method} {path}: {answer:?}"
            );
            assert!(
                !answer.text.contains('\0') && !answer.text.contains(&long),
                "{answer:?}"
            );
        }
        let query = root.get(&format!("/api/v1/checkpoints?mission_id={name}"));
        assert!(matches!(query.status, 400 | 404), "{name}: {query:?}");
    }
    assert!(root.get("/api/v1/missions").ok(200)["total"] == 1);
    server.end();
}

#[test]
fn headers_carry_nothing_further() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let secret = token(&world, "root", Scope::Admin, None);
    let raw = |target: &str, headers: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        server.raw(request.as_bytes())
    };
    let mission = r#"{"title":"M"}"#;
    for name in [
        "X-Request-Id",
        "Idempotency-Key",
        "Fleet-Agent",
        "Fleet-Session",
        "Fleet-Mission",
        "If-Match",
        "Last-Event-ID",
    ] {
        for value in [
            "a\rX-Evil: 1",
            "a\nX-Evil: 1",
            "a\0b",
            "a\x1b[31mb",
            "\u{7f}",
        ] {
            let answer = raw("/api/v1/missions", &format!("{name}: {value}\r\n"), mission);
            let head = answer
                .split("\r\n\r\n")
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            assert!(!head.contains("\nx-evil"), "{name} {value:?}: {answer}");
            assert!(!answer.contains('\x1b'), "{name} {value:?}: {answer}");
        }
    }
    // What looks like more lines in an address is no more lines.
    let answer = raw("/api/v1/missions/a%0d%0aX-Evil:%201/start", "", "{}");
    assert!(
        !answer.to_ascii_lowercase().contains("\nx-evil"),
        "{answer}"
    );
    // Two requests in one: the length counts once, and says one thing.
    for both in ["Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n"] {
        let answer = raw("/api/v1/missions", both, mission);
        assert!(!answer.contains("HTTP/1.1 20"), "{both}: {answer}");
    }
    // The request line may name the server too: then it must be this one.
    for (target, headers, status) in [
        ("http://evil.example/healthz", "Host: localhost\r\n", "421"),
        ("http://evil.example/healthz", "", "421"),
        ("http://localhost/healthz", "Host: evil.example\r\n", "421"),
        ("http://localhost/healthz", "Host: localhost\r\n", "200"),
    ] {
        let answer = server
            .raw(format!("GET {target} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").as_bytes());
        assert_eq!(
            answer.split(' ').nth(1),
            Some(status),
            "{target} {headers}: {answer}"
        );
    }
    // A log has one line per request, whatever it held; and never the token.
    let client = server.with(&secret);
    for path in [
        format!("/api/v1/missions?token={secret}"),
        format!("/api/v1/missions/{secret}"),
        format!("/{secret}"),
    ] {
        let answer = client.get(&path);
        assert!((400..500).contains(&answer.status), "{path}");
        assert!(!answer.text.contains(&secret[10..]), "{answer:?}");
    }
    let posted = client.post(
        "/api/v1/missions",
        &json!({ "title": "M", "unknown": secret }),
    );
    assert!(!posted.text.contains(&secret[10..]), "{posted:?}");
    let log = server.log();
    assert!(
        !log.contains(&secret[10..]) && !log.contains('\x1b') && !log.contains('\r'),
        "{log}"
    );
    server.end();
}
