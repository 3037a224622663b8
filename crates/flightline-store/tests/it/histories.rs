//! A replica takes the place of the database: a new history goes on from what it has, and nothing that was handed out in
//! the part that may be lost ever means anything else.

use flightline_core::event::sha256_hex;
use flightline_core::event::{Event, EventType};
use flightline_core::history::{Branch, LEFT_OUT};
use flightline_core::{Kind, Subject};
use flightline_store::{EventFilter, Location, Mended, Store, StoreError, StoredEvent};
use flightline_testkit::damage::{fail_over, raw};
use flightline_testkit::database::Database;
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World, both_engines, postgres_url};
use serde_json::json;

use crate::groups::learn;

fn history(store: &mut Store) -> (String, u64) {
    let look = store.read(|tx| Ok::<_, StoreError>((tx.history().to_owned(), tx.rev())));
    look.unwrap()
}

fn has(store: &mut Store, history: &str, rev: u64) -> bool {
    store.read(|tx| tx.has_place(history, rev)).unwrap()
}

fn events(store: &mut Store) -> Vec<Event> {
    let all = EventFilter {
        limit: 99,
        ..EventFilter::default()
    };
    store.read(|tx| tx.events_after(0, &all)).unwrap()
}

/// A project with three events.
fn three() -> (World, Store) {
    let world = World::new(Engine::Postgres);
    let mut store = world.store();
    for number in 1..=3 {
        store.write(|tx| learn(tx, number)).unwrap();
    }
    (world, store)
}

#[test]
fn a_new_history_goes_on_from_what_the_replica_has() {
    let (world, mut store) = three();
    let (first, _) = history(&mut store);
    fail_over(&world);
    assert_eq!(
        history(&mut store),
        (first.clone(), 3),
        "looking begins none"
    );
    let written = store.write(|tx| learn(tx, 4)).unwrap();
    assert_eq!(written, LEFT_OUT + 5);
    let (second, rev) = history(&mut store);
    assert!(second != first && rev == written);
    let told = events(&mut store);
    let told: Vec<(u64, u64, &str, &str)> = told
        .iter()
        .map(|event| {
            (
                event.rev,
                event.step,
                event.kind.as_str(),
                event.actor.as_str(),
            )
        })
        .skip(2)
        .collect();
    let begun = LEFT_OUT + 4;
    assert_eq!(
        told,
        [
            (3, 3, "note_added", "flightline"),
            (begun, begun, "history_begun", "flightline"),
            (begun + 1, begun + 1, "note_added", "flightline")
        ]
    );
    let data = events(&mut store)[3].data.clone();
    assert_eq!(data["before"], json!({ "history": first, "rev": 3 }));
    assert_eq!(data["history"], json!(second));
    // What both have is the same in both; the rest never was, however much is written.
    for _ in 0..2 {
        for (of, rev, is_there) in [
            (&first, 0, true),
            (&first, 3, true),
            (&first, 4, false),
            (&first, begun, false),
            (&second, 3, true),
            (&second, begun, true),
            (&second, begun + 9, false),
            (&"another".to_owned(), 1, false),
        ] {
            assert_eq!(has(&mut store, of, rev), is_there, "{of} {rev}");
        }
        store.write(|tx| learn(tx, 5)).unwrap();
    }
    assert_eq!(history(&mut store).0, second, "once");
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn each_of_several_is_part_of_the_last_up_to_where_it_was_left() {
    let (world, mut store) = three();
    let mut left = Vec::new();
    for number in 10..14 {
        left.push(history(&mut store));
        fail_over(&world);
        store.write(|tx| learn(tx, number)).unwrap();
    }
    for (of, rev) in &left {
        assert!(has(&mut store, of, *rev) && !has(&mut store, of, rev + 1));
    }
    let branches = store.read(|tx| tx.branches()).unwrap();
    let before: Vec<(String, u64)> = branches
        .into_iter()
        .map(|branch| (branch.before, branch.left_at))
        .collect();
    left.reverse();
    assert_eq!(before, left);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn it_begins_with_the_first_write_that_is_kept() {
    let (world, mut store) = three();
    let before = history(&mut store);
    fail_over(&world);
    let refused = store.write(|tx| {
        learn(tx, 4)?;
        Err::<(), _>(StoreError::Location("no".to_owned()))
    });
    assert!(refused.is_err());
    store.rehearse(|tx| learn(tx, 4)).unwrap();
    assert_eq!(history(&mut store), before);
    // Of several that are committed together, the first may be refused.
    store.begin_group().unwrap();
    let refused = store.write(|tx| {
        learn(tx, 4)?;
        Err::<(), _>(StoreError::Location("no".to_owned()))
    });
    assert!(refused.is_err());
    assert_eq!(store.write(|tx| learn(tx, 5)).unwrap(), LEFT_OUT + 5);
    store.commit_group().unwrap();
    assert_eq!(events(&mut store).len(), 5);
    assert_eq!(world.problems(), Vec::<String>::new());
    // One of a project that has no events at all.
    let world = World::new(Engine::Postgres);
    fail_over(&world);
    assert_eq!(
        world.store().write(|tx| learn(tx, 1)).unwrap(),
        LEFT_OUT + 2
    );
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn an_upgrade_goes_on_in_the_same_history() {
    let (world, mut store) = three();
    let (before, _) = history(&mut store);
    raw(
        &world,
        "UPDATE project SET timeline = NULL WHERE id = {project}",
    );
    store.write(|tx| learn(tx, 4)).unwrap();
    assert_eq!(history(&mut store), (before.clone(), 4));
    // And from then on it is noticed.
    fail_over(&world);
    store.write(|tx| learn(tx, 5)).unwrap();
    assert_ne!(history(&mut store).0, before);
}

#[test]
fn nothing_is_brought_back_from_the_part_that_is_lost() {
    let (world, mut store) = three();
    fail_over(&world);
    store.write(|tx| learn(tx, 5)).unwrap();
    let copy = |rev: u64, number: u128| {
        let text = serde_json::to_string(&lesson(
            number,
            &mission(1, "One"),
            &format!("lesson {number}"),
        ))
        .unwrap();
        StoredEvent {
            kind: Kind::Note,
            id: lesson(number, &mission(1, "One"), "x").key(),
            rev,
            sha: sha256_hex(&text),
            text,
        }
    };
    let mut back = |copy: &StoredEvent| store.write(|tx| tx.bring_back(copy, "a file")).unwrap();
    assert_eq!(back(&copy(4, 4)), Mended::Refused);
    assert_eq!(back(&copy(LEFT_OUT + 3, 4)), Mended::Refused);
    // The last event before it is one like others: its loss is found, and can be mended.
    assert_eq!(
        raw(
            &world,
            "DELETE FROM event WHERE project = {project} AND rev = 3"
        ),
        1
    );
    let problems = world.problems().join("; ");
    let lost = format!(
        "the last event before the history that begins at revision {} is missing",
        LEFT_OUT + 4
    );
    assert!(problems.contains(&lost), "{problems}");
    assert_eq!(back(&copy(3, 3)), Mended::Healed);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn a_restore_lies_above_the_lost_part_as_well() {
    let (world, mut store) = three();
    let (before, _) = history(&mut store);
    let file = world.folder().join("saved.db");
    store.back_up(&file).unwrap();
    fail_over(&world);
    let restored = store.restore_above(&file, 0, |tx, _| {
        tx.set(
            EventType::StoreRestored,
            &mission(2, "Restored"),
            &json!({}),
        )
    });
    assert_eq!(restored.unwrap(), LEFT_OUT + 4);
    let (after, _) = history(&mut store);
    assert!(!has(&mut store, &before, 1) && has(&mut store, &after, 1));
    store.write(|tx| learn(tx, 9)).unwrap();
    assert_eq!(
        history(&mut store),
        (after, LEFT_OUT + 5),
        "it goes on in the same one"
    );
    assert_eq!(
        store
            .read(|tx| tx.get::<Branch>(&Branch::key_of(&before)))
            .unwrap(),
        None
    );
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn the_same_project_in_another_cluster_is_another_journal() {
    let timeline = |url: &str, project: &str| {
        let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
        let row = client.query_one("SELECT timeline FROM project WHERE id = $1", &[&project]);
        row.unwrap().get::<_, i64>(0)
    };
    let (world, mut store) = three();
    let here = timeline(&postgres_url(), &world.project);
    // A dump that was read in there: the same rows, and what was written here since is not among them.
    let database = Database::start();
    let location = Location::Postgres(database.url().to_owned());
    let mut copy = Store::create(&location, &world.project, "test", world.options()).unwrap();
    let there = timeline(database.url(), &world.project);
    assert!(here != there && here & 0xffff_ffff == 1 && there & 0xffff_ffff == 1);
    let mut client = postgres::Client::connect(database.url(), postgres::NoTls).unwrap();
    let dumped = client.execute("UPDATE project SET timeline = $1", &[&here]);
    assert_eq!(dumped.unwrap(), 1);
    let before = history(&mut copy).0;
    copy.write(|tx| learn(tx, 1)).unwrap();
    assert_ne!(history(&mut copy).0, before);
    let before = history(&mut store).0;
    store.write(|tx| learn(tx, 4)).unwrap();
    assert_eq!(history(&mut store).0, before);
}

both_engines! {
    fn a_history_goes_on_while_nobody_takes_the_databases_place(world: &World) {
        let mut store = world.store();
        let before = history(&mut store).0;
        for number in 1..=3 {
            // A connection of its own each time.
            world.store().write(|tx| learn(tx, number)).unwrap();
        }
        if world.engine == Engine::Sqlite {
            // A file has no replica.
            fail_over(world);
            world.store().write(|tx| learn(tx, 4)).unwrap();
        }
        assert_eq!(history(&mut store).0, before);
        assert_eq!(world.problems(), Vec::<String>::new());
    }
}
