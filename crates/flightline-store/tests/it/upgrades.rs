//! A store of an earlier version: it opens, everything in it is there, and nothing was rewritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flightline_core::CheckpointId;
use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::event::{EventType, sha256_hex};
use flightline_core::mission::Mission;
use flightline_store::{Location, OpenOptions, Store};
use flightline_testkit::Schema;
use serde_json::{Value, json};

const CHECKPOINTS: [&str; 2] = [
    "chk-00000000-0000-4000-8000-00000000000a",
    "chk-00000000-0000-4000-8000-00000000000b",
];
const MISSION: &str = "msn-00000000-0000-4000-8000-000000000001";

fn mission() -> Value {
    let mission = flightline_testkit::value::mission(1, "Old");
    let mut mission = serde_json::to_value(mission).unwrap();
    mission["id"] = json!(MISSION);
    mission
}

/// A checkpoint as version 1 wrote it: what became of its file stood in its record.
fn checkpoint(id: &str, status: &str, backup: &Value) -> Value {
    let cut = json!({
        "mission_id": MISSION, "rev": 1, "timeline": 0, "timestamp": "2026-01-04T12:00:00.000Z",
        "trigger": "manual", "reason": "manual", "trigger_details": null, "progress_percent": 40,
        "sorties": {}, "locks": 0, "messages": 0, "sections": {},
        "recovery_context": {
            "last_action": "", "next_steps": [], "blockers": [], "files_modified": [],
            "mission_summary": "Old", "elapsed_time_ms": 0, "last_activity_at": "2026-01-04T12:00:00.000Z"
        },
        "created_by": "user:somebody", "version": "1.0.0"
    });
    json!({ "id": id, "cut": cut, "sha256": "", "status": status, "pinned_at": null, "note": null, "backup": backup })
}

/// What a store of version 1 holds: a mission and two checkpoints, one of which has a file.
fn rows() -> String {
    let written =
        json!({ "state": "written", "at": "2026-01-04T12:00:00.000Z", "bytes": 7, "sha256": "ab" });
    let mission = mission();
    let status = mission["status"].as_str().unwrap();
    let documents = [
        ("mission", MISSION, "Old", status, mission.clone()),
        (
            "checkpoint",
            CHECKPOINTS[0],
            "manual",
            "valid",
            checkpoint(CHECKPOINTS[0], "valid", &written),
        ),
        (
            "checkpoint",
            CHECKPOINTS[1],
            "manual",
            "creating",
            checkpoint(CHECKPOINTS[1], "creating", &json!({ "state": "pending" })),
        ),
    ];
    let mut sql = "INSERT INTO project (id, name, history, rev, created_at, seen_at, awake_since) \
                   VALUES ('prj', 'old', 'h', 3, 1767528000000, 1767528000000, 1767528000000);"
        .to_owned();
    for (rev, (kind, id, name, status, document)) in (1..).zip(documents) {
        let doc = document.to_string();
        assert!(!doc.contains('\''), "it stands in quotes");
        let sha = sha256_hex(&doc);
        sql += &format!(
            "INSERT INTO event (project, rev, step, at, kind, mission, subject_kind, subject, actor, data, change, after, sha) \
             VALUES ('prj', {rev}, {rev}, 1767528000000, 'made', '{MISSION}', '{kind}', '{id}', 'user:somebody', '{{}}', 'set', '{doc}', '{sha}');\
             INSERT INTO subject (project, kind, id, mission, name, status, born, rev, at, sha, doc) \
             VALUES ('prj', '{kind}', '{id}', '{MISSION}', '{name}', '{status}', {rev}, {rev}, 1767528000000, '{sha}', '{doc}');"
        );
    }
    sql
}

fn check(location: &Location) {
    let mut store = Store::open(location, "prj", OpenOptions::default()).unwrap();
    let problems = flightline_store::verify::verify(&mut store).unwrap();
    assert!(
        problems.iter().all(|finding| finding.problems.is_empty()),
        "{problems:?}"
    );
    store
        .read(|tx| {
            let title = tx.get::<Mission>(MISSION)?.unwrap().title;
            assert_eq!(title.as_str(), "Old");
            let [written, pending]: [CheckpointId; 2] = CHECKPOINTS.map(|id| id.parse().unwrap());
            assert!(matches!(
                tx.backup_of(written)?,
                Backup::Written { bytes: 7, .. }
            ));
            assert_eq!(tx.backup_of(pending)?, Backup::Pending);
            assert_eq!(tx.unsettled_backups()?, [pending]);
            let checkpoint = tx.get::<Checkpoint>(CHECKPOINTS[1])?.unwrap();
            assert_eq!(checkpoint.cut.progress_percent, 40);
            assert_eq!(
                checkpoint.shown_status(&Backup::Shared),
                CheckpointStatus::Valid
            );
            Ok::<_, flightline_store::StoreError>(())
        })
        .unwrap();
}

/// Makes a store of version 1 in a new folder.
fn make_version_1(home: &Path) {
    fs::create_dir(home).unwrap();
    let database = rusqlite::Connection::open(home.join("flightline.db")).unwrap();
    database
        .execute_batch(include_str!("../../src/schema/sqlite/0001_journal.sql"))
        .unwrap();
    database.execute_batch(&rows()).unwrap();
    database
        .pragma_update(None, "application_id", 0x464C_544C)
        .unwrap();
    database.pragma_update(None, "user_version", 1).unwrap();
}

fn version(file: &Path) -> i64 {
    let database = rusqlite::Connection::open(file).unwrap();
    let version = database.pragma_query_value(None, "user_version", |row| row.get(0));
    version.unwrap()
}

#[test]
fn version_1_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join(".flightline");
    make_version_1(&home);
    let location = Location::Folder(home.clone());
    let first = Store::open(&location, "prj", OpenOptions::default()).unwrap();
    let said = first.repaired().concat();
    assert!(said.contains("`backups/before-upgrade-1.db`"), "{said}");
    drop(first);
    // As it was, and nobody else's.
    let kept = home.join("backups/before-upgrade-1.db");
    assert_eq!(
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(version(&kept), 1);
    assert_eq!(
        fs::read_dir(home.join("backups"))
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with('.')
            })
            .count(),
        0,
        "nothing half made is left"
    );
    check(&location);
    check(&location);
}

#[test]
fn a_store_that_cannot_be_copied_is_not_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join(".flightline");
    make_version_1(&home);
    fs::write(home.join("backups"), "in the way").unwrap();
    let location = Location::Folder(home.clone());
    assert!(Store::open(&location, "prj", OpenOptions::default()).is_err());
    assert_eq!(version(&home.join("flightline.db")), 1);
}

#[test]
fn version_1_on_postgres() {
    let schema = Schema::new();
    schema.run(include_str!("../../src/schema/postgres/0001_journal.sql"));
    schema.run(&rows());
    schema.run(
        "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (1)",
    );
    check(&schema.location);
    check(&schema.location);
}

/// How many events a store of an earlier schema has: many more with `FLEET_TEST_EVENTS`.
fn many() -> u64 {
    let told = std::env::var("FLEET_TEST_EVENTS").ok();
    told.map_or(1_500, |number| number.parse().unwrap())
}

/// Makes a store of schema 10 out of a new one: every value whole, views that read them so, and the indexes of then.
fn as_schema_10(view: &str) -> String {
    let view = view.replace("DROP VIEW checkpoints;", "");
    format!(
        "UPDATE event SET after = (SELECT t.after FROM event_text t WHERE t.project = event.project AND t.rev = event.rev) WHERE base IS NOT NULL; \
         DROP VIEW checkpoints; DROP VIEW event_text; ALTER TABLE event DROP COLUMN base; {view}; \
         CREATE INDEX idx_checkpoints_mission ON subject (mission, at DESC) WHERE kind = 'checkpoint'; \
         CREATE INDEX idx_checkpoints_trigger ON subject (name) WHERE kind = 'checkpoint'; \
         CREATE INDEX idx_checkpoints_timestamp ON subject (at) WHERE kind = 'checkpoint'; \
         DROP INDEX backup_unsettled; \
         CREATE INDEX backup_unsettled ON backup (project, checkpoint) WHERE state IN ('pending', 'failed');"
    )
}

/// Makes a store of schema 5, that of version 0.1.0, out of one of schema 10: without seals, sums and what came later.
const AS_SCHEMA_5: &str = "DROP INDEX event_of_work; DROP TABLE watch; \
     ALTER TABLE event DROP COLUMN seal; ALTER TABLE event DROP COLUMN prev; \
     ALTER TABLE project DROP COLUMN seal; ALTER TABLE project DROP COLUMN sum; \
     ALTER TABLE subject DROP COLUMN sum; ALTER TABLE pulse DROP COLUMN sum; \
     ALTER TABLE request DROP COLUMN sum; ALTER TABLE backup DROP COLUMN sum;";

/// Writes many values of a few missions, in groups.
fn fill(store: &mut Store, events: u64) {
    for first in (0..events).step_by(500) {
        store.begin_group().unwrap();
        for number in first..(first + 500).min(events) {
            let mission = flightline_testkit::value::mission(
                u128::from(number % 50) + 1,
                &format!("Number {number}"),
            );
            store
                .write(|tx| {
                    tx.get::<Mission>(mission.id)?;
                    tx.set(
                        EventType::MissionUpdated,
                        &mission,
                        &json!({ "number": number }),
                    )
                })
                .unwrap();
        }
        store.commit_group().unwrap();
    }
}

/// What the states of some revisions hash to.
fn states(store: &mut Store, events: u64) -> Vec<String> {
    let revs = (0..=10).map(|tenth| events * tenth / 10);
    revs.map(|rev| {
        let state = store.read(|tx| tx.state_at(rev, None)).unwrap();
        sha256_hex(&format!("{state:?}"))
    })
    .collect()
}

/// Opens a store of an earlier schema: everything in it is there, and what is written next is told against what was. It takes
/// at most so many µs an event.
#[expect(
    clippy::print_stdout,
    reason = "a run with many events is for this figure"
)]
fn goes_on(
    location: &Location,
    events: u64,
    before: &[String],
    count: &dyn Fn() -> (i64, i64),
    most: u64,
) {
    let began = std::time::Instant::now();
    let mut store = Store::open(location, "prj", OpenOptions::default()).unwrap();
    let took = began.elapsed();
    println!("{events} events were upgraded in {took:?}");
    assert_eq!(count(), (events.cast_signed(), 0), "nothing was rewritten");
    assert_eq!(states(&mut store, events), before);
    let problems = flightline_store::verify::verify(&mut store).unwrap();
    assert!(
        problems.iter().all(|finding| finding.problems.is_empty()),
        "{problems:?}"
    );
    drop(store);
    let options = OpenOptions {
        remember: std::sync::Arc::new(true.into()),
        ..OpenOptions::default()
    };
    let mut store = Store::open(location, "prj", options).unwrap();
    for _ in 0..4 {
        fill(&mut store, 200);
    }
    assert!(count().1 > 50, "{:?}", count());
    assert_eq!(states(&mut store, events), before);
    let problems = flightline_store::verify::verify(&mut store).unwrap();
    assert!(
        problems.iter().all(|finding| finding.problems.is_empty()),
        "{problems:?}"
    );
    assert!(
        took.as_micros() < 2_000_000 + u128::from(events * most),
        "{took:?}"
    );
}

const COUNT: &str = "SELECT CAST(count(*) AS BIGINT), CAST(count(base) AS BIGINT) FROM event";

/// Only the copy of the file takes long, however many events there are.
#[test]
fn a_large_store_of_schema_10_on_sqlite() {
    large_on_sqlite(10, "", 50);
}

/// Every event is sealed.
#[test]
fn a_large_store_of_schema_5_on_sqlite() {
    large_on_sqlite(5, AS_SCHEMA_5, 300);
}

fn large_on_sqlite(schema: i64, earlier: &str, most: u64) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join(".flightline");
    let location = Location::Folder(home.clone());
    let options = || OpenOptions {
        remember: std::sync::Arc::new(true.into()),
        ..OpenOptions::default()
    };
    let mut store = Store::create(&location, "prj", "old", options()).unwrap();
    fill(&mut store, many());
    let before = states(&mut store, many());
    drop(store);
    let open = || rusqlite::Connection::open(home.join("flightline.db")).unwrap();
    let view = include_str!("../../src/schema/sqlite/0009_names.sql");
    open()
        .execute_batch(&format!(
            "{}{earlier} PRAGMA user_version = {schema}",
            as_schema_10(view)
        ))
        .unwrap();
    if schema < 6 {
        fs::remove_file(home.join("anchor")).unwrap();
    }
    let count = || {
        open()
            .query_row(COUNT, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
    };
    goes_on(&location, many(), &before, &count, most);
    assert!(
        home.join(format!("backups/before-upgrade-{schema}.db"))
            .exists()
    );
}

/// What is damaged in a store keeps it from no upgrade: the doctor names it afterwards.
#[test]
fn a_store_of_schema_11_with_a_damaged_row_and_without_indexes_is_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join(".flightline");
    let location = Location::Folder(home.clone());
    drop(Store::create(&location, "prj", "old", OpenOptions::default()).unwrap());
    let open = || rusqlite::Connection::open(home.join("flightline.db")).unwrap();
    open()
        .execute_batch(
            "DROP INDEX backup_unsettled; PRAGMA ignore_check_constraints = ON; \
             INSERT INTO backup (project, checkpoint, state, at, sum) VALUES ('prj', 'chk-1', 'qending', 1, 'no'); \
             PRAGMA user_version = 11",
        )
        .unwrap();
    let mut store = Store::open(&location, "prj", OpenOptions::default()).unwrap();
    store.read(|tx| tx.events_since(0)).unwrap();
    let state: String = open()
        .query_row("SELECT state FROM backup", [], |row| row.get(0))
        .unwrap();
    assert_eq!(state, "qending");
    let refused = "UPDATE backup SET state = 'rending'";
    assert!(open().execute(refused, []).is_err(), "constraints hold");
}

#[test]
fn a_large_store_of_schema_10_on_postgres() {
    large_on_postgres(10, "", 50);
}

#[test]
fn a_large_store_of_schema_5_on_postgres() {
    large_on_postgres(5, AS_SCHEMA_5, 1_000);
}

fn large_on_postgres(version: i64, earlier: &str, most: u64) {
    let schema = Schema::new();
    let options = OpenOptions {
        remember: std::sync::Arc::new(true.into()),
        ..OpenOptions::default()
    };
    let mut store = Store::create(&schema.location, "prj", "old", options).unwrap();
    fill(&mut store, many());
    let before = states(&mut store, many());
    drop(store);
    let view = include_str!("../../src/schema/postgres/0009_names.sql");
    schema.run(&format!(
        "{}{earlier} DELETE FROM schema_version WHERE version > {version}",
        as_schema_10(view)
    ));
    let count = || {
        let row = schema.client().query_one(COUNT, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    goes_on(&schema.location, many(), &before, &count, most);
}
