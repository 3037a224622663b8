//! A restore brings back all that a backup holds, or changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flightline_core::event::{Event, EventType};
use flightline_core::setting::Restoration;
use flightline_core::{Kind, Time};
use flightline_store::{
    Copied, EventFilter, Find, Past, Pulse, Store, StoreError, StoredEvent, SubjectRow, Tx,
};
use flightline_testkit::value::{agent_id, lesson, mission};
use flightline_testkit::{Engine, World, both_engines};
use serde_json::json;

const INSIDE: &str = "FLEET_TEST_INSIDE";

/// Everything that a project held at a revision.
#[derive(Debug, PartialEq)]
struct Contents {
    events: Vec<Event>,
    state: Vec<StoredEvent>,
    rows: Vec<SubjectRow>,
    pulses: Vec<Pulse>,
    past: Past,
}

fn contents(store: &mut Store, rev: u64) -> Contents {
    store
        .read(|tx| {
            let filter = EventFilter {
                limit: rev,
                ..EventFilter::default()
            };
            let mut rows = tx.rows(Kind::Mission, Find::All)?;
            rows.extend(tx.rows(Kind::Note, Find::All)?);
            Ok::<_, StoreError>(Contents {
                events: tx.events_after(0, &filter)?,
                state: tx.state_at(rev, None)?,
                rows,
                pulses: tx.pulses()?,
                past: tx.past("ada", "key", "request")?,
            })
        })
        .unwrap()
}

/// What tells one store from another, and one moment from the next.
fn identity(store: &mut Store) -> (String, u64, u64, Time) {
    store
        .read(|tx| {
            Ok::<_, StoreError>((
                tx.history().to_owned(),
                tx.rev(),
                tx.events_since(0)?,
                tx.awake_since(),
            ))
        })
        .unwrap()
}

/// Writes five revisions: a mission that stays, one that goes, a lesson; and a pulse and a key.
fn fill(world: &World) {
    let mut store = world.store();
    let (one, two) = (mission(1, "One"), mission(2, "Two"));
    store
        .write(|tx| {
            tx.set(EventType::MissionCreated, &one, &json!({}))?;
            tx.set(
                EventType::MissionCreated,
                &two,
                &json!({ "because": "größer" }),
            )?;
            tx.remember("ada", "key", "request", "outcome".to_owned())
        })
        .unwrap();
    store
        .write(|tx| {
            tx.set(
                EventType::NoteAdded,
                &lesson(3, &one, "Measure first"),
                &json!({}),
            )?;
            tx.note(EventType::MissionTransitioned, &one, &json!({}))?;
            tx.remove(EventType::MissionArchived, &two, &json!({}))
        })
        .unwrap();
    store
        .pulse(|tx| tx.beat(agent_id(1), 7, &json!({ "step": "testing" })))
        .unwrap();
}

fn backup_of(world: &World) -> PathBuf {
    let file = world.folder().join("backup.db");
    world.store().back_up(&file).unwrap();
    file
}

/// What Flightline adds to every restore.
fn say_restored(tx: &mut Tx<'_>, copied: &Copied) -> Result<u64, StoreError> {
    let restoration = Restoration {
        at: tx.now(),
        rev: copied.rev,
        events: copied.events,
        history: None,
        follows: Vec::new(),
    };
    tx.set(EventType::StoreRestored, &restoration, &json!({}))
}

/// Restores `file`, which must be refused; and checks that nothing at all has changed.
fn refused(world: &World, file: &Path) -> StoreError {
    let mut store = world.store();
    let before = (identity(&mut store), contents(&mut store, 1_000));
    let error = store.restore_above(file, 0, say_restored).unwrap_err();
    assert_eq!((identity(&mut store), contents(&mut store, 1_000)), before);
    assert_eq!(world.problems(), [] as [&str; 0]);
    let rev =
        store.write(|tx| tx.note(EventType::MissionTransitioned, &mission(1, "x"), &json!({})));
    assert_eq!(rev.unwrap(), before.0.1 + 1, "the store goes on as before");
    error
}

fn other(engine: Engine) -> Engine {
    match engine {
        Engine::Sqlite => Engine::Postgres,
        Engine::Postgres => Engine::Sqlite,
    }
}

both_engines! {
    fn a_backup_goes_to_the_other_engine_and_back_with_nothing_lost(world: &World) {
        fill(world);
        let there = World::new(other(world.engine));
        let back = World::new(world.engine);
        let original = contents(&mut world.store(), 5);
        assert_eq!(original.events.len(), 5);
        let restored = there.store().restore_above(&backup_of(world), 0, say_restored).unwrap();
        assert_eq!(restored, 6);
        assert_eq!(contents(&mut there.store(), 5), original);
        let restored = back.store().restore_above(&backup_of(&there), 0, say_restored).unwrap();
        assert_eq!(restored, 7);
        assert_eq!(contents(&mut back.store(), 5), original);
        for world in [&there, &back] {
            assert_eq!(world.problems(), [] as [&str; 0]);
            let rev = world.store().read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap();
            let next = world.store().write(|tx| tx.set(EventType::MissionCreated, &mission(9, "Nine"), &json!({}))).unwrap();
            assert_eq!(next, rev + 1, "it can be written to");
        }
    }

    fn a_restore_begins_a_new_history_above_every_revision_seen(world: &World) {
        fill(world);
        let file = backup_of(world);
        let mut store = world.store();
        let (source, ..) = identity(&mut store);
        for number in 10..20 {
            store.write(|tx| tx.set(EventType::MissionCreated, &mission(number, "Later"), &json!({}))).unwrap();
        }
        world.clock.advance(1_000);
        let (copied, history, rev) = store
            .restore_above(&file, 0, |tx, copied| {
                let rev = say_restored(tx, copied)?;
                Ok::<_, StoreError>((copied.clone(), tx.history().to_owned(), rev))
            })
            .unwrap();
        assert_eq!((copied.rev, copied.events, copied.subjects), (5, 5, 3));
        assert_eq!(rev, 16, "above the fifteen that cursors may have seen");
        assert_ne!(history, source);
        assert_eq!(identity(&mut world.store()), (history.clone(), 16, 6, world.clock.now()));
        let (then, now) = (contents(&mut store, 5).state, contents(&mut store, 15).state);
        assert_eq!(then, now, "what came after the backup is not there");
        assert_eq!(world.problems(), [] as [&str; 0]);
        let again = store.restore_above(&file, 0, |tx, copied| {
            say_restored(tx, copied)?;
            Ok::<_, StoreError>(tx.history().to_owned())
        });
        assert_ne!(again.unwrap(), history, "each restore is a history of its own");
    }

    fn a_restore_into_a_younger_store_begins_above_the_backup(world: &World) {
        fill(world);
        let young = World::new(world.engine);
        let rev = young.store().restore_above(&backup_of(world), 0, say_restored).unwrap();
        assert_eq!(rev, 6);
        assert_eq!(young.problems(), [] as [&str; 0]);
    }

    fn a_restore_that_changes_its_mind_changes_nothing(world: &World) {
        fill(world);
        let file = backup_of(world);
        let mut store = world.store();
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(9, "Later"), &json!({}))).unwrap();
        let before = (identity(&mut store), contents(&mut store, 1_000));
        let outcome = store.restore_above(&file, 0, |tx, copied| {
            say_restored(tx, copied)?;
            Err::<(), _>(StoreError::Missing("second thoughts".to_owned()))
        });
        assert!(matches!(outcome, Err(StoreError::Missing(_))), "{outcome:?}");
        assert_eq!((identity(&mut store), contents(&mut store, 1_000)), before);
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(9, "Later"), &json!({}))).unwrap();
    }

    fn a_backup_with_any_value_changed_is_refused(world: &World) {
        fill(world);
        let file = backup_of(world);
        let sound = fs::read(&file).unwrap();
        let places: Vec<usize> = (0..sound.len()).filter(|at| sound[*at..].starts_with(b"Measure first")).collect();
        assert!(places.len() >= 2, "in the journal, and as the last value");
        for at in places {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            fs::write(&file, damaged).unwrap();
            let error = refused(world, &file);
            assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
        }
    }

    fn a_backup_with_broken_pages_is_refused(world: &World) {
        fill(world);
        let file = backup_of(world);
        let sound = fs::read(&file).unwrap();
        // The first bytes of a page say what it is; the first page's come after the header.
        let page = usize::from(u16::from_be_bytes([sound[16], sound[17]]));
        for at in [page, 2 * page, 3 * page, 4 * page, 100] {
            let mut damaged = sound.clone();
            damaged[at..at + 8].fill(0xFF);
            fs::write(&file, damaged).unwrap();
            let error = refused(world, &file);
            assert!(matches!(error, StoreError::Corrupt(_)), "at {at}: {error:?}");
        }
        fs::write(&file, &sound[..sound.len() / 2]).unwrap();
        let error = refused(world, &file);
        assert!(matches!(error, StoreError::Corrupt(_)), "cut in half: {error:?}");
    }

    fn what_is_no_backup_is_refused_by_name(world: &World) {
        fill(world);
        let file = world.folder().join("thing");
        let says_its_name = |error: &StoreError| {
            assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        };
        let error = refused(world, &file);
        assert!(matches!(error, StoreError::Location(_)), "nothing: {error:?}");
        says_its_name(&error);
        fs::create_dir(&file).unwrap();
        let error = refused(world, &file);
        assert!(matches!(error, StoreError::NotOurs(_)), "a folder: {error:?}");
        says_its_name(&error);
        fs::remove_dir(&file).unwrap();
        for bytes in [&b""[..], b"not a database", &[b'x'; 10_000]] {
            fs::write(&file, bytes).unwrap();
            let error = refused(world, &file);
            assert!(matches!(error, StoreError::NotOurs(_)), "text: {error:?}");
            says_its_name(&error);
        }
        fs::remove_file(&file).unwrap();
        let theirs = rusqlite::Connection::open(&file).unwrap();
        theirs.execute_batch("CREATE TABLE diary (day TEXT)").unwrap();
        drop(theirs);
        let error = refused(world, &file);
        assert!(matches!(error, StoreError::NotOurs(_)), "of somebody else: {error:?}");
        says_its_name(&error);
    }

    fn a_newer_backup_is_refused(world: &World) {
        fill(world);
        let file = backup_of(world);
        let database = rusqlite::Connection::open(&file).unwrap();
        database.pragma_update(None, "user_version", 99).unwrap();
        drop(database);
        let error = refused(world, &file);
        assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
    }

    fn a_store_in_use_is_no_backup(world: &World) {
        fill(world);
        // Its log is not in the file, and closing the file would drop SQLite's locks on it.
        let live = World::new(Engine::Sqlite);
        fill(&live);
        let error = refused(world, &live.folder().join(".flightline/flightline.db"));
        assert!(matches!(error, StoreError::Location(_)), "{error:?}");
        let link = world.folder().join("link");
        std::os::unix::fs::symlink(live.folder().join(".flightline/flightline.db"), &link).unwrap();
        let error = refused(world, &link);
        assert!(matches!(error, StoreError::Location(_)), "{error:?}");
    }
}

#[test]
fn a_store_is_not_restored_from_its_own_file() {
    let world = World::new(Engine::Sqlite);
    fill(&world);
    let error = refused(&world, &world.folder().join(".flightline/flightline.db"));
    assert!(matches!(error, StoreError::Location(_)), "{error:?}");
}

#[test]
fn a_file_with_several_projects_is_no_backup() {
    let world = World::new(Engine::Sqlite);
    fill(&world);
    let file = backup_of(&world);
    let database = rusqlite::Connection::open(&file).unwrap();
    database
        .execute_batch(
            "INSERT INTO project (id, name, history, rev, created_at, seen_at, awake_since) SELECT 'another', name, history, 0, 0, 0, 0 FROM project",
        )
        .unwrap();
    drop(database);
    let error = refused(&world, &file);
    assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
}

/// Everything here goes through the folder for temporary files, which all processes share; so this
/// runs [`the_process_with_a_temporary_folder_of_its_own`], and looks at what is left of it.
#[test]
fn no_copy_of_a_backup_stays_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "restores::the_process_with_a_temporary_folder_of_its_own",
        ])
        .env("TMPDIR", temporary.path())
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a process that a test started learns from its environment what to do"
)]
fn the_process_with_a_temporary_folder_of_its_own() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let copies = || {
        let entries = fs::read_dir(std::env::temp_dir()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with(".flightline-"))
            .count()
    };
    let world = World::new(Engine::Sqlite);
    fill(&world);
    let file = backup_of(&world);
    let mut store = world.unrehearsed();
    store
        .restore_above(&file, 0, |tx, copied| {
            assert_eq!(copies(), 1, "the copy is in the folder for temporary files");
            say_restored(tx, copied)
        })
        .unwrap();
    assert_eq!(copies(), 0, "after a restore");
    let outcome = store.restore_above(&file, 0, |_, _| Err::<(), _>(StoreError::Broken));
    assert!(outcome.is_err());
    assert_eq!(copies(), 0, "after second thoughts");
    fs::write(&file, "damaged").unwrap();
    refused(&world, &file);
    assert_eq!(copies(), 0, "after a refusal");
}
