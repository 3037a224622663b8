//! `fleet serve` as a process of its own: how it starts, what it says, how it ends.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::server::{PATIENCE, Server};
use crate::cli::world::World;

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .build();
    ureq::Agent::new_with_config(config)
}

/// Runs an operation: its status and answer, or nothing when the server is gone.
fn call(
    agent: &ureq::Agent,
    url: &str,
    token: &str,
    op: &str,
    body: &Value,
) -> Option<(u16, Value)> {
    let sent = agent
        .post(format!("{url}/api/v1/ops/{op}"))
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .send(body.to_string());
    let mut response = sent.ok()?;
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().ok()?;
    Some((status, serde_json::from_str(&text).ok()?))
}

fn token(world: &World, more: &str) -> String {
    // In real time, as the server is.
    let made = world
        .line(&format!("token create tests {more} --json"))
        .without("FLEET_TEST_NOW")
        .run();
    assert_eq!(made.code, 0, "{made:?}");
    made.json()["token"].as_str().expect("a token").to_owned()
}

#[test]
fn tokens_are_shown_once_and_kept_as_hashes() {
    let world = World::new();
    world.begin_at_noon();
    let made = world.ok("token create laptop --scope agent --as-agent ada");
    let text = made.stdout.lines().next().unwrap().to_owned();
    assert!(
        text.starts_with("fleet_") && text.len() == 6 + 32 + 1 + 32 + 1 + 64,
        "{text}"
    );
    assert_eq!(made.stdout, format!("{text}\n"), "nothing else");
    expect![[r#"
        This is shown once: keep it where only you can read it. Scope agent, acts as ada, expires 2026-04-04T12:00:02.000Z.
    "#]]
    .assert_eq(&made.stderr);
    expect![[r#"
        ID        NAME    SCOPE  AGENT  CREATED                   BY          EXPIRES                   STATE
        tok-1166  laptop  agent  ada    2026-01-04T12:00:02.000Z  user:grace  2026-04-04T12:00:02.000Z  valid
    "#]]
    .assert_eq(&world.ok("token list").stdout);
    let secret = text.rsplit('_').next().unwrap().as_bytes();
    for (path, bytes) in world.all_bytes() {
        let found = bytes.windows(secret.len()).any(|part| part == secret);
        assert!(!found, "{} holds the secret", path.display());
    }
    let again = world.fleet("token create laptop");
    assert_eq!(again.code, 4, "{again:?}");
    assert_eq!(world.agent("bob", "token create other").code, 4);
    expect!["Revoked laptop (agent): it is refused from now on\n"]
        .assert_eq(&world.ok("token revoke laptop").stdout);
    expect!["No token yet: create one with `fleet token create NAME`\n"]
        .assert_eq(&world.ok("token list").stdout);
    let all = world.json("token list --all");
    assert!(all[0]["revoked_at"].is_string(), "{all}");
    assert_eq!(world.fleet("token revoke laptop").code, 3);
    assert_eq!(world.fleet("token create x --scope agent").code, 2);
}

#[test]
fn the_first_start_says_how_to_get_a_token() {
    let world = World::new();
    let said = world.ok("serve --addr 127.0.0.1:0 --for 0s").stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("Serving this fleet at http://127.0.0.1:"),
        "{said}"
    );
    assert_eq!(
        lines[1],
        "There is no token yet: create one with `fleet token create NAME`"
    );
    world.ok("token create laptop");
    let said = world.ok("serve --addr 127.0.0.1:0 --for 0s").stdout;
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn an_address_that_is_taken_is_said() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused = world.fleet(&format!("serve --addr {address} --for 0s"));
    let told = refused.refused(7);
    assert!(
        told.starts_with(&format!("error: cannot listen at {address}: ")),
        "{told}"
    );
    assert!(told.contains("--addr 127.0.0.1:0"), "{told}");
}

#[test]
fn the_server_and_commands_work_on_one_store() {
    let world = World::with_sorties(&["One", "Two"]);
    let token = token(&world, "");
    let server = Server::start(&world, "-v");
    let agent = agent();
    let note = json!({ "kind": "lesson", "text": "from afar" });
    let (status, _) = call(&agent, &server.url, &token, "add_note", &note).unwrap();
    assert_eq!(status, 200);
    world.ok("note lesson \"from here\"");
    let (_, notes) = call(&agent, &server.url, &token, "list_notes", &json!({})).unwrap();
    let texts: Vec<&str> = notes
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["from afar", "from here"]);
    assert_eq!(notes[0]["author"], "user:tests");

    server.signal(Signal::TERM);
    let (ended, said) = server.wait();
    assert!(ended.success(), "{ended}: {said}");
    let line = "request method=POST route=/api/v1/ops/{operation} status=200 code=- ms=";
    assert!(said.contains(line), "{said}");
    assert!(!said.contains(token.rsplit('_').next().unwrap()), "{said}");
    world.ok("doctor");
}

#[test]
fn what_was_taken_on_is_finished_before_the_end() {
    let world = World::with_sorties(&["One"]);
    world.agent_ok("ada", "sorties claim --next");
    let token = token(&world, "");
    let server = Server::start(&world, "");
    let done = load(&server, &token, |server| server.signal(Signal::TERM));
    let (ended, said) = server.wait();
    assert!(ended.success(), "{ended}: {said}");
    assert!(said.is_empty(), "{said}");
    check(&world, &done);
    let newest = &world.json("checkpoints list")[0];
    assert_eq!(newest["reason"], "shutdown", "{newest}");
}

/// Several clients write notes until the server is gone; it is sent a signal on the way. Which were
/// acknowledged.
fn load(server: &Server, token: &str, end: impl Fn(&Server)) -> BTreeSet<String> {
    let (done, count, over) = (
        Mutex::new(BTreeSet::new()),
        AtomicU64::new(0),
        AtomicBool::new(false),
    );
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (done, count, over) = (&done, &count, &over);
            scope.spawn(move || {
                let agent = agent();
                for number in 0..10_000 {
                    let text = format!("client {client} number {number}");
                    let body = json!({ "kind": "lesson", "text": text });
                    match call(&agent, &server.url, token, "add_note", &body) {
                        Some((200, note)) => {
                            assert_eq!(note["text"], text.as_str());
                            done.lock().unwrap().insert(text);
                            count.fetch_add(1, Ordering::SeqCst);
                        }
                        Some((503, _)) => {}
                        Some((status, answer)) => panic!("{status}: {answer}"),
                        None => break,
                    }
                }
                over.store(true, Ordering::SeqCst);
            });
        }
        let deadline = Instant::now() + PATIENCE;
        while count.load(Ordering::SeqCst) < 60 && Instant::now() < deadline {
            assert!(!over.load(Ordering::SeqCst), "the server ended by itself");
            std::thread::yield_now();
        }
        end(server);
    });
    done.into_inner().unwrap()
}

/// Everything that was acknowledged is there, once, and the store is sound.
fn check(world: &World, acknowledged: &BTreeSet<String>) {
    let notes = world.json("note list");
    let there: Vec<&str> = notes
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|note| note["text"].as_str())
        .collect();
    let once: BTreeSet<&str> = there.iter().copied().collect();
    assert_eq!(once.len(), there.len(), "something is there twice");
    for text in acknowledged {
        assert!(once.contains(text.as_str()), "lost: {text}");
    }
    let doctor = world.fleet("doctor");
    assert_eq!(doctor.code, 0, "{doctor:?}");
}
