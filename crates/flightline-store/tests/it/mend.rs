//! Of a value's two copies one is enough: it serves, it is said, and it mends the other.

use flightline_core::event::{EventType, sha256_hex};
use flightline_core::mission::Mission;
use flightline_core::{Kind, Subject};
use flightline_store::{
    CopyLocation, Damage, EventFilter, Find, Mended, Store, StoreError, StoredEvent, Tx,
};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{World, both_engines, damage};
use serde_json::json;

/// Three revisions: a mission, a lesson, and the mission under another name.
fn fill(world: &World) -> Store {
    let mut store = world.store();
    let one = mission(1, "One");
    store
        .write(|tx| tx.set(EventType::MissionCreated, &one, &json!({})))
        .unwrap();
    store
        .write(|tx| {
            tx.set(
                EventType::NoteAdded,
                &lesson(3, &one, "Measure"),
                &json!({}),
            )
        })
        .unwrap();
    store
        .write(|tx| tx.set(EventType::MissionUpdated, &mission(1, "Won"), &json!({})))
        .unwrap();
    store
}

fn id() -> String {
    mission(1, "x").key()
}

fn spoil(world: &World, sql: &str) {
    assert_eq!(damage::raw(world, sql), 1, "{sql}");
}

const ROW: &str =
    "UPDATE subject SET doc = 'x' || doc WHERE project = {project} AND kind = 'mission'";

fn event(rev: u64) -> String {
    format!("UPDATE event SET after = 'x' || after WHERE project = {{project}} AND rev = {rev}")
}

fn noticed(place: CopyLocation, rev: u64) -> Damage {
    Damage {
        kind: Kind::Mission,
        id: id(),
        rev,
        place,
    }
}

/// The value at a revision, as a sound copy of it elsewhere has it.
fn copy(rev: u64, title: &str) -> StoredEvent {
    let text = serde_json::to_string(&mission(1, title)).unwrap();
    StoredEvent {
        kind: Kind::Mission,
        id: id(),
        rev,
        sha: sha256_hex(&text),
        text,
    }
}

fn mend(store: &mut Store, copy: &StoredEvent) -> Mended {
    store.write(|tx| tx.mend_value(copy, "a file")).unwrap()
}

fn back(store: &mut Store, copy: &StoredEvent) -> Mended {
    store.write(|tx| tx.bring_back(copy, "a file")).unwrap()
}

fn newest(tx: &mut Tx<'_>) -> Result<(String, serde_json::Value), StoreError> {
    let filter = EventFilter {
        limit: 1,
        ..EventFilter::default()
    };
    let event = tx.newest_events(&filter)?.remove(0);
    Ok((event.kind, event.data))
}

both_engines! {
    fn a_damaged_last_value_is_read_from_the_journal_and_said(world: &World) {
        let mut store = fill(world);
        let sound = store.read(|tx| tx.get::<Mission>(&id())).unwrap();
        assert!(sound.is_some() && store.take_noticed().is_empty());
        spoil(world, ROW);
        assert_eq!(store.read(|tx| tx.get::<Mission>(&id())).unwrap(), sound);
        assert_eq!(store.take_noticed(), [noticed(CopyLocation::LastValue, 3)]);
        assert_eq!(store.read(|tx| tx.find::<Mission>(Find::All)).unwrap(), [sound.unwrap()]);
        assert_eq!(store.take_noticed().len(), 1);
        assert_eq!(world.problems(), [format!("mission {} differs from what its events say", id())], "the doctor still sees it");
    }

    fn a_damaged_hash_of_a_last_value_is_no_loss_either(world: &World) {
        let mut store = fill(world);
        spoil(world, "UPDATE subject SET sha = 'abc' WHERE project = {project} AND kind = 'mission'");
        assert!(store.read(|tx| tx.get::<Mission>(&id())).unwrap().is_some());
        let damage = store.take_noticed().pop().unwrap();
        assert_eq!(store.write(|tx| tx.mend(&damage)).unwrap(), Mended::Healed);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_damaged_value_in_the_journal_is_read_from_the_row(world: &World) {
        let mut store = fill(world);
        let sound = store.read(|tx| tx.state_at(3, None)).unwrap();
        spoil(world, &event(3));
        assert_eq!(store.read(|tx| tx.state_at(3, None)).unwrap(), sound);
        assert_eq!(store.take_noticed(), [noticed(CopyLocation::Journal, 3)]);
        let values = store.read(|tx| tx.values_at(3, mission(1, "x").id)).unwrap();
        assert!(values.iter().any(|value| value.id == id() && value.rev == 3));
    }

    fn an_event_that_is_lost_is_read_from_the_row_and_no_older_one_passes_for_it(world: &World) {
        let mut store = fill(world);
        let sound = store.read(|tx| tx.state_at(3, None)).unwrap();
        spoil(world, "DELETE FROM event WHERE project = {project} AND rev = 3");
        assert_eq!(store.read(|tx| tx.state_at(3, None)).unwrap(), sound);
        spoil(world, ROW);
        let read = store.read(|tx| tx.state_at(3, None));
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    }

    fn when_both_copies_are_damaged_it_is_an_error_that_names_it(world: &World) {
        let mut store = fill(world);
        spoil(world, ROW);
        spoil(world, &event(3));
        let read = store.read(|tx| tx.get::<Mission>(&id()));
        assert!(matches!(&read, Err(StoreError::Corrupt(why)) if *why == format!("mission {} does not match its checksum", id())), "{read:?}");
        let read = store.read(|tx| tx.state_at(3, None));
        assert!(matches!(&read, Err(StoreError::Corrupt(why)) if why.contains("(revision 3)")), "{read:?}");
        assert_eq!(store.read(|tx| tx.state_at(2, None)).unwrap().len(), 2, "what was before is as it was");
    }

    fn a_row_of_another_revision_is_no_copy(world: &World) {
        let mut store = fill(world);
        spoil(world, &event(1));
        let read = store.read(|tx| tx.state_at(1, None));
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
        assert_eq!(store.write(|tx| tx.mend(&noticed(CopyLocation::Journal, 1))).unwrap(), Mended::Refused);
    }

    fn each_copy_mends_the_other(world: &World) {
        for (place, sql) in [(CopyLocation::LastValue, ROW.to_owned()), (CopyLocation::Journal, event(3))] {
            let world = World::new(world.engine);
            let mut store = fill(&world);
            let sound = store.read(|tx| tx.state_at(3, None)).unwrap();
            spoil(&world, &sql);
            assert_eq!(store.write(|tx| tx.mend(&noticed(place, 3))).unwrap(), Mended::Healed);
            assert_eq!(world.problems(), [] as [&str; 0]);
            assert_eq!(store.read(|tx| tx.state_at(3, None)).unwrap(), sound);
            assert_eq!(store.read(|tx| tx.state_at(tx.rev(), None)).unwrap(), sound, "healed, not changed");
            assert_eq!(store.take_noticed(), []);
            let (kind, data) = store.read(newest).unwrap();
            assert_eq!((kind.as_str(), &data["rev"]), ("value_repaired", &json!(3)));
        }
    }

    fn a_copy_from_elsewhere_mends_what_it_is_exactly(world: &World) {
        let mut store = fill(world);
        assert_eq!(mend(&mut store, &copy(1, "One")), Mended::Sound);
        assert_eq!(store.read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap(), 3, "nothing to say");
        spoil(world, &event(1));
        for wrong in [copy(1, "Two"), copy(2, "One"), StoredEvent { sha: copy(1, "One").sha, ..copy(1, "Two") }, StoredEvent { id: "msn-x".to_owned(), ..copy(1, "One") }] {
            assert_eq!(mend(&mut store, &wrong), Mended::Refused, "{wrong:?}");
        }
        assert_eq!(mend(&mut store, &copy(1, "One")), Mended::Healed);
        assert_eq!(world.problems(), [] as [&str; 0]);
        assert_eq!(store.read(|tx| tx.state_at(1, None)).unwrap(), [copy(1, "One")]);
        spoil(world, "UPDATE event SET sha = 'abc' WHERE project = {project} AND rev = 1");
        assert_eq!(mend(&mut store, &copy(1, "Two")), Mended::Refused, "its hash alone was damaged");
        assert_eq!(mend(&mut store, &copy(1, "One")), Mended::Healed);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn what_is_sound_is_never_written_over(world: &World) {
        let mut store = fill(world);
        assert_eq!(mend(&mut store, &copy(3, "Forged")), Mended::Refused);
        assert_eq!(back(&mut store, &copy(9, "Later")), Mended::Refused, "that has not happened");
        assert_eq!(store.read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap(), 3);
    }

    fn an_event_that_is_lost_is_brought_back(world: &World) {
        for rev in [1, 3] {
            let world = World::new(world.engine);
            let mut store = fill(&world);
            spoil(&world, &format!("DELETE FROM event WHERE project = {{project}} AND rev = {rev}"));
            assert!(!world.problems().is_empty());
            let title = if rev == 1 { "One" } else { "Won" };
            assert_eq!(mend(&mut store, &copy(rev, title)), Mended::Refused, "there is nothing to mend");
            assert_eq!(back(&mut store, &copy(rev, title)), Mended::Healed);
            assert_eq!(back(&mut store, &copy(rev, "Forged")), Mended::Refused, "and now there is something");
            assert_eq!(world.problems(), [] as [&str; 0]);
            assert_eq!(store.read(|tx| tx.state_at(1, None)).unwrap(), [copy(1, "One")]);
        }
    }

    fn nothing_is_brought_back_from_a_history_that_was_left(world: &World) {
        let mut store = fill(world);
        let file = world.folder().join("saved.db");
        store.back_up(&file).unwrap();
        store.write(|tx| tx.set(EventType::MissionUpdated, &mission(1, "Left"), &json!({}))).unwrap();
        store.restore_above(&file, 0, |tx, _| tx.set(EventType::StoreRestored, &mission(2, "Restored"), &json!({}))).unwrap();
        assert_eq!(back(&mut store, &copy(4, "Left")), Mended::Refused);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_row_is_written_anew_from_the_journal(world: &World) {
        for sql in [
            "DELETE FROM subject WHERE project = {project} AND kind = 'mission'",
            "UPDATE subject SET status = 'failed', name = 'x', mission = NULL, parent = 'y', born = 2 WHERE project = {project} AND kind = 'mission'",
            "UPDATE subject SET gone = 3 WHERE project = {project} AND kind = 'mission'",
            "UPDATE subject SET rev = 2 WHERE project = {project} AND kind = 'mission'",
        ] {
            let world = World::new(world.engine);
            let mut store = fill(&world);
            let sound = store.read(|tx| tx.rows(Kind::Mission, Find::All)).unwrap();
            spoil(&world, sql);
            assert_eq!(store.write(|tx| tx.mend_row(Kind::Mission, &id())).unwrap(), Mended::Healed);
            assert_eq!(world.problems(), [] as [&str; 0], "{sql}");
            assert_eq!(store.read(|tx| tx.rows(Kind::Mission, Find::All)).unwrap(), sound, "{sql}");
        }
    }

    fn what_is_gone_stays_gone(world: &World) {
        let mut store = fill(world);
        store.write(|tx| tx.remove(EventType::MissionArchived, &mission(1, "Won"), &json!({}))).unwrap();
        spoil(world, "DELETE FROM subject WHERE project = {project} AND kind = 'mission'");
        assert_eq!(store.write(|tx| tx.mend_row(Kind::Mission, &id())).unwrap(), Mended::Healed);
        assert_eq!(world.problems(), [] as [&str; 0]);
        assert_eq!(store.read(|tx| tx.get::<Mission>(&id())).unwrap(), None);
    }

    fn no_row_is_made_of_a_damaged_event(world: &World) {
        let mut store = fill(world);
        spoil(world, &event(3));
        spoil(world, "DELETE FROM subject WHERE project = {project} AND kind = 'mission'");
        assert_eq!(store.write(|tx| tx.mend_row(Kind::Mission, &id())).unwrap(), Mended::Refused);
    }
}
