//! Opening a store: what is there is ours, whole, private and not newer than we are, or it is refused.

use flightline_core::event::EventType;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use flightline_store::{Location, OpenOptions, SCHEMA_VERSION, Store, StoreError};
use flightline_testkit::value::mission;
use flightline_testkit::{Engine, Schema, World, both_engines};
use serde_json::json;

fn open(location: &Location) -> Result<Store, StoreError> {
    Store::open(location, "prj", OpenOptions::default())
}

fn create(location: &Location) -> Result<Store, StoreError> {
    Store::create(location, "prj", "test", OpenOptions::default())
}

/// What opening `location` is refused with; and creating there as well, when that must not help.
fn refusal(result: Result<Store, StoreError>) -> StoreError {
    match result {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A SQLite world and its database file.
fn world_and_file() -> (World, PathBuf) {
    let world = World::new(Engine::Sqlite);
    let file = world.folder().join(".flightline/flightline.db");
    (world, file)
}

both_engines! {
    fn a_project_that_is_not_there_is_named(world: &World) {
        let mut store = Store::open(&world.location, "prj-nobody", world.options()).unwrap();
        let read = store.read(|tx| Ok::<_, StoreError>(tx.rev()));
        let written = store.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})));
        let beaten = store.pulse(|_| Ok::<_, StoreError>(0));
        for refused in [read, written, beaten] {
            assert!(matches!(&refused, Err(StoreError::UnknownProject(name)) if name == "prj-nobody"), "{refused:?}");
        }
    }

    fn creating_what_exists_changes_nothing(world: &World) {
        let mut store = world.store();
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))).unwrap();
        let mut see = || {
            store.read(|tx| Ok::<_, StoreError>((tx.history().to_owned(), tx.rev(), tx.project_name().to_owned()))).unwrap()
        };
        let before = see();
        Store::create(&world.location, &world.project, "another name", world.options()).unwrap();
        assert_eq!(see(), before);
    }
}

#[test]
fn where_there_is_no_store_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("nowhere"));
    let refused = refusal(open(&location));
    assert!(matches!(refused, StoreError::Missing(_)), "{refused:?}");
    assert!(!folder.path().join("nowhere").exists());

    let empty = Location::Folder(folder.path().to_path_buf());
    let refused = refusal(open(&empty));
    assert!(matches!(refused, StoreError::Missing(_)), "{refused:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_file_is_no_store_until_one_is_created_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (location, file) = (
        Location::Folder(folder.path().to_path_buf()),
        folder.path().join("flightline.db"),
    );
    fs::write(&file, "").unwrap();
    let refused = refusal(open(&location));
    assert!(matches!(refused, StoreError::Missing(_)), "{refused:?}");
    assert_eq!(fs::metadata(&file).unwrap().len(), 0, "it is as it was");
    create(&location).unwrap();
    open(&location).unwrap();
}

#[test]
fn a_creation_that_was_cut_short_can_be_finished() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().to_path_buf());
    // What is there when the power goes between the first page and the schema.
    let cut = rusqlite::Connection::open(folder.path().join("flightline.db")).unwrap();
    cut.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(cut);
    assert!(
        fs::metadata(folder.path().join("flightline.db"))
            .unwrap()
            .len()
            > 0
    );
    let refused = refusal(open(&location));
    assert!(matches!(refused, StoreError::Missing(_)), "{refused:?}");
    create(&location).unwrap();
    open(&location).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_kept() {
    let (world, file) = world_and_file();
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
    fs::create_dir(file.parent().unwrap()).unwrap();
    let text = "Dear diary, today I was not a database. ".repeat(40);
    fs::write(&file, &text).unwrap();
    for refused in [
        refusal(open(&world.location)),
        refusal(create(&world.location)),
    ] {
        assert!(matches!(refused, StoreError::NotOurs(_)), "{refused:?}");
        assert!(refused.to_string().contains("flightline.db"), "{refused}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_database_of_somebody_else_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().to_path_buf());
    let theirs = rusqlite::Connection::open(folder.path().join("flightline.db")).unwrap();
    theirs
        .execute_batch("CREATE TABLE diary (day TEXT)")
        .unwrap();
    for refused in [refusal(open(&location)), refusal(create(&location))] {
        assert!(matches!(refused, StoreError::NotOurs(_)), "{refused:?}");
    }
    let tables: i64 = theirs
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_newer_sqlite_store_is_refused_and_kept() {
    let (world, file) = world_and_file();
    let database = rusqlite::Connection::open(&file).unwrap();
    let newer = SCHEMA_VERSION + 1;
    database.pragma_update(None, "user_version", newer).unwrap();
    for refused in [
        refusal(open(&world.location)),
        refusal(create(&world.location)),
    ] {
        assert!(
            matches!(refused, StoreError::Newer { found, known } if (found, known) == (newer, SCHEMA_VERSION)),
            "{refused:?}"
        );
    }
    let version: i64 = database
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, newer);
}

#[test]
fn a_newer_postgres_store_is_refused_and_kept() {
    let schema = Schema::new();
    create(&schema.location).unwrap();
    open(&schema.location).unwrap();
    let newer = SCHEMA_VERSION + 1;
    schema.run(&format!(
        "INSERT INTO schema_version (version) VALUES ({newer})"
    ));
    for refused in [
        refusal(open(&schema.location)),
        refusal(create(&schema.location)),
    ] {
        assert!(
            matches!(refused, StoreError::Newer { found, known } if (found, known) == (newer, SCHEMA_VERSION)),
            "{refused:?}"
        );
    }
    schema.run(&format!(
        "DELETE FROM schema_version WHERE version = {newer}"
    ));
    open(&schema.location).unwrap();
}

#[test]
fn an_empty_postgres_database_is_no_store_until_one_is_created_in_it() {
    let schema = Schema::new();
    let refused = refusal(open(&schema.location));
    assert!(matches!(refused, StoreError::Missing(_)), "{refused:?}");
    let refused = refusal(open(&schema.location));
    assert!(
        matches!(refused, StoreError::Missing(_)),
        "looking made nothing: {refused:?}"
    );
    create(&schema.location).unwrap();
    open(&schema.location).unwrap();
}

#[test]
fn a_postgres_database_of_somebody_else_is_refused() {
    let schema = Schema::new();
    schema.run("CREATE TABLE event (day TEXT)");
    for refused in [
        refusal(open(&schema.location)),
        refusal(create(&schema.location)),
    ] {
        assert!(matches!(refused, StoreError::NotOurs(_)), "{refused:?}");
    }
}

#[test]
fn eight_who_create_the_same_store_at_once_all_get_it() {
    let schema = Schema::new();
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let place = folder.path().join(round.to_string());
        check_creation(&Location::Folder(place));
    }
    check_creation(&schema.location);
}

fn check_creation(location: &Location) {
    let mut histories: Vec<String> = thread::scope(|scope| {
        let creators: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut store = create(location).unwrap();
                    store
                        .read(|tx| Ok::<_, StoreError>(tx.history().to_owned()))
                        .unwrap()
                })
            })
            .collect();
        creators
            .into_iter()
            .map(|creator| creator.join().unwrap())
            .collect()
    });
    histories.dedup();
    assert_eq!(histories.len(), 1, "they all got the same one");
}

#[test]
fn a_link_in_place_of_the_database_is_not_followed() {
    let (world, file) = world_and_file();
    let elsewhere = world.folder().join("elsewhere.db");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    for refused in [
        refusal(open(&world.location)),
        refusal(create(&world.location)),
    ] {
        assert!(matches!(refused, StoreError::NotOurs(_)), "{refused:?}");
    }
    fs::remove_file(&elsewhere).unwrap();
    let refused = refusal(create(&world.location));
    assert!(matches!(refused, StoreError::NotOurs(_)), "{refused:?}");
    assert!(
        !elsewhere.exists(),
        "nor made through a link that leads nowhere"
    );
}

#[test]
fn a_link_on_the_way_to_the_folder_is_the_users_business() {
    let (world, _) = world_and_file();
    let link = world.folder().join("link");
    symlink(world.folder(), &link).unwrap();
    let through = Location::Folder(link.join(".flightline"));
    let mut store = Store::open(&through, &world.project, world.options()).unwrap();
    store
        .write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
        .unwrap();
}

#[test]
fn a_link_in_the_place_of_the_folder_is_not_followed() {
    let (world, _) = world_and_file();
    let link = world.folder().join("link");
    symlink(world.folder().join(".flightline"), &link).unwrap();
    for refused in [
        refusal(open(&Location::Folder(link.clone()))),
        refusal(create(&Location::Folder(link))),
    ] {
        assert!(refused.to_string().contains("is a link"), "{refused:?}");
    }
}

#[test]
fn a_store_that_nobody_trusts_is_looked_at_and_never_written() {
    let (world, file) = world_and_file();
    let mut store = world.store();
    store
        .write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
        .unwrap();
    drop(store);
    set_mode(&file, 0o644);
    let untrusted = OpenOptions {
        trusted: false,
        ..world.options()
    };
    let mut store = world.open(untrusted);
    assert_eq!(store.repaired(), [] as [&str; 0], "not even its mode");
    assert_eq!(mode(&file), 0o644);
    assert_eq!(store.read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap(), 1);
    let refused =
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({})));
    assert!(matches!(refused, Err(StoreError::Untrusted)), "{refused:?}");
    let refused =
        store.rehearse(|tx| tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({})));
    assert!(matches!(refused, Err(StoreError::Untrusted)), "{refused:?}");
    assert!(matches!(store.begin_group(), Err(StoreError::Untrusted)));
}

#[test]
fn a_new_store_is_private() {
    let (world, file) = world_and_file();
    let made = create(&Location::Folder(world.folder().join("another"))).unwrap();
    assert_eq!(made.repaired(), [] as [&str; 0], "from the very beginning");
    let mut store = world.store();
    store
        .write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
        .unwrap();
    assert_eq!(store.repaired(), [] as [&str; 0]);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(file.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    let expected = [
        "anchor",
        "flightline.db",
        "flightline.db-shm",
        "flightline.db-wal",
        "queue.lock",
    ];
    assert_eq!(names, expected);
}

#[test]
fn modes_that_are_open_to_others_are_repaired_and_reported_once() {
    let (world, file) = world_and_file();
    let folder = file.parent().unwrap();
    let log = folder.join("flightline.db-wal");
    set_mode(folder, 0o755);
    set_mode(&file, 0o644);
    set_mode(&log, 0o660);
    assert_eq!(
        world.store().repaired(),
        [
            "`.flightline` was open to others (mode 755); made it 700",
            "`flightline.db` was open to others (mode 644); made it 600",
            "`flightline.db-wal` was open to others (mode 660); made it 600",
        ]
    );
    assert_eq!(
        [mode(folder), mode(&file), mode(&log)],
        [0o700, 0o600, 0o600]
    );
    assert_eq!(world.store().repaired(), [] as [&str; 0]);
}

#[test]
fn a_folder_that_cannot_be_written_is_said_to_be_so() {
    let (world, file) = world_and_file();
    let folder = file.parent().unwrap();
    set_mode(&file, 0o400);
    set_mode(folder, 0o500);
    let opened = Store::open(&world.location, &world.project, world.options());
    let written = opened.and_then(|mut store| {
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
    });
    let created = create(&Location::Folder(folder.join("inside")));
    set_mode(folder, 0o700);
    if rustix::process::geteuid().is_root() {
        // Modes do not bind root.
        assert_eq!(written.unwrap(), 1);
        assert!(created.is_ok());
    } else {
        assert!(
            matches!(written, Err(StoreError::ReadOnly(_))),
            "{written:?}"
        );
        let refused = refusal(created);
        assert!(matches!(refused, StoreError::ReadOnly(_)), "{refused:?}");
    }
}

#[test]
fn a_place_below_a_file_is_no_place_for_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let below = Location::Folder(file.join("store"));
    let refused = refusal(open(&below));
    assert!(matches!(refused, StoreError::Missing(_)), "{refused:?}");
    let refused = refusal(create(&below));
    assert!(
        matches!(&refused, StoreError::Engine { act, .. } if *act == "cannot create the store"),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
}

#[test]
fn a_postgres_server_that_cannot_be_reached_is_said_to_be_so_without_the_password() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("postgres://ada:correct-horse-battery@127.0.0.1:{port}/fleet");
    let location = Location::parse(&url);
    for refused in [refusal(open(&location)), refusal(create(&location))] {
        assert!(matches!(refused, StoreError::Unreachable(_)), "{refused:?}");
        assert!(
            !format!("{refused} {refused:?}").contains("correct-horse"),
            "{refused}"
        );
    }
    assert!(
        !format!("{location} {location:?}").contains("correct-horse"),
        "{location}"
    );
}

#[test]
fn a_url_that_makes_no_sense_is_refused() {
    let refused = refusal(open(&Location::parse(
        "postgres://ada@127.0.0.1:no-port/fleet",
    )));
    assert!(matches!(refused, StoreError::Location(_)), "{refused:?}");
}
