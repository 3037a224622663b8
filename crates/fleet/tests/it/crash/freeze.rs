//! A process that stops in the middle of a write: others say who keeps them waiting, and go on when it
//! is gone.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flightline_testkit::{Engine, postgres_url};
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use crate::crash::journal::{self, texts};
use crate::crash::world::{Running, World, until};

/// How long a command that cannot get its turn waits in these tests.
const PATIENCE: Duration = Duration::from_millis(400);

/// How soon a command must go on when nothing is in its way: far below ten seconds, the usual deadline.
const AT_ONCE: Duration = Duration::from_secs(7);

#[test]
fn a_writer_behind_a_frozen_one_gives_up_and_says_which_on_sqlite() {
    let world = World::new(Engine::Sqlite);
    // From its turn in the queue to just after its commit.
    let last = steps_of_a_note(&world);
    for step in [1, 2, last / 2, last] {
        let mut frozen = freeze(&world, step);
        let refused = gives_up(&world);
        let holder = format!("process {} (`fleet note`)", frozen.pid());
        assert!(refused.contains(&holder), "step {step}: {refused}");
        reads_work(&world, step == last);
        frozen.send(Signal::KILL);
        assert!(frozen.ends().died());
        goes_on(&world, step == last);
    }
    world.is_well();
    journal::all(&world);
}

#[test]
fn a_frozen_writer_that_thaws_and_the_one_behind_it_both_succeed_on_sqlite() {
    thaw(Engine::Sqlite);
}

#[test]
fn a_writer_behind_a_frozen_one_gives_up_on_postgres() {
    let world = World::new(Engine::Postgres);
    let last = steps_of_a_note(&world);
    // The row is held from the statement after the beginning until the commit.
    for step in [2, last / 2, last - 1] {
        let mut frozen = freeze(&world, step);
        let refused = gives_up(&world);
        assert!(refused.contains("another node"), "step {step}: {refused}");
        reads_work(&world, false);
        frozen.send(Signal::KILL);
        assert!(frozen.ends().died());
        goes_on(&world, false);
    }
    world.is_well();
    journal::all(&world);
}

#[test]
fn a_frozen_writer_that_thaws_and_the_one_behind_it_both_succeed_on_postgres() {
    thaw(Engine::Postgres);
}

/// It is not killed: the server ends the transaction of a client that is silent for too long.
#[test]
fn a_frozen_writer_does_not_freeze_its_project_for_ever_on_postgres() {
    let world = World::new(Engine::Postgres);
    let last = steps_of_a_note(&world);
    let mut frozen = freeze(&world, last - 1);
    gives_up(&world);
    let wait = world
        .run(&["note", "lesson", "waited"])
        .env("FLEET_TEST_PATIENCE_MS", 20_000);
    wait.works();
    // What it wanted to write was rolled back, and it says so.
    frozen.send(Signal::CONT);
    let thawed = frozen.ends();
    assert_eq!(thawed.code(), Some(7), "{thawed}");
    assert!(thawed.err.contains("nothing was written"), "{thawed}");
    assert_eq!(notes(&world), ["waited"]);
    world.is_well();
}

fn thaw(engine: Engine) {
    let world = World::new(engine);
    let last = steps_of_a_note(&world);
    for step in [2, last / 2, last - 1] {
        let before = notes(&world).len();
        let mut frozen = freeze(&world, step);
        let mut waiting = world.run(&["note", "lesson", "waited"]).starts();
        is_waiting(&world, engine, &mut waiting);
        frozen.send(Signal::CONT);
        for running in [frozen, waiting] {
            let answer = running.ends();
            assert_eq!(answer.code(), Some(0), "step {step}: {answer}");
        }
        assert_eq!(notes(&world)[before..], ["frozen", "waited"]);
    }
    world.is_well();
    journal::all(&world);
}

/// Waits until a process has reached the store and cannot go on.
fn is_waiting(world: &World, engine: Engine, waiting: &mut Running) {
    let pid = waiting.pid();
    match engine {
        // It has opened the queue's file, and waits in a thread of its own.
        Engine::Sqlite => until("it waits", || {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads.count() > 1
        }),
        // It waits for the transaction that has marked the project's row.
        Engine::Postgres => {
            let mut client = Client::connect(&postgres_url(), NoTls).unwrap();
            let project = world.project();
            let waits = "SELECT 1 FROM project p JOIN pg_locks l ON CAST(l.transactionid AS TEXT) = CAST(p.xmax AS TEXT) \
                 WHERE p.id = $1 AND NOT l.granted";
            until("it waits", || {
                !client.query(waits, &[&project]).unwrap().is_empty()
            });
        }
    }
    assert!(!waiting.is_over());
}

/// Starts a write that stops at this step, and waits until it has.
fn freeze(world: &World, step: u64) -> Running {
    let mut frozen = world
        .run(&["note", "lesson", "frozen"])
        .env("FLEET_TEST_FREEZE_AT", step)
        .starts();
    frozen.has_stopped();
    frozen
}

/// At how many steps a note can be frozen.
fn steps_of_a_note(world: &World) -> u64 {
    let dies = |step: &u64| {
        let run = world.run(&["note", "lesson", "x", "--json"]);
        run.dies_at(*step).ends().died()
    };
    let last = (1..).take_while(dies).last().unwrap();
    assert!(last >= 5);
    // What was written after the commit, and by the one that survived, is taken away again.
    world.start_over();
    last
}

/// A write that cannot get its turn ends when its patience does. Gives what it says.
fn gives_up(world: &World) -> String {
    let began = Instant::now();
    let refused = world
        .run(&["note", "lesson", "refused"])
        .env("FLEET_TEST_PATIENCE_MS", PATIENCE.as_millis())
        .ends();
    assert_eq!(refused.code(), Some(7), "{refused}");
    assert!(began.elapsed() >= PATIENCE, "it waited");
    assert!(began.elapsed() < PATIENCE + AT_ONCE, "and not for long");
    assert!(refused.err.contains("nothing was written"), "{refused}");
    refused.err
}

fn reads_work(world: &World, committed: bool) {
    let began = Instant::now();
    assert_eq!(notes(world).contains(&"frozen".to_owned()), committed);
    world.run(&["status"]).works();
    assert!(began.elapsed() < AT_ONCE, "readers wait for nobody");
}

/// The next write is not kept waiting. What the dead one wrote is there if it had committed.
fn goes_on(world: &World, committed: bool) {
    let began = Instant::now();
    world.run(&["note", "lesson", "went on"]).works();
    assert!(began.elapsed() < AT_ONCE, "it did not wait");
    let notes = notes(world);
    assert_eq!(notes.last().unwrap(), "went on");
    assert!(!notes.contains(&"refused".to_owned()));
    assert_eq!(notes.contains(&"frozen".to_owned()), committed);
}

fn notes(world: &World) -> Vec<String> {
    texts(&world.ask(&["note", "list"]), "/text")
}

#[test]
fn a_log_that_a_frozen_reader_holds_is_told_with_who_holds_it() {
    let world = World::new(Engine::Sqlite);
    let quiet = world.run(&["status"]).works();
    assert!(!quiet.out.contains("the log of the store"), "{quiet}");
    // Another program reads, and is stopped in the middle of it.
    let mut command = world.sealed("sqlite3");
    command.arg(world.database()).stdin(Stdio::piped());
    command.stdout(Stdio::piped());
    let mut reader = command.spawn().unwrap();
    let mut ask = reader.stdin.take().unwrap();
    ask.write_all(b"BEGIN; SELECT count(*) FROM event;\n")
        .unwrap();
    ask.flush().unwrap();
    let mut answer = [0; 1];
    reader
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut answer)
        .unwrap();
    kill_process(Pid::from_child(&reader), Signal::STOP).unwrap();
    world.run(&["note", "lesson", "while it is frozen"]).works();
    // As if much more had been written: what lies behind the last frame is not read.
    let log = world.database().with_extension("db-wal");
    let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.set_len(70 << 20).unwrap();
    drop(file);
    let status = world.run(&["status"]).works();
    assert!(
        status
            .out
            .contains("the log of the store has grown to 70 MB"),
        "{status}"
    );
    let doctor = world.run(&["doctor"]).ends();
    assert_eq!(doctor.code(), Some(5), "{doctor}");
    let holder = format!(
        "process {} (`sqlite3`), is stopped and has it open",
        reader.id()
    );
    assert!(doctor.out.contains(&holder), "{doctor}");
    reader.kill().unwrap();
    reader.wait().unwrap();
    world.run(&["note", "lesson", "it is gone"]).works();
    let status = world.run(&["status"]).works();
    assert!(!status.out.contains("the log of the store"), "{status}");
    world.is_well();
}
