//! What PostgreSQL acknowledges is on its disk, whatever its roles and databases are set to.

use flightline_core::event::EventType;
use flightline_store::{Location, OpenOptions, Store};
use flightline_testkit::database::Database;
use flightline_testkit::value::mission;
use postgres::{Client, NoTls};
use serde_json::json;

const PROJECT: &str = "prj-00000000-0000-4000-8000-0000000000d0";

/// Has the database note with which setting each change was made.
const WATCH: &str = "CREATE TABLE seen (setting TEXT); GRANT ALL ON seen TO PUBLIC;
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
    CREATE TRIGGER watched AFTER INSERT ON event FOR EACH ROW EXECUTE FUNCTION see()";

fn options() -> OpenOptions {
    OpenOptions {
        purpose: "test".to_owned(),
        ..OpenOptions::default()
    }
}

#[test]
fn a_commit_waits_for_the_disk_whatever_a_role_a_database_or_a_url_says() {
    let database = Database::start();
    let mut owner = Client::connect(database.url(), NoTls).unwrap();
    let location = Location::Postgres(database.url().to_owned());
    Store::create(&location, PROJECT, "test", options()).unwrap();
    owner.batch_execute(WATCH).unwrap();
    owner
        .batch_execute("CREATE ROLE weak SUPERUSER LOGIN")
        .unwrap();
    let weak = database.url().replace("postgres@", "weak@");
    let by_url = format!("{weak}?options=-c%20synchronous_commit%3Doff");
    for (set, url, expected) in [
        ("ALTER ROLE weak SET synchronous_commit = off", &weak, "on"),
        (
            "ALTER ROLE weak SET synchronous_commit = local",
            &weak,
            "on",
        ),
        (
            "ALTER ROLE weak RESET synchronous_commit; ALTER DATABASE postgres SET synchronous_commit = off",
            &weak,
            "on",
        ),
        (
            "ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf()",
            &weak,
            "on",
        ),
        ("SELECT 1", &by_url, "on"),
        // Stronger is left as it is.
        (
            "ALTER ROLE weak SET synchronous_commit = remote_apply",
            &weak,
            "remote_apply",
        ),
    ] {
        // `ALTER SYSTEM` takes no company.
        for statement in set.split("; ") {
            owner.batch_execute(statement).unwrap();
        }
        owner.batch_execute("DELETE FROM seen").unwrap();
        let location = Location::Postgres(url.clone());
        let mut store = Store::open(&location, PROJECT, options()).unwrap();
        store
            .write(|tx| {
                tx.set(EventType::MissionCreated, &mission(1, "M"), &json!({}))
                    .map(drop)
            })
            .unwrap();
        let seen: String = owner
            .query_one("SELECT setting FROM seen", &[])
            .unwrap()
            .get(0);
        assert_eq!(seen, expected, "{set}");
    }
}

#[test]
fn a_server_that_does_not_write_through_is_told_of() {
    let database = Database::start();
    let location = Location::Postgres(database.url().to_owned());
    let mut store = Store::create(&location, PROJECT, "test", options()).unwrap();
    let told = store.weaknesses().unwrap();
    assert!(
        told.len() == 1 && told[0].contains("`fsync = off`"),
        "{told:?}"
    );
    let mut owner = Client::connect(database.url(), NoTls).unwrap();
    for statement in [
        "ALTER SYSTEM SET fsync = on",
        "ALTER SYSTEM SET full_page_writes = off",
    ] {
        owner.batch_execute(statement).unwrap();
    }
    owner.batch_execute("SELECT pg_reload_conf()").unwrap();
    let mut told = Vec::new();
    for _ in 0..100 {
        told = store.weaknesses().unwrap();
        if told.iter().any(|told| told.contains("full_page_writes")) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(
        told.len() == 1 && told[0].contains("`full_page_writes = off`"),
        "{told:?}"
    );
    let mut here = flightline_testkit::World::new(flightline_testkit::Engine::Sqlite).store();
    assert_eq!(here.weaknesses().unwrap(), Vec::<String>::new());
}
