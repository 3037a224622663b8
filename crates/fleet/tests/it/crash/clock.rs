//! A clock that jumps: work goes on, revisions keep the order, and no agent loses a lock over it.

use flightline_testkit::Engine;

use crate::crash::journal;
use crate::crash::world::{Answer, World};

#[test]
fn a_clock_that_jumps_ten_years_ahead_takes_no_lock_on_sqlite() {
    jump_ahead(Engine::Sqlite);
}

#[test]
fn a_clock_that_jumps_ten_years_ahead_takes_no_lock_on_postgres() {
    jump_ahead(Engine::Postgres);
}

#[test]
fn a_clock_that_goes_backwards_keeps_the_order_and_takes_no_lock_on_sqlite() {
    go_back(Engine::Sqlite);
}

#[test]
fn a_clock_that_goes_backwards_keeps_the_order_and_takes_no_lock_on_postgres() {
    go_back(Engine::Postgres);
}

fn jump_ahead(engine: Engine) {
    let world = ready(engine);
    granted(&lock(&world, "2026-01-04T12:01:00Z", "ada"));
    // Ada was silent for ten years, as far as the clock can tell.
    refused(&lock(&world, "2036-01-04T12:00:00Z", "bob"));
    works_at(&world, "2036-01-04T12:00:01Z", "bob");
    // Her grace is a full one …
    for minute in ["05", "10", "15", "20", "25", "29"] {
        refused(&lock(&world, &format!("2036-01-04T12:{minute}:00Z"), "bob"));
    }
    // … and has an end: she may really be gone.
    granted(&lock(&world, "2036-01-04T12:31:00Z", "bob"));
    // The clock is put right. Bob's lock is not taken over that either.
    refused(&lock(&world, "2026-01-04T12:10:00Z", "ada"));
    works_at(&world, "2026-01-04T12:10:01Z", "ada");
    is_in_order(&world);
}

fn go_back(engine: Engine) {
    let world = ready(engine);
    granted(&lock(&world, "2026-01-04T12:01:00Z", "ada"));
    for moment in [
        "2026-01-04T11:00:00Z",
        "2016-01-04T12:00:00Z",
        "1971-01-01T00:00:00Z",
        "2026-01-04T12:02:00Z",
        "2025-06-01T00:00:00Z",
        "2026-01-04T12:03:00Z",
    ] {
        refused(&lock(&world, moment, "bob"));
        works_at(&world, moment, "bob");
    }
    // Ada's silence of two hours was heard by a clock that was wrong for most of it.
    works_at(&world, "1999-12-31T23:59:59Z", "bob");
    refused(&lock(&world, "2026-01-04T14:00:00Z", "bob"));
    is_in_order(&world);
}

fn ready(engine: Engine) -> World {
    let mut world = World::timeless(engine);
    for agent in ["ada", "bob"] {
        world.run(&["agents", "register", agent]).works();
    }
    world.let_time_be(None);
    world
}

/// Every kind of work goes on at this moment.
fn works_at(world: &World, moment: &str, worker: &str) {
    let rev = journal::newest(world, 0).0;
    at(world, moment, &["sorties", "add", moment]).works_as("");
    at(world, moment, &["sorties", "claim", "--next"]).works_as(worker);
    at(world, moment, &["heartbeat"]).works_as(worker);
    at(world, moment, &["note", "lesson", moment]).works_as(worker);
    let send = ["mail", "send", "--to", "bob", "--subject", moment];
    at(world, moment, &send).works_as(worker);
    at(world, moment, &["agents", "list"]).works_as("");
    at(world, moment, &["doctor"]).works_as("");
    let (now, events) = journal::newest(world, 4);
    assert!(now >= rev + 4, "{now} comes after {rev}");
    let kinds: Vec<&str> = events.iter().map(|entry| entry.kind.as_str()).collect();
    let last = [
        "sortie_claimed",
        "note_added",
        "message_sent",
        "message_queued",
    ];
    assert_eq!(kinds, last, "newest by revision, not by the clock");
}

/// The journal has no gaps, and is listed by revision.
fn is_in_order(world: &World) {
    world.is_well();
    journal::all(world);
}

struct Moment {
    run: crate::crash::world::Run,
}

impl Moment {
    fn works_as(self, agent: &str) {
        self.by(agent).works();
    }

    fn by(self, agent: &str) -> crate::crash::world::Run {
        if agent.is_empty() {
            self.run
        } else {
            self.run.by(agent)
        }
    }
}

fn at(world: &World, moment: &str, arguments: &[&str]) -> Moment {
    Moment {
        run: world.run(arguments).env("FLEET_TEST_NOW", moment),
    }
}

fn lock(world: &World, moment: &str, agent: &str) -> Answer {
    at(world, moment, &["locks", "acquire", "src"])
        .by(agent)
        .ends()
}

fn granted(answer: &Answer) {
    assert_eq!(answer.code(), Some(0), "{answer}");
}

fn refused(answer: &Answer) {
    assert_eq!(answer.code(), Some(4), "{answer}");
    assert!(answer.err.contains("is locked by"), "{answer}");
}
