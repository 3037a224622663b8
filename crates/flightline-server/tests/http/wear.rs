//! Attackers that are slow, or many: what does not wear the server out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use flightline::core::token::Scope;
use flightline_server::Limits;
use flightline_testkit::{Engine, World};
use serde_json::json;

use crate::server::{Server, start, start_with, token};

const PATIENCE: Duration = Duration::from_secs(30);

fn impatient() -> Limits {
    Limits {
        head: Duration::from_millis(300),
        body: Duration::from_millis(300),
        streams: 2,
        ..Limits::default()
    }
}

#[test]
fn a_slow_client_is_not_waited_for() {
    let world = World::new(Engine::Sqlite);
    let server = start_with(&world, impatient());
    let secret = token(&world, "root", Scope::Admin, None);
    let connect = || {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let rest = |mut stream: TcpStream| {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let began = Instant::now();
    // A head that does not come to its end, and one that comes byte by byte.
    let mut half = connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc")
        .unwrap();
    let mut drip = connect();
    drip.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let dripped = std::thread::spawn(move || {
        while drip.write_all(b"X: y\r\n").is_ok() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // A body that does not come.
    let mut body = connect();
    let head = format!(
        "POST /api/v1/missions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    body.write_all(head.as_bytes()).unwrap();
    let answer = rest(body);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("too_slow"), "{answer}");
    let answer = rest(half);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408 "),
        "{answer}"
    );
    dripped.join().unwrap();
    assert!(began.elapsed() < PATIENCE, "somebody was waited for");
    server.with(&secret).get("/api/v1/missions").ok(200);
    server.end();
}

fn listen(server: &Server, token: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    (head, reader)
}

#[test]
fn streams_that_are_too_many_leave_room_for_requests() {
    let world = World::new(Engine::Sqlite);
    let server = start_with(&world, impatient());
    let secret = token(&world, "root", Scope::Admin, None);
    let open = [listen(&server, &secret), listen(&server, &secret)];
    assert!(
        open.iter()
            .all(|(head, _)| head.starts_with("HTTP/1.1 200 "))
    );
    let refused = server.with(&secret).get("/api/v1/events/stream");
    assert_eq!(refused.problem(503), "unavailable");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    server
        .with(&secret)
        .post("/api/v1/missions", &json!({ "title": "M" }))
        .ok(201);
    // A client that leaves makes room: that is noticed with the next thing it is told.
    let [first, second] = open;
    drop(first);
    let began = Instant::now();
    loop {
        server
            .with(&secret)
            .post("/api/v1/missions", &json!({ "title": "M" }))
            .ok(201);
        let (head, _reader) = listen(&server, &secret);
        if head.starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{head}");
    }
    drop(second);
    server.end();
}

#[test]
fn a_full_queue_is_said_at_once_and_what_was_taken_is_done() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let secret = token(&world, "root", Scope::Admin, None);
    let client = server.with(&secret);
    client.get("/api/v1/missions").ok(200);
    let post = |title: &str| {
        let body = json!({ "title": title }).to_string();
        format!(
            "POST /api/v1/missions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    // Somebody else writes, and takes their time: nothing of ours is written meanwhile.
    let mut store = world.store();
    let mut waiting = Vec::new();
    let mut refused = None;
    store
        .write(|_| {
            let began = Instant::now();
            while refused.is_none()
                && waiting.len() < 600
                && began.elapsed() < Duration::from_secs(8)
            {
                let mut stream = TcpStream::connect(server.address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream
                    .write_all(post(&format!("M{}", waiting.len())).as_bytes())
                    .unwrap();
                stream.set_nonblocking(true).unwrap();
                waiting.push(stream);
                let mut buffer = [0; 2_048];
                for stream in &mut waiting {
                    if let Ok(read @ 1..) = stream.read(&mut buffer) {
                        refused = Some(String::from_utf8_lossy(&buffer[..read]).into_owned());
                    }
                }
            }
            Ok::<_, flightline::store::StoreError>(())
        })
        .unwrap();
    let refused = refused.expect("a queue that is full");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(
        refused.to_ascii_lowercase().contains("retry-after: 1"),
        "{refused}"
    );
    let (mut done, mut turned_away) = (0, 1);
    for mut stream in waiting {
        stream.set_nonblocking(false).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        match answer.split(' ').nth(1) {
            Some("201") => done += 1,
            Some("503") => turned_away += 1,
            _ => {}
        }
    }
    assert!(done > 200, "{done} done, {turned_away} turned away");
    let there = client.get("/api/v1/missions?limit=1").ok(200)["total"]
        .as_u64()
        .unwrap();
    assert_eq!(there, done, "what was taken is there, and nothing else");
    server.end();
}

/// Asks for much, and reads nothing of it.
fn unread(server: &Server, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.repeat(40).as_bytes()).unwrap();
    stream
}

#[test]
fn a_client_that_does_not_read_makes_room_for_those_that_do() {
    let world = World::new(Engine::Sqlite);
    let limits = Limits {
        unread: Duration::from_millis(500),
        connections: 8,
        of_one_peer: 8,
        ..Limits::default()
    };
    let server = start_with(&world, limits);
    let secret = token(&world, "root", Scope::Admin, None);
    let deaf: Vec<TcpStream> = (0..8).map(|_| unread(&server, &secret)).collect();
    // All connections are theirs; soon they are not any more.
    let began = Instant::now();
    server.with(&secret).get("/api/v1/missions").ok(200);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    for mut stream in deaf {
        let began = Instant::now();
        while stream.write_all(b"x").is_ok() {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "it was not cut off"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    server.end();
}

#[test]
fn one_that_reads_slowly_and_steadily_is_served() {
    let world = World::new(Engine::Sqlite);
    let limits = Limits {
        unread: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = start_with(&world, limits);
    let secret = token(&world, "root", Scope::Admin, None);
    let mut stream = unread(&server, &secret);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut read = 0;
    let mut buffer = vec![0; 1024 * 1024];
    for _ in 0..15 {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "cut off after {read} bytes");
        read += count;
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(stream);
    server.end();
}

#[test]
fn an_address_with_too_many_connections_is_told_so_at_once() {
    let world = World::new(Engine::Sqlite);
    let limits = Limits {
        of_one_peer: 3,
        ..Limits::default()
    };
    let server = start_with(&world, limits);
    let mut open: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    let mut one_more = TcpStream::connect(server.address).unwrap();
    one_more.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = String::new();
    one_more.read_to_string(&mut said).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 503 ") && said.contains("retry-after"),
        "{said}"
    );
    open.pop();
    let secret = token(&world, "root", Scope::Admin, None);
    let began = Instant::now();
    loop {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = format!(
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\nConnection: close\r\n\r\n"
        );
        let mut said = String::new();
        if stream.write_all(head.as_bytes()).is_ok() {
            let _ = stream.read_to_string(&mut said);
        }
        if said.starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{said}");
    }
    drop(open);
    server.end();
}

#[test]
fn a_store_that_does_not_answer_is_said_in_time_and_holds_up_no_end() {
    let world = World::new(Engine::Sqlite);
    let limits = Limits {
        answer: Duration::from_secs(1),
        ..Limits::default()
    };
    let server = start_with(&world, limits);
    let secret = token(&world, "root", Scope::Admin, None);
    let client = server.with(&secret);
    client
        .post("/api/v1/missions", &json!({ "title": "M" }))
        .ok(201);
    let mut store = world.store();
    store
        .write(|_| {
            let began = Instant::now();
            let answer = client.post("/api/v1/missions", &json!({ "title": "late" }));
            assert_eq!(answer.problem(503), "commit_unknown");
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "{:?}",
                began.elapsed()
            );
            Ok::<_, flightline::store::StoreError>(())
        })
        .unwrap();
    server.end();
}
