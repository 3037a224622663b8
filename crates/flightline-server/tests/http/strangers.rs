//! Tokens that were never given out: a caller with one is refused, learns nothing, and delays no other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use flightline::core::token::Scope;
use flightline_testkit::{Engine, World};

use crate::server::{start, token};

const PATIENCE: Duration = Duration::from_secs(30);

/// A well-formed token that was never given out.
fn made_up(project: &str, number: u32) -> String {
    format!("fleet_{project}_{number:032x}_{:064x}", 7)
}

#[test]
fn made_up_tokens_stand_in_nobodys_way() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let known = server.with(&token(&world, "boss", Scope::Dispatch, None));
    known.get("/api/v1/missions").ok(200);
    // Far more at once than are looked up, or may wait for that.
    let mut crowd: Vec<TcpStream> = (0..600)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let token = made_up(&format!("{number:032x}"), number);
            let head = format!(
                "GET /api/v1/missions HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n",
                server.address
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Who is known notices nothing of it; who is not yet, comes in after a while.
    for _ in 0..20 {
        known.get("/api/v1/missions").ok(200);
    }
    let newcomer = server.with(&token(&world, "new", Scope::Read, None));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = newcomer.get("/api/v1/missions");
        if answer.status == 200 {
            break;
        }
        assert_eq!(answer.problem(503), "unavailable");
        assert!(answer.header("retry-after").is_some() && Instant::now() < deadline);
    }
    let (mut refused, mut turned_away) = (0, 0);
    for stream in &mut crowd {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        match answer.split(' ').nth(1) {
            Some("401") => refused += 1,
            Some("503") => turned_away += 1,
            _ => panic!("{answer}"),
        }
    }
    assert_eq!(refused + turned_away, 600);
    assert!(refused > 0, "{refused} {turned_away}");
    server.end();
}

#[test]
fn how_long_a_refusal_takes_does_not_tell_which_projects_there_are() {
    let world = World::new(Engine::Sqlite);
    let server = start(&world);
    let real = token(&world, "boss", Scope::Dispatch, None);
    let project = real.split('_').nth(1).unwrap().to_owned();
    let wrong_secret = format!("{}_{:064x}", real.rsplit_once('_').unwrap().0, 7);
    let mut said = Vec::new();
    for token in [
        made_up(&"0".repeat(32), 1),
        made_up(&project, 1),
        wrong_secret,
    ] {
        let began = Instant::now();
        let answer = server.with(&token).get("/api/v1/missions");
        // Longer than looking takes, whatever is found.
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert_eq!(answer.problem(401), "unauthenticated");
        said.push((
            answer.json()["detail"].clone(),
            answer.json()["hint"].clone(),
        ));
    }
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    server.end();
}
