//! How much room a store takes, and how it gives free room back: never at the cost of what it holds.

use std::fs;

use flightline_core::Time;
use flightline_core::event::EventType;
use flightline_core::text::Text;
use flightline_store::{Compaction, Store};
use flightline_testkit::frozen::Frozen;
use flightline_testkit::value::mission;
use flightline_testkit::{Engine, World, both_engines};
use serde_json::json;

/// Gives one mission very many values; all but the last can go.
fn fill(store: &mut Store, values: u64) {
    let mut mission = mission(1, "One");
    for number in 0..values {
        // Each is another text altogether: none can be told against an earlier one.
        let letter = ["u", "v", "w", "x", "y", "z"][usize::try_from(number % 6).unwrap()];
        let text = format!("{number} {}", letter.repeat(8_000));
        mission.objective = Some(Text::parse("objective", &text).unwrap());
        store
            .write(|tx| tx.set(EventType::MissionUpdated, &mission, &json!({})))
            .unwrap();
    }
}

fn thin(store: &mut Store) -> u64 {
    let end = Time::from_millis(i64::MAX / 2);
    store
        .write(|tx| {
            let old = tx.superseded(0, u64::MAX >> 1, end, None)?;
            let revs: Vec<u64> = old.iter().map(|value| value.rev).collect();
            tx.thin(&revs)
        })
        .unwrap()
}

fn sqlite_with_room() -> (World, Store) {
    let world = World::new(Engine::Sqlite);
    let mut store = world.unrehearsed();
    fill(&mut store, 300);
    assert_eq!(thin(&mut store), 299);
    // The file has it by now, and not the log.
    store.fold_log(true).unwrap();
    (world, store)
}

fn file_size(world: &World) -> u64 {
    let file = world.folder().join(".flightline/flightline.db");
    fs::metadata(file).unwrap().len()
}

/// SQLite notes in a file that it maps how much it folds: where that cannot be written, touching it ends the process.
#[test]
fn a_log_in_a_folder_that_cannot_be_written_is_folded_when_it_can() {
    let world = World::new(Engine::Sqlite);
    let mut store = world.unrehearsed();
    fill(&mut store, 30);
    let state = world.folder().join(".flightline");
    let Some(frozen) = Frozen::new(&state) else {
        return;
    };
    for truncate in [false, true] {
        let error = store.fold_log(truncate).unwrap_err().to_string();
        assert!(error.starts_with("cannot write to the store"), "{error}");
    }
    drop(frozen);
    assert_eq!(store.fold_log(true).unwrap(), 0);
    fill(&mut store, 30);
}

both_engines! {
    fn what_a_store_takes_is_known(world: &World) {
        let mut store = world.unrehearsed();
        fill(&mut store, 30);
        let space = store.read(|tx| tx.space()).unwrap();
        assert!(space.database + space.log > 30 * 1_000, "{space:?}");
        assert_eq!(space.free.is_some(), world.engine == Engine::Sqlite);
    }

    fn too_little_to_be_worth_it_is_left(world: &World) {
        let mut store = world.unrehearsed();
        fill(&mut store, 30);
        thin(&mut store);
        let expected = match world.engine {
            Engine::Sqlite => Compaction::NotWorthIt,
            Engine::Postgres => Compaction::ByServer,
        };
        assert_eq!(store.compact(0, u64::MAX).unwrap(), expected);
    }
}

#[test]
fn free_pages_go_back_to_the_file_system_and_everything_else_stays() {
    let (world, mut store) = sqlite_with_room();
    let before = store.read(|tx| tx.state_at(tx.rev(), None)).unwrap();
    let size = file_size(&world);
    let Compaction::Returned(bytes) = store.compact(0, u64::MAX).unwrap() else {
        panic!("it is worth it");
    };
    assert!(bytes > 2_000_000, "{bytes}");
    assert_eq!(
        file_size(&world),
        size - bytes,
        "as many as the file system says"
    );
    assert_eq!(
        store.read(|tx| tx.state_at(tx.rev(), None)).unwrap(),
        before
    );
    assert!(world.problems().is_empty());
    assert_eq!(
        store.compact(0, u64::MAX).unwrap(),
        Compaction::NotWorthIt,
        "once"
    );
    fill(&mut store, 3);
    assert!(
        Store::open(&world.location, &world.project, world.options()).is_ok(),
        "it is still ours"
    );
}

#[test]
fn free_pages_are_used_again_when_they_are_not_given_back() {
    let (world, mut store) = sqlite_with_room();
    let free = |store: &mut Store| store.read(|tx| tx.space()).unwrap().free.unwrap();
    let (room, size) = (
        free(&mut store),
        world.folder().join(".flightline/flightline.db"),
    );
    let size = || fs::metadata(&size).unwrap().len();
    drop(store);
    let before = size();
    let mut store = world.unrehearsed();
    fill(&mut store, 100);
    assert!(free(&mut store) < room);
    drop(store);
    assert_eq!(size(), before);
}

#[test]
fn a_large_store_is_left_to_somebody_who_has_the_time() {
    let (_world, mut store) = sqlite_with_room();
    assert!(matches!(
        store.compact(0, 1_000).unwrap(),
        Compaction::Later(_)
    ));
    assert!(matches!(
        store.compact(0, u64::MAX).unwrap(),
        Compaction::Returned(_)
    ));
}

#[test]
fn a_writer_at_work_is_not_disturbed() {
    let (world, mut store) = sqlite_with_room();
    let mut other = world.unrehearsed();
    other
        .write(|tx| {
            assert!(matches!(
                store.compact(0, u64::MAX).unwrap(),
                Compaction::Later("another process is writing")
            ));
            tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({}))
        })
        .unwrap();
    // Somebody else's program does not queue.
    let outsider = rusqlite::Connection::open(world.folder().join(".flightline/flightline.db"));
    let outsider = outsider.unwrap();
    outsider.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(
        store.compact(0, u64::MAX).unwrap(),
        Compaction::Later("another process is writing")
    ));
    outsider.execute_batch("ROLLBACK").unwrap();
    drop(outsider);
    assert!(matches!(
        store.compact(0, u64::MAX).unwrap(),
        Compaction::Returned(_)
    ));
    assert!(world.problems().is_empty());
}

#[test]
fn a_reader_goes_on_reading_what_it_saw() {
    let (world, mut store) = sqlite_with_room();
    let mut reader = world.unrehearsed();
    reader
        .read(|tx| {
            let before = tx.state_at(tx.rev(), None)?;
            let given = store.compact(0, u64::MAX)?;
            assert_eq!(
                given,
                Compaction::Later("another process is reading the old pages")
            );
            assert_eq!(tx.state_at(tx.rev(), None)?, before);
            Ok::<_, flightline_store::StoreError>(())
        })
        .unwrap();
    drop(reader);
    assert!(world.problems().is_empty());
    store
        .write(|tx| tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({})))
        .unwrap();
    store.fold_log(true).unwrap();
    assert!(
        file_size(&world) < 500_000,
        "and the next fold of the log gives it back"
    );
}
