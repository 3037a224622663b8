//! Events as they come.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use flightline::core::note::NoteKind;
use flightline::core::token::Scope;
use flightline_testkit::story::{add_note, create_mission};
use flightline_testkit::{Engine, World, both_engines};
use serde_json::{Value, json};

use crate::server::{Client, Server, start, token};

/// A client that listens.
pub struct Listener(BufReader<TcpStream>);

impl Listener {
    pub fn new(server: &Server, token: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let request = format!(
            "GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The next event: its id, its name, its data. Nothing when the stream is over.
    pub fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut id, mut name) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.to_owned();
            } else if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                return Some((id, name, serde_json::from_str(text).unwrap()));
            }
        }
    }

    /// Reads up to the event that says this; the revisions on the way.
    fn until(&mut self, text: &str) -> (Vec<u64>, String) {
        let mut revs = Vec::new();
        loop {
            let (id, name, data) = self.next().expect("an event");
            revs.push(data["rev"].as_u64().unwrap());
            assert!(id.ends_with(&format!(".{}", data["rev"])), "{id} {data}");
            assert_eq!(name, data["type"].as_str().unwrap());
            if data["data"].to_string().contains(text) {
                return (revs, id);
            }
        }
    }
}

fn note(client: &Client, kind: &str) {
    client
        .op("add_note", &json!({ "kind": kind, "text": "x" }))
        .ok(200);
}

both_engines! {
    fn a_listener_that_comes_back_misses_nothing_and_gets_nothing_twice(world: &World) {
        let server = start(world);
        let token = token(world, "tests", Scope::Dispatch, None);
        let client = server.with(&token);
        client.op("create_mission", &json!({ "title": "M" })).ok(200);
        let mut first = Listener::new(&server, &token, "");
        let (begin, name, _) = first.next().unwrap();
        assert_eq!(name, "hello");
        note(&client, "lesson");
        let (mut revs, last) = first.until("lesson");
        drop(first);
        // What happens while nobody listens, and while the server is away.
        note(&client, "decision");
        server.end();
        world.run("", &add_note(NoteKind::Blocker, "x")).unwrap();
        let server = start(world);
        let client = server.with(&token);
        let mut second = Listener::new(&server, &token, &format!("Last-Event-ID: {last}\r\n"));
        assert_eq!(second.next().unwrap().1, "hello");
        note(&client, "constraint");
        revs.extend(second.until("constraint").0);
        let start: u64 = begin.rsplit('.').next().unwrap().parse().unwrap();
        let all: Vec<u64> = (start + 1..=start + revs.len() as u64).collect();
        assert_eq!(revs, all, "every revision once, in order");
        // The end of the server is the end of the stream.
        server.end();
        while second.next().is_some() {}
    }

    fn what_other_processes_write_is_told_too(world: &World) {
        let server = start(world);
        let token = token(world, "tests", Scope::Read, None);
        let mut listener = Listener::new(&server, &token, "");
        assert_eq!(listener.next().unwrap().1, "hello");
        world.run("", &create_mission("From elsewhere", Vec::new())).unwrap();
        let (_, name, event) = listener.next().unwrap();
        assert_eq!((name.as_str(), event["actor"].as_str()), ("mission_created", Some("user:tester")));
        server.end();
    }
}

#[test]
fn a_place_in_another_journal_gets_no_events() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let client = server.with(&token(&world, "tests", Scope::Read, None));
    for (after, status, code) in [
        ("nonsense", 400, "invalid_input"),
        ("other.1", 409, "history_changed"),
    ] {
        for path in ["/api/v1/events/stream", "/api/v1/events"] {
            let answer = client.get(&format!("{path}?after={after}"));
            assert_eq!(answer.problem(status), code, "{path} {after}");
        }
        let back = client
            .and("last-event-id", after)
            .get("/api/v1/events/stream");
        assert_eq!(back.problem(status), code, "{after}");
    }
    server.end();
}

both_engines! {
    fn a_listener_that_is_cut_off_again_and_again_sees_every_revision_once(world: &World) {
        let mut server = start(world);
        let token = token(world, "tests", Scope::Dispatch, None);
        server.with(&token).op("create_mission", &json!({ "title": "M" })).ok(200);
        let mut listener = Listener::new(&server, &token, "");
        let (mut last, _, _) = listener.next().unwrap();
        let begin: u64 = last.rsplit('.').next().unwrap().parse().unwrap();
        let mut revs: Vec<u64> = Vec::new();
        for round in 0..12 {
            let client = server.with(&token);
            let writes = std::thread::spawn(move || (0..5).for_each(|_| note(&client, "lesson")));
            // It is cut off in the middle of things, at another place each time.
            for _ in 0..round % 4 + 1 {
                let (id, name, data) = listener.next().unwrap();
                assert_ne!(name, "history_changed");
                last = id;
                revs.push(data["rev"].as_u64().unwrap());
            }
            drop(listener);
            writes.join().unwrap();
            if round % 5 == 4 {
                server.end();
                server = start(world);
            }
            listener = Listener::new(&server, &token, &format!("Last-Event-ID: {last}\r\n"));
            let (again, name, _) = listener.next().unwrap();
            assert_eq!((again.as_str(), name.as_str()), (last.as_str(), "hello"));
        }
        note(&server.with(&token), "constraint");
        revs.extend(listener.until("constraint").0);
        let all: Vec<u64> = (begin + 1..=begin + revs.len() as u64).collect();
        assert_eq!(revs, all, "every revision once, in order");
        server.end();
    }

    fn a_listener_hears_that_the_history_was_replaced(world: &World) {
        let server = start(world);
        let token = token(world, "tests", Scope::Dispatch, None);
        server.with(&token).op("create_mission", &json!({ "title": "M" })).ok(200);
        let (file, keep) = (world.folder().join("copy.db"), world.folder().join("kept.db"));
        flightline::backup::back_up(&mut world.fleet(), &file).unwrap();
        let mut listener = Listener::new(&server, &token, "");
        let (last, _, _) = listener.next().unwrap();
        flightline::backup::restore(&mut world.fleet(), &flightline_testkit::named(&file), &keep, &flightline_testkit::caller("")).unwrap();
        let told = std::iter::from_fn(|| listener.next()).find(|(_, name, _)| name == "history_changed");
        assert_eq!(told.unwrap().2["code"], "history_changed");
        assert!(listener.next().is_none(), "the stream is over");
        let back = server.with(&token).and("last-event-id", &last).get("/api/v1/events/stream");
        assert_eq!(back.problem(409), "history_changed");
        server.end();
    }
}
