//! A disk that is full: the write fails and says so, and nothing else is lost. SQLite only.

use flightline_core::event::EventType;
use flightline_core::{Kind, Subject};
use flightline_store::{OpenOptions, Store, StoreError, Tx};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World};
use serde_json::json;

/// A connection for which the disk ends after so many pages more.
fn cramped(world: &World, spare: u32) -> Store {
    let file = world.folder().join(".flightline/flightline.db");
    let look = rusqlite::Connection::open(file).unwrap();
    // Pages that the schema's migrations left free are room, too.
    look.execute_batch("VACUUM").unwrap();
    let pages: u32 = look
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    drop(look);
    let options = OpenOptions {
        max_pages: Some(pages + spare),
        rehearse: false,
        ..world.options()
    };
    world.open(options)
}

/// Writes three lessons of some kilobytes each.
fn write_three(tx: &mut Tx<'_>, number: u128) -> Result<u64, StoreError> {
    let of = mission(1, "Fill the disk");
    let long = "All work and no play makes a dull disk. ".repeat(150);
    tx.set(
        EventType::NoteAdded,
        &lesson(number, &of, &long),
        &json!({}),
    )?;
    tx.set(
        EventType::NoteAdded,
        &lesson(number + 1, &of, &long),
        &json!({}),
    )?;
    tx.set(
        EventType::NoteAdded,
        &lesson(number + 2, &of, &long),
        &json!({}),
    )
}

/// Everything that a reader on another connection finds.
fn found(world: &World) -> (u64, u64, Vec<String>) {
    world
        .store()
        .read(|tx| Ok::<_, StoreError>((tx.rev(), tx.events_since(0)?, tx.ids(Kind::Note)?)))
        .unwrap()
}

#[test]
fn a_write_that_meets_the_end_of_the_disk_fails_whole() {
    let world = World::new(Engine::Sqlite);
    let mut store = cramped(&world, 60);
    let mut acknowledged = Vec::new();
    let full = loop {
        let number = u128::try_from(acknowledged.len()).unwrap();
        match store.write(|tx| write_three(tx, number)) {
            Ok(_) => acknowledged.extend(
                (number..number + 3).map(|number| lesson(number, &mission(1, "x"), "x").key()),
            ),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 1_000, "the disk has no end");
    };
    assert!(matches!(full, StoreError::Full(_)), "{full:?}");
    assert!(acknowledged.len() >= 3, "some of it fitted");

    let count = acknowledged.len() as u64;
    assert_eq!(found(&world), (count, count, acknowledged.clone()));
    let read = store.read(|tx| tx.ids(Kind::Note)).unwrap();
    assert_eq!(read, acknowledged, "the same connection still reads");
    assert_eq!(world.problems(), [] as [&str; 0]);

    let again = store.write(|tx| write_three(tx, 500)).unwrap_err();
    assert!(matches!(again, StoreError::Full(_)), "{again:?}");
    let rev = world.store().write(|tx| write_three(tx, 500)).unwrap();
    assert_eq!(rev, count + 3, "there is room again");
    store.read(|tx| tx.ids(Kind::Note)).unwrap();
    assert_eq!(world.problems(), [] as [&str; 0]);
}

#[test]
fn a_full_disk_cannot_be_shrugged_off() {
    let world = World::new(Engine::Sqlite);
    let mut store = cramped(&world, 4);
    let outcome = store.write(|tx| {
        tx.set(
            EventType::MissionCreated,
            &mission(1, "Fill the disk"),
            &json!({}),
        )?;
        assert!(matches!(write_three(tx, 1), Err(StoreError::Full(_))));
        // SQLite has rolled everything back by now: this would be a write of its own.
        let _ = tx.set(EventType::MissionCreated, &mission(2, "Small"), &json!({}));
        Ok::<_, StoreError>(())
    });
    assert!(outcome.is_err());
    assert_eq!(found(&world), (0, 0, vec![]));
    assert_eq!(world.problems(), [] as [&str; 0]);
    store
        .write(|tx| tx.set(EventType::MissionCreated, &mission(2, "Small"), &json!({})))
        .unwrap();
    assert_eq!(found(&world).0, 1, "what fits is still written");
}
