//! A backup is one moment of the whole project, in one file that any SQLite can read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use flightline_core::event::EventType;
use flightline_core::note::Note;
use flightline_core::{Kind, Subject};
use flightline_store::verify::verify;
use flightline_store::{Copied, Find, Location, OpenOptions, Store, StoreError};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World, both_engines};
use serde_json::json;

/// What seed A's tools ask for.
const SEED_A: &str =
    "SELECT id,title,status,created_at,updated_at,completed_at,metadata_json FROM missions";

/// The answer of the distribution's own `sqlite3`, which is older than ours.
fn ask_sqlite3(file: &Path, sql: &str) -> String {
    let asked = Command::new("sqlite3").arg(file).arg(sql).output();
    let answer = asked.expect("`sqlite3` is installed: `scripts/setup` does it");
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success() && said.is_empty(), "{said}");
    String::from_utf8(answer.stdout).unwrap()
}

/// What `ask_sqlite3` answers to [`SEED_A`] when there is this one mission.
fn told_of_mission(number: u128, title: &str) -> String {
    let mission = mission(number, title);
    let at = mission.created_at;
    let doc = serde_json::to_string(&mission).unwrap();
    format!("{}|{title}|in_progress|{at}|{at}||{doc}\n", mission.id)
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Gives two lessons the same number, in one request.
fn write_pair(store: &mut Store, number: u64) -> u64 {
    let (of, text) = (mission(1, "Pairs"), number.to_string());
    store
        .write(|tx| {
            tx.set(EventType::NoteAdded, &lesson(1, &of, &text), &json!({}))?;
            tx.set(EventType::NoteAdded, &lesson(2, &of, &text), &json!({}))
        })
        .unwrap()
}

/// Opens a backup, which must lie under a store's own file name, and checks that it is of one moment.
fn check_pair(folder: &Path, project: &str, copied: &Copied) {
    let location = Location::Folder(folder.to_path_buf());
    let mut backup = Store::open(&location, project, OpenOptions::default()).unwrap();
    let (rev, notes, events) = backup
        .read(|tx| {
            Ok::<_, StoreError>((tx.rev(), tx.find::<Note>(Find::All)?, tx.events_since(0)?))
        })
        .unwrap();
    assert_eq!(notes[0].text, notes[1].text, "half a request shows");
    assert_eq!(notes[0].text.as_str(), (rev / 2).to_string());
    assert_eq!(
        (copied.rev, copied.events, copied.subjects),
        (rev, events, 2)
    );
    for finding in verify(&mut backup).unwrap() {
        assert_eq!(finding.problems, [] as [&str; 0], "{}", finding.check);
    }
}

both_engines! {
    fn a_backup_taken_while_others_write_is_of_one_moment(world: &World) {
        write_pair(&mut world.store(), 1);
        thread::scope(|scope| {
            // The writer ends when nobody listens any more.
            let (send, receive) = mpsc::channel();
            scope.spawn(move || {
                let mut store = world.store();
                for number in 2.. {
                    if send.send(write_pair(&mut store, number)).is_err() {
                        break;
                    }
                }
            });
            let mut store = world.store();
            for round in 0..4 {
                // Somebody has written since the last one, and goes on writing.
                while receive.try_recv().is_ok() {}
                let seen = receive.recv_timeout(Duration::from_secs(10)).unwrap();
                let folder = world.folder().join(format!("backup-{round}"));
                fs::create_dir(&folder).unwrap();
                let copied = store.back_up(&folder.join("flightline.db")).unwrap();
                assert!(copied.rev >= seen, "{copied:?}");
                check_pair(&folder, &world.project, &copied);
            }
        });
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_backup_is_one_private_file_and_nothing_else(world: &World) {
        write_pair(&mut world.store(), 1);
        let folder = world.folder().join("backups");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("today.db");
        let copied = world.store().back_up(&file).unwrap();
        let history = world.store().read(|tx| Ok::<_, flightline_store::StoreError>(tx.history().to_owned())).unwrap();
        let expected = Copied { project: world.project.clone(), history, rev: 2, events: 2, subjects: 2 };
        assert_eq!(copied, expected);
        assert_eq!(names_in(&folder), ["today.db"]);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    fn any_sqlite3_reads_a_backup(world: &World) {
        let mut store = world.store();
        store
            .write(|tx| {
                tx.set(EventType::MissionCreated, &mission(1, "Ada's first"), &json!({}))?;
                tx.set(EventType::MissionCreated, &mission(2, "Gone"), &json!({}))?;
                tx.remove(EventType::MissionArchived, &mission(2, "Gone"), &json!({}))
            })
            .unwrap();
        let file = world.folder().join("backup.db");
        store.back_up(&file).unwrap();
        assert_eq!(ask_sqlite3(&file, SEED_A), told_of_mission(1, "Ada's first"));
        assert_eq!(ask_sqlite3(&file, "PRAGMA integrity_check"), "ok\n");
        assert_eq!(ask_sqlite3(&file, "PRAGMA journal_mode"), "delete\n", "the file alone is all of it");
        assert_eq!(names_in(world.folder()).iter().filter(|name| name.starts_with("backup")).count(), 1);
    }

    fn a_backup_never_replaces_a_file(world: &World) {
        let mut store = world.store();
        write_pair(&mut store, 1);
        let folder = world.folder().join("backups");
        fs::create_dir(&folder).unwrap();
        let (taken, link) = (folder.join("taken"), folder.join("link"));
        fs::write(&taken, "precious").unwrap();
        symlink(folder.join("nowhere"), &link).unwrap();
        for file in [&taken, &link, &folder] {
            let refused = store.back_up(file).unwrap_err();
            assert!(matches!(&refused, StoreError::Location(said) if said.ends_with("exists already")), "{refused:?}");
        }
        assert_eq!(fs::read_to_string(&taken).unwrap(), "precious");
        assert_eq!(names_in(&folder), ["link", "taken"]);
    }

    fn a_backup_into_a_folder_that_is_not_there_is_refused(world: &World) {
        let refused = world.store().back_up(&world.folder().join("nowhere/backup.db")).unwrap_err();
        assert!(matches!(&refused, StoreError::Location(said) if said.contains("nowhere")), "{refused:?}");
        assert!(!world.folder().join("nowhere").exists());
    }

    fn a_backup_of_a_project_that_is_not_there_leaves_nothing(world: &World) {
        let mut store = Store::open(&world.location, "prj-nobody", world.options()).unwrap();
        let folder = world.folder().join("backups");
        fs::create_dir(&folder).unwrap();
        let refused = store.back_up(&folder.join("backup.db")).unwrap_err();
        assert!(matches!(refused, StoreError::UnknownProject(_)), "{refused:?}");
        assert_eq!(names_in(&folder), [] as [&str; 0]);
    }

    fn a_backup_holds_its_own_project_and_no_other(world: &World) {
        let other = format!("{}-other", world.project);
        let mut beside = Store::create(&world.location, &other, "beside", world.options()).unwrap();
        write_pair(&mut beside, 1);
        write_pair(&mut world.store(), 1);
        let file = world.folder().join("flightline.db");
        world.store().back_up(&file).unwrap();
        let location = Location::Folder(world.folder().to_path_buf());
        let mut backup = Store::open(&location, &world.project, OpenOptions::default()).unwrap();
        assert_eq!(backup.projects().unwrap(), std::slice::from_ref(&world.project));
        assert_eq!(backup.read(|tx| tx.rows(Kind::Note, Find::All)).unwrap().len(), 2);
    }
}

#[test]
fn a_damaged_store_gives_no_backup() {
    let world = World::new(Engine::Sqlite);
    write_pair(&mut world.store(), 1);
    let database =
        rusqlite::Connection::open(world.folder().join(".flightline/flightline.db")).unwrap();
    database
        .execute("UPDATE subject SET sha = 'abc'", [])
        .unwrap();
    let folder = world.folder().join("backups");
    fs::create_dir(&folder).unwrap();
    let refused = world
        .store()
        .back_up(&folder.join("backup.db"))
        .unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused:?}");
    assert_eq!(names_in(&folder), [] as [&str; 0]);
}

#[test]
fn any_sqlite3_reads_the_store_while_it_is_open_and_does_it_no_harm() {
    let world = World::new(Engine::Sqlite);
    let file = world.folder().join(".flightline/flightline.db");
    let mut store = world.store();
    store
        .write(|tx| {
            tx.set(
                EventType::MissionCreated,
                &mission(1, "Ada's first"),
                &json!({}),
            )
        })
        .unwrap();
    assert!(
        fs::metadata(file.with_file_name("flightline.db-wal"))
            .unwrap()
            .len()
            > 0
    );
    assert_eq!(
        ask_sqlite3(&file, SEED_A),
        told_of_mission(1, "Ada's first")
    );
    assert_eq!(ask_sqlite3(&file, "PRAGMA integrity_check"), "ok\n");

    store
        .write(|tx| {
            tx.set(
                EventType::MissionUpdated,
                &mission(1, "Ada's second"),
                &json!({}),
            )
        })
        .unwrap();
    drop(store);
    assert_eq!(
        ask_sqlite3(&file, SEED_A),
        told_of_mission(1, "Ada's second"),
        "closed as well"
    );
    let ids = world.store().read(|tx| tx.ids(Kind::Mission)).unwrap();
    assert_eq!(ids, [mission(1, "x").key()]);
    assert_eq!(world.problems(), [] as [&str; 0]);
}
