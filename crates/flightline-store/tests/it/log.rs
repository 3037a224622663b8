//! The log beside a SQLite database: bounded, for every writer.

use flightline_core::event::EventType;
use std::thread::sleep;
use std::time::{Duration, Instant};

use flightline_store::{DiskSpace, OpenOptions, Store, StoreError};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World};
use serde_json::json;

fn open(world: &World, keeps_log: bool) -> Store {
    let options = OpenOptions {
        rehearse: false,
        keeps_log,
        ..world.options()
    };
    world.open(options)
}

/// Writes about 7 MB into the log.
fn write_much(store: &mut Store, round: u128) {
    let long = "All of this goes through the log. ".repeat(230);
    store
        .write(|tx| {
            for number in 0..200 {
                let note = lesson(round * 200 + number, &mission(1, "One"), &long);
                tx.set(EventType::NoteAdded, &note, &json!({}))?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

fn log(store: &mut Store) -> u64 {
    store.disk().unwrap().unwrap().log
}

#[test]
fn a_server_that_writes_without_end_begins_its_log_anew() {
    let world = World::new(Engine::Sqlite);
    let mut store = open(&world, true);
    let mut longest = 0;
    for round in 0..14 {
        write_much(&mut store, round);
        longest = longest.max(log(&mut store));
        sleep(Duration::from_millis(20));
    }
    assert!(longest < DiskSpace::LONG_LOG, "{longest}");
    assert!(longest > 8 << 20, "it is not folded at once: {longest}");
    // Once it began anew, it is written in the room that it has.
    let until = Instant::now() + Duration::from_secs(20);
    let mut round = 14;
    loop {
        let before = log(&mut store);
        write_much(&mut store, round);
        if log(&mut store) == before {
            break;
        }
        assert!(Instant::now() < until, "the log grows and grows");
        round += 1;
    }
    drop(store);
    assert_eq!(log(&mut open(&world, false)), 0, "its end takes it back");
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn a_command_beside_a_server_leaves_the_log_to_that() {
    let world = World::new(Engine::Sqlite);
    let server = open(&world, true);
    let mut command = open(&world, false);
    write_much(&mut command, 1);
    let grown = log(&mut command);
    assert!(grown > 1 << 20, "{grown}");
    drop(command);
    assert_eq!(log(&mut open(&world, false)), grown);
    drop(server);
    assert_eq!(log(&mut open(&world, false)), 0);
    // Without one, a command that ends does it.
    let mut command = open(&world, false);
    write_much(&mut command, 2);
    drop(command);
    assert_eq!(log(&mut open(&world, false)), 0);
}

#[test]
fn a_process_that_goes_on_writing_folds_the_log_unless_a_server_does() {
    let world = World::new(Engine::Sqlite);
    let mut alone = open(&world, false);
    write_much(&mut alone, 1);
    let once = log(&mut alone);
    // It folds the log when that has grown beyond 4 MB, and then writes over it from its beginning.
    let most = (4 << 20) + 2 * once;
    for round in 2..=8 {
        write_much(&mut alone, round);
        let grown = log(&mut alone);
        assert!(grown < most, "not written over: {once}, then {grown}");
    }
    assert!(most < 7 * once, "a log that is left alone would be seen");
    drop(alone);

    let server = open(&world, true);
    let mut beside = open(&world, false);
    write_much(&mut beside, 9);
    let once = log(&mut beside);
    write_much(&mut beside, 10);
    let grown = log(&mut beside);
    assert!(2 * grown > 3 * once, "left alone: {once}, then {grown}");
    drop(beside);
    drop(server);
    assert_eq!(world.problems(), Vec::<String>::new());
}
