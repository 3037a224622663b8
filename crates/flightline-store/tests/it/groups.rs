//! Several writes, one commit: each is whole or absent by itself, and all of them are there once it is made.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use flightline_core::event::EventType;
use flightline_core::{Kind, Subject};
use flightline_store::{EventFilter, Find, OpenOptions, Store, StoreError, Tx};
use flightline_testkit::value::{agent_id, lesson, mission};
use flightline_testkit::{Engine, World, both_engines};
use serde_json::json;

/// Writes a lesson, named by its number.
pub fn learn(tx: &mut Tx<'_>, number: u128) -> Result<u64, StoreError> {
    let note = lesson(number, &mission(1, "One"), &format!("lesson {number}"));
    tx.set(EventType::NoteAdded, &note, &json!({}))
}

fn notes(store: &mut Store) -> usize {
    store
        .read(|tx| Ok::<_, StoreError>(tx.rows(Kind::Note, Find::All)?.len()))
        .unwrap()
}

pub fn refuse() -> Result<u64, StoreError> {
    Err(StoreError::Location("no".to_owned()))
}

both_engines! {
    fn members_are_seen_by_one_another_and_by_others_once_it_is_committed(world: &World) {
        let (mut store, mut other) = (world.store(), world.store());
        store.begin_group().unwrap();
        assert_eq!(store.write(|tx| learn(tx, 1)).unwrap(), 1);
        assert_eq!(store.write(|tx| learn(tx, 2)).unwrap(), 2);
        assert_eq!(notes(&mut store), 2);
        assert_eq!(notes(&mut other), 0);
        store.commit_group().unwrap();
        assert_eq!(notes(&mut other), 2);
        // Each is a step of its own.
        let events = other.read(|tx| tx.events_after(0, &EventFilter { limit: 9, ..EventFilter::default() })).unwrap();
        let steps: Vec<(u64, u64)> = events.iter().map(|event| (event.rev, event.step)).collect();
        assert_eq!(steps, [(1, 1), (2, 2)]);
        assert_eq!(world.problems(), Vec::<String>::new());
        // And afterwards writes are by themselves again.
        store.write(|tx| learn(tx, 3)).unwrap();
        assert_eq!(notes(&mut other), 3);
    }

    fn a_refused_member_takes_nothing_from_its_neighbours(world: &World) {
        let mut store = world.store();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        for number in [2, 3] {
            let refused = store.write(|tx| {
                learn(tx, number)?;
                tx.beat(agent_id(1), 1, &json!({}))?;
                tx.remember("ada", "key", "request", "outcome".to_owned())?;
                refuse()
            });
            assert!(matches!(refused, Err(StoreError::Location(_))));
        }
        assert_eq!(store.write(|tx| learn(tx, 4)).unwrap(), 2);
        // Nor does one that only looks at what would happen.
        assert_eq!(store.rehearse(|tx| learn(tx, 5)).unwrap(), 3);
        assert_eq!(store.write(|tx| learn(tx, 6)).unwrap(), 3);
        store.pulse(|tx| tx.beat(agent_id(2), 1, &json!({}))).unwrap();
        store.commit_group().unwrap();
        let (rev, ids, pulses) = world
            .store()
            .read(|tx| Ok::<_, StoreError>((tx.rev(), tx.ids(Kind::Note)?, tx.pulses()?.len())))
            .unwrap();
        let kept = [1, 4, 6].map(|number| lesson(number, &mission(1, "x"), "x").key());
        assert_eq!((rev, ids, pulses), (3, kept.to_vec(), 1));
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn a_member_that_panics_takes_nothing_either(world: &World) {
        let mut store = world.store();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            store.write(|tx| {
                learn(tx, 2)?;
                resume_unwind(Box::new("on purpose")) as Result<(), StoreError>
            })
        }));
        assert!(panicked.is_err() && store.has_sound_group());
        assert_eq!(store.write(|tx| learn(tx, 3)).unwrap(), 2);
        store.commit_group().unwrap();
        assert_eq!(notes(&mut world.store()), 2);
    }

    fn what_a_refused_member_asked_for_itself_is_gone_with_it(world: &World) {
        let mut store = world.store();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        let refused = store.write(|tx| {
            learn(tx, 2)?;
            assert_eq!(tx.ids(Kind::Note)?.len(), 2);
            learn(tx, 3)?;
            assert_eq!(tx.events_since(0)?, 3);
            refuse()
        });
        assert!(matches!(refused, Err(StoreError::Location(_))));
        store
            .write(|tx| {
                assert_eq!(tx.ids(Kind::Note)?.len(), 1);
                learn(tx, 4)
            })
            .unwrap();
        store.commit_group().unwrap();
        let ids = world.store().read(|tx| tx.ids(Kind::Note)).unwrap();
        let kept = [1, 4].map(|number| lesson(number, &mission(1, "x"), "x").key());
        assert_eq!(ids, kept);
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn an_agent_that_writes_often_in_one_commit_is_heard_once(world: &World) {
        let mut store = world.store();
        store.write(|tx| learn(tx, 1)).unwrap();
        store.begin_group().unwrap();
        for (number, data) in [(2, json!({})), (3, json!({ "step": 1 })), (4, json!({})), (5, json!({ "step": 2 }))] {
            store
                .write(|tx| {
                    tx.pulses()?;
                    tx.beat(agent_id(1), 1, &data)?;
                    learn(tx, number)
                })
                .unwrap();
        }
        store.commit_group().unwrap();
        let pulses = world.store().read(|tx| tx.pulses()).unwrap();
        let heard: Vec<_> = pulses.iter().map(|it| (it.epoch, it.at, it.data.clone())).collect();
        assert_eq!(heard, [(1, world.clock.now(), json!({ "step": 2 }))]);
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn a_group_that_is_abandoned_leaves_nothing(world: &World) {
        let mut store = world.store();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        store.abandon_group();
        assert_eq!(notes(&mut store), 0);
        assert_eq!(store.write(|tx| learn(tx, 1)).unwrap(), 1);
    }

    fn a_savepoint_within_a_member_comes_back_to_its_own_place(world: &World) {
        let mut store = world.store();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        store
            .write(|tx| {
                learn(tx, 2)?;
                let here = tx.savepoint()?;
                learn(tx, 3)?;
                tx.roll_back_to(here)?;
                tx.savepoint()?;
                learn(tx, 4)?;
                tx.release()
            })
            .unwrap();
        store.commit_group().unwrap();
        let ids = world.store().read(|tx| tx.ids(Kind::Note)).unwrap();
        let kept = [1, 2, 4].map(|number| lesson(number, &mission(1, "x"), "x").key());
        assert_eq!(ids, kept);
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn a_member_that_fails_within_a_place_of_its_own_leaves_nothing_before_it_either(world: &World) {
        let mut store = world.store();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        let failed = store.write(|tx| {
            learn(tx, 2)?;
            tx.savepoint()?;
            learn(tx, 3)?;
            // As when the store fails: nobody comes back to that place.
            refuse()
        });
        assert!(matches!(failed, Err(StoreError::Location(_))));
        assert_eq!(store.write(|tx| learn(tx, 4)).unwrap(), 2);
        store.commit_group().unwrap();
        let ids = world.store().read(|tx| tx.ids(Kind::Note)).unwrap();
        let kept = [1, 4].map(|number| lesson(number, &mission(1, "x"), "x").key());
        assert_eq!(ids, kept);
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn one_who_passes_over_a_failed_statement_spoils_the_group_and_nothing_is_committed(world: &World) {
        let mut store = world.unrehearsed();
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        // The same revision twice: the journal refuses it.
        let _ = store.write(|tx| {
            learn(tx, 2)?;
            let failed = tx.remember("ada", "key", "request", "outcome".to_owned())
                .and_then(|()| tx.remember("ada", "key", "request", "outcome".to_owned()))
                .and_then(|()| tx.deliver());
            assert!(failed.is_err());
            Ok::<_, StoreError>(())
        });
        assert!(!store.has_sound_group());
        assert!(matches!(store.write(|tx| learn(tx, 3)), Err(StoreError::Collision(_))));
        assert!(matches!(store.commit_group(), Err(StoreError::Collision(_))));
        assert_eq!(notes(&mut world.store()), 0);
        store.write(|tx| learn(tx, 1)).unwrap();
    }
}

/// A savepoint makes SQLite copy every page before it is changed: a member has one only when it needs it.
#[test]
fn a_member_of_a_group_on_sqlite_runs_its_own_writes_and_nothing_else() {
    let world = World::new(Engine::Sqlite);
    let options = OpenOptions {
        rehearse: false,
        ..world.options()
    };
    // In debug builds, what is answered from memory is asked of the tables as well.
    world.forget();
    let mut store = world.open(options);
    store.begin_group().unwrap();
    let ran = |store: &mut Store, work: &mut dyn FnMut(&mut Tx<'_>) -> Result<u64, StoreError>| {
        let before = store.statements();
        let done = store.write(work);
        (done.is_ok(), store.statements() - before)
    };
    for number in 1..4 {
        let event_and_value = ran(&mut store, &mut |tx| learn(tx, number));
        assert_eq!(event_and_value, (true, 2));
    }
    let refused = ran(&mut store, &mut |tx| {
        learn(tx, 4)?;
        refuse()
    });
    assert_eq!(refused, (false, 0));
    // What another has written is asked for without one, too.
    let other = ran(&mut store, &mut |tx| {
        learn(tx, 5)?;
        tx.beat(agent_id(1), 1, &json!({}))?;
        Ok(tx.backups()?.len() as u64)
    });
    assert_eq!(other, (true, 4));
    let own = ran(&mut store, &mut |tx| {
        learn(tx, 6)?;
        assert_eq!(tx.ids(Kind::Note)?.len(), 5);
        refuse()
    });
    assert_eq!(
        own,
        (false, 6),
        "SAVEPOINT, two writes, query, ROLLBACK TO, RELEASE"
    );
    assert_eq!(ran(&mut store, &mut |tx| learn(tx, 7)), (true, 2));
    store.commit_group().unwrap();
    assert_eq!(notes(&mut world.store()), 5);
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// A transaction that goes back to the outer of two places of the same name finds nothing of either.
#[test]
fn a_place_within_another_that_was_given_up_is_not_come_back_to() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let world = World::new(engine);
        let mut store = world.store();
        let written = store.write(|tx| {
            let outer = tx.savepoint()?;
            learn(tx, 1)?;
            tx.savepoint()?;
            learn(tx, 2)?;
            tx.deliver()?;
            tx.release()?;
            learn(tx, 3)?;
            tx.roll_back_to(outer)?;
            assert_eq!(tx.ids(Kind::Note)?, Vec::<String>::new());
            learn(tx, 4)
        });
        assert_eq!(written.unwrap(), 1);
        assert_eq!(notes(&mut world.store()), 1);
        store.write(|tx| learn(tx, 5)).unwrap();
        assert_eq!(world.problems(), Vec::<String>::new());
    }
}

/// To PostgreSQL every statement is a journey: those who share a commit share one for each table.
#[test]
fn a_commit_of_many_on_postgres_takes_as_many_journeys_as_one_of_few() {
    let world = World::new(Engine::Postgres);
    let options = OpenOptions {
        rehearse: false,
        ..world.options()
    };
    world.forget();
    let mut store = world.open(options);
    let mut together = |numbers: std::ops::Range<u128>| {
        let before = store.statements();
        store.begin_group().unwrap();
        for number in numbers {
            store.write(|tx| learn(tx, number)).unwrap();
        }
        store.commit_group().unwrap();
        store.statements() - before
    };
    // The first ones prepare their statements.
    together(0..1);
    together(1..3);
    assert_eq!(together(3..5), 7);
    let many = together(5..36);
    assert_eq!(
        many, 7,
        "BEGIN, project, events, values, project, COMMIT, read back"
    );
    assert_eq!(notes(&mut world.store()), 36);
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// Where the last values are remembered, all of it is one journey: BEGIN, the project, the time and the way back are in it.
#[test]
fn a_commit_of_many_on_postgres_is_one_journey_where_the_project_is_known() {
    let world = World::new(Engine::Postgres);
    let mut store = world.unrehearsed();
    let mut journeys = Vec::new();
    for round in 0..8_u128 {
        let before = store.statements();
        store.begin_group().unwrap();
        for number in 0..31 {
            store
                .write(|tx| {
                    tx.beat(
                        agent_id(number),
                        1,
                        &json!({ "round": u64::try_from(round).unwrap() }),
                    )?;
                    // One in four is changed twice in the same commit.
                    learn(tx, 100 * round + number - number % 4)
                })
                .unwrap();
        }
        store.commit_group().unwrap();
        journeys.push(store.statements() - before);
    }
    // On a machine that is busy, some begin more than a second after the last.
    assert_eq!(journeys.iter().min(), Some(&1), "{journeys:?}");
    assert_eq!(notes(&mut world.store()), 8 * 8);
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// PostgreSQL hears of a write when something has to see it: by then its member may have had its answer.
#[test]
fn a_write_that_fails_late_takes_the_whole_group_and_it_is_known() {
    let world = World::new(Engine::Postgres);
    let mut store = world.unrehearsed();
    let twice = |tx: &mut Tx<'_>| {
        tx.remember("ada", "key", "request", "outcome".to_owned())?;
        tx.remember("ada", "key", "request", "outcome".to_owned())
    };
    for look in [false, true] {
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1)).unwrap();
        store.write(twice).unwrap();
        if look {
            let seen = store.write(|tx| tx.past("ada", "key", "request"));
            assert!(matches!(seen, Err(StoreError::Corrupt(_))), "{seen:?}");
            assert!(!store.has_sound_group());
        } else {
            store.write(|tx| learn(tx, 2)).unwrap();
        }
        let lost = store.commit_group();
        assert!(matches!(lost, Err(StoreError::Collision(_))), "{lost:?}");
        assert_eq!(notes(&mut world.store()), 0);
    }
    // By itself, the one that did it is told.
    let alone = store.write(twice);
    assert!(matches!(alone, Err(StoreError::Corrupt(_))), "{alone:?}");
    store.write(|tx| learn(tx, 1)).unwrap();
    assert_eq!(notes(&mut world.store()), 1);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn a_full_disk_takes_the_whole_group_and_it_is_known() {
    let world = World::new(Engine::Sqlite);
    let file = world.folder().join(".flightline/flightline.db");
    let pages: u32 = {
        let look = rusqlite::Connection::open(file).unwrap();
        look.pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap()
    };
    let options = OpenOptions {
        max_pages: Some(pages + 4),
        rehearse: false,
        ..world.options()
    };
    let mut store = world.open(options);
    let long = "All work and no play makes a dull disk. ".repeat(150);
    let fill = |tx: &mut Tx<'_>, number| {
        let note = lesson(number, &mission(1, "One"), &long);
        tx.set(EventType::NoteAdded, &note, &json!({}))
    };
    store.begin_group().unwrap();
    store.write(|tx| learn(tx, 1)).unwrap();
    let full = (2..40).find_map(|number| store.write(|tx| fill(tx, number)).err());
    assert!(matches!(full, Some(StoreError::Full(_))), "{full:?}");
    assert!(!store.has_sound_group());
    // A neighbour that comes later must not begin a transaction of its own without noticing.
    assert!(matches!(
        store.write(|tx| learn(tx, 50)),
        Err(StoreError::Collision(_))
    ));
    assert!(matches!(
        store.commit_group(),
        Err(StoreError::Collision(_))
    ));
    assert_eq!(notes(&mut world.store()), 0);
    store.write(|tx| learn(tx, 1)).unwrap();
    assert_eq!(notes(&mut world.store()), 1);
}
