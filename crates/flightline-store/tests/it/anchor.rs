//! The last acknowledged revision, kept beside the database: a database that is behind it has lost something.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use flightline_core::event::EventType;
use flightline_core::history::LEFT_OUT;
use flightline_store::verify::verify;
use flightline_store::{EventFilter, Loss, Store, StoreError};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World};
use serde_json::json;

fn learn(store: &mut Store, number: u128) -> u64 {
    let note = lesson(number, &mission(1, "One"), "Measure");
    store
        .write(|tx| tx.set(EventType::NoteAdded, &note, &json!({})))
        .unwrap()
}

fn anchor(world: &World) -> PathBuf {
    world.folder().join(".flightline/anchor")
}

/// The database as it is now, without its log.
fn copy(world: &World) -> PathBuf {
    world.store().fold_log(true).unwrap();
    let file = world.folder().join("copy.db");
    fs::copy(world.folder().join(".flightline/flightline.db"), &file).unwrap();
    file
}

fn put_back(world: &World, file: &PathBuf) {
    let database = world.folder().join(".flightline/flightline.db");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", database.display()));
    }
    fs::copy(file, database).unwrap();
}

/// A store of three revisions of which the last two are lost.
fn behind() -> World {
    let world = World::new(Engine::Sqlite);
    learn(&mut world.store(), 1);
    let old = copy(&world);
    learn(&mut world.store(), 2);
    learn(&mut world.store(), 3);
    put_back(&world, &old);
    world
}

#[test]
fn it_is_private_and_says_the_last_revision() {
    let world = World::new(Engine::Sqlite);
    learn(&mut world.store(), 1);
    let seen = fs::metadata(anchor(&world)).unwrap();
    assert_eq!(seen.permissions().mode() & 0o777, 0o600);
    let said = fs::read_to_string(anchor(&world)).unwrap();
    assert!(
        said.contains(&world.project) && said.contains(" 00000000000000000001 "),
        "{said}"
    );
}

#[test]
fn a_lost_end_is_said_by_every_reader() {
    let world = behind();
    let mut store = world.store();
    store.read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap();
    assert_eq!(store.take_losses(), [Loss::Tail { from: 2, to: 3 }]);
    let said: Vec<String> = verify(&mut store)
        .unwrap()
        .into_iter()
        .flat_map(|finding| finding.problems)
        .collect();
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("revisions 2 to 3 were acknowledged"),
        "{said:?}"
    );
}

#[test]
fn a_writer_goes_on_in_a_new_history_that_says_what_is_lost() {
    let world = behind();
    let mut store = world.store();
    let before = store
        .read(|tx| Ok::<_, StoreError>(tx.history().to_owned()))
        .unwrap();
    let rev = learn(&mut store, 4);
    assert_eq!(rev, 1 + LEFT_OUT + 2, "no revision is handed out twice");
    store.take_losses();
    let (history, begun) = store
        .read(|tx| {
            let mut events = tx.events_after(
                1,
                &EventFilter {
                    limit: 9,
                    ..EventFilter::default()
                },
            )?;
            Ok::<_, StoreError>((tx.history().to_owned(), events.remove(0)))
        })
        .unwrap();
    assert_ne!(history, before);
    assert_eq!(
        (begun.kind.as_str(), &begun.data["lost"]),
        ("history_begun", &json!({ "from": 2, "to": 3 }))
    );
    assert_eq!(store.take_losses(), [], "it is said in the journal now");
    let findings = verify(&mut world.store()).unwrap();
    assert!(
        findings.iter().all(|finding| finding.problems.is_empty()),
        "{findings:?}"
    );
    assert!(
        findings.iter().any(|finding| !finding.known.is_empty()),
        "and told each time"
    );
}

#[test]
fn an_anchor_that_lags_or_is_missing_is_no_loss() {
    let world = World::new(Engine::Sqlite);
    learn(&mut world.store(), 1);
    let old = fs::read(anchor(&world)).unwrap();
    learn(&mut world.store(), 2);
    fs::write(anchor(&world), &old).unwrap();
    assert_eq!(world.problems(), Vec::<String>::new());
    fs::remove_file(anchor(&world)).unwrap();
    assert_eq!(world.problems(), Vec::<String>::new());
    learn(&mut world.store(), 3);
    assert!(anchor(&world).exists());
}

#[test]
fn every_byte_of_it_that_is_changed_shows() {
    let world = World::new(Engine::Sqlite);
    learn(&mut world.store(), 1);
    let sound = fs::read(anchor(&world)).unwrap();
    for at in 0..sound.len() - 1 {
        let mut spoiled = sound.clone();
        spoiled[at] ^= 1;
        fs::write(anchor(&world), &spoiled).unwrap();
        let problems = world.problems();
        assert!(
            matches!(&problems[..], [said] if said.contains("`anchor`")),
            "{at}: {problems:?}"
        );
    }
    learn(&mut world.store(), 2);
    assert_eq!(
        world.problems(),
        Vec::<String>::new(),
        "the next write puts it right"
    );
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let world = World::new(Engine::Sqlite);
    let target = world.folder().join("target");
    fs::write(&target, "mine").unwrap();
    symlink(&target, anchor(&world)).unwrap();
    learn(&mut world.store(), 1);
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    assert_eq!(
        world.problems().len(),
        1,
        "and the doctor says that it cannot be read"
    );
}

#[test]
fn what_is_rolled_back_is_not_acknowledged() {
    let world = World::new(Engine::Sqlite);
    let mut store = world.store();
    learn(&mut store, 1);
    let before = fs::read(anchor(&world)).unwrap();
    let note = lesson(2, &mission(1, "One"), "Measure");
    let refused = store.write(|tx| {
        tx.set(EventType::NoteAdded, &note, &json!({}))?;
        Err::<(), _>(StoreError::Corrupt("no".to_owned()))
    });
    assert!(refused.is_err());
    store
        .rehearse(|tx| tx.set(EventType::NoteAdded, &note, &json!({})))
        .unwrap();
    assert_eq!(fs::read(anchor(&world)).unwrap(), before);
}
