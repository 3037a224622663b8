//! Groups that are decided on what is known of a project, without holding it: another writer meanwhile is noticed, and nothing
//! is decided on what was true before. PostgreSQL only.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use flightline_core::event::EventType;
use flightline_core::note::Note;
use flightline_core::{Kind, Subject};
use flightline_store::{EventFilter, Find, Store, StoreError, Tx};
use flightline_testkit::value::{agent_id, lesson, mission};
use flightline_testkit::{Engine, World};
use serde_json::json;

use crate::groups::learn;

fn forget(tx: &mut Tx<'_>, number: u128) -> Result<u64, StoreError> {
    let note = lesson(number, &mission(1, "One"), "x");
    tx.remove(EventType::NoteWithdrawn, &note, &json!({}))
}

/// How many notes a write sees.
fn known(tx: &mut Tx<'_>) -> Result<usize, StoreError> {
    Ok(tx.find::<Note>(Find::Mission(mission(1, "One").id))?.len())
}

fn notes(world: &World) -> usize {
    let seen = world.store().read(|tx| tx.rows(Kind::Note, Find::All));
    let seen: Vec<_> = seen.map_err(|error: StoreError| error).unwrap();
    seen.len()
}

/// A store that knows the project well enough.
fn settled(world: &World) -> Store {
    let mut store = world.unrehearsed();
    for number in 1..4 {
        store.begin_group().unwrap();
        store
            .write(|tx| {
                known(tx)?;
                learn(tx, number)
            })
            .unwrap();
        store.commit_group().unwrap();
    }
    store
}

/// Has something written by another node.
fn elsewhere(world: &World, number: u128) {
    world.unrehearsed().write(|tx| learn(tx, number)).unwrap();
}

#[test]
fn who_is_overtaken_decides_again_on_what_the_other_wrote() {
    let world = World::new(Engine::Postgres);
    let mut store = settled(&world);
    let mut seen = Vec::new();
    for (others, number) in [(1, 10), (0, 10)] {
        store.begin_group().unwrap();
        seen.push(store.write(known).unwrap());
        store.write(|tx| learn(tx, number)).unwrap();
        for other in 0..others {
            elsewhere(&world, 20 + other);
        }
        let committed = store.commit_group();
        assert_eq!(committed.is_err(), others > 0, "{committed:?}");
        assert_eq!(store.was_overtaken(), others > 0);
    }
    assert_eq!(seen, [3, 4]);
    assert_eq!((store.times_overtaken(), notes(&world)), (1, 5));
    // Who has nothing to write was answered on what is no longer so, as well.
    store.begin_group().unwrap();
    assert_eq!(store.write(known).unwrap(), 5);
    elsewhere(&world, 30);
    assert!(matches!(
        store.commit_group(),
        Err(StoreError::Collision(_))
    ));
    assert!(store.was_overtaken());
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn who_is_overtaken_twice_in_a_row_holds_the_project() {
    let world = World::new(Engine::Postgres);
    let mut store = settled(&world);
    for other in 0..2 {
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 10)).unwrap();
        elsewhere(&world, 20 + other);
        assert!(store.commit_group().is_err());
    }
    store.begin_group().unwrap();
    let rev = store.write(|tx| learn(tx, 10)).unwrap();
    thread::scope(|scope| {
        let (begun, is_begun) = channel();
        let world = &world;
        let other = scope.spawn(move || {
            let mut other = world.unrehearsed();
            begun.send(()).unwrap();
            other.write(|tx| learn(tx, 30)).unwrap()
        });
        is_begun.recv().unwrap();
        thread::sleep(Duration::from_millis(100));
        store.commit_group().unwrap();
        assert_eq!(other.join().unwrap(), rev + 1);
    });
    assert_eq!(store.times_overtaken(), 2);
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// What asks for its own writes, tries something, or has to know what became of a statement cannot be put off.
#[test]
fn what_needs_the_project_holds_it_from_there_on() {
    type Ask = fn(&mut Tx<'_>) -> Result<(), StoreError>;
    let world = World::new(Engine::Postgres);
    let mut store = settled(&world);
    store
        .pulse(|tx| tx.beat(agent_id(1), 1, &json!({})))
        .unwrap();
    let asks: [Ask; 3] = [
        |tx| tx.ids(Kind::Note).map(drop),
        |tx| {
            let place = tx.savepoint()?;
            learn(tx, 99)?;
            tx.deliver()?;
            tx.roll_back_to(place)
        },
        |tx| {
            let heard = tx.pulse(agent_id(1))?.unwrap();
            assert!(tx.hold_pulse(agent_id(1), heard.at)?);
            Ok(())
        },
    ];
    for (ask, number) in asks.into_iter().zip([10, 20, 30]) {
        for overtaken in [true, false] {
            store.begin_group().unwrap();
            store.write(|tx| learn(tx, number)).unwrap();
            if overtaken {
                elsewhere(&world, number + 100);
            }
            let asked = store.write(ask);
            assert_eq!(asked.is_err(), overtaken, "{asked:?}");
            if !overtaken {
                store.write(|tx| learn(tx, number + 50)).unwrap();
            }
            assert_eq!(store.commit_group().is_err(), overtaken);
            assert_eq!(store.was_overtaken(), overtaken);
            // As it is where nobody else writes.
            for again in 0..2 {
                store.begin_group().unwrap();
                store.write(|tx| learn(tx, number + 200 + again)).unwrap();
                store.commit_group().unwrap();
            }
        }
    }
    assert_eq!((store.times_overtaken(), notes(&world)), (3, 3 + 3 * 5));
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn a_row_that_is_written_often_in_one_commit_has_its_last_value_and_its_first_revision() {
    let world = World::new(Engine::Postgres);
    let mut store = settled(&world);
    store.begin_group().unwrap();
    let first = store.write(|tx| learn(tx, 10)).unwrap();
    store.write(|tx| learn(tx, 11)).unwrap();
    let last = store
        .write(|tx| {
            let note = lesson(10, &mission(1, "One"), "the last word");
            tx.set(EventType::NoteAdded, &note, &json!({}))
        })
        .unwrap();
    store.write(|tx| forget(tx, 1)).unwrap();
    store.commit_group().unwrap();
    let rows = world.store().read(|tx| tx.rows(Kind::Note, Find::All));
    let rows = rows.map_err(|error: StoreError| error).unwrap();
    let key = lesson(10, &mission(1, "One"), "x").key();
    let row = rows.iter().find(|row| row.id == key).unwrap();
    assert_eq!((row.born, row.rev, rows.len()), (first, last, 4));
    // What is made and taken away in one commit, and the other way round.
    store.begin_group().unwrap();
    store.write(|tx| learn(tx, 20)).unwrap();
    store.write(|tx| forget(tx, 20)).unwrap();
    store.write(|tx| forget(tx, 2)).unwrap();
    store.write(|tx| learn(tx, 2)).unwrap();
    store.commit_group().unwrap();
    assert_eq!(notes(&world), 4);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn a_heartbeat_after_a_pause_overtakes_a_group() {
    let world = World::new(Engine::Postgres);
    let mut store = settled(&world);
    store.begin_group().unwrap();
    store.write(|tx| learn(tx, 10)).unwrap();
    world.pass(Duration::from_secs(3_600));
    let beat = |tx: &mut Tx<'_>| tx.beat(agent_id(1), 1, &json!({}));
    world.unrehearsed().pulse(beat).unwrap();
    assert!(store.commit_group().is_err() && store.was_overtaken());
    store.begin_group().unwrap();
    let awake = store
        .write(|tx| {
            learn(tx, 10)?;
            Ok::<_, StoreError>(tx.awake_since())
        })
        .unwrap();
    store.commit_group().unwrap();
    assert_eq!(awake, world.clock.now());
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// Several nodes at once, each counting up: no count is lost, and no two have the same.
#[test]
fn nodes_that_write_at_once_lose_nothing() {
    let world = World::new(Engine::Postgres);
    const NODES: u128 = 4;
    const ROUNDS: u128 = 25;
    let overtaken: u64 = thread::scope(|scope| {
        let nodes: Vec<_> = (0..NODES)
            .map(|node| {
                let world = &world;
                scope.spawn(move || {
                    let mut store = world.unrehearsed();
                    for round in 0..ROUNDS {
                        loop {
                            store.begin_group().unwrap();
                            let counted = store.write(|tx| {
                                let before = known(tx)?;
                                let text = format!("{before}");
                                let number = 1_000 * node + round;
                                let note = lesson(number, &mission(1, "One"), &text);
                                tx.set(EventType::NoteAdded, &note, &json!({}))
                            });
                            let committed = store.commit_group();
                            match (counted, committed) {
                                (Ok(_), Ok(())) => break,
                                (_, Err(StoreError::Collision(_))) => {}
                                other => panic!("{other:?}"),
                            }
                        }
                    }
                    store.times_overtaken()
                })
            })
            .collect();
        nodes.into_iter().map(|node| node.join().unwrap()).sum()
    });
    let all = world.store().read(|tx| tx.find::<Note>(Find::All));
    let all = all.map_err(|error: StoreError| error).unwrap();
    let mut counts: Vec<usize> = all
        .iter()
        .map(|note| note.text.to_string().parse().unwrap())
        .collect();
    counts.sort_unstable();
    let whole: Vec<usize> = (0..usize::try_from(NODES * ROUNDS).unwrap()).collect();
    assert_eq!(counts, whole, "{overtaken} were overtaken");
    let filter = EventFilter {
        limit: 1_000,
        ..EventFilter::default()
    };
    let events = world
        .store()
        .read(|tx| tx.events_after(0, &filter))
        .unwrap();
    assert_eq!(events.len(), whole.len());
    assert_eq!(world.problems(), Vec::<String>::new());
}
